//! A node that a test calls without a locker.

use quorumlock::{FencingToken, Layout};
use quorumlock_core::Environment;
use quorumlock_protocol::admission::ClusterConfig;
use quorumlock_protocol::{
    Answer, Hints, Incarnation, LeaseRequest, Node as _, ReplyFuture, Responder, Settings, Vote,
};
use quorumlock_redis::{RedisNode, redis_nodes};
use quorumlock_tests::within;

use crate::Node;

pub(crate) fn one_node(
    server: &Node,
    layout: Layout,
    cluster: Option<&ClusterConfig>,
) -> RedisNode {
    let (url, settings) = (server.server[0].url(), Settings::default());
    let nodes = redis_nodes(&[url], layout, cluster, &settings, &Environment::default().clock);
    nodes.expect("a good URL").pop().expect("one")
}

/// One acquisition at a node that proves nothing.
pub(crate) async fn acquire(
    node: &RedisNode,
    request: &LeaseRequest,
    token: FencingToken,
    hints: Hints,
) -> Answer<Vote> {
    ask(|to| node.acquire(request, token, Incarnation::NONE, hints, to)).await
}

pub(crate) async fn ask<T: Send + 'static>(
    request: impl FnOnce(Responder<Answer<T>>),
) -> Answer<T> {
    let (slot, to) = ReplyFuture::new();
    request(to);
    within("an answer", slot).await
}
