use std::path::PathBuf;

use quorumlock_testbed::servers::Source;

/// The server that `scripts/get-redis` has put into the user's cache, if there is one. It differs
/// from the server that all tests use, and is for tests that need what that one cannot do.
#[must_use]
pub fn second_server() -> Option<Source> {
    let var = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let cache = var("XDG_CACHE_HOME").or_else(|| Some(var("HOME")?.join(".cache")))?;
    let program = cache.join("quorumlock/redis/redis-server");
    program.is_file().then_some(Source::Binary(program))
}
