//! A node that is asked without a locker.

use quorumlock::Wire;
use quorumlock_core::admission::Charter;
use quorumlock_core::{Answer, RedisNode, ReplyTo, Settings, Slot, World, redis_nodes};
use quorumlock_tests::within;

use crate::Node;

pub(crate) fn one_node(server: &Node, wire: Wire, charter: Option<&Charter>) -> RedisNode {
    let (url, settings) = (server.server[0].url(), Settings::default());
    let nodes = redis_nodes(&[url], wire, charter, &settings, &World::default().clock);
    nodes.expect("a good URL").pop().expect("one")
}

pub(crate) async fn ask<T: Send + 'static>(request: impl FnOnce(ReplyTo<Answer<T>>)) -> Answer<T> {
    let (slot, to) = Slot::new();
    request(to);
    within("an answer", slot).await
}
