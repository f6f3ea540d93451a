//! A call that has its turn in this process asks the nodes, again and again.

use std::sync::atomic::AtomicU32;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use quorumlock_watchdog::schedule::Terms;
use quorumlock_watchdog::{Instant, Standing};

use super::guard::Guard;
use super::handover::Series;
use super::in_queues::InQueues;
use super::lease::Lease;
use super::looks::{Denied, Looks, Standpoint};
use super::owners::Place;
use super::quest::Quest;
use super::turns::Turn;
use crate::ids::next_id;
use crate::{
    Acquired, Approach, Error, Grant, NoMajority, NodeProblem, NodeReport, Nonce, Woke, quorum_of,
};

/// What a call has done so far, and how it asks next.
pub(super) struct Search<'a> {
    quest: &'a Quest,
    /// Declared before the turn: it is left before the next call of this process asks.
    pub(super) queues: Option<InQueues>,
    turn: Turn,
    looks: Looks,
    begun: Instant,
    /// Read before each attempt: what is counted from it may end early, never late.
    asked: Instant,
    /// Attempts in a row that had to be begun again.
    again: u32,
    /// Attempts in a row whose votes were split.
    splits: u32,
    /// Attempts in a row that no majority answered.
    outages: u32,
}

/// What one attempt came to.
pub(super) enum Heard {
    Granted(Granted),
    /// Ask again, with a fresh nonce.
    Again,
    /// Another holds it; `kept_out` if the home node says so, or the only node.
    Busy {
        remaining: Option<Duration>,
        kept_out: bool,
    },
}

/// A grant, and the attempt that it answers.
pub(super) struct Granted {
    asked: Instant,
    nonce: Nonce,
    grant: Grant,
}

impl<'a> Search<'a> {
    pub(super) fn begin(
        quest: &'a Quest,
        turn: Turn,
        asked: Instant,
        queues: Option<InQueues>,
    ) -> Self {
        let (looks, begun) = (Looks::begin(false), asked);
        Self { quest, queues, turn, looks, begun, asked, again: 0, splits: 0, outages: 0 }
    }

    /// Those whom a release of this process has just woken.
    pub(super) async fn lets_others_go_first(&mut self) {
        match self.turn.others_first(self.begun) {
            Woke::Waiter => {
                self.stand();
                self.looks = Looks::begin(true);
            }
            Woke::Strangers => {
                // A courtesy, which may not cost the caller the attempt itself.
                let head_start = self.quest.left().map_or(HEAD_START, |left| left.min(HEAD_START));
                Box::pin(tokio::time::sleep(head_start)).await;
                self.asked = self.now();
            }
            Woke::Nobody => {}
        }
    }

    /// One attempt.
    pub(super) async fn ask(&mut self) -> Result<Heard, Error> {
        let Self { quest, asked, .. } = *self;
        let Looks { gate_first, others_first, everywhere, .. } = self.looks;
        let (term, waited) = (quest.term()?, asked.since(self.begun));
        let asks = |queues: &mut InQueues| queues.ask((&term, asked), (waited, others_first));
        let in_line = self.queues.as_mut().map(asks);
        let alone = in_line.is_none() && self.turn.waiting() == 0;
        let (fencing, by_script) = (quest.inner.settings.fencing, self.again > 0);
        let approach =
            Approach { asked, fencing, gate_first, everywhere, in_line, alone, by_script };
        let nonce = term.nonce;
        let acquired = quest.inner.lessor.acquire(term, approach).await?;
        self.queues.as_mut().map(InQueues::answered);
        let heard = match acquired {
            Acquired::Yes(grant) => {
                self.queues.as_mut().map(InQueues::served);
                Heard::Granted(Granted { asked, nonce, grant })
            }
            Acquired::Busy(remaining) => Heard::Busy { remaining, kept_out: false },
            Acquired::KeptOut(remaining) => Heard::Busy { remaining, kept_out: true },
            // After a barrier, or a restart: the next round meets verified nodes. Or marks moved: the next
            // token is larger.
            Acquired::Again if self.again < MOST_AGAIN => {
                self.again += 1;
                self.asked = self.now();
                return Ok(Heard::Again);
            }
            Acquired::Again => return Err(self.unverified()),
        };
        if std::mem::take(&mut self.outages) > 0 {
            self.turn.reached();
        }
        Ok(heard)
    }

    /// Waits until it is worth asking again, after an attempt that was refused.
    pub(super) async fn denied(&mut self, remaining: Option<Duration>, kept_out: bool) {
        let quest = self.quest;
        self.turn.contended(self.now());
        self.looks.denied(Denied { asked: self.asked, remaining, kept_out });
        // What is offered must not get too old.
        let lease = quest.offer().map_or(quest.wanted.lease, |(offer, _)| offer.claim);
        let waited = self.asked.since(self.begun);
        let place = Standpoint { lease, waited, nodes: quest.inner.lessor.nodes() };
        // On the heap, as all that only contenders need: a future should be small.
        Box::pin(self.pause(remaining, place)).await;
        self.asked = self.now();
    }

    /// Until somebody says that the lock may be free, or its lease has ended, or time is up: no
    /// message is relied upon (SAFETY.md H22).
    async fn pause(&mut self, remaining: Option<Duration>, place: Standpoint) {
        let (quest, chance) = (self.quest, &self.quest.inner.chance);
        let longest = self.in_time(self.looks.longest(remaining, place, chance.fraction()));
        // Listening wakes us once more, so that a release in between is not missed.
        let woken = tokio::time::timeout(longest, self.stand().woken()).await.ok();
        self.looks.woken(woken);
        if let Some(spread) = self.looks.spread() {
            tokio::time::sleep(self.in_time(spread).mul_f64(quest.inner.chance.fraction())).await;
        }
    }

    /// After an attempt that a majority refused, though the home node granted: whether nobody holds the lock, since
    /// several asked at once and none of them got a majority. If so it is time to ask again, the home node first,
    /// which lets one of them pass (SAFETY.md d2).
    pub(super) async fn is_split(&mut self) -> Result<bool, Error> {
        let inner = &self.quest.inner;
        if self.splits == MOST_SPLITS
            || inner.lessor.inspect(self.quest.wanted.name.clone()).await?.is_some()
        {
            return Ok(false);
        }
        let spread = SPLIT * (1 << self.splits);
        tokio::time::sleep(spread.mul_f64(inner.chance.fraction())).await;
        self.splits += 1;
        self.looks.gate_first = true;
        self.asked = self.now();
        Ok(true)
    }

    /// Waits until it is worth asking again, after an attempt that no majority answered; or says that it
    /// is not (SAFETY.md G6).
    pub(super) async fn rides_out(&mut self, error: Error) -> Result<(), Error> {
        let quest = self.quest;
        let since = self.turn.troubled(&error, self.asked);
        let over = match quest.deadline {
            Some(_) => quest.is_late(),
            None => self.now().since(since) >= LONGEST_OUTAGE,
        };
        if quest.once || quest.fail_fast || over || !quest.heals(&error) {
            return Err(error);
        }
        if self.outages == 0 {
            tracing::info!(name = %quest.wanted.name, %error, "waits for the nodes");
        }
        // The attempt was given up, and its release is owed from now on: nothing may be handed over to it any more
        // (SAFETY.md e7). What it stands in line for again has another nonce.
        self.queues = None;
        let backoff = (FIRST_BACKOFF * (1 << self.outages.min(8))).min(LAST_BACKOFF);
        (self.outages, self.again) = (self.outages + 1, 0);
        let half = self.in_time(backoff / 2);
        tokio::time::sleep(half.mul_f64(0.5 + 0.5 * quest.inner.chance.fraction())).await;
        // A server that can be listened to again says so.
        let rest = self.in_time(backoff / 2);
        drop(tokio::time::timeout(rest, self.stand().woken()).await);
        self.looks = Looks::begin(false);
        self.asked = self.now();
        if quest.deadline.is_some() && quest.is_late() { Err(error) } else { Ok(()) }
    }

    /// What was handed over to it meanwhile.
    pub(super) fn heir(&mut self) -> Option<Granted> {
        let asked = self.asked;
        let (nonce, grant) = self.queues.as_mut()?.heir(asked)?;
        Some(Granted { asked, nonce, grant })
    }

    /// The guard of what was granted.
    pub(super) fn granted(self, granted: Granted, place: Option<Place>) -> Guard {
        let Granted { asked: now, nonce, grant } = granted;
        let (inner, wanted) = (&self.quest.inner, &self.quest.wanted);
        let terms = Terms {
            lease: wanted.ttl(),
            until: grant.until,
            hold_until: wanted.hold_at_most.map(|limit| now + limit),
        };
        let (series, fence) = Series::begin((now, grant.until), grant.fence);
        let lease = Arc::new(Lease {
            id: next_id(),
            name: wanted.name.clone(),
            nonce,
            fence,
            series,
            standing: Standing::new(inner.clock.clone(), terms),
            holds: AtomicU32::new(1),
            turn: Mutex::new(Some(self.turn)),
            hold_at_most: wanted.hold_at_most,
            place: OnceLock::new(),
        });
        lease.settle(place);
        inner.keeper.keep(&lease, now);
        Guard::new(inner.clone(), lease)
    }

    /// Nodes had to be verified, or their marks were moved by others meanwhile, again and again.
    fn unverified(&self) -> Error {
        let nodes = self.quest.inner.lessor.nodes();
        let report = NodeReport::new("its nodes", NodeProblem::Reverified);
        let name = Some(self.quest.wanted.name.clone());
        NoMajority::new(name, (nodes, quorum_of(nodes)), 0, vec![report]).into()
    }

    fn stand(&mut self) -> &InQueues {
        let quest = self.quest;
        let join = || InQueues::join(&quest.inner.lessor, &quest.wanted.name, quest.offer());
        self.queues.get_or_insert_with(join)
    }

    fn in_time(&self, wait: Duration) -> Duration {
        self.quest.left().map_or(wait, |left| left.min(wait))
    }

    fn now(&self) -> Instant {
        self.quest.inner.clock.now()
    }
}

/// Each takes one failed round; more in a row than nodes can be repaired at once is no chance.
const MOST_AGAIN: u32 = 8;
/// How long after our release programs that know of no queue may take the lock before we do.
const HEAD_START: Duration = Duration::from_millis(5);
/// How often a single look is repeated because votes were split; and for how long it waits before, at most: twice as
/// long each time.
const MOST_SPLITS: u32 = 5;
const SPLIT: Duration = Duration::from_millis(4);
/// For how long a call without a limit of its own rides out that no majority answers.
pub(super) const LONGEST_OUTAGE: Duration = Duration::from_secs(30);
/// How long it waits before it asks again then, at first and at last.
const FIRST_BACKOFF: Duration = Duration::from_millis(50);
const LAST_BACKOFF: Duration = Duration::from_secs(1);
