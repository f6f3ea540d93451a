use std::sync::Arc;
use std::time::Duration;

use quorumlock_protocol::answers::decide;
use quorumlock_protocol::{
    BoxFuture, Error, Lane, ListPosition, ListStep, Node, NodeProblem, NodeReport, ReplyFuture,
};
use quorumlock_watchdog::Clock;

use crate::deadline::answer_deadline;

/// Asks one node for one step of a listing.
pub fn list_step<N: Node>(
    node: &Arc<N>,
    at: ListPosition,
    clock: &Clock,
    within: Duration,
) -> BoxFuture<Result<ListStep, Error>> {
    let (slot, to) = ReplyFuture::new();
    node.list(at, to);
    let (node, clock) = (node.clone(), clock.clone());
    Box::pin(async move {
        let connected = || node.connected_since(Lane::Caller);
        let answer = answer_deadline(within, &clock, connected, slot).await;
        let late = |_| NodeReport::new(node.label(), NodeProblem::NoAnswer(within));
        let mut steps = decide(None, 1, vec![answer], late)?;
        Ok(steps.pop().unwrap_or_default())
    })
}
