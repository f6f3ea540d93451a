//! What was posted to nodes has been carried out.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use quorumlock_protocol::{Answer, Instant, Lane, Node};

use crate::gather::Gather;

/// Waits until `nodes`, which have greeted this process, have carried out the releases that were posted to
/// them on the callers' lane, for the answer timeout `within` at most. The process may end once its call has
/// failed: what is held there would stay for a lease.
pub(crate) async fn released<N: Node>(nodes: Vec<Arc<N>>, within: Duration) {
    let drained = nodes.into_iter().map(|node| drained(node, Lane::Caller, Duration::ZERO));
    let _ = tokio::time::timeout(within, join_all(drained)).await;
}

/// Waits until the node has answered what has been posted on this lane. A node that has never greeted this
/// process is waited for only so long: nothing of the process is there.
pub(crate) fn drained<N: Node>(
    node: Arc<N>,
    lane: Lane,
    for_greeting: Duration,
) -> impl Future<Output = ()> {
    let answered = answers(&*node, lane);
    async move {
        let mut answered = pin!(async {
            answered.await;
            if lane == Lane::Caller {
                // The release of a late grant is posted when the grant is heard of.
                answers(&*node, lane).await;
            }
        });
        if node.greeted() {
            return answered.await;
        }
        let late = tokio::time::timeout(for_greeting, &mut answered).await.is_err();
        if late && node.greeted() {
            answered.await;
        }
    }
}

/// Requests of a lane are answered in order: an empty renewal is answered last.
fn answers<N: Node>(node: &N, lane: Lane) -> impl Future<Output = ()> + use<N> {
    let gather = Gather::new(1, |_| false, |_, _: &Vec<Answer<Instant>>| {});
    node.renew(&[], lane, gather.reply_to(0));
    async move { gather.decided().await }
}
