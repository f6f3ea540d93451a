//! The takeover delay (WIN3): while the client of a lost lease lives, nobody gets what the lease
//! excludes until the delay has passed, by that client's clock, since the last window end that the
//! holder read. A lease that its holder gives up while it is valid is not lost.

use quorumlock_protocol::Instant;

use crate::sometimes::Sometimes;
use crate::time::micros;
use crate::violation::Violation;
use crate::world::State;

/// Checks `attempt`, which was just granted.
pub fn check(state: &mut State, attempt: usize) {
    let delay = state.plan.settings().takeover_delay;
    // A grant that is heard of after its end may be older than the loss.
    if delay.is_zero() || !state.is_valid(attempt) {
        return;
    }
    let attempts = &state.ledger.attempts;
    let left = |lost: usize, promised_until: Instant| {
        let process = &state.processes[attempts[lost].client];
        if process.dead { 0 } else { micros((promised_until + delay).since(process.now())) }
    };
    let taken = |lost: usize| attempts[lost].claim.excludes(&attempts[attempt].claim);
    // Some holders have not given up a lost lease yet.
    let holders = state.ledger.holders.iter().map(|holder| (holder.attempt, holder.promised_until));
    let late = holders.filter(|(number, _)| *number != attempt && !state.is_valid(*number));
    let lost = late.chain(state.ledger.lost.iter().copied()).filter(|(lost, _)| taken(*lost));
    match lost.map(|(lost, until)| (left(lost, until), lost)).max() {
        Some((0, _)) => state.see(Sometimes::TakenOver),
        Some((by_us, lost)) => {
            state.violate(Violation::TakenOverEarly { attempts: [lost, attempt], by_us });
        }
        None => {}
    }
    let State { ledger, .. } = state;
    let claim = &ledger.attempts[attempt].claim;
    ledger.lost.retain(|(lost, _)| !ledger.attempts[*lost].claim.excludes(claim));
}

impl State {
    /// The holder of `attempt` is about to give it up.
    pub fn remember_lost(&mut self, attempt: usize) {
        let holder = self.ledger.holders.iter().find(|holder| holder.attempt == attempt);
        if let Some(promised_until) = holder.map(|holder| holder.promised_until)
            && !self.is_valid(attempt)
        {
            self.ledger.lost.push((attempt, promised_until));
        }
    }
}
