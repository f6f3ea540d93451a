use std::collections::{HashMap, HashSet};

use crate::history::{Event, Op, Phase};

/// Effects that should not have happened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Effects {
    /// Accepted after another hold had claimed the resource, or computed from a value that was
    /// replaced since the hold read it.
    pub stale: u64,
    /// Refused by the resource.
    pub refused: u64,
}

/// The judgement of one effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// The resource accepted it, and no other hold had claimed or written in between.
    Accepted,
    /// The resource accepted it, too late.
    Stale,
    /// The resource refused it.
    Refused,
}

/// Judges effects in the order in which the resource recorded them.
///
/// A hold *claims* the resource with its first accepted write. From then on, no write of a hold
/// that claimed earlier may be accepted. No other write may come between a hold's read and its
/// write. Readers claim together: the read of a reader is its effect, and a later reader's claim does
/// not end an earlier one's. Holds are told apart by client and number, not by token: a token may be issued twice.
#[derive(Debug, Default)]
pub(super) struct Claims {
    names: HashMap<String, OfName>,
    /// The last value that each hold read or wrote.
    known: HashMap<(usize, u64), i64>,
}

#[derive(Debug, Default)]
struct OfName {
    claimed: HashSet<(usize, u64)>,
    /// The hold that claimed last, or all readers that claimed since the last writer.
    last: HashSet<(usize, u64)>,
    last_reads: bool,
}

impl Claims {
    /// Judges the effect that the event reports; `None` if it reports none. `hold`: client and
    /// number.
    pub(super) fn judge(&mut self, event: &Event, hold: (usize, u64)) -> Option<Effect> {
        match (event.op, event.phase) {
            (Op::Note, _) if event.what.as_deref() == Some("read") => {
                self.known.insert(hold, event.value.unwrap_or_default());
                None
            }
            (Op::Write | Op::Read, Phase::Fail) => Some(Effect::Refused),
            (Op::Write, Phase::Ok) => {
                let name = event.name.as_deref().unwrap_or_default();
                let stale = self.outdated(hold, event.value) | self.of(name).is_late(hold, false);
                Some(if stale { Effect::Stale } else { Effect::Accepted })
            }
            (Op::Read, Phase::Ok) => {
                let late = self.of(event.name.as_deref().unwrap_or_default()).is_late(hold, true);
                Some(if late { Effect::Stale } else { Effect::Accepted })
            }
            _ => None,
        }
    }

    /// Whether another write happened between this hold's last read or write and this write.
    fn outdated(&mut self, hold: (usize, u64), written: Option<i64>) -> bool {
        let (Some(known), Some(written)) = (self.known.get_mut(&hold), written) else {
            return false;
        };
        std::mem::replace(known, written) + 1 != written
    }

    fn of(&mut self, name: &str) -> &mut OfName {
        self.names.entry(name.to_owned()).or_default()
    }
}

impl OfName {
    /// Whether this hold writes, or reads, although a hold that excludes it has claimed since.
    fn is_late(&mut self, hold: (usize, u64), reads: bool) -> bool {
        if self.claimed.insert(hold) {
            if !(reads && self.last_reads) {
                self.last.clear();
            }
            self.last.insert(hold);
            self.last_reads = reads;
        }
        !self.last.contains(&hold)
    }
}

#[cfg(test)]
mod tests {
    use super::super::summary::tests::event;
    use super::*;

    /// Judges writes: name, client, hold and phase.
    fn judged<const N: usize>(writes: [(&str, usize, u64, Phase); N]) -> [Effect; N] {
        let mut claims = Claims::default();
        writes.map(|(name, client, hold, phase)| {
            let event =
                Event { name: Some(name.to_owned()), ..event("a", 1, Op::Write, phase, hold) };
            claims.judge(&event, (client, hold)).unwrap()
        })
    }

    #[test]
    fn a_write_after_the_next_claim_is_stale() {
        use Effect::{Accepted, Stale};
        let accepted = |client, hold| ("x", client, hold, Phase::Ok);
        let in_order = [(0, 0), (0, 0), (1, 0), (0, 1), (0, 1)];
        assert_eq!(judged(in_order.map(|(a, b)| accepted(a, b))), [Accepted; 5]);
        let late = [(0, 0), (1, 0), (0, 0), (1, 0), (0, 0)];
        assert_eq!(
            judged(late.map(|(a, b)| accepted(a, b))),
            [Accepted, Accepted, Stale, Accepted, Stale],
            "the second one's were not"
        );
    }

    #[test]
    fn tasks_of_one_client_may_claim_in_any_order() {
        let writes = [7, 3, 3, 9, 5].map(|hold| ("x", 0, hold, Phase::Ok));
        assert_eq!(judged(writes), [Effect::Accepted; 5]);
    }

    #[test]
    fn readers_claim_together_and_neither_they_nor_writers_act_after_the_other() {
        use Effect::{Accepted, Stale};
        let mut claims = Claims::default();
        let steps = [
            (Op::Read, 0, Accepted),
            (Op::Read, 1, Accepted),
            (Op::Read, 0, Accepted),
            (Op::Write, 2, Accepted),
            (Op::Read, 1, Stale),
            (Op::Read, 3, Accepted),
            (Op::Write, 2, Stale),
            (Op::Read, 0, Stale),
            (Op::Read, 3, Accepted),
        ];
        for (step, (op, client, expected)) in steps.into_iter().enumerate() {
            let found = claims.judge(&event("a", 1, op, Phase::Ok, 0), (client, 0));
            assert_eq!(found, Some(expected), "{step}");
        }
        let refused = event("a", 1, Op::Read, Phase::Fail, 0);
        assert_eq!(claims.judge(&refused, (0, 0)), Some(Effect::Refused));
    }

    #[test]
    fn refused_writes_do_no_harm_and_names_are_apart() {
        use Effect::{Accepted, Refused};
        let writes = [
            ("x", 0, 0, Phase::Ok),
            ("x", 1, 0, Phase::Ok),
            ("x", 0, 0, Phase::Fail),
            ("y", 0, 1, Phase::Ok),
            ("x", 1, 0, Phase::Ok),
        ];
        assert_eq!(judged(writes), [Accepted, Accepted, Refused, Accepted, Accepted]);
    }
}
