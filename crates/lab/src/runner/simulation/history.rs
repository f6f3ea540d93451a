use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use crate::history::{Event, Op, Phase, Writer};
use crate::runner::TrialError;
use crate::runner::recorder::{ClientState, ClientStates, Counts};
use quorumlock_sim::time::{DAY, Start};
use quorumlock_sim::world::World;

/// The history, in the order in which things happen, and the current state of the clients.
#[derive(Debug)]
pub(super) struct SimHistory {
    run: String,
    seed: u64,
    start: Start,
    inner: Mutex<Inner>,
    /// Notified of each event.
    changed: Notify,
}

#[derive(Debug)]
struct Inner {
    writer: Writer,
    seq: u64,
    live: ClientStates,
    failed: Option<std::io::Error>,
}

impl SimHistory {
    pub(super) fn create(
        path: &Path,
        run: &str,
        seed: u64,
        world: &World,
    ) -> Result<Arc<Self>, TrialError> {
        let writer = Writer::create(path)?;
        let inner = Inner { writer, seq: 0, live: ClientStates::default(), failed: None };
        Ok(Arc::new(Self {
            run: run.to_owned(),
            seed,
            start: world.with(|state| state.start),
            inner: Mutex::new(inner),
            changed: Notify::new(),
        }))
    }

    /// The time on the judges' clock, in nanoseconds.
    pub(super) fn now_ns(&self) -> u64 {
        (DAY + self.start.micros()) * 1_000
    }

    /// An event with the current simulated time.
    pub(super) fn event(&self, client: &str, op: Op, phase: Phase) -> Event {
        let now = self.now_ns();
        Event::seen((&self.run, self.seed), (now, now), client, op, phase)
    }

    pub(super) fn record(&self, mut event: Event) {
        let mut inner = self.inner();
        event.seq = inner.seq;
        inner.seq += 1;
        if let Err(error) = inner.writer.write(&event) {
            inner.failed.get_or_insert(error);
        }
        inner.live.observe(&event);
        drop(inner);
        self.changed.notify_waiters();
    }

    pub(super) fn of(&self, client: &str) -> ClientState {
        self.inner().live.of(client)
    }

    pub(super) fn counts(&self) -> BTreeMap<String, Counts> {
        self.inner().live.counts()
    }

    /// Waits until the states of the clients fulfil the condition.
    pub(super) async fn until(&self, so: impl Fn(&ClientStates) -> bool) {
        loop {
            let changed = self.changed.notified();
            if so(&self.inner().live) {
                return;
            }
            changed.await;
        }
    }

    /// Flushes the file. Returns the first error of any write.
    pub(super) fn finish(&self) -> Result<(), TrialError> {
        let mut inner = self.inner();
        let flushed = inner.writer.flush();
        inner.failed.take().map_or(flushed, Err).map_err(TrialError::from)
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
