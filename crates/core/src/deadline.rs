//! Bounds the wait for an answer. The answer timeout does not include the time to connect.

use std::pin::pin;
use std::time::Duration;

use quorumlock_protocol::Instant;
use quorumlock_watchdog::Clock;

/// Waits for `answer`, at most for `within` from the moment when its request could be sent; `None`
/// if the answer does not come in time.
///
/// `connected` returns since when requests can be sent, or `None` while they wait for a connection.
/// That wait is bounded too: the connect timeout bounds dialling, and a request that gets no
/// connection is answered with a failure.
pub async fn answer_deadline<T>(
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
            // The connection opens now at the earliest.
            None => within,
            Some(since) => (since + within).since(clock.now()),
        };
    }
    None
}
