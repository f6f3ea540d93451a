use std::collections::{HashMap, HashSet};

use crate::history::{Event, Op, Phase};

/// What became of effects that should not have been.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Effects {
    /// Accepted after another hold had claimed the resource, or made of what was replaced since.
    pub stale: u64,
    /// Refused by the resource.
    pub refused: u64,
}

/// What became of one effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// It was accepted, rightly.
    Accepted,
    /// It was accepted, and came too late.
    Stale,
    /// It was refused.
    Refused,
}

/// Judges effects in the order of the resource. A hold *claims* with its first accepted write; from
/// then on no write of a hold that had claimed before may be accepted. Nor may there be a write
/// between what a hold reads and what it writes. Judged by holds and never by tokens, which may be
/// given twice.
#[derive(Debug, Default)]
pub(super) struct Claims {
    names: HashMap<String, OfName>,
    /// What each hold knows of what the lock guards, once it has read that.
    known: HashMap<(usize, u64), i64>,
}

#[derive(Debug, Default)]
struct OfName {
    claimed: HashSet<(usize, u64)>,
    last: Option<(usize, u64)>,
}

impl Claims {
    /// What became of the effect, if the event tells of one. `hold`: client and number.
    pub(super) fn note(&mut self, event: &Event, hold: (usize, u64)) -> Option<Effect> {
        match (event.op, event.phase) {
            (Op::Note, _) if event.what.as_deref() == Some("read") => {
                self.known.insert(hold, event.value.unwrap_or_default());
                None
            }
            (Op::Write, Phase::Fail) => Some(Effect::Refused),
            (Op::Write, Phase::Ok) => {
                let name = event.name.as_deref().unwrap_or_default();
                let stale = self.outdated(hold, event.value) | self.of(name).is_late(hold);
                Some(if stale { Effect::Stale } else { Effect::Accepted })
            }
            _ => None,
        }
    }

    /// Whether another write came between a write and what it was made of.
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
    /// Whether a hold that had claimed writes after another one has.
    fn is_late(&mut self, hold: (usize, u64)) -> bool {
        if self.claimed.insert(hold) {
            self.last = Some(hold);
        }
        self.last != Some(hold)
    }
}

#[cfg(test)]
mod tests {
    use super::super::account::tests::event;
    use super::*;

    /// Judges writes, each of a client's hold on a name.
    fn judged<const N: usize>(writes: [(&str, usize, u64, Phase); N]) -> [Effect; N] {
        let mut claims = Claims::default();
        writes.map(|(name, client, hold, phase)| {
            let event =
                Event { name: Some(name.to_owned()), ..event("a", 1, Op::Write, phase, hold) };
            claims.note(&event, (client, hold)).unwrap()
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
