//! Puts what everybody tells into one order and on disk, and knows what is going on now.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;

use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

use crate::history::{Event, Op, Phase, SCHEMA, Writer};
use crate::stamp;

/// How many events may be on their way; whoever tells more waits.
const BACKLOG: usize = 4_096;

/// Writes the history of a run.
#[derive(Debug)]
pub(super) struct Recorder {
    task: JoinHandle<io::Result<()>>,
}

/// Tells the recorder. The history is complete when all of these are gone.
#[derive(Debug, Clone)]
pub(super) struct Scribe {
    run: String,
    seed: u64,
    sender: mpsc::Sender<Event>,
}

/// What is going on, as far as the recorder has heard.
#[derive(Debug, Clone, Default)]
pub(super) struct Live(BTreeMap<String, Doing>);

/// What one client does.
#[derive(Debug, Clone, Default)]
pub(super) struct Doing {
    pub(super) ready: bool,
    pub(super) done: bool,
    pub(super) killed: bool,
    /// Attempts without an end yet.
    pub(super) asking: BTreeSet<u64>,
    /// Holds that are believed in.
    pub(super) holding: BTreeSet<u64>,
    pub(super) count: Counts,
}

/// How often something has happened to a client.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) granted: u64,
    pub(super) wrote: u64,
    pub(super) told: u64,
    pub(super) checked: u64,
    pub(super) refused: u64,
    pub(super) read: u64,
}

impl Recorder {
    pub(super) fn start(
        path: &Path,
        run: &str,
        seed: u64,
    ) -> io::Result<(Self, Scribe, watch::Receiver<Live>)> {
        let mut writer = Writer::create(path)?;
        let (sender, mut events) = mpsc::channel::<Event>(BACKLOG);
        let (live, now) = watch::channel(Live::default());
        let task = tokio::spawn(async move {
            let mut seq = 0;
            while let Some(mut event) = events.recv().await {
                event.seq = seq;
                seq += 1;
                writer.write(&event)?;
                live.send_modify(|live| live.note(&event));
            }
            writer.flush()
        });
        Ok((Self { task }, Scribe { run: run.to_owned(), seed, sender }, now))
    }

    /// Waits until all that was told is on disk. Every [`Scribe`] must be gone, or soon be.
    pub(super) async fn finish(self) -> io::Result<()> {
        self.task.await.map_err(io::Error::other)?
    }
}

impl Scribe {
    /// An event that is seen now.
    pub(super) fn event(&self, client: &str, op: Op, phase: Phase) -> Event {
        Event {
            v: SCHEMA,
            run: self.run.clone(),
            seed: self.seed,
            seq: 0,
            mono_ns: stamp::mono_ns(),
            wall_ns: stamp::wall_ns(),
            client: client.to_owned(),
            op,
            phase,
            hold: None,
            name: None,
            nonce: None,
            token: None,
            valid_until_ns: None,
            node: None,
            value: None,
            what: None,
        }
    }

    pub(super) async fn tell(&self, event: Event) {
        // If the recorder is gone, the disk is full, which it says at the end.
        let _ = self.sender.send(event).await;
    }
}

impl Live {
    pub(super) fn of(&self, client: &str) -> Doing {
        self.0.get(client).cloned().unwrap_or_default()
    }

    pub(super) fn counts(&self) -> BTreeMap<String, Counts> {
        self.0.iter().map(|(client, doing)| (client.clone(), doing.count)).collect()
    }

    fn note(&mut self, event: &Event) {
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
            (Op::Lost, _, Some(hold)) => {
                doing.holding.remove(&hold);
                doing.count.told += 1;
            }
            (Op::Write, Phase::Ok, _) => doing.count.wrote += 1,
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
