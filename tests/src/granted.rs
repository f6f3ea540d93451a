use quorumlock::{Error, Guard, Locker};

use crate::eventually;

/// Tries until the lock is granted: the connections have to notice a failover first.
///
/// # Panics
/// If the call is wrong, or the lock is not granted in time.
pub async fn granted(locker: &Locker, name: &str) -> Guard {
    eventually("granted", async || match locker.try_lock(name).await {
        Ok(guard) => guard,
        Err(Error::Refused(_) | Error::Unreachable(_)) => None,
        Err(error) => panic!("{error}"),
    })
    .await
}
