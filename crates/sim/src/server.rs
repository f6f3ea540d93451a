use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use quorumlock_protocol::PROTOCOL;
use quorumlock_protocol::admission::ClusterConfig;
use quorumlock_redis::simulation::admission_scripts;

use super::arrival::Arrival;
use super::bug::Bug;
use super::commands::{Channels, Execution, Info, Published};
use super::lua;
use super::plan::{Plan, member};
use super::resp::Reply;
use super::script::Script;
use super::store::Store;
use super::time::{Micros, NodeClock, SECOND};
use crate::dice::Dice;

/// One node: its data, its clock, and whether it runs.
#[derive(Debug)]
pub struct Server {
    pub label: String,
    /// Its label in lists of nodes.
    pub member: Arc<str>,
    /// What its clock would show if no fault had set or stopped it: what the clients' wall clocks
    /// show.
    pub right_clock: Arc<Mutex<NodeClock>>,
    pub store: Store,
    pub clock: NodeClock,
    /// By how much faults may still set its clock back. Its keys outlive their leases by that much.
    pub back: Micros,
    pub run: Run,
    pub run_identity: RunIdentity,
    /// The cluster config that all clients share. `None`: no admission.
    pub cluster: Option<ClusterConfig>,
    pub channels: Channels,
    /// Whether it has `DELIFEQ`, as Valkey 9 does.
    pub has_delifeq: bool,
    /// Whether it refuses `MULTI` to the clients' user: they load scripts by `EVAL`.
    pub forbids_transactions: bool,
    pub bug: Option<Bug>,
    /// How many commands it has carried out.
    pub commands: u64,
}

/// One run of the server process. A crash ends it and all its connections.
#[derive(Debug, Default)]
pub struct Run {
    pub number: u64,
    pub down: bool,
    /// Stopped by `SIGSTOP`. Requests that arrive meanwhile are executed when the server resumes.
    pub stopped: bool,
    pub backlog: Vec<Arrival>,
    /// Until when the process loads its data and refuses commands.
    pub loading_until: Micros,
}

/// The identity of the server's memory. Its run id and scripts do not outlive the process.
#[derive(Debug, Default)]
pub struct RunIdentity {
    number: u64,
    /// Part of the run id. A stale replica that is promoted has a run id of its own.
    run: u64,
    /// Part of the replication id.
    history: u64,
    /// The loaded scripts, by their ids.
    pub scripts: BTreeSet<u64>,
    /// When the process began, on the node's clock.
    pub born: Micros,
    /// Replicas refuse writes.
    replica: bool,
    info: Info,
}

impl Server {
    pub fn new(number: usize, plan: &Plan, bug: Option<Bug>, dice: &mut Dice) -> Self {
        let clock = NodeClock::new(plan.epoch, plan.node_drift(dice));
        let mut run_identity = RunIdentity {
            number: number as u64 + 1,
            born: plan.epoch - plan.up_for,
            ..RunIdentity::default()
        };
        run_identity.update_info();
        Self {
            label: label(number),
            member: member(number).into(),
            store: Store::new(plan.faults.is_empty()),
            right_clock: Arc::new(Mutex::new(clock.clone())),
            clock,
            back: plan.clock_back,
            run: Run::default(),
            run_identity,
            cluster: plan.cluster.clone(),
            channels: Channels::default(),
            has_delifeq: plan.seed % 4 < 2,
            forbids_transactions: plan.seed % 8 == 5,
            bug,
            commands: 0,
        }
    }

    /// Gives its clock another rate.
    pub fn slew(&mut self, now: Micros, drift: i64) {
        self.clock.set_drift(now, drift);
        let mut right = self.right_clock.lock().unwrap_or_else(PoisonError::into_inner);
        right.set_drift(now, drift);
    }

    /// Whether the server runs and is not stopped.
    pub fn answers(&self) -> bool {
        !self.run.down && !self.run.stopped
    }

    /// Lets the server execute something. Returns the messages that it published, too.
    pub fn execute<T>(
        &mut self,
        now: Micros,
        act: impl FnOnce(&mut Execution) -> T,
    ) -> (T, Vec<Published>) {
        let mut execution = Execution {
            store: std::mem::take(&mut self.store),
            channels: std::mem::take(&mut self.channels),
            info: std::mem::take(&mut self.run_identity.info),
            time: self.clock.micros(now),
            at: now,
            has_delifeq: self.has_delifeq,
            read_only: self.run_identity.replica,
            equal_is_larger: self.bug == Some(Bug::AcceptsEqual),
            published: Vec::new(),
        };
        let result = act(&mut execution);
        self.store = execution.store;
        self.channels = execution.channels;
        self.run_identity.info = execution.info;
        (result, execution.published)
    }

    /// Runs a script.
    pub fn run_script(
        &mut self,
        script: &Script,
        (keys, args): (&[&[u8]], &[&[u8]]),
        now: Micros,
    ) -> (Reply, Vec<Published>) {
        let bug = self.bug;
        self.execute(now, |execution| lua::run(execution, script, bug, keys, args))
    }

    /// `SCRIPT LOAD`.
    pub fn load(&mut self, text: &[u8]) -> Reply {
        let script = Script::of(std::str::from_utf8(text).unwrap_or_default());
        self.run_identity.scripts.insert(script.id);
        Reply::text(script.digest.as_bytes())
    }

    pub fn has_script(&self, digest: &[u8]) -> bool {
        let script = std::str::from_utf8(digest).ok().and_then(Script::by_digest);
        script.is_some_and(|script| self.run_identity.scripts.contains(&script.id))
    }

    pub fn unsubscribe(&mut self, channel: &[u8], conn: usize) {
        if let Some(subscribers) = self.channels.get_mut(channel) {
            subscribers.retain(|other| *other != conn);
            if subscribers.is_empty() {
                self.channels.remove(channel);
            }
        }
    }

    /// Admits the present run at once, as an operator does.
    pub fn provision(&mut self, incarnation: &str, now: Micros) {
        let Some(cluster) = &self.cluster else { return };
        let record = cluster.record_key();
        let stamp = self.store.field(record.as_bytes(), b"stamp").filter(|_| self.admitted());
        let found = stamp.unwrap_or_default().to_vec();
        let script = Script::of(admission_scripts::PROVISION);
        let (longest, bound) =
            (cluster.longest_ms().to_string(), cluster.clock_bound_ms().to_string());
        let (member, list) = (self.member.clone(), cluster.members.text());
        let protocol = PROTOCOL.to_string();
        let args: [&[u8]; 8] = [
            incarnation.as_bytes(),
            member.as_bytes(),
            b"1",
            list.as_bytes(),
            longest.as_bytes(),
            bound.as_bytes(),
            protocol.as_bytes(),
            &found,
        ];
        self.run_script(&script, (&[record.as_bytes()], &args), now);
    }

    /// Whether its admission record admits its present memory.
    pub fn admitted(&self) -> bool {
        let record = self.cluster.as_ref().map(ClusterConfig::record_key).unwrap_or_default();
        let life = self.store.field(record.as_bytes(), b"life");
        life.is_some_and(|life| *life == *self.run_identity.id().as_bytes())
    }

    /// The uptime that `INFO server` reports, in microseconds, cut to whole seconds.
    pub fn uptime(&self, now: Micros) -> Micros {
        let whole = |micros: Micros| micros - micros % SECOND;
        whole(self.clock.micros(now)).saturating_sub(whole(self.run_identity.born))
    }
}

/// The URL of a node.
pub fn label(node: usize) -> String {
    format!("redis://n{node}:6379")
}

impl RunIdentity {
    /// The run id and the replication id, as an admission record stores them.
    pub fn id(&self) -> String {
        format!("{}/{}", self.run_id(), self.replication_id())
    }

    fn run_id(&self) -> String {
        let Self { number, run, .. } = self;
        format!("{number:020x}{run:020x}")
    }

    fn replication_id(&self) -> String {
        let Self { number, history, .. } = self;
        format!("{number:020x}{history:020x}")
    }

    /// What `INFO` would say of the first run.
    pub fn first(&self) -> (String, String) {
        let first = Self { number: self.number, ..Self::default() };
        let info = Info::of(&first.run_id(), &first.replication_id(), false);
        (info.server, info.replication)
    }

    /// A new process starts: it has no scripts, and has been up since `born`.
    pub fn restart(&mut self, born: Micros) {
        (self.run, self.history) = (self.run + 1, self.history + 1);
        self.scripts.clear();
        self.born = born;
        self.replica = false;
        self.update_info();
    }

    pub fn is_replica(&self) -> bool {
        self.replica
    }

    pub fn demote(&mut self) {
        self.replica = true;
        self.update_info();
    }

    /// A replica that becomes a master has a new replication id.
    pub fn promote(&mut self) {
        self.replica = false;
        self.resync();
    }

    /// The same process loads the data of another server: it keeps its run id and its scripts.
    pub fn resync(&mut self) {
        self.history += 1;
        self.update_info();
    }

    fn update_info(&mut self) {
        self.info = Info::of(&self.run_id(), &self.replication_id(), self.replica);
    }
}
