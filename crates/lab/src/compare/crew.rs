//! Tasks that hold locks and keep records of it for the judges.

use std::sync::Arc;
use std::time::Duration;

use quorumlock::{Error, Guard, Locker};
use rand::rngs::StdRng;
use tokio::task::JoinSet;

use super::pairs::{Failures, RETRY_AFTER};
use super::voice::Voice;
use crate::history::{Op, Phase};
use crate::judge::{Hold, Wait, Who};
use crate::stamp::{self, instant};

/// A task that takes one lock again and again and holds it for a while.
pub(super) struct Worker {
    pub(super) who: Who,
    pub(super) locker: Locker,
    pub(super) name: Arc<str>,
    pub(super) job: Job,
    /// That of its locker.
    pub(super) voice: Voice,
}

/// How long the work under the lock takes.
pub(super) enum Job {
    Always(Duration),
    /// Drawn anew for each hold.
    Drawn(fn(&mut StdRng) -> Duration, Box<StdRng>),
}

/// What tasks saw.
#[derive(Debug, Default)]
pub(super) struct Log {
    pub(super) holds: Vec<Hold>,
    /// Ended without a grant when time was up.
    pub(super) waits: Vec<Wait>,
    /// Calls of `lock` that gave an error.
    pub(super) failed: Failures,
    /// Holders that were told of loss, before or at the release.
    pub(super) lost: Failures,
    /// Releases that too few nodes confirmed.
    pub(super) unconfirmed: Failures,
}

/// Lets all workers work for so long.
pub(super) async fn work(crew: Vec<Worker>, lasts: Duration) -> Log {
    let until = stamp::mono_ns().saturating_add(nanos(lasts));
    let mut tasks = JoinSet::new();
    for worker in crew {
        tasks.spawn(worker.work(until));
    }
    let mut all = Log::default();
    for log in tasks.join_all().await {
        all.add(log);
    }
    all
}

impl Worker {
    /// What is logged and what is recorded is stamped with the same instants.
    async fn work(mut self, until: u64) -> Log {
        let mut log = Log::default();
        let left = || Some(until_from_now(until)).filter(|left| !left.is_zero());
        let mut asked = stamp::mono_ns();
        let mut attempt = self.asks(asked);
        while let Some(time) = left() {
            // Dropping the future gives up the place in the queue.
            let lock = self.locker.lock(&self.name).fail_fast();
            let guard = match tokio::time::timeout(time, lock).await {
                Ok(Ok(guard)) => guard,
                Ok(Err(error)) => {
                    log.failed.note(&error);
                    tokio::time::sleep(RETRY_AFTER).await;
                    // Who asks again at once has waited all the time.
                    let now = stamp::mono_ns();
                    self.note(Op::Lock, Phase::Fail, attempt, now, Some(error));
                    attempt = self.asks(now);
                    self.voice.tell().await;
                    continue;
                }
                Err(_) => break,
            };
            let (hold, told) = self.hold(&guard, attempt, asked, until).await;
            log.holds.push(hold);
            let unlocked = guard.unlock().await;
            asked = stamp::mono_ns();
            if !told {
                let phase = match &unlocked {
                    Ok(()) => Phase::Ok,
                    Err(Error::Refused(_) | Error::Unreachable(_)) => Phase::Unknown,
                    Err(_) => Phase::Fail,
                };
                self.note(Op::Unlock, phase, attempt, asked, unlocked.as_ref().err());
            }
            match unlocked {
                Ok(()) => {}
                Err(lost @ Error::Lost(_)) => log.lost.note(&lost),
                Err(error) => log.unconfirmed.note(&error),
            }
            attempt = self.asks(asked);
        }
        let ended = stamp::mono_ns();
        self.note(Op::Lock, Phase::Unknown, attempt, ended, Some("ended"));
        self.voice.tell().await;
        log.waits.push(Wait { name: self.name, asked: instant(asked), ended: instant(ended) });
        log
    }

    /// Works under the lock. Whether it was cut off by loss; the release then says so, too.
    async fn hold(&mut self, guard: &Guard, attempt: u64, asked: u64, until: u64) -> (Hold, bool) {
        let granted = stamp::mono_ns();
        let valid_until = granted.saturating_add(nanos(guard.valid_for()));
        let token = guard.fence().get();
        self.voice.note(Op::Lock, Phase::Ok, attempt, granted, |event| {
            event.name = Some(self.name.to_string());
            (event.nonce, event.token) = (Some(guard.nonce().to_string()), Some(token));
            event.valid_until_ns = Some(valid_until);
        });
        self.voice.tell().await;
        let job = self.job.next().min(until_from_now(until));
        let told = guard.run(tokio::time::sleep(job)).await.err();
        let released = stamp::mono_ns();
        let left = nanos(guard.valid_for());
        match &told {
            Some(lost) => self.note(Op::Lost, Phase::Info, attempt, released, Some(lost.why)),
            None => self.voice.note(Op::Unlock, Phase::Invoke, attempt, released, |event| {
                event.name = Some(self.name.to_string());
                // None is left: that says nothing about when it ended.
                event.valid_until_ns = (left > 0).then(|| released.saturating_add(left));
            }),
        }
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

    /// A new attempt, at that instant.
    fn asks(&mut self, now: u64) -> u64 {
        let attempt = self.voice.attempt();
        self.note(Op::Lock, Phase::Invoke, attempt, now, None::<Error>);
        attempt
    }

    fn note(
        &mut self,
        op: Op,
        phase: Phase,
        attempt: u64,
        mono_ns: u64,
        what: Option<impl ToString>,
    ) {
        self.voice.note(op, phase, attempt, mono_ns, |event| {
            event.name = Some(self.name.to_string());
            event.what = what.map(|what| what.to_string());
        });
    }
}

fn until_from_now(until: u64) -> Duration {
    Duration::from_nanos(until.saturating_sub(stamp::mono_ns()))
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
