//! Redisson's `RLock` as another program would implement it from the published facts alone.

use quorumlock_tests::Plain;

/// Acquires the lock or counts up; otherwise returns the remaining lease.
const TRY_LOCK: &str = "
    local mine = redis.call('hexists', KEYS[1], ARGV[2]) == 1
    if mine or redis.call('exists', KEYS[1]) == 0 then
        redis.call('hincrby', KEYS[1], ARGV[2], 1)
        redis.call('pexpire', KEYS[1], ARGV[1])
        return nil
    end
    return redis.call('pttl', KEYS[1])";

/// Counts down. The last hold deletes the key and publishes this on the channel.
const UNLOCK: &str = "
    if redis.call('hexists', KEYS[1], ARGV[3]) == 0 then
        return nil
    end
    if redis.call('hincrby', KEYS[1], ARGV[3], -1) > 0 then
        redis.call('pexpire', KEYS[1], ARGV[2])
        return 0
    end
    redis.call('del', KEYS[1])
    redis.call('publish', KEYS[2], ARGV[1])
    return 1";

/// One thread of a Java process.
pub(crate) struct ForeignClient {
    plain: Plain,
    pub(crate) id: String,
}

impl ForeignClient {
    pub(crate) fn new(plain: &Plain, thread: u32) -> Self {
        let id = format!("8743c9c0-0795-4907-87fd-6c719a6b4586:{thread}");
        Self { plain: plain.clone(), id }
    }

    /// `None`: acquired. Otherwise the remaining lease in milliseconds.
    pub(crate) async fn try_lock(&self, name: &str, lease_ms: u32) -> Option<i64> {
        self.plain.ask(&["EVAL", TRY_LOCK, "1", name, &lease_ms.to_string(), &self.id]).await
    }

    /// `None`: not held by this client. Otherwise whether that was the last hold.
    pub(crate) async fn unlock(&self, name: &str) -> Option<bool> {
        let channel = format!("redisson_lock__channel:{{{name}}}");
        self.plain.ask(&["EVAL", UNLOCK, "2", name, &channel, "0", "30000", &self.id]).await
    }
}
