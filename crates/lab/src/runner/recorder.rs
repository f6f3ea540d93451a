//! Brings the events of all clients into one order, writes them to disk, and tracks the clients'
//! state.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;

use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

use crate::history::{Event, Op, Phase, Refusal, Writer};
use crate::scenario::When;
use crate::timestamp;

/// The number of events in the channel. Senders wait for room.
const BACKLOG: usize = 4_096;

/// Writes the history of a run.
#[derive(Debug)]
pub(crate) struct Recorder {
    task: JoinHandle<io::Result<()>>,
}

/// Sends events to the recorder. The history is complete when all senders are dropped.
#[derive(Debug, Clone)]
pub(crate) struct HistorySender {
    run: String,
    seed: u64,
    sender: mpsc::Sender<Event>,
}

/// The state of all clients, as the recorder knows it.
#[derive(Debug, Clone, Default)]
pub(crate) struct ClientStates(BTreeMap<String, ClientState>);

/// The state of one client.
#[derive(Debug, Clone, Default)]
pub(crate) struct ClientState {
    pub(crate) ready: bool,
    pub(crate) done: bool,
    pub(crate) killed: bool,
    /// Attempts that have not ended.
    pub(crate) asking: BTreeSet<u64>,
    /// Holds that the client believes in.
    pub(crate) holding: BTreeSet<u64>,
    pub(crate) count: Counts,
}

/// A renewal moves the end of validity by more. Less comes from reading two clocks one after the
/// other, or from their rates.
const RENEWED_BY_NS: u64 = 20_000_000;

/// Counts of what happened to a client.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) granted: u64,
    pub(crate) renewed: u64,
    pub(crate) wrote: u64,
    pub(crate) told: u64,
    pub(crate) checked: u64,
    pub(crate) refused: u64,
    pub(crate) barred: u64,
    pub(crate) read: u64,
    pub(crate) released: u64,
    pub(crate) arrived: u64,
    /// The end of validity that the last grant or renewal gave.
    pub(crate) valid_until_ns: u64,
}

impl Recorder {
    pub(crate) fn start(
        path: &Path,
        run: &str,
        seed: u64,
    ) -> io::Result<(Self, HistorySender, watch::Receiver<ClientStates>)> {
        let mut writer = Writer::create(path)?;
        let (sender, mut events) = mpsc::channel::<Event>(BACKLOG);
        let (live, now) = watch::channel(ClientStates::default());
        let task = tokio::spawn(async move {
            let mut seq = 0;
            while let Some(mut event) = events.recv().await {
                event.seq = seq;
                seq += 1;
                writer.write(&event)?;
                live.send_modify(|live| live.observe(&event));
            }
            writer.flush()
        });
        Ok((Self { task }, HistorySender { run: run.to_owned(), seed, sender }, now))
    }

    /// Waits until all sent events are on disk. Ends only when every [`HistorySender`] is dropped.
    pub(crate) async fn finish(self) -> io::Result<()> {
        self.task.await.map_err(io::Error::other)?
    }
}

impl HistorySender {
    /// An event with the current time.
    pub(crate) fn event(&self, client: &str, op: Op, phase: Phase) -> Event {
        let now = (timestamp::mono_ns(), timestamp::wall_ns());
        Event::seen((&self.run, self.seed), now, client, op, phase)
    }

    pub(crate) async fn send(&self, event: Event) {
        // Sending fails only after the recorder's write failed; `finish` returns that error.
        let _ = self.sender.send(event).await;
    }
}

impl ClientState {
    /// The last events of a client that was killed: its attempts and holds have ended. `died`: the
    /// record of its death, whose time and words they share.
    pub(crate) fn cut_off(self, died: &Event) -> impl Iterator<Item = Event> {
        let last = |op, phase, hold| Event { op, phase, hold: Some(hold), ..died.clone() };
        let asked = self.asking.into_iter().map(move |hold| last(Op::Lock, Phase::Unknown, hold));
        asked.chain(self.holding.into_iter().map(move |hold| last(Op::Lost, Phase::Fail, hold)))
    }
}

impl ClientStates {
    pub(crate) fn of(&self, client: &str) -> ClientState {
        self.0.get(client).cloned().unwrap_or_default()
    }

    pub(crate) fn counts(&self) -> BTreeMap<String, Counts> {
        self.0.iter().map(|(client, doing)| (client.clone(), doing.count)).collect()
    }

    /// Whether the moment has come. `before`: the counts before the previous step's fault.
    pub(crate) fn shows(&self, when: &When, before: &BTreeMap<String, Counts>) -> bool {
        let count = |client: &str| before.get(client).copied().unwrap_or_default();
        match when {
            When::Holds(client) => !self.of(client).holding.is_empty(),
            When::Granted(client) => self.of(client).count.granted > count(client).granted,
            When::Renewed(client) => self.of(client).count.renewed > count(client).renewed,
            When::Wrote(client) => self.of(client).count.wrote > count(client).wrote,
            When::Told(client) => self.of(client).count.told > count(client).told,
            When::Checked(client) => self.of(client).count.checked > count(client).checked,
            When::Refused(client) => self.of(client).count.refused > count(client).refused,
            When::Barred(client) => self.of(client).count.barred > count(client).barred,
            When::Read(client) => self.of(client).count.read > count(client).read,
            When::Done(client) => self.of(client).done,
            When::Released(client) => self.of(client).count.released > count(client).released,
            When::Arrived(client) => self.of(client).count.arrived > count(client).arrived,
            When::AtMs(_)
            | When::AfterMs(_)
            | When::Outlived { .. }
            | When::InSync(_)
            | When::Has(_)
            | When::Admitted(_)
            | When::HeldUp(_) => true,
        }
    }

    pub(crate) fn observe(&mut self, event: &Event) {
        let doing = self.0.entry(event.client.clone()).or_default();
        let valid_until_ns = event.valid_until_ns.unwrap_or_default();
        match (event.op, event.phase, event.hold) {
            (Op::Lock, Phase::Invoke, Some(hold)) => {
                doing.asking.insert(hold);
            }
            (Op::Lock, phase, Some(hold)) => {
                doing.asking.remove(&hold);
                if phase == Phase::Ok {
                    doing.holding.insert(hold);
                    doing.count.granted += 1;
                    doing.count.valid_until_ns = valid_until_ns;
                }
                doing.count.refused += u64::from(phase == Phase::Fail);
                doing.count.barred += u64::from(event.refusal == Some(Refusal::OtherMembers));
            }
            (Op::Hold, ..) if valid_until_ns > doing.count.valid_until_ns + RENEWED_BY_NS => {
                doing.count.renewed += 1;
                doing.count.valid_until_ns = valid_until_ns;
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
            (Op::Read, Phase::Ok, _) => doing.count.read += 1,
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
