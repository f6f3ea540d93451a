//! A fleet of short-lived clients: each process takes one lock and ends, as cron jobs do. None
//! lives for a longest lease. Meanwhile nodes restart empty. What admits them is what the processes
//! leave behind on the nodes (PROTOCOL.md MEM3).

use std::pin::pin;

use quorumlock_core::kind;
use quorumlock_protocol::admission::ClusterConfig;
use quorumlock_protocol::{Claim, quorum_of};

use super::bug::Bug;
use super::faults::Fault;
use super::plan::Plan;
use super::sometimes::Sometimes;
use super::time::{MS, Micros, SECOND, duration};
use super::trace::Who;
use super::violation::Violation;
use super::workload::WorkTask;
use super::world::State;
use crate::dice::Dice;

/// How long a process may live, in default leases. The longest lease is longer.
const MAX_LIFE: u64 = 9;

impl Plan {
    /// Makes all clients short-lived, and lets nodes restart empty: each once, one after the other,
    /// or a majority at once, or all at once.
    pub fn shorten_lives(&mut self, dice: &mut Dice) {
        self.nodes = *dice.pick(&[3, 5, 5]);
        self.shorten_leases(dice);
        self.short_work = Some(dice.spread(10 * MS, self.lease));
        // Many processes end before a locker examines the nodes in the background.
        self.longest = Some(self.lease * dice.within(MAX_LIFE + 1, 50));
        self.answer_timeout = self.answer_timeout.min(self.lease / 4);
        self.connect_timeout = self.connect_timeout.min(self.lease);
        // Every process connects anew, which takes several round trips. A pass awaits no answer for
        // longer than one answer timeout.
        self.latency = self.latency.min(self.answer_timeout / 64);
        self.jitter = self.jitter.min(self.answer_timeout / 48);
        (self.clients, self.tasks) = (dice.within(2, 5) as usize, 1);
        self.think = dice.spread(50 * MS, SECOND);
        // A client that is stopped lives long. A node that forgets does so by the plan below.
        self.faults.retain(|fault| Fault::SOUND.contains(fault) && *fault != Fault::ClientPause);
        (self.odds.stop, self.odds.evict) = (0.0, 0.0);
        let first = dice.within(3, 8) * SECOND;
        let gap = dice.spread(self.lease, 2 * self.quarantine());
        let (count, gap) =
            *dice.pick(&[(self.nodes, gap), (quorum_of(self.nodes), 0), (self.nodes, 0)]);
        self.restarts = (0..count).map(|node| (first + node as u64 * gap, node)).collect();
        self.heals = first + count as u64 * gap + dice.within(2, 4) * self.quarantine();
    }
}

impl WorkTask {
    /// The life of a process: one lock, and the end. After the faults have stopped, the process
    /// wants its locks as every client does.
    pub async fn live_shortly(mut self, work_time: Micros, recovered: Micros) {
        let world = self.world.clone();
        let client = self.client;
        if world.with(|state| state.now) >= recovered {
            world.with(State::check_admitted);
            self.healing_phase(recovered).await;
            return world.with(|state| state.busy -= 1);
        }
        let pause = self.dice.within(0, self.think);
        let most = duration(self.lease * MAX_LIFE);
        // The durations of its work follow from it.
        self.lease = work_time;
        let mut life = pin!(async {
            self.take_one_lock().await;
            self.locker.close().await;
        });
        let ended = tokio::time::timeout(most, life.as_mut()).await.is_ok();
        world.with(|state| {
            state.note(if ended { "ends" } else { "is ended" }, Who::client(client), 0);
            state.end_process(client, pause);
        });
    }

    async fn take_one_lock(&mut self) {
        let name = self.name();
        let wait = self.dice.within(0, 2 * self.lease);
        let lock = self.locker.lock::<kind::Lock>(Claim::lock([&name])).wait(duration(wait));
        match lock.await {
            Ok(guard) => {
                self.world.with(State::see_recovery);
                let (guard, attempt) = self.hold(guard).await;
                self.release(guard, attempt).await;
            }
            Err(error) => self.failed(&error),
        }
    }
}

impl State {
    /// A node restarts empty.
    pub fn restart_empty(&mut self, node: usize) {
        let lasts = self.dice.spread(MS, 3 * self.plan.lease);
        self.note(super::faults::fault_name(Fault::CrashLosingAll), Who::node(node), lasts);
        if self.crash(Fault::CrashLosingAll, node, lasts) {
            self.breaks(Fault::CrashLosingAll);
        }
    }

    /// With the planted bug, a process watches the nodes itself: nothing outlives it.
    pub fn end_notes(&mut self) {
        if self.bug != Some(Bug::NotesEndWithProcess) {
            return;
        }
        let record = self.plan.cluster.as_ref().map(ClusterConfig::record_key).unwrap_or_default();
        for server in &mut self.servers {
            server.store.drop_field(record.as_bytes(), b"pending");
        }
    }

    /// A lock was granted. If every restart of the plan has happened, nodes were admitted before.
    fn see_recovery(&mut self) {
        if self.plan.restarts.iter().all(|(at, _)| *at < self.now) {
            self.see(Sometimes::ShortLivedAdmitted);
        }
    }

    /// Liveness (G6): processes that live for one lock have admitted a majority.
    fn check_admitted(&mut self) {
        let admitted = self.servers.iter().filter(|server| server.admitted()).count();
        if admitted < quorum_of(self.plan.nodes) {
            let why = format!("{admitted} nodes are admitted after all restarts");
            self.violate(Violation::NotAcquired { client: 0, after_us: 0, why });
        }
    }
}
