use std::sync::Arc;
use std::time::Duration;

use quorumlock_core::{Entropy, Single};
use quorumlock_protocol::admission::{AdmissionRpc, ClusterConfig};
use quorumlock_watchdog::Clock;

use crate::admission_task::AdmissionTask;

/// One node as a lessor that counts only while its memory is proven (SAFETY.md A3). All clients must
/// agree on `cluster`. `max_clock_drift` is the bound on the drift of the node's clock.
pub fn proven<N: AdmissionRpc>(
    node: N,
    clock: Clock,
    entropy: Entropy,
    answer_timeout: Duration,
    max_clock_drift: f64,
    cluster: ClusterConfig,
) -> Single<N> {
    let (node, times) = (Arc::new(node), (max_clock_drift, answer_timeout));
    let nodes = Arc::new([node.clone()]);
    let admission = AdmissionTask::new(nodes, cluster, clock.clone(), entropy, times);
    Single::new(node, clock, answer_timeout).with_admission(Arc::new(admission))
}
