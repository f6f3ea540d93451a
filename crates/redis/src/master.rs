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
use super::shown::Shown;
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
pub(super) type Opened = (Arc<Dialer>, Box<dyn Stream>, HandshakeInfo);

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
                // The sentinels know better than the past which server is the master, and a server
                // without a proven memory gives no reason to stay.
                was_master: !by_sentinels
                    && greeted.server.unproven.is_none()
                    && last.as_deref().is_some_and(|m| same(m, dialer)),
                ids: &greeted.replication_ids,
            })
            .collect();
        let Some(best) = choose(&claims, by_sentinels && !disputed) else {
            let masters = labels(found.iter().map(|(dialer, ..)| dialer));
            return Err(match by_sentinels {
                true => NodeProblem::SentinelsDisagree(masters),
                false => NodeProblem::MastersDisagree(masters),
            });
        };
        if claims.len() > 1 {
            let masters = labels(found.iter().map(|(dialer, ..)| dialer));
            let taken = found[best].0.target.label();
            tracing::warn!(%masters, %taken, "several servers say that they are the master");
        }
        let opened = found.swap_remove(best);
        self.found(&opened.0, last.as_deref());
        Ok(opened)
    }

    /// Fails if another address of the node may have its locks: it has another replication history, and
    /// is a master or, if the node is `new`, has the record of a cluster (PROTOCOL.md REP4).
    pub(super) async fn stands_alone(&self, new: bool) -> Result<(), NodeProblem> {
        let dialers = match &self.addresses {
            Addresses::Listed(dialers) if dialers.len() > 1 => dialers.clone(),
            Addresses::Sentinels(sentinels) => sentinels.discover().await?.dialers,
            Addresses::Listed(_) | Addresses::AnyOf(_) => return Ok(()),
        };
        let asked = dialers.iter().map(|dialer| async move {
            let shown = Shown::by(dialer).await;
            let report = |problem| NodeReport::new(dialer.target.label(), problem);
            shown.map(|shown| (dialer, shown)).map_err(report)
        });
        let (shown, _) = ask_all(asked, self.options.connect_timeout / 10).await;
        let master = self.master.borrow().clone();
        let ours = shown.iter().find(|(at, _)| master.as_deref().is_some_and(|m| same(m, at)));
        let Some((at, ours)) = ours else {
            return Err(NodeProblem::NotAsked("its master does not answer".into()));
        };
        let rivals = shown.iter().filter(|(_, other)| other.rivals(ours, new)).map(|(at, _)| *at);
        let rivals: Vec<_> = rivals.collect();
        match rivals.is_empty() {
            true => Ok(()),
            false => Err(NodeProblem::MastersDisagree(labels([*at].into_iter().chain(rivals)))),
        }
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

/// Chooses among the servers that say that they are the master, and over which no other was promoted:
/// the only one, else the one used last, else the first address if `in_order`. Returns an index into
/// `claims`; `None` if unrelated servers are left.
fn choose(claims: &[Claim<'_>], in_order: bool) -> Option<usize> {
    let left: Vec<_> = (0..claims.len()).filter(|i| !superseded(&claims[*i], claims)).collect();
    match &left[..] {
        [only] => Some(*only),
        _ if in_order => left.into_iter().min_by_key(|i| claims[*i].at),
        _ => left.into_iter().find(|i| claims[*i].was_master),
    }
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
    fn chosen(claims: &[(usize, &ReplicationIds)], last: Option<usize>) -> Option<usize> {
        let claim = |&(at, ids)| Claim { at, was_master: last == Some(at), ids };
        choose(&claims.iter().map(claim).collect::<Vec<_>>(), false)
    }

    #[test]
    fn a_promoted_server_goes_before_the_one_it_was_promoted_over() {
        let (old, new) = (ids("a", "0"), ids("b", "a"));
        for last in [None, Some(0), Some(1)] {
            assert_eq!(chosen(&[(0, &old), (1, &new)], last), Some(1), "{last:?}");
            let swapped = chosen(&[(1, &new), (0, &old)], last);
            assert_eq!(swapped, Some(0), "{last:?}: in another order of the answers");
        }
    }

    #[test]
    fn of_strangers_only_the_one_used_last_is_taken_unless_sentinels_name_one() {
        let (one, other) = (ids("a", "0"), ids("b", "0"));
        assert_eq!(chosen(&[(2, &one), (1, &other)], Some(2)), Some(0));
        assert_eq!(chosen(&[(2, &one), (1, &other)], Some(0)), None);
        assert_eq!(chosen(&[(2, &one), (1, &other)], None), None);
        let silent = ReplicationIds::default();
        assert_eq!(chosen(&[(1, &silent), (0, &silent)], None), None, "no history is no promotion");
        let claims = [(2, &one), (1, &other)];
        let claims = claims.map(|(at, ids)| Claim { at, was_master: false, ids });
        assert_eq!(choose(&claims, true), Some(1), "the sentinels name the first one");
    }
}
