use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::{BoxStream, Stream, unfold};

use crate::{Error, HoldView, Holder, LockRequest, Mutex};

/// Elects one leader among the processes that campaign under one name: a
/// [`Locker`](crate::Locker) and a name, from [`Locker::election`](crate::Locker::election).
///
/// Leading is holding the lock of that name, so all that is true of a lock is true of it: it is renewed, it
/// can be lost, and its token is the **term**, which grows with each leader. A leader that was paused may
/// still act while the next one leads. Whatever it commands must carry the term, and refuse a smaller one
/// (docs/FENCING.md).
///
/// ```no_run
/// # async fn doc(locker: quorumlock::Locker) -> Result<(), quorumlock::Error> {
/// let election = locker.election("scheduler");
/// election
///     .run(|term| async move {
///         println!("leads in term {}", term.token());
///         std::future::pending::<()>().await
///     })
///     .await
/// # }
/// ```
#[derive(Clone)]
pub struct Election {
    locker: quorumlock_core::Locker,
    mutex: Mutex,
}

/// Who leads, as the nodes tell. By the time it is read, another process may lead.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Leadership {
    /// This candidate leads.
    Leader(Holder),
    /// Nobody leads.
    Nobody,
    /// Too few nodes answer: for this reason.
    Unknown(Error),
}

impl Election {
    pub(crate) fn new(locker: quorumlock_core::Locker, name: String) -> Self {
        Self { mutex: Mutex::new(locker.clone(), vec![name]), locker }
    }

    /// The name, with the locker's prefix: the key on the nodes.
    pub fn name(&self) -> &str {
        self.mutex.name()
    }

    /// Waits until this process leads, as [`Mutex::lock`](crate::Mutex::lock). The token of the guard
    /// is the term; `unlock` resigns, and the next candidate leads.
    ///
    /// # Errors
    /// See [`LockRequest`], also for cancel safety.
    pub fn campaign(&self) -> LockRequest {
        self.mutex.lock()
    }

    /// Campaigns, and runs `work` while this process leads. If it loses the lead, drops the work and
    /// campaigns again, for ever; also if the nodes do not answer for a long time. When `work` ends by
    /// itself, resigns and returns its result.
    ///
    /// # Errors
    /// What waiting cannot mend: [`Error::Config`], [`Error::Closed`], and errors of the nodes that are not
    /// [retryable](Error::is_retryable). Where passwords or certificates may change
    /// ([`Builder::credentials`](crate::Builder::credentials), files), it goes on after a server that
    /// refuses them.
    ///
    /// # Cancel safety
    /// Cancel safe: dropping the future drops the work and resigns.
    pub async fn run<T, F, Fut>(&self, mut work: F) -> Result<T, Error>
    where
        F: FnMut(HoldView) -> Fut,
        Fut: Future<Output = T>,
    {
        loop {
            let term = match self.campaign().await {
                Err(error) if self.locker.may_pass(&error) => {
                    tokio::time::sleep(PAUSE).await;
                    continue;
                }
                term => term?,
            };
            if let Ok(out) = term.run(work(term.view())).await {
                // The work is done, whatever becomes of the lock.
                let _ = term.unlock().await;
                return Ok(out);
            }
        }
    }

    /// Who leads now; `None` if nobody does. [`Holder::label`] says which process.
    ///
    /// # Errors
    /// As [`Mutex::holder`](crate::Mutex::holder).
    ///
    /// # Cancel safety
    /// Cancel safe: it only reads.
    pub fn leader(&self) -> impl Future<Output = Result<Option<Holder>, Error>> + Send + use<> {
        self.mutex.holder()
    }

    /// Follows who leads: who leads now, then each change. Does no I/O before it is polled.
    ///
    /// It asks the nodes every second, and when the leader's lease ends. It may miss a leader that led for
    /// a shorter time. It does not tell of renewals, nor of the next term of the same hold.
    ///
    /// ```no_run
    /// # async fn doc(locker: quorumlock::Locker) -> Result<(), quorumlock::Error> {
    /// use futures::TryStreamExt as _;
    ///
    /// let mut leaders = locker.election("scheduler").observe();
    /// while let Some(now) = leaders.try_next().await? {
    ///     println!("{now:?}");
    /// }
    /// # Ok(()) }
    /// ```
    pub fn observe(&self) -> Observer {
        let next = |state: Option<Observing>| async {
            let mut observing = state?;
            match observing.next().await {
                Ok(now) => Some((Ok(now), Some(observing))),
                Err(error) => Some((Err(error), None)),
            }
        };
        Observer(unfold(Some(Observing { election: self.clone(), last: None }), next).boxed())
    }
}

/// A stream of who leads: see [`Election::observe`].
///
/// Too few nodes that answer are [`Leadership::Unknown`]. An error ends it: [`Error::Config`],
/// [`Error::Closed`].
#[must_use = "nobody is asked until it is polled"]
pub struct Observer(BoxStream<'static, Result<Leadership, Error>>);

impl Stream for Observer {
    type Item = Result<Leadership, Error>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.poll_next_unpin(cx)
    }
}

impl fmt::Debug for Observer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Observer").finish_non_exhaustive()
    }
}

/// What an observer has told.
struct Observing {
    election: Election,
    last: Option<Leadership>,
}

/// Before the next campaign, after nodes did not answer.
const PAUSE: Duration = Duration::from_secs(1);

/// How often an observer asks.
const POLL: Duration = Duration::from_secs(1);

/// After the end of a lease, before an observer asks.
const GRACE: Duration = Duration::from_millis(5);

impl Observing {
    /// Who leads, once it is not who led before.
    async fn next(&mut self) -> Result<Leadership, Error> {
        loop {
            let now = match self.election.leader().await {
                Ok(Some(leader)) => Leadership::Leader(leader),
                Ok(None) => Leadership::Nobody,
                Err(error @ (Error::Config(_) | Error::Closed)) => return Err(error),
                Err(error) => Leadership::Unknown(error),
            };
            if self.last.as_ref().is_none_or(|last| !is_same(last, &now)) {
                self.last = Some(now.clone());
                return Ok(now);
            }
            let left = match &now {
                Leadership::Leader(leader) => leader.remaining,
                _ => None,
            };
            tokio::time::sleep(left.map_or(POLL, |left| POLL.min(left + GRACE))).await;
        }
    }
}

fn is_same(one: &Leadership, other: &Leadership) -> bool {
    match (one, other) {
        (Leadership::Leader(one), Leadership::Leader(other)) => one.id == other.id,
        (Leadership::Nobody, Leadership::Nobody) => true,
        (Leadership::Unknown(_), Leadership::Unknown(_)) => true,
        _ => false,
    }
}

impl fmt::Debug for Election {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Election").field("name", &self.name()).finish_non_exhaustive()
    }
}
