use std::future::Future;

use serde::{Deserialize, Serialize};

use super::details::Details;
use crate::history::{Op, Phase};
use crate::scenario::Work;
use crate::worker::broken_lock::Held;
use crate::worker::not_granted::NotGranted;

/// The client that tasks belong to: its lock, its resource, its clock and its record.
pub(crate) trait Client: Send + Sync + 'static {
    /// The connection of one task to the resource.
    type Access: Send;

    fn work(&self) -> &Work;

    /// The name of its lock, or what the names of its locks begin with.
    fn name(&self) -> &str;

    /// How many permits the name has; `None`: it is a lock.
    fn permits(&self) -> Option<u32>;

    /// The number of its first attempt.
    fn first_attempt(&self) -> u64 {
        0
    }

    /// The time on the judges' clock, in nanoseconds.
    fn now_ns(&self) -> u64;

    fn record(&self, op: Op, phase: Phase, details: Details);

    /// A new connection to the resource.
    fn open_resource(&self) -> Self::Access;

    /// Asks for the lock, or a permit, once, and waits for it. The error says why it was not granted.
    fn lock(&self, name: &str) -> impl Future<Output = Result<Held, NotGranted>> + Send;

    /// Asks for the lock once, and does not wait for it.
    fn try_lock(&self, name: &str)
    -> impl Future<Output = Result<Option<Held>, NotGranted>> + Send;

    /// Sends a read or a write. The resource itself records whether it was accepted.
    fn access(
        &self,
        access: &mut Self::Access,
        name: &str,
        attempt: u64,
        token: u64,
        kind: Kind,
    ) -> impl Future<Output = ()> + Send;

    /// Stops the task for `ms`, so that it makes no further check.
    fn pause(&self, ms: u64) -> impl Future<Output = ()> + Send;

    /// Waits for the order to release all holds and to stop asking.
    fn ended(&self) -> impl Future<Output = ()> + Send;
}

/// The kind of an access to the resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Kind {
    /// A read that a later write is computed from. It is never refused, because it has no effect.
    Read,
    Write,
    /// A read by a reader of a read-write lock: what it reads is its effect, so it may be refused.
    SharedRead,
}
