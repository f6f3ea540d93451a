use quorumlock::{Builder, Locker};

/// A builder of lockers for tests. With `QUORUMLOCK_TEST_SCRIPTS_ONLY=1` its lockers acquire every
/// lock by script.
pub fn builder() -> Builder {
    Locker::builder().scripts_only(scripts_only())
}

/// Whether lockers of tests acquire every lock by script.
#[must_use]
pub fn scripts_only() -> bool {
    std::env::var_os("QUORUMLOCK_TEST_SCRIPTS_ONLY").is_some_and(|value| value == "1")
}
