use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use super::io_error;
use crate::history::{Event, Op, Phase, Writer};
use crate::sim::time::{DAY, Start};
use crate::sim::world::World;
use crate::trial::TrialError;
use crate::trial::recorder::{Counts, Doing, Live};

/// The history, in the order in which things happen, and what is going on now.
#[derive(Debug)]
pub(super) struct Record {
    run: String,
    seed: u64,
    start: Start,
    inner: Mutex<Inner>,
    /// Something was told.
    news: Notify,
}

#[derive(Debug)]
struct Inner {
    writer: Writer,
    seq: u64,
    live: Live,
    failed: Option<std::io::Error>,
}

impl Record {
    pub(super) fn create(
        path: &Path,
        run: &str,
        seed: u64,
        world: &World,
    ) -> Result<Arc<Self>, TrialError> {
        let writer = Writer::create(path)?;
        let inner = Inner { writer, seq: 0, live: Live::default(), failed: None };
        Ok(Arc::new(Self {
            run: run.to_owned(),
            seed,
            start: world.with(|state| state.start),
            inner: Mutex::new(inner),
            news: Notify::new(),
        }))
    }

    /// Nanoseconds on the world's clock, which judges.
    pub(super) fn now_ns(&self) -> u64 {
        (DAY + self.start.micros()) * 1_000
    }

    /// An event that is seen now.
    pub(super) fn event(&self, client: &str, op: Op, phase: Phase) -> Event {
        let now = self.now_ns();
        Event::seen((&self.run, self.seed), (now, now), client, op, phase)
    }

    pub(super) fn tell(&self, mut event: Event) {
        let mut inner = self.inner();
        event.seq = inner.seq;
        inner.seq += 1;
        if let Err(error) = inner.writer.write(&event) {
            inner.failed.get_or_insert(error);
        }
        inner.live.note(&event);
        drop(inner);
        self.news.notify_waiters();
    }

    pub(super) fn of(&self, client: &str) -> Doing {
        self.inner().live.of(client)
    }

    pub(super) fn counts(&self) -> BTreeMap<String, Counts> {
        self.inner().live.counts()
    }

    /// Waits until this is so.
    pub(super) async fn until(&self, so: impl Fn(&Live) -> bool) {
        loop {
            let news = self.news.notified();
            if so(&self.inner().live) {
                return;
            }
            news.await;
        }
    }

    /// All that was told is in the file.
    pub(super) fn finish(&self) -> Result<(), TrialError> {
        let mut inner = self.inner();
        let flushed = inner.writer.flush();
        inner.failed.take().map_or(flushed, Err).map_err(io_error)
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
