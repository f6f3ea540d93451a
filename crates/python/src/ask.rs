//! Questions about locks, and what takes locks away.

use pyo3::PyResult;
use pyo3::exceptions::PyTypeError;
use quorumlock::{Locker, Ticket};

use crate::guard::AnyGuard;
use crate::op::Op;
use crate::{answers, hold, outcome};

/// Who holds a lock, or a read-write lock.
pub(crate) fn holder(locker: &Locker, kind: &str, names: Vec<String>) -> PyResult<Op> {
    Ok(match kind {
        "lock" => {
            let asked = locker.mutex(names).holder();
            Op::new(async move { asked.await.map(answers::holder) })
        }
        _ => {
            let asked = locker.rw_lock(only(&names)?).holder();
            Op::new(async move { asked.await.map(answers::holder) })
        }
    })
}

/// Frees a lock, or a read-write lock, whichever client holds it.
pub(crate) fn force_unlock(locker: &Locker, kind: &str, names: Vec<String>) -> PyResult<Op> {
    Ok(match kind {
        "lock" => {
            let freed = locker.mutex(names).force_unlock();
            Op::new(async move { freed.await.map(outcome::flag) })
        }
        _ => {
            let freed = locker.rw_lock(only(&names)?).force_unlock();
            Op::new(async move { freed.await.map(outcome::flag) })
        }
    })
}

/// Takes up the lock of a ticket.
pub(crate) fn resume(locker: &Locker, ticket: Ticket) -> Op {
    let locker = locker.clone();
    Op::new(async move {
        let guard = locker.resume(&ticket).await?;
        Ok(hold::given(AnyGuard::Lock(guard)))
    })
}

fn only(names: &[String]) -> PyResult<&str> {
    match names {
        [name] => Ok(name),
        _ => Err(PyTypeError::new_err("a read-write lock has one name")),
    }
}
