//! How long an answer is waited for: connecting is not charged to the answer timeout.

use std::pin::pin;
use std::time::Duration;

use quorumlock_watchdog::{Clock, Instant};

/// The answer, or `None` if it does not come `within` that time of when its request could be sent.
///
/// `connected` says since when requests can be sent, or `None` while they wait for a connection.
/// Dialling is bounded by the connect timeout, and what cannot be connected is answered.
pub async fn answer_within<T>(
    within: Duration,
    clock: &Clock,
    connected: impl Fn() -> Option<Instant>,
    answer: impl Future<Output = T>,
) -> Option<T> {
    let mut answer = pin!(answer);
    let mut wait = within;
    while !wait.is_zero() {
        if let Ok(answer) = tokio::time::timeout(wait, &mut answer).await {
            return Some(answer);
        }
        wait = match connected() {
            // At the soonest it is connected now.
            None => within,
            Some(since) => (since + within).since(clock.now()),
        };
    }
    None
}
