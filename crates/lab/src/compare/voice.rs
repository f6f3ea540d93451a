use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::history::{Event, Op, Phase};
use crate::trial::recorder::Scribe;

/// Tells the record what the tasks of one locker see; costs nothing if nothing is recorded.
#[derive(Debug, Clone)]
pub(super) struct Voice(Option<Speaker>);

#[derive(Debug, Clone)]
struct Speaker {
    scribe: Scribe,
    /// The locker, which stands for a process.
    client: String,
    /// Numbers of attempts, unique among its tasks.
    attempts: Arc<AtomicU64>,
}

impl Voice {
    /// That of the locker with this number.
    pub(super) fn of(scribe: Option<&Scribe>, locker: usize) -> Self {
        Self(scribe.map(|scribe| Speaker {
            scribe: scribe.clone(),
            client: name(locker),
            attempts: Arc::default(),
        }))
    }

    /// The number of the next attempt.
    pub(super) fn attempt(&self) -> u64 {
        let Self(speaker) = self;
        speaker.as_ref().map_or(0, |speaker| speaker.attempts.fetch_add(1, Ordering::Relaxed))
    }

    /// What happened to an attempt at that instant of the judges' clock.
    pub(super) async fn tell(
        &self,
        op: Op,
        phase: Phase,
        attempt: u64,
        mono_ns: u64,
        details: impl FnOnce(&mut Event),
    ) {
        let Self(Some(speaker)) = self else { return };
        let mut event = speaker.scribe.event(&speaker.client, op, phase);
        (event.hold, event.mono_ns) = (Some(attempt), mono_ns);
        details(&mut event);
        speaker.scribe.tell(event).await;
    }
}

/// `a`, `b`, ..., as the lab calls its clients.
fn name(locker: usize) -> String {
    u8::try_from(locker)
        .ok()
        .filter(|number| *number < 26)
        .map_or_else(|| format!("client-{locker}"), |number| char::from(b'a' + number).to_string())
}
