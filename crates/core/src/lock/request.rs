use std::fmt;
use std::future::{Future, IntoFuture};
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tracing::Instrument;

use super::acquisition::Acquisition;
use super::guard::{Guard, HoldView};
use super::inner::Inner;
use super::kind::{self, Kind, Owned};
use super::lock_spec::LockSpec;
use super::owner_table::OwnerSlot;
use quorumlock_protocol::bounds;
use quorumlock_protocol::{Claim, ConfigError, Error, Owner, Settings};

/// A request for a lock that waits while another client holds it. Set options, then await it, or
/// [`run`](LockRequest::run) work under the lock.
///
/// # Errors
/// When awaited:
/// - [`Error::Busy`] after [`LockRequest::wait`], if another client held the lock at the last
///   attempt.
/// - [`Error::Unreachable`] (too few nodes answered) or [`Error::Refused`] (enough nodes answered,
///   but too few of them can vote): after [`LockRequest::wait`], or, without that limit, after 30 s
///   in which no attempt got a majority's answer. At once with [`LockRequest::fail_fast`], or if
///   waiting cannot help (wrong password, missing permission, a key of another type, ...; without
///   [`LockRequest::wait`] also new nodes).
/// - [`Error::Lost`] if the owner's outer hold of the name was lost.
/// - [`Error::Config`] for bad input; [`Error::Closed`] once the locker is closed.
///
/// # Cancel safety
/// Cancel safe: dropping the future leaves the queue and releases what may have been granted.
#[must_use = "nothing is locked until this is awaited"]
pub struct LockRequest<K: Kind = kind::Lock> {
    options: LockOptions,
    kind: PhantomData<fn() -> K>,
}

/// A request for a lock that does not wait for its holder. Set options, then await it, or
/// [`run`](TryLockRequest::run) work under the lock.
///
/// # Errors
/// As [`LockRequest`], but never [`Error::Busy`]: if another client holds the lock, the result is
/// `None`. [`Error::Unreachable`] comes within the answer timeout.
///
/// # Cancel safety
/// As [`LockRequest`].
#[must_use = "nothing is locked until this is awaited"]
pub struct TryLockRequest<K: Kind = kind::Lock> {
    options: LockOptions,
    kind: PhantomData<fn() -> K>,
}

#[derive(Clone, Debug)]
struct LockOptions {
    inner: Arc<Inner>,
    claim: Result<Claim, ConfigError>,
    /// `None`: the locker's default.
    lease: Option<Duration>,
    hold_at_most: Option<Duration>,
    hold_at_least: Option<Duration>,
    label: Option<Arc<str>>,
    owner: Option<Owner>,
    wait: Option<Duration>,
    /// Whether the call does not wait for a holder.
    once: bool,
    fail_fast: bool,
}

macro_rules! options {
    ($builder:ident) => {
        impl<K: Kind> $builder<K> {
            /// How long Redis keeps the lock without a renewal: the lock of a dead holder is free
            /// after this time. Default: the locker's setting (30 s). At least 10 ms, at most
            /// `max_lease`.
            pub fn lease(mut self, lease: Duration) -> Self {
                self.options.lease = Some(lease);
                self
            }

            /// Ends the hold after this time, whatever its worker does (SAFETY.md H21). A hold that
            /// is shorter than the lease is never renewed, as with Redisson's explicit `leaseTime`.
            /// Default: no limit. 10 ms to 10 years.
            ///
            /// This is the only bound on a hold whose guard is never dropped: after
            /// `mem::forget(guard)`, or in a cycle of `Arc`s, the watchdog renews the lease while
            /// the process lives, even if every locker is dropped.
            pub fn hold_at_most(mut self, limit: Duration) -> Self {
                self.options.hold_at_most = Some(limit);
                self
            }

            /// Keeps the lock for this long after the grant, also if the work ends sooner:
            /// [`Guard::unlock`] and `run` wait for the rest of it, and a guard that is dropped is
            /// kept by the watchdog. For a job that several hosts start at one time: without it, a
            /// host whose clock is late finds the lock free, and runs the job once more. 1 ms to
            /// `hold_at_most`.
            ///
            /// If the process ends first, the lock stays for the rest of its lease. A lock that is
            /// lost is not kept, and [`Guard::into_ticket`] takes nothing of this time along.
            pub fn hold_at_least(mut self, time: Duration) -> Self {
                self.options.hold_at_least = Some(time);
                self
            }

            /// What this hold is for, for people who ask who holds the lock
            /// ([`Holder::label`](quorumlock_protocol::Holder::label)), such as the number of a job. At
            /// most 128 bytes, without control characters and without secrets. `""`, the
            /// default: the locker's label.
            ///
            /// The servers keep it with the lease, and forget it with the release, or when twice the lease
            /// is over. A re-entry keeps the label of the outer hold, and [`Guard::into_ticket`] takes none along. No release hands
            /// the lock over to a call with a label: after the release the call asks for it.
            pub fn label(mut self, label: &str) -> Self {
                self.options.label = (!label.is_empty()).then(|| label.into());
                self
            }
        }

        impl<K: Owned> $builder<K> {
            /// Re-enters if `owner` holds the lock already. The lease and `hold_at_most` of the
            /// outer hold stay; a request that sets other values fails with
            /// [`ConfigError::ReEntryDiffers`](quorumlock_protocol::ConfigError::ReEntryDiffers).
            /// A request for other names fails with
            /// [`ConfigError::OwnerOverlap`](quorumlock_protocol::ConfigError::OwnerOverlap) if the
            /// owner holds one of them: it would wait for itself.
            /// Default: no owner, so that any two requests exclude each other.
            pub fn owner(mut self, owner: &Owner) -> Self {
                self.options.owner = Some(owner.clone());
                self
            }
        }

        impl<K: Kind> Clone for $builder<K> {
            fn clone(&self) -> Self {
                Self { options: self.options.clone(), kind: PhantomData }
            }
        }

        impl<K: Kind> fmt::Debug for $builder<K> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct(stringify!($builder)).field("options", &self.options).finish()
            }
        }
    };
}

options!(LockRequest);
options!(TryLockRequest);

impl<K: Kind> LockRequest<K> {
    pub(super) fn new(inner: &Arc<Inner>, claim: Result<Claim, ConfigError>) -> Self {
        Self { options: LockOptions::new(inner.clone(), claim), kind: PhantomData }
    }

    /// The longest wait: for the lock, and for nodes that do not answer. After that the call fails
    /// with [`Error::Busy`] if another client held the lock at the last attempt, else with the
    /// error of the nodes. Default: no limit for the lock, and 30 s for nodes that do not answer.
    pub fn wait(mut self, wait: Duration) -> Self {
        self.options.wait = Some(wait);
        self
    }

    /// Fails as soon as an attempt reaches no majority, instead of waiting for the nodes.
    pub fn fail_fast(mut self) -> Self {
        self.options.fail_fast = true;
        self
    }

    /// Waits for the lock, runs `work`, releases the lock. The work is dropped when the lock is
    /// lost.
    ///
    /// # Errors
    /// As [`LockRequest`], and [`Error::Lost`] if the lock was lost before the work was done. Once
    /// the work is done, a failed release discards its result in two cases: [`Error::Lost`] if the
    /// release found the lock gone, so that another client may have held it meanwhile;
    /// [`Error::Refused`] if the servers refused the release (permission, ...), so that the lock
    /// stays until its lease ends, this time and every time. If the release is only unanswered, the
    /// work's result is returned: the lease ends by itself. To keep the result in every case, use
    /// `lock`, [`Guard::run`] and `unlock`.
    ///
    /// # Cancel safety
    /// Cancel safe: dropping the future drops the work and posts the release.
    pub async fn run<T, F, Fut>(self, work: F) -> Result<T, Error>
    where
        F: FnOnce(HoldView) -> Fut,
        Fut: Future<Output = T>,
    {
        run(self.await?, work).await
    }
}

impl<K: Kind> TryLockRequest<K> {
    pub(super) fn new(inner: &Arc<Inner>, claim: Result<Claim, ConfigError>) -> Self {
        let options = LockOptions::new(inner.clone(), claim);
        Self { options: LockOptions { once: true, fail_fast: true, ..options }, kind: PhantomData }
    }

    /// As [`LockRequest::run`], if the lock is free; `None`, and no work, if another client holds
    /// it.
    ///
    /// # Errors
    /// As [`LockRequest::run`].
    ///
    /// # Cancel safety
    /// As [`LockRequest::run`].
    pub async fn run<T, F, Fut>(self, work: F) -> Result<Option<T>, Error>
    where
        F: FnOnce(HoldView) -> Fut,
        Fut: Future<Output = T>,
    {
        match self.await? {
            Some(guard) => run(guard, work).await.map(Some),
            None => Ok(None),
        }
    }
}

async fn run<T, K, F, Fut>(guard: Guard<K>, work: F) -> Result<T, Error>
where
    K: Kind,
    F: FnOnce(HoldView) -> Fut,
    Fut: Future<Output = T>,
{
    let out = guard.run(work(guard.view())).await?;
    match guard.unlock().await {
        // Unanswered: the lease ends by itself.
        Ok(()) | Err(Error::Unreachable(_)) => Ok(out),
        Err(error) => Err(error),
    }
}

/// Takes the lock: see [`LockRequest`].
impl<K: Kind> IntoFuture for LockRequest<K> {
    type Output = Result<Guard<K>, Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.options.acquire())
    }
}

/// Takes the lock if it is free: see [`TryLockRequest`].
impl<K: Kind> IntoFuture for TryLockRequest<K> {
    type Output = Result<Option<Guard<K>>, Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            match self.options.acquire().await {
                Ok(guard) => Ok(Some(guard)),
                Err(Error::Busy(_)) => Ok(None),
                Err(error) => Err(error),
            }
        })
    }
}

impl LockOptions {
    fn new(inner: Arc<Inner>, claim: Result<Claim, ConfigError>) -> Self {
        Self {
            inner,
            claim,
            lease: None,
            hold_at_most: None,
            hold_at_least: None,
            label: None,
            owner: None,
            wait: None,
            once: false,
            fail_fast: false,
        }
    }

    async fn acquire<K: Kind>(self) -> Result<Guard<K>, Error> {
        // Dropped last: `close` waits until the end of the call is told.
        let mut calls = self.inner.calls.subscribe();
        let hold_at_least = self.hold_at_least;
        let (call, place) = self.into_acquisition()?;
        let Acquisition { inner, spec, .. } = &call;
        let telling = inner.telemetry.call_began(&spec.claim, spec.lease);
        let acquired = until_closed(&mut calls, async {
            match place {
                None => call.run().await,
                // Boxed, because few calls have an owner and the future should be small.
                Some(place) => Box::pin(call.acquire_for_owner(place)).await,
            }
        })
        .instrument(telling.span())
        .await;
        telling.end(call.rounds(), acquired.as_ref().map(|guard| &**guard.lease()));
        let guard = acquired?;
        Ok(match hold_at_least {
            Some(time) => guard.kept_for(time).into_kind(),
            None => guard.into_kind(),
        })
    }

    fn into_acquisition(self) -> Result<(Acquisition, Option<OwnerSlot>), Error> {
        let Self {
            inner,
            claim,
            lease: explicit_lease,
            hold_at_most: explicit_limit,
            hold_at_least,
            label,
            owner,
            wait,
            once,
            fail_fast,
        } = self;
        wait.map_or(Ok(()), |wait| bounds::WAIT.check(wait))?;
        inner.ensure_open()?;
        let claim = claim?;
        label.as_deref().map_or(Ok(()), Settings::check_label)?;
        if inner.settings.redisson_fenced && !claim.is_plain() {
            let (option, servers) =
                ("redisson_fenced", "locks of several names, permits and read-write locks");
            return Err(ConfigError::DoesNotApply { option, servers }.into());
        }
        let lease = explicit_lease.unwrap_or(inner.settings.lease);
        inner.settings.check_lease(lease)?;
        explicit_limit.map_or(Ok(()), |limit| bounds::HOLD_AT_MOST.check(limit))?;
        let hold_at_most = explicit_limit.or(inner.settings.hold_at_most);
        let longest = hold_at_most.unwrap_or(bounds::LONGEST_HOLD);
        hold_at_least.map_or(Ok(()), |time| bounds::HOLD_AT_LEAST.check_to(longest, time))?;
        let deadline = wait.map(|wait| inner.clock.now() + wait);
        let place = match owner {
            Some(owner) => {
                inner.refuse_self_wait(&owner, &claim)?;
                Some(inner.owners.slot(&owner, &claim))
            }
            None => None,
        };
        let spec = LockSpec {
            claim,
            lease,
            explicit_lease,
            hold_at_most,
            explicit_limit,
            label,
            deadline,
            once,
            fail_fast,
        };
        Ok((Acquisition::new(inner, spec), place))
    }
}

/// Returns the result of `call`, or [`Error::Closed`] if the locker is closed first.
pub(super) async fn until_closed<T>(
    calls: &mut watch::Receiver<bool>,
    call: impl Future<Output = Result<T, Error>>,
) -> Result<T, Error> {
    tokio::select! {
        biased;
        _ = calls.wait_for(|closed| *closed) => Err(Error::Closed),
        done = call => done,
    }
}
