//! The one way in which a test says that it did not run.

use std::io::Write as _;

/// A requirement is missing: panics if the variable `required_by` is `1`, as CI sets it, and
/// otherwise says on stderr that the test is skipped. Never silent.
pub(crate) fn skip(required_by: &str, why: &str) {
    let required = std::env::var(required_by).is_ok_and(|value| value == "1");
    assert!(!required, "{required_by}=1, but: {why}");
    let test = std::thread::current();
    let why = why.lines().next().unwrap_or_default();
    // Not eprintln!: the test harness swallows that when the test passes.
    let _ = writeln!(std::io::stderr(), "SKIPPED {}: {why}", test.name().unwrap_or("a test"));
}
