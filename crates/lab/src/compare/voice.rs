use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::history::{Event, Op, Phase};
use crate::trial::recorder::Scribe;

/// Tells the record what a task sees; costs nothing if nothing is recorded.
///
/// What is noted is told when there is time: under the lock, where it delays nobody's handover.
#[derive(Debug, Clone)]
pub(super) struct Voice {
    speaker: Option<Speaker>,
    noted: VecDeque<Event>,
}

/// What the tasks of one locker share.
#[derive(Debug, Clone)]
struct Speaker {
    scribe: Scribe,
    /// The locker, which stands for a process.
    client: String,
    /// Numbers of attempts, unique among its tasks.
    attempts: Arc<AtomicU64>,
}

impl Voice {
    /// That of the locker with this number, to be cloned for each of its tasks.
    pub(super) fn of(scribe: Option<&Scribe>, locker: usize) -> Self {
        let speaker = scribe.map(|scribe| Speaker {
            scribe: scribe.clone(),
            client: name(locker),
            attempts: Arc::default(),
        });
        Self { speaker, noted: VecDeque::new() }
    }

    /// The number of the next attempt.
    pub(super) fn attempt(&self) -> u64 {
        let speaker = self.speaker.as_ref();
        speaker.map_or(0, |speaker| speaker.attempts.fetch_add(1, Ordering::Relaxed))
    }

    /// What happened to an attempt at that instant of the judges' clock.
    pub(super) fn note(
        &mut self,
        op: Op,
        phase: Phase,
        attempt: u64,
        mono_ns: u64,
        details: impl FnOnce(&mut Event),
    ) {
        let Some(speaker) = &self.speaker else { return };
        let mut event = speaker.scribe.event(&speaker.client, op, phase);
        (event.hold, event.mono_ns) = (Some(attempt), mono_ns);
        details(&mut event);
        self.noted.push_back(event);
    }

    /// Tells what was noted. Cut off, it leaves the rest to be told when the voice is dropped.
    pub(super) async fn tell(&mut self) {
        let Some(Speaker { scribe, .. }) = &self.speaker else { return };
        while !self.noted.is_empty() {
            let room = scribe.room().await;
            if let Some(event) = self.noted.pop_front() {
                scribe.tell_now(event, room);
            }
        }
    }
}

/// A task that is cut off has seen what it has seen: a release that was not told would look like a
/// hold without an end.
impl Drop for Voice {
    fn drop(&mut self) {
        if let Some(speaker) = &self.speaker {
            self.noted.drain(..).for_each(|event| speaker.scribe.tell_now(event, None));
        }
    }
}

/// `a`, `b`, ..., as the lab calls its clients.
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
    use crate::trial::recorder::{BACKLOG, Recorder};

    #[tokio::test]
    async fn what_was_noted_is_told_in_order_at_the_latest_when_it_ends() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("history.jsonl");
        let (recorder, scribe, _) = Recorder::start(&path, "r", 1).unwrap();
        let mut voice = Voice::of(Some(&scribe), 2);
        let mut other = voice.clone();
        drop(scribe);
        let first = voice.attempt();
        voice.note(Op::Lock, Phase::Invoke, first, 10, |_| {});
        voice.tell().await;
        voice.note(Op::Lock, Phase::Ok, first, 20, |event| event.token = Some(7));
        voice.note(Op::Unlock, Phase::Invoke, first, 30, |_| {});
        let second = other.attempt();
        other.note(Op::Lock, Phase::Invoke, second, 25, |_| {});
        drop((voice, other));
        recorder.finish().await.unwrap();
        let events = Reader::open(&path).unwrap().map(Result::unwrap);
        let told = events.map(|event| (event.client, event.hold, event.mono_ns, event.token));
        let c = |hold, at, token| ("c".to_owned(), Some(hold), at, token);
        let expected = [c(0, 10, None), c(0, 20, Some(7)), c(0, 30, None), c(1, 25, None)];
        assert_eq!(told.collect::<Vec<_>>(), expected);
    }

    /// Its task is cut off while it waits for room, as an interrupt does.
    #[tokio::test]
    async fn nothing_is_dropped_where_there_is_no_room() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("history.jsonl");
        let (recorder, scribe, _) = Recorder::start(&path, "r", 1).unwrap();
        let mut voice = Voice::of(Some(&scribe), 0);
        for _ in 0..BACKLOG {
            scribe.tell(scribe.event("b", Op::Note, Phase::Info)).await;
        }
        drop(scribe);
        for at in 1..=3 {
            voice.note(Op::Unlock, Phase::Invoke, 0, at, |_| {});
        }
        assert!(voice.tell().now_or_never().is_none(), "there is no room");
        drop(voice);
        recorder.finish().await.unwrap();
        assert_eq!(Reader::open(&path).unwrap().map(Result::unwrap).count(), BACKLOG + 3);
    }

    #[tokio::test]
    async fn without_a_record_nothing_is_kept() {
        let mut voice = Voice::of(None, 0);
        voice.note(Op::Lock, Phase::Invoke, 0, 1, |_| panic!("for nobody"));
        voice.tell().await;
        assert!(voice.noted.is_empty());
    }
}
