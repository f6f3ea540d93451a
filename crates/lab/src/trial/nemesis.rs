//! Carries out a schedule of faults.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::OpenOptions;
use std::io;
use std::time::Duration;

use quorumlock_core::{Clock, Instant};
use tokio::sync::watch;

use super::TrialError;
use super::crew::Worker;
use super::ground::{Ground, set, strike};
use super::recorder::{Counts, Live, Scribe};
use crate::history::{Event, Op, Phase};
use crate::scenario::{Fault, Plan, Step, When};
use crate::servers::{Server, Shift};
use crate::stamp;
use crate::worker::Order;

/// Longer than anything takes that happens at all, on top of what leases take.
const PATIENCE: Duration = Duration::from_secs(10);
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// Who does what a schedule says.
pub(super) struct Nemesis<'a> {
    pub(super) plan: &'a Plan,
    pub(super) ground: &'a Ground,
    pub(super) crew: &'a mut Vec<Worker>,
    pub(super) scribe: Scribe,
    pub(super) live: watch::Receiver<Live>,
    pub(super) began: Instant,
}

impl Nemesis<'_> {
    /// All steps, in order.
    pub(super) async fn work(&mut self) -> Result<(), TrialError> {
        let mut lasting = BTreeSet::new();
        let mut before = BTreeMap::new();
        for (number, step) in self.plan.schedule.iter().enumerate() {
            self.wait(number + 1, step, &before).await?;
            before = self.live.borrow().counts();
            self.carry_out(&step.fault, &mut lasting).await?;
        }
        Ok(())
    }

    async fn wait(
        &mut self,
        number: usize,
        step: &Step,
        before: &BTreeMap<String, Counts>,
    ) -> Result<(), TrialError> {
        let seen = |live: &Live| live.shows(&step.when, before);
        match step.when {
            When::AtMs(ms) => {
                let over = Clock::system().now().since(self.began);
                tokio::time::sleep(Duration::from_millis(ms).saturating_sub(over)).await;
            }
            When::AfterMs(ms) => tokio::time::sleep(Duration::from_millis(ms)).await,
            When::InSync(replica) => self.ground.in_sync(replica).await?,
            When::Has(_) | When::HeldUp(_) => self.look(number, step).await?,
            _ => {
                let patience = self.patience();
                let waited = tokio::time::timeout(patience, self.live.wait_for(seen)).await;
                if !matches!(waited, Ok(Ok(_))) {
                    return Err(stuck(number, step, patience));
                }
            }
        }
        Ok(())
    }

    /// Waits for what nobody tells: servers and ways are asked again and again.
    async fn look(&self, number: usize, step: &Step) -> Result<(), TrialError> {
        let clock = Clock::system();
        let (since, patience) = (clock.now(), self.patience());
        loop {
            let seen = match &step.when {
                When::Has(node) => self.ground.has(*node, &self.plan.locking.name).await,
                When::HeldUp(client) => self.ground.writes(client)?.holds(),
                _ => true,
            };
            if seen {
                return Ok(());
            }
            if clock.now().since(since) > patience {
                return Err(stuck(number, step, patience));
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    fn patience(&self) -> Duration {
        PATIENCE + Duration::from_millis(3 * self.plan.locking.max_lease_ms)
    }

    /// `lasting`: what was broken and not yet mended.
    async fn carry_out(
        &mut self,
        fault: &Fault,
        lasting: &mut BTreeSet<(Option<usize>, String)>,
    ) -> Result<(), TrialError> {
        if !fault.is_fault() {
            return self.act(fault).await;
        }
        let node = fault.node();
        let event = |nemesis: &Self, phase, what: &str| Event {
            node,
            what: Some(what.to_owned()),
            ..nemesis.scribe.event("nemesis", Op::Fault, phase)
        };
        let Some((begins, what)) = fault.window() else {
            // Before it, so that nothing that comes of it seems to come before it.
            let struck = event(self, Phase::Info, &fault.to_string());
            self.scribe.tell(struck).await;
            return self.act(fault).await;
        };
        let key = (node, what.clone());
        if !lasting.contains(&key) {
            let began = event(self, Phase::Invoke, &what);
            self.scribe.tell(began).await;
        }
        if matches!(fault, Fault::Restart(_) | Fault::RestartEmpty(_)) {
            let struck = event(self, Phase::Info, &fault.to_string());
            self.scribe.tell(struck).await;
        }
        self.act(fault).await?;
        if begins {
            lasting.insert(key);
        } else {
            lasting.remove(&key);
            let mended = event(self, Phase::Ok, &what);
            self.scribe.tell(mended).await;
        }
        Ok(())
    }

    async fn act(&mut self, fault: &Fault) -> Result<(), TrialError> {
        let ground = self.ground;
        if ground.strike_container(fault).await? {
            return Ok(());
        }
        match fault {
            Fault::None => {}
            Fault::Kill(node) => self.strike(*node, |server| Ok(server.kill()?)).await?,
            Fault::Stop(node) => self.strike(*node, |server| Ok(server.pause()?)).await?,
            Fault::Cont(node) => self.strike(*node, |server| Ok(server.resume()?)).await?,
            Fault::Restart(node) => self.strike(*node, |server| Ok(server.restart()?)).await?,
            Fault::RestartEmpty(node) => {
                self.strike(*node, |server| Ok(server.restart_empty()?)).await?;
            }
            Fault::CutTail { node, bytes } => {
                let bytes = *bytes;
                self.strike(*node, move |server| Ok(cut_tail(server, bytes)?)).await?;
            }
            Fault::Command { node, words } => {
                let words = words.iter().map(String::as_str).collect::<Vec<_>>();
                ground.ask(*node, &words).await?;
            }
            Fault::Clock { node, by_ms } => {
                let shift = Shift::ByMs(*by_ms);
                self.strike(*node, move |server| Ok(server.set_clock(shift)?)).await?;
            }
            Fault::FreezeClock(node) => {
                let shift = Shift::Frozen(stamp::wall_ns() / 1_000_000_000);
                self.strike(*node, move |server| Ok(server.set_clock(shift)?)).await?;
            }
            Fault::Promote(node) => drop(ground.ask(*node, &["REPLICAOF", "NO", "ONE"]).await?),
            Fault::ReplicaOf { node, of } => ground.follow(*node, *of).await?,
            Fault::Evict(node) => ground.evict(*node, &self.plan.locking.name).await?,
            Fault::Busy { node, ms } => ground.keep_busy(*node, *ms)?,
            Fault::ForceUnlock => ground.force_unlock(&self.plan.locking).await?,
            Fault::Way { client, node, state } => set(ground.way(client, *node)?, *state).await,
            Fault::Lead { client, node, to } => {
                ground.way(client, *node)?.lead_to(ground.address(*to)?);
            }
            Fault::Switch { client, node, to } => {
                ground.way(client, *node)?.switch_to(ground.address(*to)?)?;
            }
            Fault::Writes { client, state } => set(ground.writes(client)?, *state).await,
            Fault::Replication { replica, state } => {
                set(ground.replication(*replica)?, *state).await;
            }
            Fault::ClientStart(client) => self.worker(client)?.order(Order::Start).await?,
            // It may have done all that it was to do, and be gone.
            Fault::ClientEnd(client) => drop(self.worker(client)?.order(Order::End).await),
            Fault::ClientStop(client) => self.worker(client)?.stop()?,
            Fault::ClientCont(client) => self.worker(client)?.cont()?,
            Fault::ClientSuspend(_)
            | Fault::ClientFreeze(_)
            | Fault::Disconnect(_)
            | Fault::Reconnect(_) => {
                return Err(TrialError::Missing(format!("no process can do that: {fault}")));
            }
            Fault::ClientKill(client) => {
                let (scribe, live) = (self.scribe.clone(), self.live.clone());
                self.worker(client)?.kill(&scribe, &live).await?;
            }
        }
        Ok(())
    }

    async fn strike(
        &self,
        node: usize,
        act: impl FnOnce(&Server) -> Result<(), TrialError> + Send + 'static,
    ) -> Result<(), TrialError> {
        strike(&self.ground.servers, node, act).await
    }

    fn worker(&mut self, client: &str) -> io::Result<&mut Worker> {
        let missing = || io::Error::other(format!("there is no client {client}"));
        self.crew.iter_mut().find(|worker| worker.id == client).ok_or_else(missing)
    }
}

fn stuck(number: usize, step: &Step, patience: Duration) -> TrialError {
    TrialError::Stuck {
        step: number,
        fault: step.fault.to_string(),
        awaited: format!("{:?}", step.when),
        patience_ms: u64::try_from(patience.as_millis()).unwrap_or(u64::MAX),
    }
}

/// The last of the files to which the server appends.
fn cut_tail(server: &Server, bytes: u64) -> io::Result<()> {
    let foreign = || io::Error::other("servers given by URL cannot be struck by faults");
    let dir = server.dir().ok_or_else(foreign)?.join("appendonlydir");
    let mut files = std::fs::read_dir(dir)?.collect::<Result<Vec<_>, _>>()?;
    files.retain(|file| file.file_name().to_string_lossy().ends_with(".incr.aof"));
    files.sort_by_key(|file| file.file_name());
    let last = files.last().ok_or_else(|| io::Error::other("no append-only file"))?;
    let file = OpenOptions::new().write(true).open(last.path())?;
    file.set_len(file.metadata()?.len().saturating_sub(bytes))
}
