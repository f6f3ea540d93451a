//! Exclusion of validity (G1, G2): at no instant are two guards of one name valid.
//!
//! A guard's validity is one interval from its grant on, since a lost lease never heals; so two
//! overlap only if one is valid when the other begins. Each is read on its own client's clock.

use super::Violation;
use crate::sim::world::State;

/// `attempt` was just granted.
pub(in crate::sim) fn check(state: &mut State, attempt: usize) {
    let attempts = &state.ledger.attempts;
    let name = &attempts[attempt].name;
    let valid = |number: usize| {
        let mut holders = state.ledger.holders.iter();
        let holder = holders.find(|holder| holder.attempt == number)?;
        let clock = &state.processes[holder.client].clock;
        clock.observe(|| holder.watch.check().ok())
    };
    let rivals = state.ledger.holders.iter().map(|holder| holder.attempt);
    let rival = rivals
        .filter(|number| *number != attempt && attempts[*number].name == *name)
        .find(|number| valid(*number).is_some());
    if let Some(rival) = rival
        && valid(attempt).is_some()
    {
        state.violate(Violation::TwoHolders { attempts: [rival, attempt] });
    }
}
