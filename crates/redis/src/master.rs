//! Finds the master among several addresses: those of one server with replicas, which fails over.
//!
//! Best effort: what the old master had not copied is lost, whichever server the client chooses
//! (SAFETY.md H11, PROTOCOL.md REP4).

use std::sync::Arc;

use tokio::sync::watch;

use super::ask_all::ask_all;
use super::dial::{DialOptions, Dialer};
use super::handshake::{HandshakeInfo, ReplicationIds};
use super::network::Network;
use super::redirect::{Endpoint, SlotRange};
use super::sentinels::Sentinels;
use super::stream::Stream;
use quorumlock_protocol::{NodeProblem, NodeReport};

/// Where a node is.
#[derive(Debug)]
pub(super) enum Addresses {
    /// One server, or a master and its replicas. Not empty.
    Listed(Vec<Arc<Dialer>>),
    /// A master and its replicas, at the addresses that sentinels name.
    Sentinels(Box<Sentinels>),
    /// Members of one Redis Cluster, of which any will do. Not empty.
    AnyOf(Vec<Arc<Dialer>>),
}

/// Finds the master of a node.
#[derive(Debug)]
pub(super) struct MasterResolver {
    addresses: Addresses,
    options: Arc<DialOptions>,
    /// The address that was last found to be the master.
    master: watch::Sender<Option<Arc<Dialer>>>,
}

/// A connection to a server that says that it is the master.
type Opened = (Arc<Dialer>, Box<dyn Stream>, HandshakeInfo);

impl MasterResolver {
    pub(super) fn new(addresses: Addresses, options: Arc<DialOptions>) -> Self {
        Self { addresses, options, master: watch::Sender::new(None) }
    }

    /// The first of the addresses that were given.
    pub(super) fn first(&self) -> Option<&Arc<Dialer>> {
        match &self.addresses {
            Addresses::Listed(dialers) | Addresses::AnyOf(dialers) => dialers.first(),
            Addresses::Sentinels(_) => None,
        }
    }

    /// All addresses, for people.
    pub(super) fn label(&self) -> String {
        match &self.addresses {
            Addresses::Listed(dialers) | Addresses::AnyOf(dialers) => labels(dialers.iter()),
            Addresses::Sentinels(sentinels) => sentinels.label().to_owned(),
        }
    }

    /// The URLs of all servers that sentinels name, or of all masters that a member of a Redis Cluster
    /// names, with users and passwords; `None` if the addresses were given, or no other is known.
    pub(super) async fn discovered_urls(&self) -> Result<Option<Vec<String>>, NodeProblem> {
        let dialers = match &self.addresses {
            Addresses::Listed(_) => return Ok(None),
            Addresses::Sentinels(sentinels) => sentinels.discover().await?.dialers,
            Addresses::AnyOf(dialers) => {
                let (found, others) = self.opened(dialers).await;
                let Some((member, _, greeted)) = found.first() else {
                    return Err(NodeProblem::NoClusterMember(others));
                };
                let master = |range: &SlotRange| {
                    let SlotRange { master: Endpoint { host, port }, .. } = range;
                    let host = host.as_deref().or_else(|| member.target.host()).unwrap_or_default();
                    Arc::new(member.at(host, *port))
                };
                greeted.slots.iter().flatten().map(master).collect()
            }
        };
        let mut urls: Vec<_> = dialers.iter().map(|dialer| dialer.target.url()).collect();
        urls.sort_unstable();
        urls.dedup();
        // No member of a new Redis Cluster serves a slot.
        Ok(Some(urls).filter(|urls| !urls.is_empty()))
    }

    /// Where the connections come from.
    pub(super) fn network(&self) -> &Network {
        &self.options.network
    }

    /// Whether another address may be the master next.
    pub(super) fn several(&self) -> bool {
        match &self.addresses {
            Addresses::Listed(dialers) => dialers.len() > 1,
            Addresses::Sentinels(_) => true,
            Addresses::AnyOf(_) => false,
        }
    }

    /// The address last found to be the master, or else the first one.
    pub(super) async fn current(&self) -> Result<Arc<Dialer>, NodeProblem> {
        if let Some(master) = &*self.master.borrow() {
            return Ok(master.clone());
        }
        match &self.addresses {
            Addresses::Listed(dialers) | Addresses::AnyOf(dialers) => Ok(dialers[0].clone()),
            Addresses::Sentinels(sentinels) => Ok(sentinels.discover().await?.dialers[0].clone()),
        }
    }

    /// Whether the master was last found at another address than `at`.
    pub(super) fn moved(&self, at: &Dialer) -> bool {
        self.several() && self.master.borrow().as_ref().is_some_and(|master| !same(master, at))
    }

    /// Waits until the master is found at another address than `at`.
    pub(super) async fn awaits_move(&self, at: &Dialer) {
        let gone = |master: &Option<Arc<Dialer>>| master.as_ref().is_some_and(|m| !same(m, at));
        // This cannot fail: `self` owns the sender.
        let _ = self.master.subscribe().wait_for(gone).await;
    }

    /// Connects to the master and completes the handshake.
    pub(super) async fn open(self: &Arc<Self>) -> Result<Opened, NodeProblem> {
        let (dialers, by_sentinels, disputed) = match &self.addresses {
            Addresses::Listed(dialers) | Addresses::AnyOf(dialers) if dialers.len() == 1 => {
                let (stream, greeted) = dialers[0].open().await?;
                return Ok((dialers[0].clone(), stream, greeted));
            }
            Addresses::Listed(dialers) => (dialers.clone(), false, false),
            Addresses::AnyOf(dialers) => {
                let (mut found, others) = self.opened(dialers).await;
                return match found.is_empty() {
                    true => Err(NodeProblem::NoClusterMember(others)),
                    false => Ok(found.swap_remove(0)),
                };
            }
            Addresses::Sentinels(sentinels) => {
                self.listen(sentinels);
                let discovered = sentinels.discover().await?;
                (discovered.dialers, true, discovered.disputed)
            }
        };
        let last = self.master.borrow().clone();
        let mut found = self.masters(&dialers).await?;
        let claims: Vec<_> = found
            .iter()
            .map(|(dialer, _, greeted)| Claim {
                at: dialers.iter().position(|each| same(each, dialer)).unwrap_or(usize::MAX),
                // The sentinels know better than the past which server is the master.
                was_master: !by_sentinels && last.as_deref().is_some_and(|m| same(m, dialer)),
                ids: &greeted.replication_ids,
            })
            .collect();
        let best = choose(&claims);
        if disputed && claims.iter().filter(|claim| !superseded(claim, &claims)).count() > 1 {
            return Err(NodeProblem::SentinelsDisagree(labels(found.iter().map(|(d, ..)| d))));
        }
        if claims.len() > 1 {
            let masters = labels(found.iter().map(|(dialer, ..)| dialer));
            let taken = found[best].0.target.label();
            tracing::warn!(%masters, %taken, "several servers say that they are the master");
        }
        let opened = found.swap_remove(best);
        self.found(&opened.0, last.as_deref());
        Ok(opened)
    }

    /// Remembers which address is the master.
    fn found(&self, master: &Arc<Dialer>, last: Option<&Dialer>) {
        if let Some(last) = last.filter(|last| !same(last, master)) {
            let (from, to) = (last.target.label(), master.target.label());
            tracing::warn!(%from, %to, "another server is the master now: what was not copied is lost");
        }
        self.master.send_if_modified(|known| {
            let moved = known.as_ref().is_none_or(|known| !same(known, master));
            if moved {
                *known = Some(master.clone());
            }
            moved
        });
    }

    /// Looks for the master as soon as a sentinel tells that it is elsewhere. A hint: the role is
    /// believed from the server itself.
    fn listen(self: &Arc<Self>, sentinels: &Sentinels) {
        let resolver = Arc::downgrade(self);
        sentinels.listen(move || {
            let resolver = resolver.upgrade();
            Box::pin(async move {
                if let Some(resolver) = resolver
                    && let Err(problem) = resolver.open().await
                {
                    tracing::debug!(node = %resolver.label(), %problem, "no master after a failover");
                }
            })
        });
    }

    /// All servers that say that they are the master, at least one.
    async fn masters(&self, dialers: &[Arc<Dialer>]) -> Result<Vec<Opened>, NodeProblem> {
        let (found, others) = self.opened(dialers).await;
        if found.is_empty() { Err(NodeProblem::NoMaster(others)) } else { Ok(found) }
    }

    /// Connections to the addresses, which are dialled at once, and the reports of those that fail.
    async fn opened(&self, dialers: &[Arc<Dialer>]) -> (Vec<Opened>, Vec<NodeReport>) {
        let asked = dialers.iter().map(|dialer| async move {
            match dialer.open().await {
                Ok((stream, greeted)) => Ok((dialer.clone(), stream, greeted)),
                Err(problem) => Err(NodeReport::new(dialer.target.label(), problem)),
            }
        });
        ask_all(asked, self.options.connect_timeout / 10).await
    }
}

/// A server that says that it is the master.
struct Claim<'a> {
    /// Its place in the order of the addresses.
    at: usize,
    /// Whether it was the master before, as far as this locker knows.
    was_master: bool,
    ids: &'a ReplicationIds,
}

/// Chooses among the servers that say that they are the master. It avoids one that another was
/// promoted over; of the rest it takes the one used last, else the first in the order of the
/// addresses. Returns an index into `claims`.
fn choose(claims: &[Claim<'_>]) -> usize {
    let rank = |claim: &Claim<'_>| (superseded(claim, claims), !claim.was_master, claim.at);
    (0..claims.len()).min_by_key(|i| rank(&claims[*i])).unwrap_or(0)
}

/// Whether another server was promoted over this one.
fn superseded(claim: &Claim<'_>, claims: &[Claim<'_>]) -> bool {
    let history = &claim.ids.history;
    !history.is_empty() && claims.iter().any(|other| other.ids.continues == *history)
}

fn same(one: &Dialer, other: &Dialer) -> bool {
    one.target.label() == other.target.label()
}

fn labels<'a>(dialers: impl Iterator<Item = &'a Arc<Dialer>>) -> String {
    dialers.map(|dialer| dialer.target.label()).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(history: &str, continues: &str) -> ReplicationIds {
        ReplicationIds { history: history.into(), continues: continues.into() }
    }

    /// Chooses among claims of (place, ids), where the master was at the place `last`.
    fn chosen(claims: &[(usize, &ReplicationIds)], last: Option<usize>) -> usize {
        let claim = |&(at, ids)| Claim { at, was_master: last == Some(at), ids };
        choose(&claims.iter().map(claim).collect::<Vec<_>>())
    }

    #[test]
    fn a_promoted_server_goes_before_the_one_it_was_promoted_over() {
        let (old, new) = (ids("a", "0"), ids("b", "a"));
        for last in [None, Some(0), Some(1)] {
            assert_eq!(chosen(&[(0, &old), (1, &new)], last), 1, "{last:?}");
            assert_eq!(chosen(&[(1, &new), (0, &old)], last), 0, "{last:?}: whoever answers first");
        }
    }

    #[test]
    fn strangers_keep_us_where_we_were_or_else_the_first_address_is_taken() {
        let (one, other) = (ids("a", "0"), ids("b", "0"));
        assert_eq!(chosen(&[(2, &one), (1, &other)], Some(2)), 0);
        assert_eq!(chosen(&[(2, &one), (1, &other)], Some(0)), 1);
        assert_eq!(chosen(&[(2, &one), (1, &other)], None), 1);
        let silent = ReplicationIds::default();
        assert_eq!(chosen(&[(1, &silent), (0, &silent)], None), 1, "no history is no promotion");
    }
}
