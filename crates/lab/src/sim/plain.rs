//! An acquisition without a script, as `plain.rs` of the core sends it.

use quorumlock_core::admission::Charter;
use quorumlock_core::{Counter, Name};

use super::ask::{Ask, millis};
use super::sometimes::Sometimes;
use super::store::{Held, Store, Take, Taken};
use super::time::{MS, Micros};

/// Whether it is asked in this way: the node then does what it does whether or not its memory is
/// proven, and the client throws away what it says.
pub(super) fn is_plain(ask: &Ask, charter: Option<&Charter>, bound: bool) -> bool {
    let Ask::Acquire(term, counter, _, None) = ask else { return false };
    let may = charter.is_none_or(|charter| bound && millis(term.ttl) <= charter.longest_ms());
    may && counter.is_plain()
}

pub(super) fn seen(unproven: bool, taken: Taken) -> Sometimes {
    match taken {
        _ if unproven => Sometimes::PlainUnproven,
        Taken::Token(_) => Sometimes::PlainGrant,
        Taken::Busy(_) => Sometimes::PlainRefused,
        Taken::Unclear => Sometimes::PlainUnclear,
    }
}

impl Store {
    /// The counter moves for whoever is refused, too.
    pub(super) fn acquire_plain(&mut self, name: &Name, take: &Take, now: Micros) -> Taken {
        let last = self.counter(name, now).unwrap_or(0);
        let risen = last + take.counter.tokens;
        self.move_counter(name, risen);
        if self.held(name, now).is_some() {
            return Taken::Busy(None);
        }
        let Take { wire, by, holds, .. } = *take;
        self.put_lock(name, Held { wire, by, holds, until: now / MS + take.ttl_ms });
        let (floor, most) = match &self.page {
            _ if !self.bound => (0, u64::MAX),
            None => (0, 0),
            Some(page) => (page.floor, page.fmax),
        };
        match last >= Counter::UNSEEDED && last >= floor && risen <= most {
            true => Taken::Token(risen),
            false => Taken::Unclear,
        }
    }
}
