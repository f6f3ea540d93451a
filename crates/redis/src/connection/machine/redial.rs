use std::time::Duration;

use super::session::How;

/// When a client dials again after a connection ended or could not be made.
#[derive(Debug)]
pub(crate) struct Redial {
    backoff: Duration,
}

/// What the driver waits for before it dials again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pause {
    /// Nothing.
    None,
    For(Duration),
    /// As [`Pause::For`], or until a request or an unconfirmed release needs the connection.
    UntilWanted(Duration),
}

const MIN_BACKOFF: Duration = Duration::from_millis(20);
const MAX_BACKOFF: Duration = Duration::from_secs(1);
/// How long the driver waits at most before it redials a connection that broke while idle. It
/// redials before the next request, most often, so that it notices a server that lost its memory;
/// but not at once, so as not to keep a server busy that has an idle limit of seconds.
const IDLE_PAUSE: Duration = Duration::from_secs(2);

impl Redial {
    pub(crate) fn new() -> Self {
        Self { backoff: MIN_BACKOFF }
    }

    /// A connection ended. `share` is the random share of the longest pause, so that the clients of
    /// a restarted server do not return at once.
    pub(crate) fn ended(&mut self, how: How, share: f64) -> Pause {
        match how {
            How::Useful | How::Ours => {
                self.backoff = MIN_BACKOFF;
                Pause::None
            }
            How::Idle => Pause::UntilWanted(IDLE_PAUSE.mul_f64(share)),
            // A repeated request may break the next connection, too.
            How::Unanswered => Pause::For(self.refused(share)),
        }
    }

    /// No connection could be made. Returns for how long the client waits.
    pub(crate) fn refused(&mut self, share: f64) -> Duration {
        let pause = self.backoff.mul_f64(share);
        self.backoff = (self.backoff * 2).min(MAX_BACKOFF);
        pause
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_backoff_doubles_up_to_a_second_until_a_connection_was_useful() {
        let (mut redial, ms) = (Redial::new(), Duration::from_millis);
        let pauses = [20, 40, 80, 160, 320, 640, 1_000, 1_000];
        for pause in pauses {
            assert_eq!(redial.refused(1.0), ms(pause));
        }
        assert_eq!(redial.ended(How::Idle, 0.5), Pause::UntilWanted(ms(1_000)));
        assert_eq!(redial.ended(How::Unanswered, 0.5), Pause::For(ms(500)));
        assert_eq!(redial.ended(How::Useful, 1.0), Pause::None);
        assert_eq!(redial.ended(How::Unanswered, 1.0), Pause::For(ms(20)));
    }
}
