use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use quorumlock_core::Locker;
use quorumlock_protocol::{Claim, ConfigError, Name};
use tokio::sync::Notify;

use super::history::SimHistory;
use super::resource::{SimResource, Write};
use crate::history::{Op, Phase, TOGETHER};
use crate::scenario::{ClientPlan, ReadWrite, Work};
use crate::worker::broken_lock::{Held, Takes};
use crate::worker::not_granted::NotGranted;
use crate::workload::{Client, Details, Kind, Task};

/// A simulated locker.
#[derive(Debug)]
pub(super) struct SimClient {
    pub(super) client: ClientPlan,
    pub(super) name: String,
    pub(super) permits: Option<u32>,
    pub(super) takes: Takes,
    pub(super) locker: Locker,
    pub(super) history: Arc<SimHistory>,
    pub(super) register: Arc<SimResource>,
    /// The number of tasks that have not ended.
    pub(super) left: AtomicU64,
    pub(super) ending: AtomicBool,
    pub(super) ends: Notify,
}

impl SimClient {
    /// Runs one of the client's tasks.
    pub(super) async fn run(self: Arc<Self>, task: Task<Self>) {
        task.work().await;
        if self.left.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.record(Op::Note, Phase::Info, Details::default().what("done"));
        }
    }

    /// Makes all tasks release their holds and stop asking.
    pub(super) fn end(&self) {
        self.ending.store(true, Ordering::SeqCst);
        self.ends.notify_waiters();
    }
}

impl Client for SimClient {
    type Access = ();

    fn work(&self) -> &Work {
        &self.client.work
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn permits(&self) -> Option<u32> {
        self.permits
    }

    fn now_ns(&self) -> u64 {
        self.history.now_ns()
    }

    fn record(&self, op: Op, phase: Phase, details: Details) {
        let event = self.history.event(&self.client.id, op, phase);
        self.history.record(details.complete(event));
    }

    fn open_resource(&self) {}

    async fn lock(&self, name: &str) -> Result<Held, NotGranted> {
        let locker = &self.locker;
        Ok(match self.takes {
            Takes::Lock => Held::Ours(locker.lock(Claim::lock([name])).fail_fast().await?),
            Takes::Ring(_) => {
                Held::Ours(locker.lock(Claim::lock(name.split(TOGETHER))).fail_fast().await?)
            }
            Takes::Permit(of) => Held::Permit(locker.lock(permits(name, of)).fail_fast().await?),
            Takes::ReadWrite(ReadWrite::Read) => {
                Held::Read(locker.lock(Name::new(name).map(Claim::read)).fail_fast().await?)
            }
            Takes::ReadWrite(ReadWrite::Write) => {
                Held::Write(locker.lock(Name::new(name).map(Claim::write)).fail_fast().await?)
            }
        })
    }

    async fn try_lock(&self, name: &str) -> Result<Option<Held>, NotGranted> {
        let locker = &self.locker;
        Ok(match self.takes {
            Takes::Lock => locker.try_lock(Claim::lock([name])).await?.map(Held::Ours),
            Takes::Ring(_) => {
                locker.try_lock(Claim::lock(name.split(TOGETHER))).await?.map(Held::Ours)
            }
            Takes::Permit(of) => locker.try_lock(permits(name, of)).await?.map(Held::Permit),
            Takes::ReadWrite(ReadWrite::Read) => {
                locker.try_lock(Name::new(name).map(Claim::read)).await?.map(Held::Read)
            }
            Takes::ReadWrite(ReadWrite::Write) => {
                locker.try_lock(Name::new(name).map(Claim::write)).await?.map(Held::Write)
            }
        })
    }

    /// Plans whose clients read are refused: see [`lacks`](super::lacks).
    async fn access(&self, (): &mut (), name: &str, hold: u64, token: u64, _: Kind) {
        let (client, name) = (self.client.id.clone(), name.to_owned());
        self.register.write(Write { client, hold, name, token }).await;
    }

    async fn pause(&self, ms: u64) {
        tokio::time::sleep(Duration::from_millis(ms)).await;
    }

    async fn ended(&self) {
        loop {
            let ends = self.ends.notified();
            if self.ending.load(Ordering::SeqCst) {
                return;
            }
            ends.await;
        }
    }
}

fn permits(name: &str, of: u32) -> Result<Claim, ConfigError> {
    Claim::any_slot(Name::new(name)?, of)
}
