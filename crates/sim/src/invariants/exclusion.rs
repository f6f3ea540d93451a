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
    let valid = |number: usize| {
        let mut holders = state.ledger.holders.iter();
        let holder = holders.find(|holder| holder.attempt == number)?;
        let clock = &state.processes[holder.client].clock;
        clock.observe(|| holder.watch.check().ok())
    };
    let rivals = state.ledger.holders.iter().map(|holder| holder.attempt);
    let rival = rivals
        .filter(|number| *number != attempt && overlaps(*number))
        .find(|number| valid(*number).is_some());
    if let Some(rival) = rival
        && valid(attempt).is_some()
    {
        state.violate(Violation::TwoHolders { attempts: [rival, attempt] });
    }
}
