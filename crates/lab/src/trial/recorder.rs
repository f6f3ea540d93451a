//! Puts what everybody tells into one order and on disk, and knows what is going on now.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;
use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, watch};
use tokio::task::JoinHandle;

use crate::history::{Event, Op, Phase, Writer};
use crate::scenario::When;
use crate::stamp;

/// How many events may be on their way; whoever tells more waits, unless it can wait no more.
pub(crate) const BACKLOG: usize = 4_096;

/// Writes the history of a run.
#[derive(Debug)]
pub(crate) struct Recorder {
    task: JoinHandle<io::Result<()>>,
}

/// Tells the recorder. The history is complete when all of these are gone.
#[derive(Debug, Clone)]
pub(crate) struct Scribe {
    run: String,
    seed: u64,
    sender: mpsc::UnboundedSender<(Event, Option<Room>)>,
    room: Arc<Semaphore>,
}

/// Room for one event on its way.
pub(crate) type Room = OwnedSemaphorePermit;

/// What is going on, as far as the recorder has heard.
#[derive(Debug, Clone, Default)]
pub(crate) struct Live(BTreeMap<String, Doing>);

/// What one client does.
#[derive(Debug, Clone, Default)]
pub(crate) struct Doing {
    pub(crate) ready: bool,
    pub(crate) done: bool,
    pub(crate) killed: bool,
    /// Attempts without an end yet.
    pub(crate) asking: BTreeSet<u64>,
    /// Holds that are believed in.
    pub(crate) holding: BTreeSet<u64>,
    pub(crate) count: Counts,
}

/// How often something has happened to a client.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) granted: u64,
    pub(crate) wrote: u64,
    pub(crate) told: u64,
    pub(crate) checked: u64,
    pub(crate) refused: u64,
    pub(crate) read: u64,
    pub(crate) released: u64,
    pub(crate) arrived: u64,
}

impl Recorder {
    pub(crate) fn start(
        path: &Path,
        run: &str,
        seed: u64,
    ) -> io::Result<(Self, Scribe, watch::Receiver<Live>)> {
        let mut writer = Writer::create(path)?;
        let (sender, mut events) = mpsc::unbounded_channel::<(Event, Option<Room>)>();
        let (live, now) = watch::channel(Live::default());
        let task = tokio::spawn(async move {
            let mut seq = 0;
            while let Some((mut event, _room)) = events.recv().await {
                event.seq = seq;
                seq += 1;
                writer.write(&event)?;
                live.send_modify(|live| live.note(&event));
            }
            writer.flush()
        });
        let room = Arc::new(Semaphore::new(BACKLOG));
        Ok((Self { task }, Scribe { run: run.to_owned(), seed, sender, room }, now))
    }

    /// Waits until all that was told is on disk. Every [`Scribe`] must be gone, or soon be.
    pub(crate) async fn finish(self) -> io::Result<()> {
        self.task.await.map_err(io::Error::other)?
    }
}

impl Scribe {
    /// An event that is seen now.
    pub(crate) fn event(&self, client: &str, op: Op, phase: Phase) -> Event {
        let now = (stamp::mono_ns(), stamp::wall_ns());
        Event::seen((&self.run, self.seed), now, client, op, phase)
    }

    pub(crate) async fn tell(&self, event: Event) {
        let room = self.room().await;
        self.tell_now(event, room);
    }

    /// Waits until there is room for one more event.
    pub(crate) async fn room(&self) -> Option<Room> {
        self.room.clone().acquire_owned().await.ok()
    }

    /// Waits for nothing. Without room it is for those who cannot wait any more: nothing is dropped.
    pub(crate) fn tell_now(&self, event: Event, room: Option<Room>) {
        // If the recorder is gone, the disk is full, which it says at the end.
        let _ = self.sender.send((event, room));
    }
}

impl Live {
    pub(crate) fn of(&self, client: &str) -> Doing {
        self.0.get(client).cloned().unwrap_or_default()
    }

    pub(crate) fn counts(&self) -> BTreeMap<String, Counts> {
        self.0.iter().map(|(client, doing)| (client.clone(), doing.count)).collect()
    }

    /// Whether this moment has come, given what had happened before the step before it.
    pub(crate) fn shows(&self, when: &When, before: &BTreeMap<String, Counts>) -> bool {
        let count = |client: &str| before.get(client).copied().unwrap_or_default();
        match when {
            When::Holds(client) => !self.of(client).holding.is_empty(),
            When::Granted(client) => self.of(client).count.granted > count(client).granted,
            When::Wrote(client) => self.of(client).count.wrote > count(client).wrote,
            When::Told(client) => self.of(client).count.told > count(client).told,
            When::Checked(client) => self.of(client).count.checked > count(client).checked,
            When::Refused(client) => self.of(client).count.refused > count(client).refused,
            When::Read(client) => self.of(client).count.read > count(client).read,
            When::Done(client) => self.of(client).done,
            When::Released(client) => self.of(client).count.released > count(client).released,
            When::Arrived(client) => self.of(client).count.arrived > count(client).arrived,
            When::AtMs(_) | When::AfterMs(_) | When::InSync(_) | When::Has(_) | When::HeldUp(_) => {
                true
            }
        }
    }

    pub(crate) fn note(&mut self, event: &Event) {
        let doing = self.0.entry(event.client.clone()).or_default();
        match (event.op, event.phase, event.hold) {
            (Op::Lock, Phase::Invoke, Some(hold)) => {
                doing.asking.insert(hold);
            }
            (Op::Lock, phase, Some(hold)) => {
                doing.asking.remove(&hold);
                if phase == Phase::Ok {
                    doing.holding.insert(hold);
                    doing.count.granted += 1;
                }
                doing.count.refused += u64::from(phase == Phase::Fail);
            }
            (Op::Unlock, Phase::Invoke, Some(hold)) => {
                doing.holding.remove(&hold);
            }
            (Op::Unlock, Phase::Ok, _) => doing.count.released += 1,
            (Op::Lost, _, Some(hold)) => {
                doing.holding.remove(&hold);
                doing.count.told += 1;
            }
            (Op::Write, phase @ (Phase::Ok | Phase::Fail), _) => {
                doing.count.arrived += 1;
                doing.count.wrote += u64::from(phase == Phase::Ok);
            }
            (Op::Note, ..) => match event.what.as_deref() {
                Some("ready") => doing.ready = true,
                Some("done") => doing.done = true,
                Some("killed") => doing.killed = true,
                Some("checked") => doing.count.checked += 1,
                Some("read") => doing.count.read += 1,
                _ => {}
            },
            _ => {}
        }
    }
}
