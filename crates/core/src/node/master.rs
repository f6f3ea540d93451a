//! Which of several addresses is the master: a single server that is replicated, and fails over.
//!
//! Best effort, whatever is chosen here: what the old master had not copied is lost (SAFETY.md H11).

use std::future::pending;
use std::pin::Pin;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use tokio::sync::watch;
use tokio::time::Sleep;

use super::dial::{Dialer, Stream};
use super::greet::Greeted;
use crate::{NodeProblem, NodeReport};

/// Where a node is: one address, or those of a master and its replicas.
#[derive(Debug)]
pub(super) struct Addresses {
    dialers: Vec<Dialer>,
    /// Which of them was found to be the master last.
    master: watch::Sender<Option<usize>>,
}

/// What a master says of the history of its data.
#[derive(Clone, Debug, Default)]
pub(super) struct Claim {
    /// `master_replid`: a fresh one at each promotion.
    pub(super) history: String,
    /// `master_replid2`: the history that it went on with when it was promoted.
    pub(super) continues: String,
}

impl Addresses {
    /// At least one.
    pub(super) fn new(dialers: Vec<Dialer>) -> Self {
        Self { dialers, master: watch::Sender::new(None) }
    }

    /// All addresses, for people.
    pub(super) fn label(&self) -> String {
        let labels: Vec<_> = self.dialers.iter().map(|dialer| dialer.target.label()).collect();
        labels.join(",")
    }

    /// Whether another address may be the master next.
    pub(super) fn several(&self) -> bool {
        self.dialers.len() > 1
    }

    /// How to reach the master, as far as is known.
    pub(super) fn current(&self) -> (usize, &Dialer) {
        let at = self.master.borrow().unwrap_or(0);
        (at, &self.dialers[at])
    }

    /// Whether the master was found elsewhere since a connection to `at` was made.
    pub(super) fn moved(&self, at: usize) -> bool {
        self.several() && self.master.borrow().is_some_and(|master| master != at)
    }

    /// Until [`Addresses::moved`].
    pub(super) async fn awaits_move(&self, at: usize) {
        let gone = |master: &Option<usize>| master.is_some_and(|master| master != at);
        // The sender lives as long as we do.
        let _ = self.master.subscribe().wait_for(gone).await;
    }

    /// A connection to the master, on which the scripts are loaded.
    pub(super) async fn open(&self) -> Result<(Box<dyn Stream>, Greeted), NodeProblem> {
        if let [only] = &self.dialers[..] {
            return only.open().await;
        }
        let mut found = self.masters().await?;
        let claims: Vec<_> = found.iter().map(|(at, _, greeted)| (*at, &greeted.claim)).collect();
        let last = *self.master.borrow();
        let best = choose(&claims, last);
        if claims.len() > 1 {
            let others = claims.iter().map(|(at, _)| self.dialers[*at].target.label());
            let masters = others.collect::<Vec<_>>().join(", ");
            let taken = self.dialers[claims[best].0].target.label();
            tracing::warn!(%masters, %taken, "several servers say that they are the master");
        }
        let (at, stream, greeted) = found.swap_remove(best);
        if let Some(last) = last.filter(|last| *last != at) {
            let (from, to) = (self.dialers[last].target.label(), self.dialers[at].target.label());
            tracing::warn!(%from, %to, "another server is the master now: what was not copied is lost");
        }
        self.master.send_if_modified(|master| master.replace(at) != Some(at));
        Ok((stream, Greeted { at, ..greeted }))
    }

    /// All that say that they are the master, at least one. Nobody waits for a hung server any
    /// longer than a little, once another has said so.
    async fn masters(&self) -> Result<Vec<(usize, Box<dyn Stream>, Greeted)>, NodeProblem> {
        let mut asked: FuturesUnordered<_> = self
            .dialers
            .iter()
            .enumerate()
            .map(|(at, dialer)| async move { (at, dialer.open().await) })
            .collect();
        let mut found = Vec::new();
        let mut others = Vec::new();
        let mut grace: Option<Pin<Box<Sleep>>> = None;
        loop {
            let over = async {
                match &mut grace {
                    Some(grace) => grace.await,
                    None => pending().await,
                }
            };
            let answer = tokio::select! {
                answer = asked.next() => answer,
                () = over => None,
            };
            match answer {
                Some((at, Ok((stream, greeted)))) => {
                    found.push((at, stream, greeted));
                    let patience = self.dialers[at].connect_timeout / 10;
                    grace.get_or_insert_with(|| Box::pin(tokio::time::sleep(patience)));
                }
                Some((at, Err(problem))) => {
                    others.push(NodeReport::new(self.dialers[at].target.label(), problem));
                }
                None if found.is_empty() => return Err(NodeProblem::NoMaster(others)),
                None => return Ok(found),
            }
        }
    }
}

/// Of those that say that they are the master: not one that another was promoted over, if the one
/// we were on last is left then that one, else the first in the order of the addresses.
fn choose(claims: &[(usize, &Claim)], last: Option<usize>) -> usize {
    let superseded = |claim: &Claim| {
        claims
            .iter()
            .any(|(_, other)| !claim.history.is_empty() && other.continues == claim.history)
    };
    let rank = |(at, claim): &(usize, &Claim)| (superseded(claim), Some(*at) != last, *at);
    (0..claims.len()).min_by_key(|i| rank(&claims[*i])).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(history: &str, continues: &str) -> Claim {
        Claim { history: history.into(), continues: continues.into() }
    }

    #[test]
    fn a_promoted_server_goes_before_the_one_it_was_promoted_over() {
        let (old, new) = (claim("a", "0"), claim("b", "a"));
        for last in [None, Some(0), Some(1)] {
            assert_eq!(choose(&[(0, &old), (1, &new)], last), 1, "{last:?}");
            assert_eq!(choose(&[(1, &new), (0, &old)], last), 0, "{last:?}: whoever answers first");
        }
    }

    #[test]
    fn strangers_keep_us_where_we_were_or_else_the_first_address_is_taken() {
        let (one, other) = (claim("a", "0"), claim("b", "0"));
        assert_eq!(choose(&[(2, &one), (1, &other)], Some(2)), 0);
        assert_eq!(choose(&[(2, &one), (1, &other)], Some(0)), 1);
        assert_eq!(choose(&[(2, &one), (1, &other)], None), 1);
        let silent = Claim::default();
        assert_eq!(choose(&[(1, &silent), (0, &silent)], None), 1, "no history is no promotion");
    }
}
