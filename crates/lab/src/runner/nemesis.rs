//! Injects faults into real servers and locker processes.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io;
use std::time::Duration;

use quorumlock_protocol::Instant;
use tokio::sync::watch;

use super::control::{frozen, set, with_server};
use super::deployment::Deployment;
use super::error::TrialError;
use super::fleet::Fleet;
use super::recorder::{ClientStates, Counts, HistorySender};
use super::schedule::Target;
use super::workers::Worker;
use crate::history::{Event, Op, Phase, Refusal};
use crate::scenario::{Fault, Plan};
use crate::timestamp;
use crate::worker::Order;
use quorumlock_testbed::servers::{Server, Shift};

/// The servers and the processes of a run.
pub(super) struct Nemesis<'a> {
    pub(super) plan: &'a Plan,
    pub(super) deployment: &'a Deployment,
    pub(super) workers: &'a mut Vec<Worker>,
    pub(super) fleets: &'a [Fleet],
    pub(super) sender: HistorySender,
    pub(super) live: watch::Receiver<ClientStates>,
}

impl Target for Nemesis<'_> {
    const POLL_EVERY: Duration = Duration::from_millis(5);

    fn now(&self) -> Instant {
        timestamp::instant(timestamp::mono_ns())
    }

    fn counts(&self) -> BTreeMap<String, Counts> {
        self.live.borrow().counts()
    }

    async fn until(&self, seen: impl Fn(&ClientStates) -> bool) {
        if self.live.clone().wait_for(seen).await.is_err() {
            // The recorder has failed: nothing more will be seen.
            std::future::pending().await
        }
    }

    async fn in_sync(&self, replica: usize) -> Result<(), TrialError> {
        self.deployment.replication.in_sync(replica).await
    }

    async fn has(&self, node: usize) -> Result<bool, TrialError> {
        Ok(self.deployment.has(node, &self.plan.locking.name).await)
    }

    async fn admitted(&self, node: usize) -> Result<bool, TrialError> {
        self.deployment.is_admitted(node, &self.plan.locking).await
    }

    fn held_up(&self, client: &str) -> Result<bool, TrialError> {
        Ok(self.deployment.writes(client)?.holds())
    }

    async fn record(&self, node: Option<usize>, phase: Phase, what: &str) {
        let event = self.sender.event("nemesis", Op::Fault, phase);
        self.sender.send(Event { node, what: Some(what.to_owned()), ..event }).await;
    }

    async fn act(&mut self, fault: &Fault) -> Result<(), TrialError> {
        let deployment = self.deployment;
        if deployment.inject_into_container(fault).await?
            || deployment.inject_into_etcd(fault).await?
        {
            return Ok(());
        }
        match fault {
            Fault::None => {}
            Fault::Kill(node) => self.with_server(*node, |server| Ok(server.kill()?)).await?,
            Fault::Stop(node) => self.with_server(*node, |server| Ok(server.pause()?)).await?,
            Fault::Cont(node) => self.with_server(*node, |server| Ok(server.resume()?)).await?,
            Fault::Restart(node) => self.with_server(*node, |server| Ok(server.restart()?)).await?,
            Fault::RestartEmpty(node) => {
                self.with_server(*node, |server| Ok(server.restart_empty()?)).await?;
            }
            Fault::CutTail { node, bytes } => self.cut_tail(*node, *bytes).await?,
            Fault::Command { node, words } => self.send_command(*node, words).await?,
            Fault::Clock { node, by_ms } => self.set_clock(*node, Shift::ByMs(*by_ms)).await?,
            Fault::FreezeClock(node) => self.set_clock(*node, frozen()).await?,
            Fault::Promote(node) => deployment.replication.promote(*node).await?,
            Fault::ReplicaOf { node, of } => deployment.replication.follow(*node, *of).await?,
            Fault::Evict(node) => deployment.evict(*node, &self.plan.locking.name).await?,
            Fault::Busy { node, ms } => deployment.keep_busy(*node, *ms)?,
            Fault::ForceUnlock => deployment.force_unlock(&self.plan.locking).await?,
            Fault::Init(client) => self.init(client).await,
            Fault::ChangeMembers { present, target, until } => {
                let lists = (&present[..], &target[..]);
                deployment.change_members(&self.plan.locking, lists, *until).await?;
            }
            Fault::Way { client, node, state } => set(deployment.way(client, *node)?, *state).await,
            Fault::Lead { client, node, to } => self.lead(client, *node, *to)?,
            Fault::Switch { client, node, to } => self.switch(client, *node, *to)?,
            Fault::Writes { client, state } => set(deployment.writes(client)?, *state).await,
            Fault::Replication { replica, state } => {
                deployment.replication.set_way(*replica, *state).await?;
            }
            Fault::ClientStart(client) => self.order(client, Order::Start).await?,
            // The client may have ended by itself already.
            Fault::ClientEnd(client) => drop(self.order(client, Order::End).await),
            Fault::ClientStop(client) => self.worker(client)?.stop()?,
            Fault::ClientCont(client) => self.worker(client)?.cont()?,
            Fault::ClientSuspend(_)
            | Fault::ClientFreeze(_)
            | Fault::Disconnect(_)
            | Fault::Reconnect(_) => {
                return Err(TrialError::Missing(format!("no process can do that: {fault}")));
            }
            Fault::ClientKill(client) => self.kill_client(client).await?,
        }
        Ok(())
    }
}

impl Nemesis<'_> {
    async fn cut_tail(&self, node: usize, bytes: u64) -> Result<(), TrialError> {
        self.with_server(node, move |server| Ok(cut_tail(server, bytes)?)).await
    }

    async fn send_command(&self, node: usize, words: &[String]) -> Result<(), TrialError> {
        let words = words.iter().map(String::as_str).collect::<Vec<_>>();
        self.deployment.ask(node, &words).await?;
        Ok(())
    }

    async fn set_clock(&self, node: usize, shift: Shift) -> Result<(), TrialError> {
        self.with_server(node, move |server| Ok(server.set_clock(shift)?)).await
    }

    fn lead(&self, client: &str, node: usize, to: usize) -> io::Result<()> {
        self.deployment.way(client, node)?.lead_to(self.deployment.address(to)?);
        Ok(())
    }

    fn switch(&self, client: &str, node: usize, to: usize) -> io::Result<()> {
        self.deployment.way(client, node)?.switch_to(self.deployment.address(to)?)
    }

    async fn kill_client(&mut self, client: &str) -> Result<(), TrialError> {
        let (sender, live) = (self.sender.clone(), self.live.clone());
        self.worker(client)?.kill(&sender, &live).await?;
        Ok(())
    }

    /// An operator vouches for the nodes of a client. A refusal is recorded, for the judges.
    async fn init(&self, client: &str) {
        let Some(client) = self.plan.clients.iter().find(|known| known.id == client) else {
            return;
        };
        if let Err(error) = self.deployment.init(client, &self.plan.locking).await {
            let refusal = Refusal::of(&error);
            let event = self.sender.event("operator", Op::Note, Phase::Info);
            self.sender.send(Event { refusal, what: Some(error.to_string()), ..event }).await;
        }
    }

    async fn order(&mut self, client: &str, order: Order) -> io::Result<()> {
        if let Some(fleet) = self.fleets.iter().find(|fleet| fleet.id == client) {
            fleet.order(order);
            return Ok(());
        }
        self.worker(client)?.order(order).await
    }

    async fn with_server(
        &self,
        node: usize,
        act: impl FnOnce(&Server) -> Result<(), TrialError> + Send + 'static,
    ) -> Result<(), TrialError> {
        with_server(&self.deployment.servers, node, act).await
    }

    fn worker(&mut self, client: &str) -> io::Result<&mut Worker> {
        let missing = || io::Error::other(format!("there is no client {client}"));
        self.workers.iter_mut().find(|worker| worker.id == client).ok_or_else(missing)
    }
}

/// Cuts bytes off the last append-only file of the server.
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
