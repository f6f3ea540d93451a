use std::collections::HashMap;
use std::time::Duration;

use quorumlock_protocol::Instant;

use crate::history::{Event, Op, Phase};
use crate::timestamp::instant;

/// Uncontended locks of one client: how long a lock and its release take together.
#[derive(Debug, Default)]
pub struct Pairs {
    /// The times from the request to the confirmed release.
    pub took: Vec<Duration>,
    /// Attempts that failed, and releases that were not confirmed.
    pub failed: usize,
    /// From the first event to the last.
    pub measured: Duration,
    began: Option<Instant>,
    asked: HashMap<u64, Instant>,
}

impl Pairs {
    /// Takes the next event of the client. Only the events of attempts count.
    pub fn observe(&mut self, event: &Event) {
        let Some(hold) = event.hold else { return };
        let now = instant(event.mono_ns);
        self.measured = now.since(*self.began.get_or_insert(now));
        match (event.op, event.phase) {
            (Op::Lock, Phase::Invoke) => drop(self.asked.insert(hold, now)),
            (Op::Unlock, Phase::Ok) => {
                self.took.extend(self.asked.remove(&hold).map(|asked| now.since(asked)));
            }
            (Op::Lock | Op::Unlock, Phase::Fail) | (Op::Unlock, Phase::Unknown) => self.failed += 1,
            _ => {}
        }
    }

    /// Adds what another run measured.
    pub fn add(&mut self, other: Self) {
        self.took.extend(other.took);
        self.failed += other.failed;
        self.measured += other.measured;
    }
}

#[cfg(test)]
mod tests {
    use super::super::summary::tests::event;
    use super::*;

    #[test]
    fn a_pair_lasts_from_the_request_to_the_confirmed_release() {
        let mut run = Pairs::default();
        for (at, op, phase, hold) in [
            (10, Op::Lock, Phase::Invoke, 0),
            (15, Op::Lock, Phase::Invoke, 1),
            (20, Op::Lock, Phase::Ok, 0),
            (20, Op::Unlock, Phase::Invoke, 0),
            (30, Op::Unlock, Phase::Ok, 0),
            (35, Op::Lock, Phase::Fail, 1),
            (36, Op::Lock, Phase::Invoke, 2),
            (40, Op::Lock, Phase::Unknown, 2),
        ] {
            run.observe(&event("alone", at, op, phase, hold));
        }
        assert_eq!((&run.took[..], run.failed), (&[Duration::from_nanos(20)][..], 1));
        let mut all = Pairs { measured: Duration::from_nanos(5), ..Pairs::default() };
        all.add(run);
        assert_eq!((all.took.len(), all.failed, all.measured.as_nanos()), (1, 1, 35));
    }
}
