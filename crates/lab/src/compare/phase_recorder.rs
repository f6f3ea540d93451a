use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::history::{Event, Op, Phase};
use crate::runner::recorder::HistorySender;

/// Records what a task observes; does nothing if nothing is recorded.
///
/// Events are buffered, and sent to the recorder while the task holds the lock: that does not delay
/// a handover.
#[derive(Debug, Clone)]
pub(super) struct PhaseRecorder {
    client: Option<ClientRecorder>,
    buffered: VecDeque<Event>,
}

/// The state that the tasks of one locker share.
#[derive(Debug, Clone)]
struct ClientRecorder {
    sender: HistorySender,
    /// The client's name. Each locker counts as a process.
    client: String,
    /// The number of the next attempt, unique among the locker's tasks.
    attempts: Arc<AtomicU64>,
}

impl PhaseRecorder {
    /// The recorder of a locker, to be cloned for each of its tasks.
    pub(super) fn of(sender: Option<&HistorySender>, locker: usize) -> Self {
        let client = sender.map(|sender| ClientRecorder {
            sender: sender.clone(),
            client: name(locker),
            attempts: Arc::default(),
        });
        Self { client, buffered: VecDeque::new() }
    }

    /// The number of a new attempt.
    pub(super) fn attempt(&self) -> u64 {
        let client = self.client.as_ref();
        client.map_or(0, |client| client.attempts.fetch_add(1, Ordering::Relaxed))
    }

    /// Buffers an event of an attempt at `mono_ns` on the judges' clock.
    pub(super) fn buffer(
        &mut self,
        op: Op,
        phase: Phase,
        attempt: u64,
        mono_ns: u64,
        details: impl FnOnce(&mut Event),
    ) {
        let Some(client) = &self.client else { return };
        let mut event = client.sender.event(&client.client, op, phase);
        (event.hold, event.mono_ns) = (Some(attempt), mono_ns);
        details(&mut event);
        self.buffered.push_back(event);
    }

    /// Sends the buffered events. If cancelled, the rest is sent when the recorder is dropped.
    pub(super) async fn flush(&mut self) {
        let Some(ClientRecorder { sender, .. }) = &self.client else { return };
        while !self.buffered.is_empty() {
            let room = sender.room().await;
            if let Some(event) = self.buffered.pop_front() {
                sender.send_now(event, room);
            }
        }
    }
}

/// Sends what is buffered when the task is cancelled: without its release event, a hold would seem
/// to have no end.
impl Drop for PhaseRecorder {
    fn drop(&mut self) {
        if let Some(client) = &self.client {
            self.buffered.drain(..).for_each(|event| client.sender.send_now(event, None));
        }
    }
}

/// `a`, `b`, ..., like the clients of the lab.
fn name(locker: usize) -> String {
    u8::try_from(locker)
        .ok()
        .filter(|number| *number < 26)
        .map_or_else(|| format!("client-{locker}"), |number| char::from(b'a' + number).to_string())
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;
    use crate::history::Reader;
    use crate::runner::recorder::{BACKLOG, Recorder};

    #[tokio::test]
    async fn what_was_noted_is_told_in_order_at_the_latest_when_it_ends() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("history.jsonl");
        let (recorder, sender, _) = Recorder::start(&path, "r", 1).unwrap();
        let mut phase_recorder = PhaseRecorder::of(Some(&sender), 2);
        let mut other = phase_recorder.clone();
        drop(sender);
        let first = phase_recorder.attempt();
        phase_recorder.buffer(Op::Lock, Phase::Invoke, first, 10, |_| {});
        phase_recorder.flush().await;
        phase_recorder.buffer(Op::Lock, Phase::Ok, first, 20, |event| event.token = Some(7));
        phase_recorder.buffer(Op::Unlock, Phase::Invoke, first, 30, |_| {});
        let second = other.attempt();
        other.buffer(Op::Lock, Phase::Invoke, second, 25, |_| {});
        drop((phase_recorder, other));
        recorder.finish().await.unwrap();
        let events = Reader::open(&path).unwrap().map(Result::unwrap);
        let events = events.map(|event| (event.client, event.hold, event.mono_ns, event.token));
        let c = |hold, at, token| ("c".to_owned(), Some(hold), at, token);
        let expected = [c(0, 10, None), c(0, 20, Some(7)), c(0, 30, None), c(1, 25, None)];
        assert_eq!(events.collect::<Vec<_>>(), expected);
    }

    /// The task is cancelled while it waits for room, as by an interrupt.
    #[tokio::test]
    async fn nothing_is_dropped_where_there_is_no_room() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("history.jsonl");
        let (recorder, sender, _) = Recorder::start(&path, "r", 1).unwrap();
        let mut phase_recorder = PhaseRecorder::of(Some(&sender), 0);
        for _ in 0..BACKLOG {
            sender.send(sender.event("b", Op::Note, Phase::Info)).await;
        }
        drop(sender);
        for at in 1..=3 {
            phase_recorder.buffer(Op::Unlock, Phase::Invoke, 0, at, |_| {});
        }
        assert!(phase_recorder.flush().now_or_never().is_none(), "there is no room");
        drop(phase_recorder);
        recorder.finish().await.unwrap();
        assert_eq!(Reader::open(&path).unwrap().map(Result::unwrap).count(), BACKLOG + 3);
    }

    #[tokio::test]
    async fn without_a_record_nothing_is_kept() {
        let mut phase_recorder = PhaseRecorder::of(None, 0);
        phase_recorder.buffer(Op::Lock, Phase::Invoke, 0, 1, |_| panic!("for nobody"));
        phase_recorder.flush().await;
        assert!(phase_recorder.buffered.is_empty());
    }
}
