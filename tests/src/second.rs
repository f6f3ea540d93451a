use std::path::PathBuf;

use quorumlock_lab::servers::Source;

/// What `scripts/get-redis` has put into the user's cache, if it has: another server than the one
/// that all tests use, for what that one cannot do.
#[must_use]
pub fn second_server() -> Option<Source> {
    let var = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let cache = var("XDG_CACHE_HOME").or_else(|| Some(var("HOME")?.join(".cache")))?;
    let program = cache.join("quorumlock/redis/redis-server");
    program.is_file().then_some(Source::Binary(program))
}
