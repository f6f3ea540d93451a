//! A server in this process, for tests of code that takes locks: no server program, no network, and locks
//! that are lost on demand. Needs the feature `testing`.
//!
//! The [`Locker`](crate::Locker), its guards, its waiting and its watchdog are the real ones. So are the
//! promises of one server, as long as all lockers of a name use the same [`MemoryServer`]; calls of
//! different lockers that wait poll. What only a network does (a failover, a lost answer, a clock that
//! jumps) is not here: docs/LAB.md has it.
//!
//! ```
//! use std::time::Duration;
//! use quorumlock::testing::MemoryServer;
//! use quorumlock::{Locker, Servers};
//!
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), quorumlock::Error> {
//! let server = MemoryServer::new();
//! let locker = Locker::new(Servers::memory(&server))?;
//! let guard = locker.lock("report").lease(Duration::from_millis(30)).await?;
//! assert!(Locker::new(Servers::memory(&server))?.try_lock("report").await?.is_none());
//!
//! server.forget_locks(); // as a server that restarts: the holder learns of it at its next renewal
//! let lost = guard.lost().await;
//! assert!(guard.check().is_err(), "{lost}");
//! # Ok(()) }
//! ```

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use quorumlock_core::{Environment, Lessor};
use quorumlock_protocol::{
    Acquired, BoxFuture, Claim, Error, FencingToken, Grant, HeldInterval, Hints, Holder, Instant,
    Lane, LeaseRequest, ListPosition, ListStep, Name, NoMajority, NodeProblem, NodeReport, Nonce,
    Notified, ReleaseOutcome, WaitQueue,
};
use quorumlock_watchdog::{Clock, Renewal};

/// A server in this process. Clones are the same server.
#[derive(Clone, Default)]
pub struct MemoryServer(Arc<Memory>);

#[derive(Default)]
struct Memory {
    /// `Some`: tokio's clock, and watchdogs on the runtime of the test.
    tokio_time: Option<Clock>,
    locks: Mutex<Locks>,
    stopped: AtomicBool,
}

#[derive(Default)]
struct Locks {
    holds: Vec<Hold>,
    last_token: u64,
}

struct Hold {
    claim: Claim,
    nonce: Nonce,
    until: Instant,
    holds: u32,
    label: Option<String>,
}

impl MemoryServer {
    /// A server without locks.
    pub fn new() -> Self {
        Self::default()
    }

    /// A server in tokio's time: leases, renewals and waits follow the clock of the runtime in which the test
    /// runs. With a paused clock (`#[tokio::test(start_paused = true)]`) a test of an outage, or of the end of a
    /// lease, takes no real time.
    ///
    /// The watchdog of a locker is a task of the runtime in which the locker is made: make it inside the test,
    /// and use it there.
    pub fn in_tokio_time() -> Self {
        Self(Arc::new(Memory { tokio_time: Some(Clock::tokio()), ..Memory::default() }))
    }

    /// Loses all locks, as a server that restarts without its data. A holder learns of it at its next
    /// renewal, a third of its lease after the last one; meanwhile another client may get its lock.
    pub fn forget_locks(&self) {
        self.0.locks().holds.clear();
    }

    /// Answers nobody from now on, as a server that was killed and keeps its data. Locks are lost when
    /// their leases end. Calls fail, or wait for the server.
    pub fn stop(&self) {
        self.0.stopped.store(true, Ordering::SeqCst);
    }

    /// Answers again.
    pub fn start(&self) {
        self.0.stopped.store(false, Ordering::SeqCst);
    }
}

impl MemoryServer {
    /// The clock and the watchdog of its lockers.
    pub(crate) fn environment(&self) -> Environment {
        match &self.0.tokio_time {
            Some(clock) => Environment {
                clock: clock.clone(),
                watchdog_on_this_runtime: true,
                ..Environment::default()
            },
            None => Environment::default(),
        }
    }

    /// A locker's view of the server.
    pub(crate) fn lessor(&self, clock: Clock, label: Option<String>) -> Arc<dyn Lessor> {
        Arc::new(MemoryLessor { memory: self.0.clone(), clock, label })
    }
}

impl fmt::Debug for MemoryServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryServer")
            .field("holds", &self.0.locks().holds.len())
            .field("stopped", &self.0.stopped)
            .finish()
    }
}

impl Memory {
    fn locks(&self) -> MutexGuard<'_, Locks> {
        self.locks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Fails while the server is stopped.
    fn answers(&self, name: Name) -> Result<(), Error> {
        if !self.stopped.load(Ordering::SeqCst) {
            return Ok(());
        }
        let stopped = NodeProblem::NotConnected("MemoryServer::stop was called".into());
        let report = NodeReport::new("memory", stopped);
        Err(NoMajority::new(Some(name), (1, 1), 0, vec![report]).into())
    }
}

impl Locks {
    /// The holds that keep others out at `now`.
    fn valid(&mut self, now: Instant) -> &mut Vec<Hold> {
        self.holds.retain(|hold| hold.until > now);
        &mut self.holds
    }

    fn acquire(&mut self, lease: LeaseRequest, now: Instant, label: Option<String>) -> Acquired {
        let LeaseRequest { claim, nonce, ttl, holds, label: of_hold } = lease;
        let others = self.valid(now).iter().filter(|hold| hold.claim.excludes(&claim));
        if let Some(until) = others.map(|hold| hold.until).max() {
            return Acquired::Busy(Some(until.since(now)));
        }
        let until = now + ttl;
        let label = of_hold.map(|label| label.to_string()).or(label);
        self.holds.push(Hold { claim, nonce, until, holds, label });
        self.last_token += FencingToken::BLOCK;
        Acquired::Granted(Grant {
            until,
            token: FencingToken::new(self.last_token),
            counted: false,
        })
    }

    fn renew(&mut self, lease: &LeaseRequest, now: Instant) -> Renewal {
        let Some(hold) = self.valid(now).iter_mut().find(|hold| hold.nonce == lease.nonce) else {
            return Renewal::Gone;
        };
        // A writer that goes on as a reader.
        hold.claim = lease.claim.clone();
        (hold.until, hold.holds) = (now + lease.ttl, lease.holds);
        Renewal::Until(hold.until)
    }

    /// Removes the holds that `ends` names. True if one of them was valid.
    fn end(&mut self, now: Instant, ends: impl Fn(&Hold) -> bool) -> bool {
        let holds = self.valid(now);
        let before = holds.len();
        holds.retain(|hold| !ends(hold));
        holds.len() < before
    }

    fn holder(&mut self, claim: &Claim, now: Instant) -> Option<Holder> {
        let name = claim.name();
        let covers = |hold: &&Hold| hold.claim.names().any(|held| held == name);
        let holds: Vec<_> = self.valid(now).iter().filter(covers).collect();
        let hold = *holds.first()?;
        let (id, count) = match (hold.claim.reads(), holds.len()) {
            (true, 2..) => (Holder::READERS.to_owned(), holds.len() as u32),
            (true, _) => (format!("{}:r", hold.nonce), 1),
            (false, _) => (hold.nonce.to_string(), hold.holds),
        };
        let mut holder = Holder::new(id, Some(hold.until.since(now)), count);
        holder.label = hold.label.clone();
        Some(holder)
    }
}

/// The server, as one locker sees it.
struct MemoryLessor {
    memory: Arc<Memory>,
    clock: Clock,
    label: Option<String>,
}

impl MemoryLessor {
    /// Carries out `act` when the future is polled, so that a future which is dropped has done nothing.
    fn ask<T: Send + 'static>(
        &self,
        name: Name,
        act: impl FnOnce(&Memory, Instant) -> T + Send + 'static,
    ) -> BoxFuture<Result<T, Error>> {
        let (memory, clock) = (self.memory.clone(), self.clock.clone());
        Box::pin(async move {
            memory.answers(name)?;
            Ok(act(&memory, clock.now()))
        })
    }
}

impl Lessor for MemoryLessor {
    fn nodes(&self) -> usize {
        1
    }

    fn acquire(
        &self,
        lease: LeaseRequest,
        fencing: bool,
        hints: Hints,
    ) -> BoxFuture<Result<Acquired, Error>> {
        let label = self.label.clone();
        self.ask(lease.claim.label(), move |memory, now| {
            let claim = lease.claim.clone();
            let mut locks = memory.locks();
            let mut acquired = locks.acquire(lease, now, label);
            match &mut acquired {
                Acquired::Granted(grant) if !fencing => grant.token = FencingToken::NONE,
                Acquired::Busy(_) => {
                    if let Some(free) = hints.free_slots().filter(|_| claim.slots().is_some()) {
                        let holds = locks.valid(now);
                        let is_free =
                            |slot: &Claim| !holds.iter().any(|hold| hold.claim.excludes(slot));
                        free.report(claim.every_slot().filter(is_free).filter_map(|s| s.slot()));
                    }
                }
                _ => {}
            }
            acquired
        })
    }

    fn renew(&self, leases: Vec<LeaseRequest>, _: Lane) -> BoxFuture<Vec<Renewal>> {
        let (memory, clock) = (self.memory.clone(), self.clock.clone());
        Box::pin(async move {
            let now = clock.now();
            let answers = !memory.stopped.load(Ordering::SeqCst);
            let mut locks = memory.locks();
            let renewed = leases.iter().map(|lease| match answers {
                true => locks.renew(lease, now),
                false => Renewal::Unknown,
            });
            renewed.collect()
        })
    }

    fn release(
        &self,
        lease: LeaseRequest,
        _: HeldInterval,
        _: Lane,
        _: Hints,
    ) -> BoxFuture<Result<ReleaseOutcome, Error>> {
        // Carried out at once: a caller that does not wait has released the lock as well.
        let done = self.memory.answers(lease.claim.label()).map(|()| {
            let now = self.clock.now();
            let held = self.memory.locks().end(now, |hold| hold.nonce == lease.nonce);
            ReleaseOutcome { held, forgot: false, notified: Some(Notified::Nobody) }
        });
        Box::pin(std::future::ready(done))
    }

    fn list(&self, _: usize, _: ListPosition) -> BoxFuture<Result<ListStep, Error>> {
        self.ask(Name::probe(), |memory, now| {
            let mut locks = memory.locks();
            let found = locks.valid(now).iter().flat_map(|hold| hold.claim.of_each_name());
            ListStep { found: found.collect(), next: None }
        })
    }

    fn inspect(&self, claim: Claim) -> BoxFuture<Result<Option<Holder>, Error>> {
        self.ask(claim.label(), move |memory, now| memory.locks().holder(&claim, now))
    }

    fn force_release(&self, claim: Claim, of: Option<String>) -> BoxFuture<Result<bool, Error>> {
        self.ask(claim.label(), move |memory, now| {
            let mut locks = memory.locks();
            let holder = locks.holder(&claim, now);
            if of.is_some_and(|of| holder.is_none_or(|holder| holder.id != of)) {
                return false;
            }
            let covers = |hold: &Hold| hold.claim.names().any(|held| held == claim.name());
            locks.end(now, covers)
        })
    }

    fn home(&self, _: &Name) -> Option<usize> {
        Some(0)
    }

    fn drain(&self, _: Lane) -> BoxFuture<()> {
        Box::pin(std::future::ready(()))
    }

    fn wait_queue(&self) -> Option<&dyn WaitQueue> {
        None
    }
}
