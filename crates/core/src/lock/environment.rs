use quorumlock_watchdog::Clock;

use crate::Entropy;

/// The clock, the source of randomness and the watchdog's runtime of a locker.
/// [`Environment::default`] is the real environment.
#[derive(Clone, Debug)]
pub struct Environment {
    /// The lease clock: decides whether a lease is valid.
    pub clock: Clock,
    /// The source of nonces and jitter.
    pub entropy: Entropy,
    /// Runs the watchdog as a task on the runtime in which the locker is made, instead of on its
    /// own thread. For simulations: a blocked runtime then loses locks.
    pub watchdog_on_this_runtime: bool,
}

impl Default for Environment {
    fn default() -> Self {
        Self { clock: Clock::system(), entropy: Entropy::system(), watchdog_on_this_runtime: false }
    }
}
