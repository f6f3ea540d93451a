use std::time::Duration;

use humantime::format_duration;
use quorumlock::LossReason;
use quorumlock_command::Failure;

/// When a command whose lock cannot be kept gets SIGTERM, and when SIGKILL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Plan {
    /// From SIGTERM to SIGKILL.
    pub(super) grace: Duration,
    /// From SIGKILL to the end of the window: time for quorumlock to be scheduled, and for the
    /// signal to act.
    margin: Duration,
    hold_at_most: Option<Duration>,
}

/// The shortest lease, and the shortest hold. It leaves 5 ms from SIGKILL to its end, and 25 ms for
/// a renewal before SIGTERM. With less, a healthy lock would be given up at once.
const SHORTEST: Duration = Duration::from_millis(100);

impl Plan {
    /// The window is the rest of the lease, or of the longest hold if that is shorter. While
    /// renewals succeed it varies between the whole lease and, before each renewal, two thirds of
    /// it. The grace time must fit into these two thirds, or a healthy lock would be given up; at
    /// most half of the window leaves the rest for a slow renewal.
    pub(super) fn new(
        lease: Duration,
        hold_at_most: Option<Duration>,
        grace: Option<Duration>,
    ) -> Result<Self, Failure> {
        let (what, window) = match hold_at_most {
            Some(limit) if limit < lease => ("--hold-at-most", limit),
            _ => ("--lease", lease),
        };
        if window < SHORTEST {
            return Err(Failure::usage(format!(
                "{what} {} is too short for a command that is to be stopped before the lock ends. \
                 Use {} at least",
                format_duration(window),
                format_duration(SHORTEST),
            )));
        }
        let longest = window / 2;
        let grace = grace.unwrap_or(window / 3);
        if grace > longest {
            return Err(Failure::usage(format!(
                "--grace {} does not fit into {what} {}: the command must be dead before somebody \
                 else can get the lock. Use a grace time of {} at most, or a longer {what}",
                format_duration(grace),
                format_duration(window),
                format_duration(longest),
            )));
        }
        Ok(Self { grace, margin: (window / 20).min(Duration::from_secs(1)), hold_at_most })
    }

    /// Fails if the lock may not be held for so long.
    pub(super) fn check_hold_at_least(&self, time: Duration) -> Result<(), Failure> {
        match self.hold_at_most {
            Some(limit) if limit < time => Err(Failure::usage(format!(
                "--hold-at-least {} is longer than --hold-at-most {limit}. Use {limit} at most, or a \
                 longer --hold-at-most",
                format_duration(time),
                limit = format_duration(limit),
            ))),
            _ => Ok(()),
        }
    }

    /// Why the command is stopped while the lock is still held: the reason for which the lock will
    /// end.
    pub(super) fn reason(&self, ahead: LossReason) -> String {
        match (ahead, self.hold_at_most) {
            (LossReason::HoldLimit, Some(limit)) => {
                format!("--hold-at-most {} is over soon", format_duration(limit))
            }
            _ => "the lock could not be renewed (see quorumlock doctor)".to_owned(),
        }
    }

    /// SIGTERM is sent when no more than this is left of the window.
    pub(super) fn terminate_at(&self) -> Duration {
        self.grace + self.margin
    }

    /// SIGKILL is sent when no more than this is left of the window.
    pub(super) fn kill_at(&self) -> Duration {
        self.margin
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn a_healthy_lease_never_falls_to_the_first_threshold() {
        for lease in [ms(100), ms(1_000), ms(30_000), ms(3_600_000)] {
            let plan = Plan::new(lease, None, Some(lease / 2)).unwrap();
            let before_renewal = lease * 2 / 3 - lease / 100 - ms(2);
            assert!(plan.terminate_at() < before_renewal, "{lease:?}");
            assert!(plan.kill_at() > Duration::ZERO, "{lease:?}");
        }
    }

    #[test]
    fn a_lease_or_a_hold_that_is_too_short_is_refused_by_name_and_bound() {
        let refused = |lease, hold| Plan::new(lease, hold, None).unwrap_err().message;
        assert!(refused(ms(99), None).contains("--lease 99ms"));
        assert!(refused(ms(99), None).contains("100ms at least"));
        assert!(refused(ms(30_000), Some(ms(5))).contains("--hold-at-most 5ms"));
        assert!(Plan::new(ms(100), Some(ms(100)), None).is_ok());
    }

    #[test]
    fn the_reason_names_what_ends_the_lock() {
        let plan = Plan::new(ms(1_000), Some(ms(2_000)), None).unwrap();
        assert_eq!(plan.reason(LossReason::HoldLimit), "--hold-at-most 2s is over soon");
        assert!(plan.reason(LossReason::WindowShut).contains("could not be renewed"));
    }

    #[test]
    fn the_grace_time_is_a_third_unless_given() {
        assert_eq!(Plan::new(ms(30_000), None, None).unwrap().grace, ms(10_000));
        assert_eq!(Plan::new(ms(30_000), Some(ms(3_000)), None).unwrap().grace, ms(1_000));
        assert_eq!(Plan::new(ms(30_000), Some(ms(60_000)), None).unwrap().grace, ms(10_000));
        assert_eq!(Plan::new(ms(30_000), None, Some(ms(0))).unwrap().grace, ms(0));
    }

    #[test]
    fn a_hold_is_at_least_as_long_as_it_is_at_most_or_shorter() {
        let check = |most, least| {
            let plan = Plan::new(ms(30_000), most, None).unwrap();
            plan.check_hold_at_least(ms(least)).map_err(|failure| failure.message)
        };
        assert_eq!(check(Some(ms(60_000)), 60_000), Ok(()));
        assert_eq!(check(None, 600_000), Ok(()));
        let refused = check(Some(ms(60_000)), 60_001).unwrap_err();
        assert!(refused.contains("--hold-at-least 1m 1ms"), "{refused}");
        assert!(refused.contains("--hold-at-most 1m."), "{refused}");
    }

    #[test]
    fn a_grace_time_that_does_not_fit_is_refused_by_name() {
        let refused = |hold, grace| Plan::new(ms(30_000), hold, Some(grace)).unwrap_err();
        let failure = refused(None, ms(30_000));
        assert_eq!(failure.code, quorumlock_command::exit::USAGE);
        assert!(failure.message.contains("--lease 30s"), "{}", failure.message);
        let failure = refused(Some(ms(10_000)), ms(6_000));
        assert!(failure.message.contains("--hold-at-most 10s"), "{}", failure.message);
    }
}
