//! What the tasks of a worker do: lock, claim, work, write, unlock.

use std::error::Error as StdError;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinSet;

use super::breach::{Breached, Held};
use super::config::{Config, Order};
use super::tell::{Details, Teller};
use crate::dice::Dice;
use crate::history::{Op, Phase};
use crate::scenario::{Beginning, Care, Span, Waiting};
use crate::stamp;
use crate::trial::resource::{Access, Kind, Request};

/// How long a contender waits after an error before it asks again.
const RETRY_AFTER: Duration = Duration::from_millis(20);

/// How exactly the history knows when a renewal moved the end of a belief.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// Less than this is the time between two readings of clocks, and no renewal.
const MOVED_NS: u64 = 1_000_000;

/// What all tasks of a worker share.
pub(super) struct Shared {
    config: Config,
    locker: Breached,
    teller: Teller,
    attempts: AtomicU64,
}

impl Shared {
    pub(super) fn new(config: Config) -> Result<Arc<Self>, Box<dyn StdError>> {
        let (locker, teller) = (Breached::new(&config)?, Teller::new(&config));
        Ok(Arc::new(Self { config, locker, teller, attempts: AtomicU64::new(0) }))
    }

    /// From `Start` to `End`, or until every task has held as often as it was to.
    pub(super) async fn work(self: Arc<Self>, mut orders: watch::Receiver<Option<Order>>) {
        if self.config.work.connected
            && let Err(why) = self.locker.connect().await
        {
            self.teller.tell(Op::Note, Phase::Info, Details::default().what(why));
        }
        self.teller.tell(Op::Note, Phase::Info, Details::default().what("ready"));
        let _ = orders.wait_for(Option::is_some).await;
        let mut tasks = JoinSet::new();
        for task in 0..self.config.work.contenders {
            let (shared, orders) = (Arc::clone(&self), orders.clone());
            let dice = Dice::new(shared.config.work.seed, task as u64);
            tasks.spawn(Task { shared, orders, dice }.work());
        }
        tasks.join_all().await;
        self.locker.close().await;
        self.teller.tell(Op::Note, Phase::Info, Details::default().what("done"));
    }
}

struct Task {
    shared: Arc<Shared>,
    orders: watch::Receiver<Option<Order>>,
    dice: Dice,
}

/// Why a task has not got the lock.
enum Not {
    Granted(String),
    Ending,
}

impl Task {
    async fn work(mut self) {
        let mut access = Access::new(self.shared.config.resource);
        let mut left = self.shared.config.work.holds;
        // Who asks again at once has waited all the time: both are stamped with one instant.
        let mut since = None;
        while left != Some(0) {
            let attempt = self.shared.attempts.fetch_add(1, Ordering::SeqCst);
            let asked = Details { mono_ns: since.take(), ..Details::of(attempt) };
            self.tell(Op::Lock, Phase::Invoke, asked);
            let held = match self.acquire().await {
                Ok(held) => held,
                Err(Not::Ending) => {
                    self.tell(Op::Lock, Phase::Unknown, Details::of(attempt).what("ended"));
                    return;
                }
                Err(Not::Granted(why)) => {
                    since = Some(stamp::mono_ns());
                    let failed = Details { mono_ns: since, ..Details::of(attempt) };
                    self.tell(Op::Lock, Phase::Fail, failed.what(why));
                    continue;
                }
            };
            self.hold(attempt, held, &mut access).await;
            left = left.map(|left| left - 1);
            if left == Some(0) {
                return;
            }
            let think = self.draw(self.shared.config.work.think);
            tokio::select! {
                biased;
                () = self.ended() => return,
                () = tokio::time::sleep(think) => {}
            }
        }
    }

    async fn acquire(&self) -> Result<Held, Not> {
        let asking = async {
            loop {
                let asked = match self.shared.config.work.waiting {
                    Waiting::Queue => self.shared.locker.lock().await.map(Some),
                    Waiting::PollMs(_) => self.shared.locker.try_lock().await,
                };
                match (asked, self.shared.config.work.waiting) {
                    (Ok(Some(held)), _) => return Ok(held),
                    (Ok(None), Waiting::PollMs(ms)) => sleep_ms(ms).await,
                    (Ok(None), Waiting::Queue) => tokio::time::sleep(RETRY_AFTER).await,
                    (Err(why), _) => {
                        // Still waiting, as far as anybody else can tell.
                        tokio::time::sleep(RETRY_AFTER).await;
                        return Err(Not::Granted(why));
                    }
                }
            }
        };
        tokio::select! {
            biased;
            got = asking => got,
            () = self.ended() => Err(Not::Ending),
        }
    }

    async fn hold(&mut self, attempt: u64, held: Held, access: &mut Access) {
        let token = held.token();
        let mut until = valid_until(&held).unwrap_or_default();
        self.tell(
            Op::Lock,
            Phase::Ok,
            Details {
                nonce: held.nonce(),
                token: Some(token),
                valid_until_ns: Some(until),
                ..Details::of(attempt)
            },
        );
        let beginning = self.shared.config.work.beginning;
        if beginning != Beginning::Reads {
            // The claim: whoever writes after it without the lock does harm.
            self.write(attempt, &held, access).await;
        }
        if beginning != Beginning::Claims {
            self.access(attempt, &held, access, Kind::Read).await;
        }
        let hold = self.draw(self.shared.config.work.hold);
        let told = self.toil(attempt, &held, hold, &mut until, access).await;
        if told {
            return drop(held.unlock().await);
        }
        if self.may_write(&held) {
            self.stand_at_failpoint(attempt);
            self.write(attempt, &held, access).await;
        }
        self.tell(
            Op::Unlock,
            Phase::Invoke,
            Details { valid_until_ns: valid_until(&held), ..Details::of(attempt) },
        );
        let (phase, what) = match held.unlock().await {
            Ok(()) => (Phase::Ok, None),
            Err((phase, why)) => (phase, Some(why)),
        };
        self.tell(Op::Unlock, phase, Details { what, ..Details::of(attempt) });
    }

    /// The work itself; true if it was cut short, since the holder was told that the lock is lost.
    async fn toil(
        &self,
        attempt: u64,
        held: &Held,
        hold: Duration,
        until: &mut u64,
        access: &mut Access,
    ) -> bool {
        let mut over = std::pin::pin!(async {
            tokio::select! {
                () = tokio::time::sleep(hold) => {}
                () = self.ended() => {}
            }
        });
        let watches = self.shared.config.work.care == Care::Watches;
        let mut lost = std::pin::pin!(held.lost());
        let (mut told, mut since_write) = (false, Duration::ZERO);
        loop {
            tokio::select! {
                biased;
                why = &mut lost, if !told => {
                    self.tell(Op::Lost, Phase::Info, Details::of(attempt).what(why));
                    told = true;
                    if watches {
                        return true;
                    }
                }
                () = &mut over => return false,
                () = tokio::time::sleep(LOOK_EVERY) => since_write += LOOK_EVERY,
            }
            let now_until = valid_until(held).unwrap_or_default();
            if !told && now_until > *until + MOVED_NS {
                *until = now_until;
                self.tell(
                    Op::Hold,
                    Phase::Info,
                    Details { valid_until_ns: Some(now_until), ..Details::of(attempt) },
                );
            }
            let every = self.shared.config.work.write_every_ms.map(Duration::from_millis);
            if every.is_some_and(|every| since_write >= every) && self.may_write(held) {
                since_write = Duration::ZERO;
                self.write(attempt, held, access).await;
            }
        }
    }

    /// Ready when this worker is to end.
    async fn ended(&self) {
        let mut orders = self.orders.clone();
        if orders.wait_for(|order| *order == Some(Order::End)).await.is_err() {
            std::future::pending().await
        }
    }

    fn may_write(&self, held: &Held) -> bool {
        self.shared.config.work.care == Care::Naive || held.is_valid()
    }

    /// Blocks the thread, as whatever stops a process does: not even the check can be made again.
    fn stand_at_failpoint(&self, attempt: u64) {
        if let Some(ms) = self.shared.config.work.failpoint_ms {
            self.tell(Op::Note, Phase::Info, Details::of(attempt).what("checked"));
            std::thread::sleep(Duration::from_millis(ms));
        }
    }

    async fn write(&self, attempt: u64, held: &Held, access: &mut Access) {
        self.tell(
            Op::Write,
            Phase::Invoke,
            Details { token: Some(held.token()), ..Details::of(attempt) },
        );
        self.access(attempt, held, access, Kind::Write).await;
    }

    /// The resource tells what it made of it.
    async fn access(&self, attempt: u64, held: &Held, access: &mut Access, kind: Kind) {
        let config = &self.shared.config;
        let asked = Request {
            kind,
            client: config.client.clone(),
            hold: attempt,
            name: config.locking.name.clone(),
            token: held.token(),
        };
        if let Err(why) = access.ask(&asked).await {
            self.tell(Op::Write, Phase::Unknown, Details::of(attempt).what(why));
        }
    }

    fn tell(&self, op: Op, phase: Phase, details: Details) {
        self.shared.teller.tell(op, phase, details);
    }

    fn draw(&mut self, span: Span) -> Duration {
        Duration::from_millis(self.dice.within(span.low_ms, span.high_ms))
    }
}

async fn sleep_ms(ms: u64) {
    tokio::time::sleep(Duration::from_millis(ms)).await;
}

/// On the clock of the events. That is read first: no belief is recorded as longer than it was.
/// `None` if it is over, which says nothing about when that was.
fn valid_until(held: &Held) -> Option<u64> {
    let now = stamp::mono_ns();
    let left = u64::try_from(held.valid_for().as_nanos()).unwrap_or(u64::MAX);
    (left > 0).then(|| now.saturating_add(left))
}
