use std::future::Future;
use std::time::Duration;

use quorumlock_protocol::{Instant, NodeProblem};
use quorumlock_watchdog::Clock;

/// How far connecting has come. Each step has the connect timeout for itself, and all steps together
/// have [`WHOLE`] of it: a far server is connected, and one that sends a byte now and then is not.
pub(super) struct Progress {
    clock: Clock,
    timeout: Duration,
    /// When all steps must be over.
    end: Instant,
    /// The time that the longest step took.
    slowest: Duration,
}

/// What a step waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// The addresses of a name.
    Name,
    /// A connection.
    Connect,
    /// The TLS handshake.
    Tls,
    /// The next bytes of replies, or room for those of commands.
    Reply,
}

/// How many connect timeouts all steps may take together: TCP, TLS, two trips, and scripts that a slow
/// link takes piece by piece.
const WHOLE: u32 = 5;

/// The most round trips of one step: those of TLS 1.2.
const TRIPS: u32 = 2;

impl Progress {
    pub(super) fn new(clock: &Clock, timeout: Duration) -> Self {
        let end = clock.now() + timeout * WHOLE;
        Self { clock: clock.clone(), timeout, end, slowest: Duration::ZERO }
    }

    /// Takes one step, within what is left for it.
    pub(super) async fn step<T>(
        &mut self,
        what: Step,
        step: impl Future<Output = T>,
    ) -> Result<T, NodeProblem> {
        let begun = self.clock.now();
        let left = self.end.since(begun);
        match tokio::time::timeout(self.timeout.min(left), step).await {
            Ok(done) => {
                self.slowest = self.slowest.max(self.clock.now().since(begun));
                Ok(done)
            }
            Err(_) => Err(stopped(what, self.timeout, left, self.slowest)),
        }
    }
}

/// Why a step took too long: the link, if a step before it shows that, or all steps together.
fn stopped(what: Step, timeout: Duration, left: Duration, slowest: Duration) -> NodeProblem {
    let whole = left < timeout;
    if whole || slowest * TRIPS >= timeout {
        let within = if whole { timeout * WHOLE } else { timeout };
        return NodeProblem::SlowLink { within, step: slowest };
    }
    NodeProblem::NotConnected(match what {
        Step::Name => format!("no name server answered within {timeout:?}"),
        // A plain-text server waits for the end of a line, and never answers a TLS handshake.
        Step::Tls => format!(
            "no TLS within {timeout:?}; if it speaks plain text, its URL begins with redis://"
        ),
        Step::Connect | Step::Reply => {
            format!("not within {timeout:?}; a slower link needs a longer connect_timeout")
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn a_step_that_stops_is_the_link_only_if_an_earlier_one_shows_that() {
        let after = |slowest| stopped(Step::Reply, SECOND, SECOND, slowest);
        for fast in [0, 499] {
            let NodeProblem::NotConnected(why) = after(ms(fast)) else { panic!("{fast}") };
            assert!(why.contains("within 1s") && why.contains("connect_timeout"), "{why}");
        }
        let slow = NodeProblem::SlowLink { within: SECOND, step: ms(500) };
        assert_eq!(after(ms(500)), slow);
    }

    #[test]
    fn all_steps_together_have_a_limit_too() {
        let slow = NodeProblem::SlowLink { within: 5 * SECOND, step: ms(300) };
        assert_eq!(stopped(Step::Reply, SECOND, ms(999), ms(300)), slow);
    }

    #[tokio::test(start_paused = true)]
    async fn steps_that_make_progress_do_not_share_the_timeout() {
        let clock = Clock::manual();
        let mut progress = Progress::new(&clock, SECOND);
        let step = || async {
            tokio::time::sleep(ms(900)).await;
            clock.advance(ms(900));
        };
        for _ in 0..5 {
            progress.step(Step::Reply, step()).await.expect("in time");
        }
        let slow = NodeProblem::SlowLink { within: 5 * SECOND, step: ms(900) };
        assert_eq!(progress.step(Step::Reply, step()).await, Err(slow));
    }
}
