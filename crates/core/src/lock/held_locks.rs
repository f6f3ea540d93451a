use std::collections::{HashSet, VecDeque};
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_util::StreamExt as _;
use futures_util::stream::{BoxStream, Stream, unfold};
use quorumlock_protocol::telemetry::LockKind;
use quorumlock_protocol::{
    Claim, ConfigError, Error, Holder, ListPosition, Name, NoMajority, NodeProblem, NodeReport,
    quorum_of,
};

use super::inner::Inner;
use super::spans::kind_of;

/// The locks that are held, as the nodes list them: see `Locker::list`.
///
/// An error ends it: [`Error::Unreachable`] or [`Error::Refused`] if so many nodes do not list theirs that a
/// lock may be missing, or too few tell who holds one; [`Error::Closed`].
#[must_use = "nothing is listed until it is polled"]
pub struct HeldLocks(BoxStream<'static, Result<HeldLock, Error>>);

/// How far a listing has come.
struct Listing {
    inner: Arc<Inner>,
    /// Begins the names that are listed.
    prefix: Arc<str>,
    node: usize,
    at: ListPosition,
    /// How many nodes have listed all of theirs.
    whole: usize,
    /// Why others have not.
    failed: Vec<NodeReport>,
    seen: HashSet<Claim>,
    ready: VecDeque<HeldLock>,
    ended: bool,
}

/// A lock that somebody holds.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct HeldLock {
    /// Its name, with the prefix of the locker.
    pub name: String,
    /// Each name of a set is a lock of its own.
    pub kind: LockKind,
    /// Of a permit.
    pub slot: Option<u16>,
    /// Who holds it; several readers are one holder.
    pub holder: Holder,
}

impl HeldLocks {
    pub(super) fn new(inner: Arc<Inner>, prefix: &Arc<str>) -> Self {
        let listing = Listing {
            inner,
            prefix: prefix.clone(),
            node: 0,
            at: ListPosition::default(),
            whole: 0,
            failed: Vec::new(),
            seen: HashSet::new(),
            ready: VecDeque::new(),
            ended: false,
        };
        let next = |mut listing: Listing| async { Some((listing.next().await?, listing)) };
        Self(unfold(listing, next).boxed())
    }
}

impl Stream for HeldLocks {
    type Item = Result<HeldLock, Error>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.poll_next_unpin(cx)
    }
}

impl Listing {
    /// The next lock; `None` after the last one, or after an error.
    async fn next(&mut self) -> Option<Result<HeldLock, Error>> {
        loop {
            if let Some(lock) = self.ready.pop_front() {
                return Some(Ok(lock));
            } else if self.ended {
                return None;
            } else if let Err(error) = self.step().await {
                self.ended = true;
                return Some(Err(error));
            }
        }
    }

    async fn step(&mut self) -> Result<(), Error> {
        self.inner.ensure_open()?;
        let lessor = self.inner.lessor.clone();
        let (nodes, quorum) = (lessor.nodes(), quorum_of(lessor.nodes()));
        // Each majority has one of these.
        self.ended = self.whole + quorum > nodes;
        if self.ended {
            return Ok(());
        } else if self.node == nodes {
            let failed = std::mem::take(&mut self.failed);
            return Err(NoMajority::new(None, (nodes, quorum), self.whole, failed).into());
        }
        let step = match lessor.list(self.node, self.at).await {
            Ok(step) => step,
            Err(Error::Unreachable(none) | Error::Refused(none)) => {
                self.failed.extend(none.nodes);
                (self.node, self.at) = (self.node + 1, ListPosition::default());
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        let is_new = |claim: &Claim| {
            claim.listed_name().starts_with(&*self.prefix) && !self.seen.contains(claim)
        };
        // All are asked at once.
        let ask = |claim: Claim| (lessor.inspect(claim.clone()), claim);
        let asked: Vec<_> = step.found.into_iter().filter(is_new).map(ask).collect();
        let mut held = Vec::new();
        for (holder, claim) in asked {
            match holder.await {
                Ok(holder) => held.push((claim, holder)),
                // It is a lock of another kind by now, or none.
                Err(Error::Refused(none)) if none.nodes.iter().any(is_of_other_type) => {}
                Err(error) => return Err(error),
            }
        }
        for (claim, holder) in held {
            let lock = holder.map(|holder| HeldLock::new(&claim, holder));
            self.ready.extend(lock.filter(|_| self.seen.insert(claim)));
        }
        match step.next {
            Some(at) => self.at = at,
            None => {
                (self.node, self.at) = (self.node + 1, ListPosition::default());
                self.whole += 1;
            }
        }
        Ok(())
    }
}

fn is_of_other_type(report: &NodeReport) -> bool {
    matches!(report.problem, NodeProblem::WrongType { .. })
}

impl HeldLock {
    /// A lock of which the holder is known by other means.
    #[doc(hidden)]
    pub fn of(name: String, kind: LockKind, slot: Option<u16>, holder: Holder) -> Self {
        Self { name, kind, slot, holder }
    }

    /// What the nodes hold for it.
    pub(super) fn claim(&self) -> Result<Claim, ConfigError> {
        let name = Name::new(&self.name)?;
        match (self.kind, self.slot) {
            (LockKind::Read | LockKind::Write, _) => Ok(Claim::write(name)),
            (_, None) => Ok(name.into()),
            (_, Some(slot)) => Claim::one_slot(name, slot),
        }
    }

    fn new(claim: &Claim, holder: Holder) -> Self {
        let kind = match kind_of(claim) {
            LockKind::Write if holder.reads() => LockKind::Read,
            kind => kind,
        };
        Self { name: claim.listed_name().to_owned(), kind, slot: claim.slot(), holder }
    }
}

impl fmt::Debug for HeldLocks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HeldLocks").finish_non_exhaustive()
    }
}
