//! Locks on a cluster of etcd, behind the library's seam: the consensus that the lab and the benches
//! compare with.
//!
//! Not published: the library has one backend. A lock is a key that is attached to a lease of etcd. The
//! transaction that creates the key is the grant, and its revision is the fencing token. etcd counts
//! leases in whole seconds, on the monotonic clock of its leader. A lease is rounded up, so a waiter
//! may wait for up to a second longer than the lease of the holder.

mod client;
mod lease;
mod lessor;
mod watches;

use std::sync::Arc;
use std::time::Duration;

use quorumlock_core::{Environment, Locker};
use quorumlock_protocol::{Error, Settings};

use self::client::Client;
use self::lessor::EtcdLessor;
use crate::scenario::Locking;

/// A locker over the members of a cluster, at these URLs.
///
/// # Errors
/// If the settings contradict each other, or the system gives no thread.
pub fn locker(urls: &[String], settings: Settings) -> Result<Locker, Error> {
    let environment = Environment::default();
    let client = Client::new(urls, environment.clock.clone(), settings.answer_timeout);
    let lessor = EtcdLessor::new(client.map_err(system)?, settings.max_clock_drift);
    Ok(Locker::with_lessor(Arc::new(lessor), settings, environment)?)
}

/// A locker of a run of the lab.
pub(crate) fn locker_of(urls: &[String], locking: &Locking) -> Result<Locker, Error> {
    let mut settings = Settings::default();
    settings.lease = Duration::from_millis(locking.lease_ms);
    settings.max_lease = Duration::from_millis(locking.max_lease_ms);
    locker(urls, settings)
}

fn system(error: std::io::Error) -> Error {
    quorumlock_protocol::ConfigError::System { what: "a thread", why: error.to_string() }.into()
}
