//! Exclusion of validity (G1, G2): at no instant are two guards of one name valid at once,
//! whatever other names they have, unless both read.
//!
//! A guard's validity is one interval that begins with its grant, because a lost lease never
//! becomes valid again. Two intervals therefore overlap only if one guard is valid when the other's
//! begins. Each is read on the clock of its own client.

use crate::violation::Violation;
use crate::world::State;

/// Checks `attempt`, which was just granted.
pub fn check(state: &mut State, attempt: usize) {
    let attempts = &state.ledger.attempts;
    let claim = &attempts[attempt].claim;
    let overlaps = |other: usize| attempts[other].claim.excludes(claim);
    let rivals = state.ledger.holders.iter().map(|holder| holder.attempt);
    let rival = rivals
        .filter(|number| *number != attempt && overlaps(*number))
        .find(|number| state.is_valid(*number));
    if let Some(rival) = rival
        && state.is_valid(attempt)
    {
        state.violate(Violation::TwoHolders { attempts: [rival, attempt] });
    }
}

impl State {
    /// Whether the attempt has a valid guard.
    pub fn is_valid(&self, attempt: usize) -> bool {
        let holder = self.ledger.holders.iter().find(|holder| holder.attempt == attempt);
        holder.is_some_and(|holder| {
            let clock = &self.processes[holder.client].clock;
            clock.observe(|| holder.view.check().is_ok())
        })
    }
}
