//! What the tasks of a locker do, as [`worker`](crate::worker) does it on real servers.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use quorumlock_core::{Error, Guard, Locker};
use tokio::sync::Notify;

use super::record::Record;
use super::register::{Register, Write};
use crate::dice::Dice;
use crate::history::{Event, Op, Phase};
use crate::scenario::{Care, ClientPlan, Span, Waiting};

const RETRY_AFTER: Duration = Duration::from_millis(20);
const LOOK_EVERY: Duration = Duration::from_millis(10);
const MOVED_NS: u64 = 1_000_000;

/// What all tasks of a locker share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) client: ClientPlan,
    pub(super) name: String,
    pub(super) locker: Locker,
    pub(super) record: Arc<Record>,
    pub(super) register: Arc<Register>,
    pub(super) attempts: AtomicU64,
    /// Tasks that are not done.
    pub(super) left: AtomicU64,
    pub(super) ending: AtomicBool,
    pub(super) ends: Notify,
}

/// One task.
pub(super) struct Hand {
    pub(super) shared: Arc<Shared>,
    pub(super) dice: Dice,
}

enum Not {
    Granted(String),
    Ending,
}

impl Shared {
    /// Gives back what is held, asks for nothing any more.
    pub(super) fn end(&self) {
        self.ending.store(true, Ordering::SeqCst);
        self.ends.notify_waiters();
    }

    async fn ended(&self) {
        loop {
            let ends = self.ends.notified();
            if self.ending.load(Ordering::SeqCst) {
                return;
            }
            ends.await;
        }
    }

    fn tell(&self, op: Op, phase: Phase, details: impl FnOnce(&mut Event)) {
        let mut event = self.record.event(&self.client.id, op, phase);
        event.name = (op != Op::Note).then(|| self.name.clone());
        details(&mut event);
        self.record.tell(event);
    }

    fn note(&self, what: &str) {
        self.tell(Op::Note, Phase::Info, |event| event.what = Some(what.to_owned()));
    }
}

impl Hand {
    pub(super) async fn work(mut self) {
        self.rounds().await;
        if self.shared.left.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.shared.note("done");
        }
    }

    async fn rounds(&mut self) {
        let mut left = self.shared.client.work.holds;
        while left != Some(0) {
            let attempt = self.shared.attempts.fetch_add(1, Ordering::SeqCst);
            self.tell(Op::Lock, Phase::Invoke, attempt, None);
            let guard = match self.acquire().await {
                Ok(guard) => guard,
                Err(Not::Ending) => {
                    return self.tell(Op::Lock, Phase::Unknown, attempt, Some("ended".into()));
                }
                Err(Not::Granted(why)) => {
                    self.tell(Op::Lock, Phase::Fail, attempt, Some(why));
                    continue;
                }
            };
            self.hold(attempt, guard).await;
            left = left.map(|left| left - 1);
            if left == Some(0) {
                return;
            }
            let think = self.draw(self.shared.client.work.think);
            tokio::select! {
                biased;
                () = self.shared.ended() => return,
                () = tokio::time::sleep(think) => {}
            }
        }
    }

    async fn acquire(&self) -> Result<Guard, Not> {
        let (locker, name) = (&self.shared.locker, &self.shared.name);
        let asking = async {
            loop {
                let waiting = self.shared.client.work.waiting;
                let asked = match waiting {
                    Waiting::Queue => locker.lock(name).fail_fast().await.map(Some),
                    Waiting::PollMs(_) => locker.try_lock(name).await,
                };
                match (asked, waiting) {
                    (Ok(Some(guard)), _) => return Ok(guard),
                    (Ok(None), Waiting::PollMs(ms)) => {
                        tokio::time::sleep(Duration::from_millis(ms)).await;
                    }
                    (Ok(None), Waiting::Queue) => tokio::time::sleep(RETRY_AFTER).await,
                    (Err(why), _) => {
                        tokio::time::sleep(RETRY_AFTER).await;
                        return Err(Not::Granted(why.to_string()));
                    }
                }
            }
        };
        tokio::select! {
            biased;
            got = asking => got,
            () = self.shared.ended() => Err(Not::Ending),
        }
    }

    async fn hold(&mut self, attempt: u64, guard: Guard) {
        let mut until = self.valid_until(&guard).unwrap_or_default();
        let token = guard.fence().get();
        self.shared.tell(Op::Lock, Phase::Ok, |event| {
            (event.hold, event.token) = (Some(attempt), Some(token));
            event.nonce = Some(guard.nonce().to_string());
            event.valid_until_ns = Some(until);
        });
        self.write(attempt, token).await;
        let hold = self.draw(self.shared.client.work.hold);
        if self.toil(attempt, &guard, hold, &mut until).await {
            return drop(guard.unlock().await);
        }
        if self.may_write(&guard) {
            if let Some(ms) = self.shared.client.work.failpoint_ms {
                self.shared.note("checked");
                tokio::time::sleep(Duration::from_millis(ms)).await;
            }
            self.write(attempt, token).await;
        }
        let believed = self.valid_until(&guard);
        self.shared.tell(Op::Unlock, Phase::Invoke, |event| {
            (event.hold, event.valid_until_ns) = (Some(attempt), believed);
        });
        match guard.unlock().await {
            Ok(()) => self.tell(Op::Unlock, Phase::Ok, attempt, None),
            Err(error) => {
                let unknown = matches!(error, Error::Refused(_) | Error::Unreachable(_));
                let phase = if unknown { Phase::Unknown } else { Phase::Fail };
                self.tell(Op::Unlock, phase, attempt, Some(error.to_string()));
            }
        }
    }

    /// True if it was cut short, since the holder was told that the lock is lost.
    async fn toil(&self, attempt: u64, guard: &Guard, hold: Duration, until: &mut u64) -> bool {
        let work = &self.shared.client.work;
        let mut over = std::pin::pin!(async {
            tokio::select! {
                biased;
                () = tokio::time::sleep(hold) => {}
                () = self.shared.ended() => {}
            }
        });
        let mut lost = std::pin::pin!(guard.lost());
        let (mut told, mut since_write) = (false, Duration::ZERO);
        loop {
            tokio::select! {
                biased;
                lost = &mut lost, if !told => {
                    self.tell(Op::Lost, Phase::Info, attempt, Some(lost.why.to_string()));
                    told = true;
                    if work.care == Care::Watches {
                        return true;
                    }
                }
                () = &mut over => return false,
                () = tokio::time::sleep(LOOK_EVERY) => since_write += LOOK_EVERY,
            }
            let now_until = self.valid_until(guard).unwrap_or_default();
            if !told && now_until > *until + MOVED_NS {
                *until = now_until;
                self.shared.tell(Op::Hold, Phase::Info, |event| {
                    (event.hold, event.valid_until_ns) = (Some(attempt), Some(now_until));
                });
            }
            let every = work.write_every_ms.map(Duration::from_millis);
            if every.is_some_and(|every| since_write >= every) && self.may_write(guard) {
                since_write = Duration::ZERO;
                self.write(attempt, guard.fence().get()).await;
            }
        }
    }

    fn may_write(&self, guard: &Guard) -> bool {
        self.shared.client.work.care == Care::Naive || guard.check().is_ok()
    }

    async fn write(&self, attempt: u64, token: u64) {
        self.shared.tell(Op::Write, Phase::Invoke, |event| {
            (event.hold, event.token) = (Some(attempt), Some(token));
        });
        let (client, name) = (self.shared.client.id.clone(), self.shared.name.clone());
        self.shared.register.write(Write { client, hold: attempt, name, token }).await;
    }

    fn valid_until(&self, guard: &Guard) -> Option<u64> {
        let left = u64::try_from(guard.valid_for().as_nanos()).unwrap_or(u64::MAX);
        (left > 0).then(|| self.shared.record.now_ns().saturating_add(left))
    }

    fn tell(&self, op: Op, phase: Phase, attempt: u64, what: Option<String>) {
        self.shared.tell(op, phase, |event| (event.hold, event.what) = (Some(attempt), what));
    }

    fn draw(&mut self, span: Span) -> Duration {
        Duration::from_millis(self.dice.within(span.low_ms, span.high_ms))
    }
}
