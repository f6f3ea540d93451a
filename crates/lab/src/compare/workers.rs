//! Tasks that hold locks and record what they observe for the judges.

use std::sync::Arc;
use std::time::Duration;

use quorumlock::{Error, Guard, Locker};
use rand::rngs::StdRng;
use scopeguard::ScopeGuard;
use tokio::task::JoinSet;

use super::pairs::{Failures, RETRY_AFTER};
use super::phase_recorder::PhaseRecorder;
use crate::history::{Op, Phase};
use crate::judge::{Hold, Wait, Who};
use crate::timestamp::{self, instant};

/// A task that repeatedly takes one lock and holds it for a while.
pub(super) struct Worker {
    pub(super) who: Who,
    pub(super) locker: Locker,
    pub(super) name: Arc<str>,
    pub(super) job: Job,
    /// A clone of its locker's recorder.
    pub(super) recorder: PhaseRecorder,
}

/// How long the work under the lock takes.
pub(super) enum Job {
    Always(Duration),
    /// Drawn anew for each hold.
    Drawn(fn(&mut StdRng) -> Duration, Box<StdRng>),
}

/// What the tasks observed.
#[derive(Debug, Default)]
pub(super) struct Log {
    pub(super) holds: Vec<Hold>,
    /// Attempts that had no grant when the time was over.
    pub(super) waits: Vec<Wait>,
    /// Errors of `lock`.
    pub(super) failed: Failures,
    /// Losses that holders were notified of, before or at the release.
    pub(super) lost: Failures,
    /// Releases that too few nodes confirmed.
    pub(super) unconfirmed: Failures,
}

/// Runs all workers for this long.
pub(super) async fn work(workers: Vec<Worker>, lasts: Duration) -> Log {
    let until = timestamp::mono_ns().saturating_add(nanos(lasts));
    let mut tasks = JoinSet::new();
    for worker in workers {
        tasks.spawn(worker.work(until));
    }
    let mut all = Log::default();
    for log in tasks.join_all().await {
        all.add(log);
    }
    all
}

impl Worker {
    /// The log and the record use the same instants.
    async fn work(mut self, until: u64) -> Log {
        let mut log = Log::default();
        let left = || Some(until_from_now(until)).filter(|left| !left.is_zero());
        let mut asked = timestamp::mono_ns();
        let mut attempt = self.record_attempt(asked);
        while let Some(time) = left() {
            // If the timeout drops the future, the place in the queue is given up.
            let lock = self.locker.lock(&self.name).fail_fast();
            let guard = match tokio::time::timeout(time, lock).await {
                Ok(Ok(guard)) => guard,
                Ok(Err(error)) => {
                    log.failed.record(&error);
                    tokio::time::sleep(RETRY_AFTER).await;
                    // A task that asks again at once has waited without a gap.
                    let now = timestamp::mono_ns();
                    self.record(Op::Lock, Phase::Fail, attempt, now, Some(error));
                    attempt = self.record_attempt(now);
                    self.recorder.flush().await;
                    continue;
                }
                Err(_) => break,
            };
            let (hold, told) = self.hold(&guard, attempt, asked, until).await;
            log.holds.push(hold);
            let unlocked = guard.unlock().await;
            asked = timestamp::mono_ns();
            if !told {
                let phase = match &unlocked {
                    Ok(()) => Phase::Ok,
                    Err(Error::Refused(_) | Error::Unreachable(_)) => Phase::Unknown,
                    Err(_) => Phase::Fail,
                };
                self.record(Op::Unlock, phase, attempt, asked, unlocked.as_ref().err());
            }
            match unlocked {
                Ok(()) => {}
                Err(lost @ Error::Lost(_)) => log.lost.record(&lost),
                Err(error) => log.unconfirmed.record(&error),
            }
            attempt = self.record_attempt(asked);
        }
        let ended = timestamp::mono_ns();
        self.record(Op::Lock, Phase::Unknown, attempt, ended, Some("ended"));
        self.recorder.flush().await;
        log.waits.push(Wait { name: self.name, asked: instant(asked), ended: instant(ended) });
        log
    }

    /// Works under the lock. The boolean is true if a loss ended the work early; the release then
    /// reports the loss too.
    async fn hold(&mut self, guard: &Guard, attempt: u64, asked: u64, until: u64) -> (Hold, bool) {
        let granted = timestamp::mono_ns();
        let valid_until = granted.saturating_add(nanos(guard.valid_for()));
        let token = guard.fence().get();
        self.recorder.buffer(Op::Lock, Phase::Ok, attempt, granted, |event| {
            event.name = Some(self.name.to_string());
            (event.nonce, event.token) = (Some(guard.nonce().to_string()), Some(token));
            event.valid_until_ns = Some(valid_until);
        });
        // An interrupt drops this future and then the guard, which releases the lock: the record
        // says so before another worker can be granted it.
        let mut cut_off = scopeguard::guard(&mut *self, |worker| {
            worker.record_release(guard, attempt);
        });
        cut_off.recorder.flush().await;
        let job = cut_off.job.next().min(until_from_now(until));
        let told = guard.run(tokio::time::sleep(job)).await.err();
        ScopeGuard::into_inner(cut_off);
        let (released, left) = match &told {
            None => self.record_release(guard, attempt),
            Some(lost) => {
                let released = timestamp::mono_ns();
                self.record(Op::Lost, Phase::Info, attempt, released, Some(lost.why));
                (released, nanos(guard.valid_for()))
            }
        };
        let hold = Hold {
            name: self.name.clone(),
            who: self.who,
            asked: instant(asked),
            granted: instant(granted),
            released: instant(released),
            valid_until: instant(released.saturating_add(left)),
            token,
        };
        (hold, told.is_some())
    }

    /// Records that the guard is released now. Returns the time, and for how long the lease is
    /// still valid, both in nanoseconds.
    fn record_release(&mut self, guard: &Guard, attempt: u64) -> (u64, u64) {
        let released = timestamp::mono_ns();
        let left = nanos(guard.valid_for());
        self.recorder.buffer(Op::Unlock, Phase::Invoke, attempt, released, |event| {
            event.name = Some(self.name.to_string());
            // No validity is left: when it ended is unknown.
            event.valid_until_ns = (left > 0).then(|| released.saturating_add(left));
        });
        (released, left)
    }

    /// Records the start of a new attempt at `now`, and returns its number.
    fn record_attempt(&mut self, now: u64) -> u64 {
        let attempt = self.recorder.attempt();
        self.record(Op::Lock, Phase::Invoke, attempt, now, None::<Error>);
        attempt
    }

    fn record(
        &mut self,
        op: Op,
        phase: Phase,
        attempt: u64,
        mono_ns: u64,
        what: Option<impl ToString>,
    ) {
        self.recorder.buffer(op, phase, attempt, mono_ns, |event| {
            event.name = Some(self.name.to_string());
            event.what = what.map(|what| what.to_string());
        });
    }
}

fn until_from_now(until: u64) -> Duration {
    Duration::from_nanos(until.saturating_sub(timestamp::mono_ns()))
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

impl Job {
    fn next(&mut self) -> Duration {
        match self {
            Self::Always(time) => *time,
            Self::Drawn(draw, random) => draw(random),
        }
    }
}

impl Log {
    pub(super) fn add(&mut self, other: Self) {
        self.holds.extend(other.holds);
        self.waits.extend(other.waits);
        self.failed.add(other.failed);
        self.lost.add(other.lost);
        self.unconfirmed.add(other.unconfirmed);
    }
}
