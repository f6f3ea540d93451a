use std::time::Duration;

use quorumlock::{Builder, Layout};

/// A builder of lockers for tests. With `QUORUMLOCK_TEST_SCRIPTS_ONLY=1` its lockers acquire every
/// lock by script.
pub fn builder() -> Builder {
    Builder::without_servers().scripts_only(scripts_only())
}

/// Whether lockers of tests acquire every lock by script.
#[must_use]
pub fn scripts_only() -> bool {
    std::env::var_os("QUORUMLOCK_TEST_SCRIPTS_ONLY").is_some_and(|value| value == "1")
}

/// A builder with timeouts so long that a slow node does not look dead on a loaded machine. A
/// locker that waits for a dead or hung node becomes visibly slow with them.
pub(crate) fn patient_builder(layout: Layout) -> Builder {
    let timeout = Duration::from_secs(5);
    let builder = builder().layout(layout);
    builder.answer_timeout(timeout).connect_timeout(timeout)
}
