//! Fencing tokens (G3, theorem F): the tokens of one name are unique, and if one acquisition
//! returned before another began, the later one has the larger token. No clock is assumed. Where
//! windows are right, tokens are also in the order of the holds.

use std::collections::BTreeSet;

use crate::violation::Violation;

/// The tokens that holders of one name have received.
#[derive(Debug, Default)]
pub struct Tokens {
    all: BTreeSet<u64>,
    /// The largest of a holder that did not read.
    alone: u64,
}

impl Tokens {
    /// The largest token so far; the token of an acquisition that begins now must be larger.
    pub fn largest(&self) -> u64 {
        self.all.last().copied().unwrap_or(0)
    }

    /// Checks `attempt`, which returned with `token`. `after` was the largest token when it began.
    /// `valid`: its window is open. Readers have no order among each other.
    pub fn check(
        &mut self,
        (attempt, valid, reads): (usize, bool, bool),
        token: u64,
        after: u64,
    ) -> Option<Violation> {
        let before = if reads { self.alone } else { self.largest() };
        if !reads {
            self.alone = self.alone.max(token);
        }
        if !self.all.insert(token) {
            return Some(Violation::TokenRepeated { attempt, token });
        }
        if token <= after {
            return Some(Violation::TokenBackward { attempt, token, after });
        }
        let behind = valid && token < before;
        behind.then_some(Violation::HoldBehind { attempt, token, before })
    }
}
