//! The fast path: an acquisition without a script, as `plain.rs` of the core sends it.

use quorumlock_core::Name;
use quorumlock_core::admission::Charter;

use super::ask::{Ask, millis};
use super::sometimes::Sometimes;
use super::store::{Held, Store, Take, Taken};
use super::time::{MS, Micros};

/// Whether it is asked in this way: the node then does what it does whether or not its memory is
/// proven, and the client throws away what it says.
pub(super) fn is_plain(ask: &Ask, charter: Option<&Charter>, bound: bool) -> bool {
    let Ask::Acquire(term, proposal, _, None) = ask else { return false };
    let may = charter.is_none_or(|charter| bound && millis(term.ttl) <= charter.longest_ms());
    may && proposal.alone && !proposal.by_script
}

pub(super) fn seen(unproven: bool, taken: Taken) -> Sometimes {
    match taken {
        _ if unproven => Sometimes::PlainUnproven,
        Taken::Accepted => Sometimes::PlainGrant,
        Taken::Behind(_) => Sometimes::PlainBehind,
        Taken::Busy(_) => Sometimes::PlainRefused,
    }
}

impl Store {
    /// The mark moves for a caller that is refused, too.
    pub(super) fn acquire_plain(&mut self, name: &Name, take: &Take, now: Micros) -> Taken {
        let accepted = self.accept(name, take.token);
        if self.held(name, now).is_some() {
            return Taken::Busy(None);
        }
        let Take { wire, by, holds, .. } = *take;
        self.put_lock(name, Held { wire, by, holds, until: now / MS + take.ttl_ms });
        // How much larger the mark is, nobody says.
        accepted.map_or(Taken::Behind(take.token), |()| Taken::Accepted)
    }
}
