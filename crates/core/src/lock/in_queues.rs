use std::sync::Arc;
use std::time::Duration;

use quorumlock_watchdog::{Instant, expiry};

use super::wake::{Wake, Woken};
use crate::{Grant, Held, InLine, Lane, Lessor, Listening, Name, Nonce, Offer, Term};

/// In the queues of the nodes, or about to be: left when it is dropped, unless it was served.
pub(super) struct InQueues {
    wake: Arc<Wake>,
    lessor: Arc<dyn Lessor>,
    name: Name,
    /// On what terms the name may be handed over to us, and the bound on the node's clock rate.
    offer: Option<(Offer, f64)>,
    /// What was asked last with that.
    offered: Option<(Term, Offer)>,
    /// What was asked before that, until an answer says that it has been replaced.
    before: Option<(Term, Offer)>,
    /// What was asked of late, and until when each counts if the name is handed over to it.
    asks: Vec<(Nonce, Instant)>,
    served: bool,
    _listening: Listening,
}

impl InQueues {
    pub(super) fn join(lessor: &Arc<dyn Lessor>, name: &Name, offer: Option<(Offer, f64)>) -> Self {
        let wake = Arc::new(Wake::new(lessor.nodes()));
        let _listening = lessor.listen(name, wake.clone());
        let (lessor, name, asks) = (lessor.clone(), name.clone(), Vec::new());
        let (offered, before) = (None, None);
        Self { wake, lessor, name, offer, offered, before, asks, served: false, _listening }
    }

    /// Resolves when it is worth trying again.
    pub(super) async fn woken(&self) -> Woken {
        self.wake.woken(|| self.lessor.gate(&self.name)).await
    }

    /// What the attempt at `asked` says of its place: the name may be handed over to it from now on.
    pub(super) fn ask(
        &mut self,
        (term, asked): (&Term, Instant),
        (waited, others_first): (Duration, bool),
    ) -> InLine {
        self.wake.forget();
        self.before = self.offered.take();
        let offer = self.offer.map(|(offer, rho)| {
            self.offered = Some((term.clone(), offer));
            self.asks.retain(|(_, until)| *until > asked);
            self.asks.push((term.nonce, expiry(asked, offer.claim, rho)));
            offer
        });
        let before = self.before.as_ref().map(|(term, _)| term.nonce);
        InLine { waited, others_first, offer, before }
    }

    /// The last attempt was carried out: nothing stands as what was asked before it.
    pub(super) fn answered(&mut self) {
        self.before = None;
    }

    pub(super) fn served(&mut self) {
        self.served = true;
    }

    /// The name, if it was handed over to something that was asked lately enough. What comes too late is
    /// given back.
    pub(super) fn heir(&mut self, now: Instant) -> Option<(Nonce, Grant)> {
        let (last, _) = self.offered.clone()?;
        let mut heir = None;
        for handed in self.wake.handed() {
            let open = |(nonce, until): &&(Nonce, Instant)| *nonce == handed.nonce && *until > now;
            match self.asks.iter().find(open) {
                Some((nonce, until)) if heir.is_none() => {
                    heir = Some((*nonce, Grant { until: *until, fence: handed.fence }));
                    // While it is ours nothing is handed over to what was asked after that.
                    self.served = *nonce == last.nonce;
                }
                _ => self.give_back(Term { nonce: handed.nonce, ..last.clone() }),
            }
        }
        heir
    }

    /// As after an attempt that was given up.
    fn give_back(&self, term: Term) {
        // The request is queued by now, and is asked again if it does not arrive.
        drop(self.lessor.release(term, Held::UNKNOWN, Lane::Work, false));
    }
}

impl Drop for InQueues {
    /// Its turn may have come meanwhile, or the name itself: then it is the next one's (SAFETY.md e5, e7).
    fn drop(&mut self) {
        if self.served {
            return;
        }
        self.lessor.leave(&self.name, self.offered.as_ref());
        if self.before.is_some() {
            self.lessor.leave(&self.name, self.before.as_ref());
        }
        let Some((last, _)) = &self.offered else { return };
        for handed in self.wake.handed() {
            self.give_back(Term { nonce: handed.nonce, ..last.clone() });
        }
    }
}

impl Offer {
    /// Of a lease of `ttl`: others wait in vain for no longer, if whoever is handed the name was stopped before
    /// it heard. The watchdog makes a whole lease of it, soon.
    pub(super) fn of(ttl: Duration, fencing: bool) -> Self {
        Self { claim: (ttl / 10).max(LEAST_CLAIM).min(ttl), fencing }
    }
}

const LEAST_CLAIM: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn others_wait_in_vain_for_a_tenth_of_a_lease_or_a_second() {
        let claim = |ttl| Offer::of(Duration::from_millis(ttl), true).claim.as_millis();
        assert_eq!(claim(30_000), 3_000);
        assert_eq!(claim(2_000), 1_000);
        assert_eq!(claim(50), 50, "never longer than the lease");
    }
}
