//! Releases at a node: a model of `release.lua` and `notify_next.lua`.

use quorumlock_protocol::{
    Fence, LeaseRequest, Name, Notified, QueueAction, ReleaseOutcome, RemoteGrant, Wire,
};

use super::bug::Bug;
use super::queue::QueueMember;
use super::request::Reply;
use super::server::{NotifiedWaiter, Server};
use super::store::{Field, WrongType};
use super::time::{Micros, micros};

impl Server {
    /// `release.lua`: the reply, and the waiter that it notified.
    pub fn release_script(
        &mut self,
        lease: &LeaseRequest,
        queue_action: Option<QueueAction>,
        (client, by): (usize, (Wire, Field)),
        time: Micros,
    ) -> (Reply, Option<NotifiedWaiter>) {
        let held = match self.release(lease, queue_action, (client, by), time) {
            Ok(held) => held,
            Err(WrongType) => return (Reply::WrongType, None),
        };
        let freed = |woke| Reply::Freed(ReleaseOutcome { held, notified: Some(woke) });
        if held && let Some(QueueAction::KeepPlace(waited)) = queue_action {
            let place = QueueMember::of(client, None);
            self.store.enqueue(&lease.name, place, micros(waited), 1_000, time);
            return (freed(Notified::Nobody), None);
        }
        // The client may have won without this node. A waiter that is queued only here must still
        // be notified (W4).
        let free = held
            || self.store.held(&lease.name, time).is_none()
            || self.bug == Some(Bug::HandsWhatIsHeld);
        let notified = free.then(|| self.notify_next(&lease.name, by.0, time)).flatten();
        let woke = if held && notified.is_some() { Notified::Waiter } else { Notified::Nobody };
        (freed(woke), notified)
    }

    fn release(
        &mut self,
        lease: &LeaseRequest,
        queue_action: Option<QueueAction>,
        (client, by): (usize, (Wire, Field)),
        time: Micros,
    ) -> Result<bool, WrongType> {
        if let Some(QueueAction::Leave(offer)) = queue_action {
            self.store.dequeue(
                &lease.name,
                QueueMember::of(client, Some((lease.nonce, offer))),
                time,
            );
        }
        match self.bug {
            Some(Bug::ReleasesAnybodys) => {
                Ok(self.store.held(&lease.name, time).is_some()
                    && self.store.drop_lock(&lease.name))
            }
            _ => self.store.release(&lease.name, by, time),
        }
    }

    /// `notify_next.lua`: notifies the first waiter in the queue that still subscribes, or hands
    /// the name off to it.
    pub fn notify_next(&mut self, name: &Name, wire: Wire, time: Micros) -> Option<NotifiedWaiter> {
        while let Some(place) = self.store.pop_head(name, time) {
            let (client, old) = (place.client, self.store.marks.get(&name.slot()).copied());
            let handoff = self.store.hand_off(name, place, wire, time).map(|(nonce, token)| {
                let old = old.filter(|_| self.bug == Some(Bug::HandsOldToken));
                RemoteGrant { nonce, fence: Fence::new(old.unwrap_or(token)) }
            });
            if self.subscribed.contains(&client) {
                if handoff.is_none() {
                    self.store.mark_notified(name, time);
                }
                return Some(NotifiedWaiter { client, name: name.clone(), handoff });
            }
            if handoff.is_some() {
                self.store.drop_lock(name);
            }
        }
        None
    }
}
