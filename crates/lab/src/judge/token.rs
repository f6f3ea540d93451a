use std::collections::HashSet;

use quorumlock_protocol::Instant;

use super::Hold;
use super::hold::by_name;

/// Whether the fencing tokens of each name were unique and increasing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tokens {
    /// Holds whose token another hold of the same name also had.
    pub repeated: usize,
    /// Holds whose token was not larger than that of every hold before them.
    pub out_of_order: usize,
}

impl Tokens {
    /// No two holds of a name had the same token.
    #[must_use]
    pub fn unique(&self) -> bool {
        self.repeated == 0
    }

    /// Every later hold of a name had a larger token.
    #[must_use]
    pub fn increasing(&self) -> bool {
        self.out_of_order == 0
    }
}

/// Judges the tokens. A hold is *before* another hold of the same name if it ended before the other
/// was granted, or was granted before the other was asked for. Holds that overlap in any other way
/// have no order. Of two readers, only the second rule gives an order: nodes may have granted both
/// before one of them was told.
#[must_use]
pub fn tokens(holds: &[Hold]) -> Tokens {
    let mut found = Tokens::default();
    for holds in by_name(holds) {
        let mut seen = HashSet::new();
        found.repeated += holds.iter().filter(|hold| !seen.insert(hold.token)).count();
        // Not before its own grant: otherwise a hold could come before itself.
        let end = |hold: &Hold| hold.believed_until().max(hold.granted);
        let ended = Highest::by(holds.iter().copied(), end);
        let excluding = Highest::by(holds.iter().copied().filter(|hold| !hold.reads), end);
        let granted = Highest::by(holds.iter().copied(), |hold| hold.granted.max(hold.asked));
        let highest = |hold: &Hold| {
            let ended = if hold.reads { &excluding } else { &ended };
            ended.before(hold.granted).max(granted.before(hold.asked))
        };
        let stale = |hold: &&&Hold| highest(hold).is_some_and(|token| token >= hold.token);
        found.out_of_order += holds.iter().filter(stale).count();
    }
    found
}

/// The highest token among the holds that reached a given point before an instant.
struct Highest(Vec<(Instant, u64)>);

impl Highest {
    fn by<'a>(holds: impl Iterator<Item = &'a Hold>, point: impl Fn(&Hold) -> Instant) -> Self {
        let mut points: Vec<_> = holds.map(|hold| (point(hold), hold.token)).collect();
        points.sort_unstable();
        let mut highest = 0;
        for (_, token) in &mut points {
            highest = highest.max(*token);
            *token = highest;
        }
        Self(points)
    }

    fn before(&self, instant: Instant) -> Option<u64> {
        let earlier = self.0.partition_point(|(at, _)| *at < instant);
        Some(self.0[..earlier].last()?.1)
    }
}

#[cfg(test)]
mod tests {
    use super::super::history::{at, held, of_y, read};
    use super::*;

    #[test]
    fn tokens_in_order_are_fine() {
        let found = tokens(&[held(1, 20, 30), held(2, 0, 10), of_y(held(1, 5, 6))]);
        assert!(found.unique() && found.increasing(), "{found:?}");
        assert_eq!(tokens(&[]), Tokens::default());
    }

    #[test]
    fn a_planted_repetition_is_found() {
        let again = Hold { token: 1, ..held(2, 20, 30) };
        let found = tokens(&[held(1, 1, 10), again.clone(), of_y(held(1, 1, 10))]);
        assert_eq!(found, Tokens { repeated: 1, out_of_order: 1 });
        assert!(!found.unique());
    }

    #[test]
    fn a_planted_step_back_is_found() {
        let low = Hold { token: 3, ..held(3, 40, 50) };
        let found = tokens(&[held(1, 5, 10), held(2, 20, 30), low]);
        assert_eq!(found, Tokens { repeated: 0, out_of_order: 1 });
        assert!(!found.increasing());
    }

    #[test]
    fn holds_that_overlap_have_an_order_only_if_one_was_asked_for_after_the_other_was_granted() {
        let (long, short) = (held(1, 10, 100), Hold { token: 5, ..held(2, 20, 30) });
        let asked_before = Hold { asked: at(9), ..short.clone() };
        assert!(tokens(&[long.clone(), asked_before]).increasing());
        assert!(!tokens(&[long, short]).increasing());
    }

    #[test]
    fn a_reader_that_is_told_late_is_not_after_one_that_has_ended() {
        let late = Hold { token: 5, asked: at(9), ..held(2, 20, 30) };
        let both = [read(held(1, 10, 15)), read(late.clone())];
        assert!(tokens(&both).increasing());
        let asked_after = Hold { asked: at(11), ..read(late.clone()) };
        assert!(!tokens(&[both[0].clone(), asked_after]).increasing());
        for one in [[held(1, 10, 15), read(late.clone())], [read(held(1, 10, 15)), late]] {
            assert!(!tokens(&one).increasing(), "one of them writes");
        }
    }

    #[test]
    fn a_hold_that_never_stood_is_not_before_itself() {
        let dead = Hold { valid_until: at(0), ..held(1, 10, 20) };
        assert!(tokens(&[dead]).increasing());
    }
}
