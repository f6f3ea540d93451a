//! Tests of code that takes locks, without a server.

use std::time::Duration;

use quorumlock::testing::MemoryServer;
use quorumlock::{Error, Locker, Servers};

/// The code under test: a report, unless somebody else is writing it.
async fn report(locker: &Locker) -> Result<bool, Error> {
    Ok(locker.try_lock("report").run(|_lock| async {}).await?.is_some())
}

#[tokio::test]
async fn one_report_at_a_time() -> Result<(), Error> {
    let servers = Servers::memory(&MemoryServer::new());
    let other = Locker::new(servers.clone())?.lock("report").await?; // another process
    let locker = Locker::new(servers)?;
    assert!(!report(&locker).await?);
    other.unlock().await?;
    assert!(report(&locker).await?);
    Ok(())
}

#[tokio::test]
async fn work_stops_when_the_lock_is_lost() -> Result<(), Error> {
    let server = MemoryServer::new();
    let locker = Locker::new(Servers::memory(&server))?;
    let guard = locker.lock("report").lease(Duration::from_millis(30)).await?;
    server.forget_locks(); // as a server that restarts without its data
    let work = guard.run(std::future::pending::<()>()).await;
    assert!(work.is_err(), "the work was dropped");
    Ok(())
}
