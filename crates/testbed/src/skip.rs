//! How a test reports that it did not run.

use std::io::Write as _;

/// Reports that a requirement of the test is missing. Panics if the variable `required_by` is `1`,
/// as in CI; otherwise prints on stderr that the test is skipped.
pub fn skip(required_by: &str, why: &str) {
    let required = std::env::var(required_by).is_ok_and(|value| value == "1");
    assert!(!required, "{required_by}=1, but: {why}");
    let test = std::thread::current();
    let why = why.lines().next().unwrap_or_default();
    // The test harness would capture `eprintln!` output when the test passes.
    let _ = writeln!(std::io::stderr(), "SKIPPED {}: {why}", test.name().unwrap_or("a test"));
}
