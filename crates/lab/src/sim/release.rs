//! How a name becomes free at a node: a model of `release.lua` and `wake.lua`.

use quorumlock_core::{Fence, Freed, Handed, Name, Spot, Term, Wire, Woke};

use super::ask::{Reply, millis};
use super::mutants::Bug;
use super::queue::Place;
use super::server::{Server, Woken};
use super::store::{Field, WrongType};
use super::time::{Micros, micros};

impl Server {
    /// `release.lua`: the reply, and whom it woke.
    pub(super) fn give_back(
        &mut self,
        term: &Term,
        spot: Option<Spot>,
        (client, by): (usize, (Wire, Field)),
        time: Micros,
    ) -> (Reply, Option<Woken>) {
        let held = match self.release(term, spot, (client, by), time) {
            Ok(held) => held,
            Err(WrongType) => return (Reply::WrongType, None),
        };
        let freed = |woke| Reply::Freed(Freed { held, woke: Some(woke) });
        match spot {
            Some(Spot::Kept(waited)) if held => {
                let place = Place::of(client, None);
                self.store.stand(&term.name, place, micros(waited), 1_000, time);
                return (freed(Woke::Nobody), None);
            }
            Some(Spot::Elsewhere) => return (freed(Woke::Nobody), None),
            Some(Spot::Again(nonce, offer)) if held => {
                let place = Place::of(client, Some((nonce, offer)));
                self.store.stand(&term.name, place, 0, millis(offer.claim).max(1_000), time);
            }
            _ => {}
        }
        // Won without this node, perhaps: who waits here alone must hear of it (e6).
        let free = held
            || self.store.held(&term.name, time).is_none()
            || self.bug == Some(Bug::HandsWhatIsHeld);
        let woken = free.then(|| self.wake(&term.name, by.0, time)).flatten();
        let woke = if held && woken.is_some() { Woke::Waiter } else { Woke::Nobody };
        (freed(woke), woken)
    }

    fn release(
        &mut self,
        term: &Term,
        spot: Option<Spot>,
        (client, by): (usize, (Wire, Field)),
        time: Micros,
    ) -> Result<bool, WrongType> {
        if let Some(Spot::Left(offer)) = spot {
            self.store.leave(&term.name, Place::of(client, Some((term.nonce, offer))), time);
        }
        match self.bug {
            Some(Bug::ReleasesAnybodys) => {
                Ok(self.store.held(&term.name, time).is_some() && self.store.drop_lock(&term.name))
            }
            _ => self.store.release(&term.name, by, time),
        }
    }

    /// `wake.lua`: the first in the queue who still listens.
    pub(super) fn wake(&mut self, name: &Name, wire: Wire, time: Micros) -> Option<Woken> {
        while let Some(place) = self.store.next_in_line(name, time) {
            let (client, old) = (place.client, self.store.marks.get(&name.slot()).copied());
            let handed = self.store.hand(name, place, wire, time).map(|(nonce, token)| {
                let old = old.filter(|_| self.bug == Some(Bug::HandsOldToken));
                Handed { nonce, fence: Fence::new(old.unwrap_or(token)) }
            });
            if self.subscribed.contains(&client) {
                if handed.is_none() {
                    self.store.call(name, time);
                }
                return Some(Woken { client, name: name.clone(), handed });
            }
            if handed.is_some() {
                self.store.drop_lock(name);
            }
        }
        None
    }
}
