//! What `status` says of a read-write lock, and the advice for a name that is one.

use std::fmt;

use quorumlock::{Error, Holder, Locker, NodeProblem};
use quorumlock_command::Failure;
use serde::Serialize;

use crate::text::{Held, Left, Since, Waiters, Who};

/// The status of a read-write lock.
#[derive(Debug, Default, Serialize)]
pub(crate) struct ReadWriteStatus {
    name: String,
    pub(crate) held: bool,
    readers: u32,
    writer: Option<Writer>,
    /// `null`: nobody holds it, or the key never expires.
    remaining_ms: Option<u64>,
    /// As of a lock.
    last_token: Option<u64>,
    /// As of a lock.
    since: Option<String>,
    /// How many wait for it. `null`: it is not held, or it is not known.
    waiters: Option<u64>,
}

#[derive(Debug, Serialize)]
struct Writer {
    id: String,
    /// `null`: it is not known.
    label: Option<String>,
}

impl ReadWriteStatus {
    pub(crate) fn new(name: String, holder: Option<Holder>) -> Self {
        let Some(holder) = holder else {
            return Self { name, ..Self::default() };
        };
        let (reads, waiters) = (holder.reads(), holder.waiters);
        let Held { id, label, remaining_ms, holds, last_token, since } = holder.into();
        let (readers, writer) = match reads {
            true => (holds, None),
            false => (0, Some(Writer { id, label })),
        };
        Self { name, held: true, readers, writer, remaining_ms, last_token, since, waiters }
    }
}

impl fmt::Display for ReadWriteStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, readers, writer, remaining_ms, last_token, since, waiters, .. } = self;
        write!(f, "{name}: ")?;
        match (writer, readers) {
            (None, 0) => return f.write_str("free"),
            (Some(Writer { id, label }), _) => {
                write!(f, "1 writer {}", Who { id, label: label.as_deref() })?;
            }
            (None, 1) => f.write_str("1 reader")?,
            (None, readers) => write!(f, "{readers} readers")?,
        }
        Left(*remaining_ms).fmt(f)?;
        Since { since: since.as_deref(), last_token: *last_token }.fmt(f)?;
        Waiters(*waiters).fmt(f)
    }
}

/// What `failure` makes of the error of a call for the lock `name`. If the name is a read-write lock, the
/// failure says so, and names the option.
pub(crate) async fn advise(
    error: Error,
    failure: impl FnOnce(Error) -> Failure,
    locker: &Locker,
    name: &str,
) -> Failure {
    let read_write = holder_instead(&error, locker, name).await.is_some();
    let mut failure = failure(error);
    if read_write {
        failure.message += &format!("\n{name} is a read-write lock: add --read-write");
    }
    failure
}

/// The holder of the read-write lock `name`, if the question about the lock failed because the name is
/// a read-write lock.
pub(crate) async fn holder_instead(error: &Error, locker: &Locker, name: &str) -> Option<Holder> {
    let other_type = |problem: &NodeProblem| matches!(problem, NodeProblem::WrongType { .. });
    match error {
        Error::Refused(none) if none.nodes.iter().any(|node| other_type(&node.problem)) => {
            locker.rw_lock(name).holder().await.ok().flatten()
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn status(id: &str, holds: u32) -> ReadWriteStatus {
        let holder = Holder::new(id.into(), Some(Duration::from_secs(20)), holds);
        ReadWriteStatus::new("catalog".into(), Some(holder))
    }

    #[test]
    fn people_read_how_many_readers_or_which_writer() {
        let text = |id, holds| status(id, holds).to_string();
        let left = "for another 20s unless renewed";
        assert_eq!(text("readers", 3), format!("catalog: 3 readers, {left}"));
        assert_eq!(text("7f:r", 1), format!("catalog: 1 reader, {left}"));
        assert_eq!(text("7f:w", 1), format!("catalog: 1 writer 7f:w, {left}"));
        assert_eq!(ReadWriteStatus::new("catalog".into(), None).to_string(), "catalog: free");
    }
}
