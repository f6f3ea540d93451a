//! The client of the worker process.

use std::error::Error as StdError;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinSet;

use super::broken_lock::{Breached, Held};
use super::config::{Config, Order};
use super::events::EventWriter;
use super::not_granted::NotGranted;
use crate::history::{Op, Phase};
use crate::runner::resource::{Access, Request};
use crate::scenario::Work;
use crate::timestamp;
use crate::workload::{Client, Details, Kind, tasks};

/// The state that all tasks of a worker share.
pub(super) struct Shared {
    config: Config,
    locker: Breached,
    events: EventWriter,
    orders: watch::Receiver<Option<Order>>,
}

impl Shared {
    pub(super) async fn new(
        config: Config,
        orders: watch::Receiver<Option<Order>>,
    ) -> Result<Arc<Self>, Box<dyn StdError>> {
        let (locker, events) = (Breached::new(&config).await?, EventWriter::new(&config));
        Ok(Arc::new(Self { config, locker, events, orders }))
    }

    /// Runs all tasks from `Start` to `End`, or until each task has done its number of holds.
    pub(super) async fn work(self: Arc<Self>) {
        if self.config.work.connected
            && let Err(why) = self.locker.connect(self.name()).await
        {
            self.note(&why);
        }
        self.note("ready");
        let _ = self.orders.clone().wait_for(Option::is_some).await;
        let mut running = JoinSet::new();
        for task in tasks(&self) {
            running.spawn(task.work());
        }
        running.join_all().await;
        self.locker.close().await;
        self.events.flush();
        self.note("done");
    }

    fn note(&self, what: &str) {
        self.record(Op::Note, Phase::Info, Details::default().what(what));
    }
}

impl Client for Shared {
    type Access = Access;

    fn work(&self) -> &Work {
        &self.config.work
    }

    fn name(&self) -> &str {
        &self.config.locking.name
    }

    fn permits(&self) -> Option<u32> {
        self.config.locking.permits
    }

    fn first_attempt(&self) -> u64 {
        self.config.first_attempt
    }

    fn now_ns(&self) -> u64 {
        timestamp::mono_ns()
    }

    fn record(&self, op: Op, phase: Phase, details: Details) {
        self.events.record(op, phase, details);
    }

    fn open_resource(&self) -> Access {
        Access::new(self.config.resource)
    }

    async fn lock(&self, name: &str) -> Result<Held, NotGranted> {
        self.locker.lock(name).await
    }

    async fn try_lock(&self, name: &str) -> Result<Option<Held>, NotGranted> {
        self.locker.try_lock(name).await
    }

    async fn access(&self, access: &mut Access, name: &str, attempt: u64, token: u64, kind: Kind) {
        let asked = Request {
            kind,
            client: self.config.client.clone(),
            hold: attempt,
            name: name.to_owned(),
            token,
        };
        if let Err(why) = access.ask(&asked).await {
            let unknown = Details { name: Some(name.into()), ..Details::of(attempt) };
            let op = if kind == Kind::SharedRead { Op::Read } else { Op::Write };
            self.record(op, Phase::Unknown, unknown.what(why));
        }
    }

    /// Blocks the thread, so that no further check happens.
    async fn pause(&self, ms: u64) {
        std::thread::sleep(Duration::from_millis(ms));
    }

    async fn ended(&self) {
        let mut orders = self.orders.clone();
        if orders.wait_for(|order| *order == Some(Order::End)).await.is_err() {
            std::future::pending().await
        }
    }
}
