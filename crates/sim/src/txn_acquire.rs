//! The fast path: an acquisition without a script, as `plain.rs` of the core sends it.

use quorumlock_protocol::Name;
use quorumlock_protocol::admission::ClusterConfig;

use super::request::SimRequest;
use super::sometimes::Sometimes;
use super::store::{AcquireArgs, AcquireReply, Held, Store};
use super::time::{MS, Micros, millis};

/// Whether the request goes by transaction. The node then carries it out whether or not its memory
/// is proven, and the client discards the answer of an unproven node.
pub fn is_txn(request: &SimRequest, cluster: Option<&ClusterConfig>, bound: bool) -> bool {
    let SimRequest::Acquire(lease, _, _, hints) = request else { return false };
    let may = cluster.is_none_or(|cluster| bound && millis(lease.ttl) <= cluster.longest_ms());
    may && hints.may_skip_script()
}

pub fn seen(unproven: bool, taken: AcquireReply) -> Sometimes {
    match taken {
        _ if unproven => Sometimes::TxnUnproven,
        AcquireReply::Accepted => Sometimes::TxnGrant,
        AcquireReply::Behind(_) => Sometimes::TxnBehind,
        AcquireReply::Busy(_) => Sometimes::TxnRefused,
    }
}

impl Store {
    /// The mark moves even if the acquisition is refused.
    pub fn acquire_by_txn(&mut self, name: &Name, take: &AcquireArgs, now: Micros) -> AcquireReply {
        let accepted = self.accept(name, take.token);
        if self.held(name, now).is_some() {
            return AcquireReply::Busy(None);
        }
        let AcquireArgs { wire, by, holds, .. } = *take;
        self.put_lock(name, Held { wire, by, holds, until: now / MS + take.ttl_ms });
        // The transaction does not return the mark, so the reply names the proposed token.
        accepted.map_or(AcquireReply::Behind(take.token), |()| AcquireReply::Accepted)
    }
}
