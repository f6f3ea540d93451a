//! Pure: one call that acquires a lock, from the local permit to the lock or the error
//! (PROTOCOL.md, Waiting).
//!
//! An [`Event`] and `now` come in; a [`Step`] goes out, which the caller carries out, and whose end
//! it reports. All of it is advice: when to ask, and how, decides nothing about who holds the lock
//! (SAFETY.md H22).

use std::time::Duration;

use crate::{Grant, Instant, Nonce, Notified, Precedence};

mod messages;
mod tuning;

pub use messages::{Messages, WakeReason};
pub use tuning::{TUNING, Tuning};

use messages::WakeUp;

/// One call, while it is on its way to the lock.
#[derive(Clone, Debug)]
pub struct Waiting {
    options: WaitOptions,
    state: State,
    /// When the call got its local permit.
    begun: Instant,
    /// When the last attempt began.
    asked: Instant,
    /// How the next attempt asks.
    home_first: bool,
    yields: bool,
    enqueue_on_all: bool,
    /// Whether the call asks because it was notified as the first of its queue.
    notified: bool,
    /// Whether its attempts enqueue. The first one does not: nothing is subscribed yet.
    enqueues: bool,
    /// Attempts in a row whose votes were split, of those that enqueued.
    split_votes: u32,
    /// Attempts without a result since the last outage.
    retries: u32,
    /// Attempts in a row that no majority answered.
    outages: u32,
    /// When the lease of the last known holder ends.
    holder_ends: Instant,
    /// Whether the last attempt met another lease than the one before, or a renewed one: then the
    /// lock changes hands, and queued waiters get it. False without queues.
    holder_changed: bool,
    /// Whether the last attempt left a free lock to other waiters.
    yielded: bool,
    /// Whether two waiters or more were before it in the queue. Those look whether the client that has
    /// the home node has died.
    is_behind: bool,
    /// Of several names: how many turns the call has had, when the last one ends, and from when on it
    /// may have the next one.
    turns: u32,
    turn_ends: Instant,
    next_turn: Instant,
    /// When the sleep ends without a message.
    poll_at: Instant,
    /// If messages of too few nodes came: why to ask when the grace is over, and when that is.
    grace: Option<(WakeReason, Instant)>,
}

/// What a call wants, and of how many nodes.
#[derive(Clone, Copy, Debug)]
pub struct WaitOptions {
    /// When the call gives up.
    pub deadline: Option<Instant>,
    /// Whether all its attempts leave a free lock to waiters that come first.
    pub strict_order: bool,
    /// Whether it does not wait for a holder (`try_lock`).
    pub once: bool,
    /// Whether it does not wait for nodes that do not answer.
    pub fail_fast: bool,
    /// The lease that it asks for.
    pub lease: Duration,
    /// Whether it is for several names.
    pub set: bool,
    /// How many nodes there are.
    pub nodes: usize,
    /// Whether the nodes keep queues. Otherwise no message comes, and waiters poll.
    pub queues: bool,
    /// Whether a waiter that is queued asks without a message. False in tests of messages alone.
    pub polls: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Waits for the local permit.
    Local,
    Asking,
    /// A `try_lock` asks whether anybody holds the lock at all.
    Inspecting {
        remaining: Option<Duration>,
    },
    /// Refused; sleeps until a message or the next poll.
    Queued,
    /// Sleeps, and no message ends the sleep.
    Backoff,
    /// No majority answered: sleeps, out of all queues.
    Outage,
    /// The rest of that sleep, which a message ends.
    Recovering,
    /// Has the lock, or has given up.
    Ended,
}

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The call has the local permit; the last release of this process notified these just now.
    Permit(Notified),
    /// A majority granted the lock, or a release handed it off.
    Granted(Granted),
    /// The attempt has no result: ask again, by script.
    Retry,
    /// Another client has the lock.
    Refused {
        /// Its remaining lease, if there is a holder and its lease is known.
        remaining: Option<Duration>,
        /// Who refused.
        by: RefusedBy,
        /// Its place in the queue, 1 at the head, if a node told it.
        place: Option<u32>,
    },
    /// No majority answered.
    NoMajority {
        /// Since when no attempt of this process got an answer.
        since: Instant,
        /// Whether asking again can help.
        may_heal: bool,
    },
    /// The answer to [`Step::Inspect`].
    Inspected {
        /// Whether anybody holds the lock.
        held: bool,
    },
    /// Nodes sent messages: all those since the attempt began, and the present home node.
    Messages(Messages, Option<usize>),
    /// The sleep is over.
    Timer,
}

/// Who refused an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefusedBy {
    /// The home node, or the only node.
    HomeNode,
    /// Other nodes. The home node did not answer.
    Others,
    /// Some nodes, while others granted, and the home node did not refuse.
    SplitVotes,
}

/// A grant, and the attempt that was granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Granted {
    /// From when the lease counts.
    pub asked: Instant,
    /// The nonce that the nodes hold.
    pub nonce: Nonce,
    /// What was granted.
    pub grant: Grant,
}

/// What to do now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Ask the nodes for the lock.
    Ask(Approach),
    /// Ask who holds the lock.
    Inspect,
    /// Sleep for so long.
    Sleep(Duration),
    /// Subscribe, if that is not done yet, and sleep until a message comes, at most for so long.
    Listen(Duration),
    /// Leave all queues, then sleep for so long. What the attempt may have got is being released, so
    /// a handoff to it counts no more (PROTOCOL.md W5).
    Leave(Duration),
    /// Too many attempts in a row had no result: report that as [`Event::NoMajority`].
    Fail,
    /// The lock is ours.
    Hold(Granted),
    /// The call ends without the lock.
    GiveUp(GiveUp),
}

/// How to ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Approach {
    /// How long the call has waited: its seniority in the queue.
    pub waited: Duration,
    /// Ask the home node first, and the others once it has granted.
    pub home_first: bool,
    /// Leave a free lock to waiters that come first.
    pub yields: bool,
    /// The call was notified as the first of its queue: no waiting writer keeps it out.
    pub notified: bool,
    /// The call for several names has a turn: the refusal enqueues it for all of them.
    pub turn: bool,
    /// Subscribe before asking, so that the refusal enqueues.
    pub subscribe: bool,
    /// Enqueue at all nodes: not every holder has the home node (PROTOCOL.md W9).
    pub enqueue_on_all: bool,
    /// Only the script may answer, since the attempt before had no result.
    pub by_script: bool,
}

impl Approach {
    /// Before whom the attempt may take a free name.
    pub fn precedence(&self) -> Precedence {
        match self {
            Self { turn: true, .. } => Precedence::Turn,
            Self { notified: true, .. } => Precedence::Notified,
            Self { yields: true, .. } => Precedence::Yields,
            _ => Precedence::AsItComes,
        }
    }
}

/// Why a call ends without the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GiveUp {
    /// Another client has the lock, for so long if that is known.
    Busy(Option<Duration>),
    /// The last attempt got no majority's answer. Also after an event that answers no step.
    NoMajority,
}

impl Waiting {
    /// A call that has no local permit yet.
    pub fn new(options: WaitOptions) -> Self {
        Self {
            options,
            state: State::Local,
            begun: Instant::NEVER,
            asked: Instant::NEVER,
            home_first: false,
            yields: false,
            enqueue_on_all: false,
            notified: false,
            enqueues: false,
            split_votes: 0,
            retries: 0,
            outages: 0,
            holder_ends: Instant::NEVER,
            holder_changed: false,
            yielded: false,
            is_behind: false,
            turns: 0,
            turn_ends: Instant::NEVER,
            next_turn: Instant::NEVER,
            poll_at: Instant::NEVER,
            grace: None,
        }
    }

    /// Takes an event. `share`, from 0 to 1, is drawn at random where a sleep must differ from that
    /// of other waiters.
    pub fn on(&mut self, event: Event, now: Instant, share: impl FnOnce() -> f64) -> Step {
        match (self.state, event) {
            (State::Asking | State::Queued | State::Backoff, Event::Granted(granted)) => {
                self.state = State::Ended;
                Step::Hold(granted)
            }
            (State::Local, Event::Permit(notified)) => self.permitted(notified, now),
            (State::Asking, Event::Retry) if self.retries < TUNING.max_retries => {
                self.retries += 1;
                self.ask(now)
            }
            (State::Asking, Event::Retry) => Step::Fail,
            (State::Asking, Event::Refused { remaining, by, place }) => {
                self.outages = 0;
                if self.options.once {
                    return self.refused_once(remaining, by);
                }
                if self.left(now).is_some_and(|left| left.is_zero()) {
                    return self.give_up(GiveUp::Busy(remaining));
                }
                self.refused((remaining, by, place), now, share)
            }
            (State::Asking, Event::NoMajority { since, may_heal }) => {
                self.no_majority(since, may_heal, now, share)
            }
            (State::Inspecting { remaining }, Event::Inspected { held: true }) => {
                self.give_up(GiveUp::Busy(remaining))
            }
            (State::Inspecting { .. }, Event::Inspected { held: false }) => self.split_once(share),
            (State::Inspecting { .. }, Event::NoMajority { .. }) => {
                self.give_up(GiveUp::NoMajority)
            }
            (State::Queued | State::Recovering, Event::Messages(messages, home)) => {
                match messages.wake_up(home, self.options.nodes) {
                    WakeUp::None => Step::Listen(self.poll_at.since(now)),
                    WakeUp::AfterGrace(reason) => {
                        // It counts from the first message: others may follow without end.
                        let end = self.grace.map_or(now + TUNING.message_grace, |(_, end)| end);
                        self.grace = Some((reason, end));
                        Step::Listen(self.poll_at.min(end).since(now))
                    }
                    WakeUp::Now(reason) => self.wake_up(Some(reason), now),
                }
            }
            (State::Queued | State::Recovering, Event::Timer) => {
                let reason = self.grace.take().map(|(reason, _)| reason);
                self.wake_up(reason, now)
            }
            (State::Backoff, Event::Timer) => self.ask(now),
            (State::Outage, Event::Timer) => {
                self.state = State::Recovering;
                self.listen(self.outage_backoff() / 2, now)
            }
            _ => self.give_up(GiveUp::NoMajority),
        }
    }

    /// Lets the waiters go first that a release of this process has just notified: by yielding to
    /// queued waiters, or by a short sleep for programs that know of no queue.
    fn permitted(&mut self, notified: Notified, now: Instant) -> Step {
        self.begun = now;
        match notified {
            Notified::Waiter => {
                (self.home_first, self.yields, self.enqueues) = (true, true, true);
                self.ask(now)
            }
            Notified::Channel => {
                self.state = State::Backoff;
                Step::Sleep(self.in_time(TUNING.head_start, now))
            }
            Notified::Nobody => self.ask(now),
        }
    }

    fn ask(&mut self, now: Instant) -> Step {
        (self.state, self.asked, self.grace) = (State::Asking, now, None);
        Step::Ask(Approach {
            waited: now.since(self.begun),
            home_first: self.home_first,
            yields: self.yields || self.options.strict_order,
            notified: self.notified,
            turn: self.turn_ends > now,
            subscribe: self.enqueues,
            enqueue_on_all: self.enqueue_on_all,
            by_script: self.retries > 0,
        })
    }

    fn refused(
        &mut self,
        (remaining, by, place): (Option<Duration>, RefusedBy, Option<u32>),
        now: Instant,
        share: impl FnOnce() -> f64,
    ) -> Step {
        // Others may have refused a free lock, because this waiter yields and another one is first
        // there. That one may yield, too, at the other nodes.
        let split = match by {
            RefusedBy::HomeNode => false,
            RefusedBy::Others => remaining.is_none(),
            RefusedBy::SplitVotes => true,
        };
        self.split_votes = if split { self.split_votes + u32::from(self.enqueues) } else { 0 };
        // It enqueued at the home node alone, which does not answer.
        let unqueued = by == RefusedBy::Others && self.enqueues && !self.enqueue_on_all;
        self.enqueues = true;
        self.enqueue_on_all |= unqueued || self.split_votes > 1;
        self.yielded = (self.yields || self.options.strict_order) && remaining.is_none();
        self.holder_changed = remaining.is_some_and(|left| {
            let before = std::mem::replace(&mut self.holder_ends, self.asked + left);
            let changed =
                before == Instant::NEVER || self.holder_ends > before + TUNING.lease_precision;
            changed && self.options.queues
        });
        self.is_behind = by == RefusedBy::HomeNode && place.is_some_and(|place| place > 2);
        // Those before it look whether others have the lock without the home node.
        self.enqueue_on_all &= !self.is_behind;
        self.state = State::Queued;
        let mut longest = self.max_sleep(remaining, place, share());
        if self.turn_ends > now {
            // At its end the call leaves the queues of the names that did not refuse it.
            longest = longest.min(self.turn_ends.since(now));
        }
        self.listen(if unqueued { longest.min(TUNING.min_split_backoff) } else { longest }, now)
    }

    /// The longest sleep before the next poll. `share` (0 to 1) scales it between 50 % and 100 %,
    /// so that waiters do not poll in step.
    fn max_sleep(&self, remaining: Option<Duration>, place: Option<u32>, share: f64) -> Duration {
        let lease = self.options.lease;
        // A lease of another client may have any length (SAFETY.md H7): poll after one of ours.
        let longest = remaining.unwrap_or(lease).min(lease);
        let mut probe = match place {
            // Those before it find a lock that nobody announces, and the end of its lease.
            Some(place @ 3..) if !self.yielded && self.options.polls => {
                let by_place = TUNING.place_probe.saturating_mul(place);
                return lease.min(by_place).mul_f64(0.5 + 0.5 * share);
            }
            Some(_) => self.probe().min(TUNING.max_head_probe),
            None => self.probe(),
        };
        if self.split_votes > 0 {
            // This waiter is still at the head of the queue, and no other waiter was notified.
            // Either holders of the name will notify it, or other clients asked at the same time
            // and will not: poll soon.
            probe = probe.min(self.split_backoff());
        } else if !self.options.polls {
            probe = longest;
        }
        longest.min(probe.mul_f64(0.5 + 0.5 * share)) + Duration::from_millis(1)
    }

    /// The longest sleep of a waiter that is not known to have others before it.
    fn probe(&self) -> Duration {
        let (lease, mut waited) = (self.options.lease, self.asked.since(self.begun));
        if self.home_first && self.options.nodes > 1 {
            // The client that has the home node may have died before it had the other nodes: ask
            // all nodes soon (PROTOCOL.md W7). Twice as late while the lock is seen to change
            // hands.
            return TUNING.min_probe.min(lease / TUNING.home_lease_share)
                * (1 + u32::from(self.holder_changed));
        }
        if !self.options.queues {
            // Nothing but a poll finds a free lock: a waiter must not poll less for having waited.
            waited = Duration::ZERO;
        }
        TUNING.min_probe.max(waited / TUNING.probe_share).min(lease / TUNING.lease_share)
    }

    /// A message came, or it is time to poll (`None`).
    fn wake_up(&mut self, reason: Option<WakeReason>, now: Instant) -> Step {
        if self.state == State::Recovering {
            return self.recovered(now);
        }
        // A waiter that polls while the lock changes hands yields to the waiters before it. If
        // nothing moves, the client that has the home node may have died before it had the other
        // nodes (PROTOCOL.md W7).
        self.home_first = match reason {
            // Only this waiter was notified, and a waiter that polls yields to it: asking all nodes
            // at once saves a round trip (PROTOCOL.md W7).
            Some(WakeReason::Head) => false,
            // A waiter that is queued at all nodes asks all nodes, also where the home node was not
            // asked.
            Some(WakeReason::Others) => !self.enqueue_on_all,
            Some(WakeReason::Home) => true,
            None => self.is_behind || self.holder_changed || self.yielded || self.split_votes > 0,
        };
        let others_first = match reason {
            Some(WakeReason::Head | WakeReason::Home) => false,
            // Not twice in a row: the message may come from the release of its own failed attempt
            // (PROTOCOL.md W4).
            Some(WakeReason::Others) => !self.yielded,
            // Those before it may have ended.
            None => self.is_behind && !self.yielded || self.holder_changed,
        };
        self.yields = others_first && self.split_votes == 0;
        self.notified = reason == Some(WakeReason::Head);
        if self.options.set && self.notified && self.next_turn <= now {
            self.begin_turn(now);
        }
        self.ask(now)
    }

    /// A name is left to this call for several, and the others may not be free: for a while releases leave
    /// all of them to it. Then others have as long a time (PROTOCOL.md SET5).
    fn begin_turn(&mut self, now: Instant) {
        let longest = self.options.lease / TUNING.lease_share;
        let turn = TUNING.min_turn.saturating_mul(1 << self.turns.min(TUNING.max_turn_doublings));
        self.turn_ends = now + turn.min(longest);
        self.next_turn = self.turn_ends + turn.min(longest);
        self.turns += 1;
    }

    /// A `try_lock` was refused. Unless the home node refused, perhaps nobody holds the lock: several
    /// clients asked at once, and each has a node.
    fn refused_once(&mut self, remaining: Option<Duration>, by: RefusedBy) -> Step {
        if by == RefusedBy::HomeNode || self.split_votes == TUNING.max_try_splits {
            return self.give_up(GiveUp::Busy(remaining));
        }
        self.state = State::Inspecting { remaining };
        Step::Inspect
    }

    /// Waits a random delay; the next attempt asks the home node first, which lets one client pass
    /// (PROTOCOL.md W8).
    fn split_once(&mut self, share: impl FnOnce() -> f64) -> Step {
        let backoff = self.split_backoff();
        self.split_votes += 1;
        (self.home_first, self.state) = (true, State::Backoff);
        Step::Sleep(backoff.mul_f64(share()))
    }

    fn split_backoff(&self) -> Duration {
        TUNING.min_split_backoff * (1 << self.split_votes.min(TUNING.max_split_doublings))
    }

    /// Waits for the nodes, if that can help (SAFETY.md G6).
    fn no_majority(
        &mut self,
        since: Instant,
        may_heal: bool,
        now: Instant,
        share: impl FnOnce() -> f64,
    ) -> Step {
        let over = match self.left(now) {
            Some(left) => left.is_zero(),
            None => now.since(since) >= TUNING.max_outage,
        };
        if self.options.once || self.options.fail_fast || over || !may_heal {
            return self.give_up(GiveUp::NoMajority);
        }
        self.outages += 1;
        self.retries = 0;
        self.state = State::Outage;
        let half = self.in_time(self.outage_backoff() / 2, now);
        Step::Leave(half.mul_f64(0.5 + 0.5 * share()))
    }

    /// A server that can be subscribed to again ends the second half early.
    fn outage_backoff(&self) -> Duration {
        let doublings = self.outages.saturating_sub(1).min(8);
        (TUNING.min_outage_backoff * (1 << doublings)).min(TUNING.max_outage_backoff)
    }

    /// Asks again after an outage, as a call that begins.
    fn recovered(&mut self, now: Instant) -> Step {
        if self.left(now).is_some_and(|left| left.is_zero()) {
            return self.give_up(GiveUp::NoMajority);
        }
        let Self { options, begun, outages, .. } = *self;
        *self = Self { begun, outages, ..Self::new(options) };
        self.ask(now)
    }

    fn give_up(&mut self, why: GiveUp) -> Step {
        self.state = State::Ended;
        Step::GiveUp(why)
    }

    fn listen(&mut self, longest: Duration, now: Instant) -> Step {
        let longest = self.in_time(longest, now);
        self.poll_at = now + longest;
        Step::Listen(longest)
    }

    fn left(&self, now: Instant) -> Option<Duration> {
        self.options.deadline.map(|deadline| deadline.since(now))
    }

    fn in_time(&self, wait: Duration, now: Instant) -> Duration {
        self.left(now).map_or(wait, |left| left.min(wait))
    }
}

#[cfg(test)]
mod fairness;
#[cfg(test)]
mod tests;
