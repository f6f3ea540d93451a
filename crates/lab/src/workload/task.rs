use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::client::{Client, Kind};
use super::details::Details;
use crate::history::{Op, Phase, SLOT, TOGETHER};
use crate::scenario::{FirstAccess, OnLoss, ReadWrite, Span, Waiting, Work};
use crate::worker::broken_lock::{Held, Loss};
use crate::worker::not_granted::NotGranted;
use quorumlock_sim::Dice;

/// How long a task waits after an error before it asks again.
const RETRY_AFTER: Duration = Duration::from_millis(20);

/// How often a holder checks for a renewal: the resolution of `Hold` events.
const POLL_EVERY: Duration = Duration::from_millis(10);

/// Smaller changes come from reading two clocks one after the other, not from a renewal.
const MOVED_NS: u64 = 1_000_000;

/// The tasks of a client, as many as its work says.
pub(crate) fn tasks<C: Client>(client: &Arc<C>) -> impl Iterator<Item = Task<C>> {
    let Work { contenders, names, ring, seed, .. } = *client.work();
    let attempts = Arc::new(AtomicU64::new(client.first_attempt()));
    let of_all = client.name();
    let name = move |task: usize| format!("{of_all}/{}", task % names);
    let name = move |task: usize| match (ring, names) {
        (Some(_), _) => format!("{}{TOGETHER}{}", name(task), name(task + 1)),
        (None, 2..) => name(task),
        (None, _) => of_all.to_owned(),
    };
    (0..contenders).map(move |task| Task {
        client: Arc::clone(client),
        number: task as u64,
        name: name(task).into(),
        attempts: Arc::clone(&attempts),
        dice: Dice::new(seed, task as u64),
    })
}

/// A task of a client.
pub(crate) struct Task<C> {
    client: Arc<C>,
    number: u64,
    /// The name of its lock, of its locks or of its permits; of the slot, while it holds one.
    name: Arc<str>,
    /// The number of the client's next attempt.
    attempts: Arc<AtomicU64>,
    dice: Dice,
}

/// Why a task did not get the lock.
enum Not {
    Granted(NotGranted),
    /// Another client holds it, and this one does not wait.
    Busy,
    Ending,
}

impl<C: Client> Task<C> {
    /// Works until `End`, until the task has done its number of holds, or for one attempt if that is
    /// all that its process makes.
    pub(crate) async fn work(mut self) {
        let mut access = self.client.open_resource();
        let mut left = self.client.work().holds;
        let once = self.client.work().waiting == Waiting::Once;
        // A task that asks again at once has waited without a gap: both attempts share one instant.
        let mut since = None;
        while left != Some(0) {
            let attempt = self.attempts.fetch_add(1, Ordering::SeqCst);
            let asked = Details { mono_ns: since.take(), ..Details::of(attempt) };
            self.record(Op::Lock, Phase::Invoke, asked);
            let held = match self.acquire().await {
                Ok(held) => held,
                Err(Not::Ending) => {
                    self.record(Op::Lock, Phase::Unknown, Details::of(attempt).what("ended"));
                    return;
                }
                Err(Not::Busy) => {
                    self.record(Op::Lock, Phase::Info, Details::of(attempt).what("held"));
                    return;
                }
                Err(Not::Granted(NotGranted { why, refusal })) => {
                    since = Some(self.client.now_ns());
                    let failed = Details { mono_ns: since, refusal, ..Details::of(attempt) };
                    self.record(Op::Lock, Phase::Fail, failed.what(why));
                    if once {
                        return;
                    }
                    continue;
                }
            };
            self.hold(attempt, held, &mut access).await;
            left = left.map(|left| left - 1);
            if once || left == Some(0) {
                return;
            }
            let think = self.draw(self.client.work().think);
            tokio::select! {
                biased;
                () = self.client.ended() => return,
                () = sleep(think) => {}
            }
        }
    }

    async fn acquire(&self) -> Result<Held, Not> {
        let asking = async {
            loop {
                let asked = match self.client.work().waiting {
                    Waiting::Queue => self.client.lock(&self.name).await.map(Some),
                    Waiting::PollMs(_) | Waiting::Once => self.client.try_lock(&self.name).await,
                };
                match (asked, self.client.work().waiting) {
                    (Ok(Some(held)), _) => return Ok(held),
                    (Ok(None), Waiting::PollMs(ms)) => {
                        tokio::time::sleep(Duration::from_millis(ms)).await;
                    }
                    (Ok(None), Waiting::Once) => return Err(Not::Busy),
                    (Ok(None), Waiting::Queue) => tokio::time::sleep(RETRY_AFTER).await,
                    (Err(why), _) => {
                        // During this sleep, the history still shows the client as waiting.
                        tokio::time::sleep(RETRY_AFTER).await;
                        return Err(Not::Granted(why));
                    }
                }
            }
        };
        tokio::select! {
            biased;
            got = asking => got,
            () = self.client.ended() => Err(Not::Ending),
        }
    }

    /// The name of its events from the grant on: that of the lock, or of a slot of permits.
    fn held_name(&self, held: &Held) -> Arc<str> {
        match held.slot() {
            Some(slot) => format!("{}{SLOT}{slot}", self.name).into(),
            None => Arc::clone(&self.name),
        }
    }

    async fn hold(&mut self, attempt: u64, held: Held, access: &mut C::Access) {
        let held_name = self.held_name(&held);
        let asked_name = std::mem::replace(&mut self.name, held_name);
        self.hold_named(attempt, held, access).await;
        self.name = asked_name;
    }

    async fn hold_named(&mut self, attempt: u64, held: Held, access: &mut C::Access) {
        let token = held.token();
        let mut until = self.valid_until(&held).unwrap_or_default();
        self.record(
            Op::Lock,
            Phase::Ok,
            Details {
                asked_ns: held.readings().map(|(asked_ns, _)| asked_ns),
                mono_ns: held.readings().map(|(_, heard_ns)| heard_ns),
                nonce: held.nonce(),
                permits: self.client.permits(),
                reads: self.reads(),
                token: Some(token),
                valid_until_ns: Some(until),
                ..Details::of(attempt)
            },
        );
        let first_access = self.client.work().first_access;
        if matches!(first_access, FirstAccess::Claims | FirstAccess::ClaimsAndReads) {
            // The claim: after it, a write of an earlier holder is stale.
            self.write(attempt, &held, access).await;
        }
        if matches!(first_access, FirstAccess::Reads | FirstAccess::ClaimsAndReads) {
            self.client.access(access, &self.name, attempt, token, Kind::Read).await;
        }
        let hold = self.draw(self.client.work().hold);
        let told = self.work_under_lock(attempt, &held, hold, &mut until, access).await;
        if told {
            return drop(held.unlock().await);
        }
        if first_access != FirstAccess::Never && self.may_write(&held).await {
            self.pause_at_failpoint(attempt).await;
            self.write(attempt, &held, access).await;
        }
        self.record(
            Op::Unlock,
            Phase::Invoke,
            Details { valid_until_ns: self.valid_until(&held), ..Details::of(attempt) },
        );
        let (phase, what) = match held.unlock().await {
            Ok(()) => (Phase::Ok, None),
            Err((phase, why)) => (phase, Some(why)),
        };
        self.record(Op::Unlock, phase, Details { what, ..Details::of(attempt) });
    }

    /// Works for the duration of the hold. True if it ended early because the lock was lost.
    async fn work_under_lock(
        &self,
        attempt: u64,
        held: &Held,
        hold: Duration,
        until: &mut u64,
        access: &mut C::Access,
    ) -> bool {
        let mut over = std::pin::pin!(async {
            tokio::select! {
                biased;
                () = sleep(hold) => {}
                () = self.client.ended() => {}
            }
        });
        let watches = self.client.work().on_loss == OnLoss::Watches;
        let mut lost = std::pin::pin!(held.lost());
        let (mut told, mut since_write) = (false, Duration::ZERO);
        loop {
            tokio::select! {
                biased;
                Loss { why, at_ns } = &mut lost, if !told => {
                    let loss = Details { mono_ns: at_ns, ..Details::of(attempt) };
                    self.record(Op::Lost, Phase::Info, loss.what(why));
                    told = true;
                    if watches {
                        return true;
                    }
                }
                () = &mut over => return false,
                () = tokio::time::sleep(POLL_EVERY) => since_write += POLL_EVERY,
            }
            let now_until = self.valid_until(held).unwrap_or_default();
            if !told && now_until > *until + MOVED_NS {
                *until = now_until;
                self.record(
                    Op::Hold,
                    Phase::Info,
                    Details { valid_until_ns: Some(now_until), ..Details::of(attempt) },
                );
            }
            let every = self.client.work().write_every_ms.map(Duration::from_millis);
            if every.is_some_and(|every| since_write >= every) && self.may_write(held).await {
                since_write = Duration::ZERO;
                self.write(attempt, held, access).await;
            }
        }
    }

    fn reads(&self) -> bool {
        self.client.work().read_write == Some(ReadWrite::Read)
    }

    async fn may_write(&self, held: &Held) -> bool {
        self.client.work().on_loss == OnLoss::Naive || held.is_valid().await
    }

    /// Stops between the check and the write that relies on it.
    async fn pause_at_failpoint(&self, attempt: u64) {
        if let Some(ms) = self.client.work().failpoint_ms {
            self.record(Op::Note, Phase::Info, Details::of(attempt).what("checked"));
            self.client.pause(ms).await;
        }
    }

    /// Has an effect at the resource: writes, or reads if the hold is a reader's.
    async fn write(&self, attempt: u64, held: &Held, access: &mut C::Access) {
        let (op, kind) = match self.reads() {
            true => (Op::Read, Kind::SharedRead),
            false => (Op::Write, Kind::Write),
        };
        self.record(
            op,
            Phase::Invoke,
            Details { token: Some(held.token()), ..Details::of(attempt) },
        );
        self.client.access(access, &self.name, attempt, held.token(), kind).await;
    }

    fn record(&self, op: Op, phase: Phase, details: Details) {
        let (name, task) = (Some(Arc::clone(&self.name)), Some(self.number));
        self.client.record(op, phase, Details { name, task, ..details });
    }

    fn draw(&mut self, span: Span) -> Duration {
        Duration::from_millis(self.dice.within(span.low_ms, span.high_ms))
    }

    /// The end of the lease's validity on the clock of the events. That clock is read first, so
    /// that no belief is recorded as longer than it was. `None` if the lease has ended: when it
    /// ended is unknown.
    fn valid_until(&self, held: &Held) -> Option<u64> {
        let now = self.client.now_ns();
        let left = u64::try_from(held.valid_for().as_nanos()).unwrap_or(u64::MAX);
        (left > 0).then(|| now.saturating_add(left))
    }
}

/// Returns at once if there is no time to sleep: the shortest sleep of a timer is a millisecond.
async fn sleep(time: Duration) {
    if !time.is_zero() {
        tokio::time::sleep(time).await;
    }
}
