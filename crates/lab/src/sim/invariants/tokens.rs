//! Fencing tokens (G3, theorem F): of one name they are unique, and if one acquisition returned
//! before another began, the later one has the larger token. No clock is assumed. Where windows are right, tokens
//! are in the order of the holds as well.

use std::collections::BTreeSet;

use super::Violation;

/// The tokens that holders of one name have got.
#[derive(Debug, Default)]
pub(in crate::sim) struct Tokens(BTreeSet<u64>);

impl Tokens {
    /// What an acquisition that begins now must exceed.
    pub(in crate::sim) fn largest(&self) -> u64 {
        self.0.last().copied().unwrap_or(0)
    }

    /// `attempt` returned with `token`; `after` was the largest when it began. `valid`: its window is open.
    pub(in crate::sim) fn check(
        &mut self,
        (attempt, valid): (usize, bool),
        token: u64,
        after: u64,
    ) -> Option<Violation> {
        let before = self.largest();
        if !self.0.insert(token) {
            return Some(Violation::TokenRepeated { attempt, token });
        }
        if token <= after {
            return Some(Violation::TokenBackward { attempt, token, after });
        }
        let behind = valid && token < before;
        behind.then_some(Violation::HoldBehind { attempt, token, before })
    }
}
