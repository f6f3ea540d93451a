//! A request for a lock of any kind, from arguments of Python.

use std::future::{Future, IntoFuture};
use std::time::Duration;

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};
use quorumlock::kind::{Kind, Owned};
use quorumlock::{Error, Guard, LockRequest, TryLockRequest};

use crate::guard::AnyGuard;
use crate::op::{Op, Work};
use crate::{errors, hold, outcome};

/// Who enters a lock again. The same owner may hold a lock several times.
#[pyclass(frozen, eq, hash, module = "quorumlock._native")]
#[derive(Clone)]
pub(crate) struct Owner(pub(crate) quorumlock::Owner);

impl PartialEq for Owner {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

impl Eq for Owner {}

impl std::hash::Hash for Owner {
    /// Its text is its number.
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        format!("{:?}", self.0).hash(state);
    }
}

#[pymethods]
impl Owner {
    #[new]
    fn new() -> Self {
        Self(quorumlock::Owner::new())
    }
}

/// What a request is for.
pub(crate) enum Wanted<'a> {
    Lock(Vec<String>),
    Read(&'a str),
    Write(&'a str),
    Permit(&'a str, u32),
    /// As a lock, and again after what waiting mends.
    Lead(&'a str),
}

/// Before the next campaign, after nodes did not answer: as `Election::run` of the library.
const PAUSE: Duration = Duration::from_secs(1);

/// The options of a request. `None`: that of the locker.
#[derive(Default)]
struct Options {
    wait: Option<Duration>,
    lease: Option<Duration>,
    hold_at_most: Option<Duration>,
    hold_at_least: Option<Duration>,
    label: Option<String>,
    owner: Option<quorumlock::Owner>,
    fail_fast: bool,
}

impl Options {
    fn of(options: &Bound<'_, PyDict>) -> PyResult<Self> {
        let mut all = Self::default();
        for (name, value) in options {
            let name = name.cast::<PyString>()?.to_cow()?.into_owned();
            let time = || seconds(&name, &value).map(Some);
            match &*name {
                "wait" => all.wait = time()?,
                "lease" => all.lease = time()?,
                "hold_at_most" => all.hold_at_most = time()?,
                "hold_at_least" => all.hold_at_least = time()?,
                "label" => all.label = Some(value.extract()?),
                "owner" => all.owner = Some(value.cast::<Owner>()?.get().0.clone()),
                "fail_fast" => all.fail_fast = value.extract()?,
                _ => return Err(PyTypeError::new_err(format!("unknown option {name}"))),
            }
        }
        Ok(all)
    }
}

/// A duration in seconds, which Python has checked for its type and its sign.
pub(crate) fn seconds(name: &str, value: &Bound<'_, PyAny>) -> PyResult<Duration> {
    let seconds: f64 = value.extract()?;
    Duration::try_from_secs_f64(seconds).map_err(|error| {
        errors::bad_value(
            value.py(),
            &format!("{name} is {seconds} s, which is no duration: {error}"),
        )
    })
}

/// Sets what requests of all kinds have.
macro_rules! common {
    ($request:expr, $options:expr) => {{
        let mut request = $request;
        if let Some(lease) = $options.lease {
            request = request.lease(lease);
        }
        if let Some(limit) = $options.hold_at_most {
            request = request.hold_at_most(limit);
        }
        if let Some(time) = $options.hold_at_least {
            request = request.hold_at_least(time);
        }
        if let Some(label) = &$options.label {
            request = request.label(label);
        }
        request
    }};
}

/// A call for the lock that Python wants.
pub(crate) fn acquire(
    locker: &quorumlock::Locker,
    wanted: Wanted<'_>,
    waits: bool,
    options: Option<&Bound<'_, PyDict>>,
) -> PyResult<Op> {
    let options = options.map(Options::of).transpose()?.unwrap_or_default();
    let work = match wanted {
        Wanted::Lock(names) => {
            let mutex = locker.mutex(names);
            match waits {
                true => waiting(owned(mutex.lock(), &options), &options, AnyGuard::Lock),
                false => trying(try_owned(mutex.try_lock(), &options), &options, AnyGuard::Lock),
            }
        }
        Wanted::Read(name) => {
            let lock = locker.rw_lock(name);
            match waits {
                true => waiting(owned(lock.read(), &options), &options, AnyGuard::Read),
                false => trying(try_owned(lock.try_read(), &options), &options, AnyGuard::Read),
            }
        }
        Wanted::Write(name) => {
            let lock = locker.rw_lock(name);
            match waits {
                true => waiting(owned(lock.write(), &options), &options, AnyGuard::Write),
                false => trying(try_owned(lock.try_write(), &options), &options, AnyGuard::Write),
            }
        }
        Wanted::Permit(name, permits) => {
            let semaphore = locker.semaphore(name, permits);
            match waits {
                true => waiting(semaphore.acquire(), &options, AnyGuard::Permit),
                false => trying(semaphore.try_acquire(), &options, AnyGuard::Permit),
            }
        }
        Wanted::Lead(name) => lead(locker, name, &options),
    };
    Ok(Op::new(work))
}

fn owned<K: Owned>(request: LockRequest<K>, options: &Options) -> LockRequest<K> {
    match &options.owner {
        Some(owner) => request.owner(owner),
        None => request,
    }
}

fn try_owned<K: Owned>(request: TryLockRequest<K>, options: &Options) -> TryLockRequest<K> {
    match &options.owner {
        Some(owner) => request.owner(owner),
        None => request,
    }
}

fn waiting<K: Kind>(
    request: LockRequest<K>,
    options: &Options,
    of: fn(Guard<K>) -> AnyGuard,
) -> Work {
    let mut request = common!(request, options);
    if let Some(wait) = options.wait {
        request = request.wait(wait);
    }
    if options.fail_fast {
        request = request.fail_fast();
    }
    let granted = request.into_future();
    held(async move { granted.await.map(Some) }, of)
}

fn lead(locker: &quorumlock::Locker, name: &str, options: &Options) -> Work {
    let locker = locker.clone();
    let campaign = common!(owned(locker.election(name).campaign(), options), options);
    let granted = async move {
        loop {
            match campaign.clone().await {
                Err(error) if locker.may_pass(&error) => tokio::time::sleep(PAUSE).await,
                led => return led.map(Some),
            }
        }
    };
    held(granted, AnyGuard::Lock)
}

fn trying<K: Kind>(
    request: TryLockRequest<K>,
    options: &Options,
    of: fn(Guard<K>) -> AnyGuard,
) -> Work {
    held(common!(request, options).into_future(), of)
}

fn held<K: Kind>(
    granted: impl Future<Output = Result<Option<Guard<K>>, Error>> + Send + 'static,
    of: fn(Guard<K>) -> AnyGuard,
) -> Work {
    Box::pin(async move {
        let held = granted.await?;
        Ok(held.map_or_else(outcome::none, |guard| hold::given(of(guard))))
    })
}
