//! Finds the master among several addresses: those of one server with replicas, which fails over.
//!
//! Best effort: what the old master had not copied is lost, whichever server the client chooses
//! (SAFETY.md H11, PROTOCOL.md REP4).

use std::future::pending;
use std::pin::Pin;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use tokio::sync::watch;
use tokio::time::Sleep;

use super::dial::Dialer;
use super::handshake::{HandshakeInfo, ReplicationIds};
use super::network::Network;
use super::stream::Stream;
use quorumlock_protocol::{NodeProblem, NodeReport};

/// The addresses of a node: one, or those of a master and its replicas.
#[derive(Debug)]
pub(super) struct MasterResolver {
    dialers: Vec<Dialer>,
    /// The index of the address that was last found to be the master.
    master: watch::Sender<Option<usize>>,
}

impl MasterResolver {
    /// `dialers` must not be empty.
    pub(super) fn new(dialers: Vec<Dialer>) -> Self {
        Self { dialers, master: watch::Sender::new(None) }
    }

    /// All addresses, for people.
    pub(super) fn label(&self) -> String {
        let labels: Vec<_> = self.dialers.iter().map(|dialer| dialer.target.label()).collect();
        labels.join(",")
    }

    /// Where the connections come from.
    pub(super) fn network(&self) -> &Network {
        &self.dialers[0].network
    }

    /// Whether another address may be the master next.
    pub(super) fn several(&self) -> bool {
        self.dialers.len() > 1
    }

    /// The address last found to be the master, or else the first one.
    pub(super) fn current(&self) -> (usize, &Dialer) {
        let at = self.master.borrow().unwrap_or(0);
        (at, &self.dialers[at])
    }

    /// Whether the master was last found at an address other than `at`.
    pub(super) fn moved(&self, at: usize) -> bool {
        self.several() && self.master.borrow().is_some_and(|master| master != at)
    }

    /// Waits until the master is found at an address other than `at`.
    pub(super) async fn awaits_move(&self, at: usize) {
        let gone = |master: &Option<usize>| master.is_some_and(|master| master != at);
        // This cannot fail: `self` owns the sender.
        let _ = self.master.subscribe().wait_for(gone).await;
    }

    /// Connects to the master and completes the handshake.
    pub(super) async fn open(&self) -> Result<(Box<dyn Stream>, HandshakeInfo), NodeProblem> {
        if let [only] = &self.dialers[..] {
            return only.open().await;
        }
        let mut found = self.masters().await?;
        let claims: Vec<_> =
            found.iter().map(|(at, _, greeted)| (*at, &greeted.replication_ids)).collect();
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
        Ok((stream, HandshakeInfo { at, ..greeted }))
    }

    /// All servers that say that they are the master, at least one. Once one has said so, the
    /// others have a tenth of the connect timeout to answer.
    async fn masters(&self) -> Result<Vec<(usize, Box<dyn Stream>, HandshakeInfo)>, NodeProblem> {
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
                biased;
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

/// Chooses among the servers that say that they are the master. It avoids one that another was
/// promoted over; of the rest it takes the one used last, else the first in the order of the
/// addresses. Returns an index into `claims`.
fn choose(claims: &[(usize, &ReplicationIds)], last: Option<usize>) -> usize {
    let superseded = |claim: &ReplicationIds| {
        claims
            .iter()
            .any(|(_, other)| !claim.history.is_empty() && other.continues == claim.history)
    };
    let rank = |(at, claim): &(usize, &ReplicationIds)| (superseded(claim), Some(*at) != last, *at);
    (0..claims.len()).min_by_key(|i| rank(&claims[*i])).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(history: &str, continues: &str) -> ReplicationIds {
        ReplicationIds { history: history.into(), continues: continues.into() }
    }

    #[test]
    fn a_promoted_server_goes_before_the_one_it_was_promoted_over() {
        let (old, new) = (ids("a", "0"), ids("b", "a"));
        for last in [None, Some(0), Some(1)] {
            assert_eq!(choose(&[(0, &old), (1, &new)], last), 1, "{last:?}");
            assert_eq!(choose(&[(1, &new), (0, &old)], last), 0, "{last:?}: whoever answers first");
        }
    }

    #[test]
    fn strangers_keep_us_where_we_were_or_else_the_first_address_is_taken() {
        let (one, other) = (ids("a", "0"), ids("b", "0"));
        assert_eq!(choose(&[(2, &one), (1, &other)], Some(2)), 0);
        assert_eq!(choose(&[(2, &one), (1, &other)], Some(0)), 1);
        assert_eq!(choose(&[(2, &one), (1, &other)], None), 1);
        let silent = ReplicationIds::default();
        assert_eq!(choose(&[(1, &silent), (0, &silent)], None), 1, "no history is no promotion");
    }
}
