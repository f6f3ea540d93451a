use std::time::Duration;

use quorumlock_protocol::{FencingToken, Instant, expiry};

use crate::search::Once;

/// A set of polls, and of their nonces, as bits.
type Set = u8;

/// The largest number of polls of the call.
pub(super) const MOST: usize = 4;

/// The number of the rival, behind those of the polls.
pub(super) const RIVAL: usize = MOST;

/// The length of a lease, in ticks.
pub(super) const TTL: u8 = 2;

/// The rule by which polls and messages work together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// The library's rule.
    Library,
    /// Planted: the script drops the earlier nonce that holds the name, and grants the poll's own.
    DropsEarlier,
    /// Planted: a poll names the last nonce that was answered, and none that was not.
    NamesAnsweredOnly,
    /// Planted: the message of a handoff that an answer has taken up makes the client release it.
    ReleasesTakenUp,
    /// Planted: the lease counts from the poll that has taken the handoff up.
    CountsFromPoll,
    /// Planted: a call that gives up releases the nonce of its last poll only.
    LeavesLastOnly,
    /// Planted: the token of a handoff that is taken up does not move the mark.
    MarkStays,
    /// Planted: the client releases a poll that is not answered, and counts on it all the same.
    ReleasesUnanswered,
    /// Planted: the client forgets what was taken up once it is subscribed again, not before.
    ForgetsOnceSubscribed,
    /// Planted: the client forgets what was taken up before it has read all messages.
    ForgetsUnread,
    /// Planted: a client that takes up one nonce releases no other one that was answered.
    KeepsOthers,
}

/// The server, both clients, and what is on its way between them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct State {
    pub(super) now: u8,
    /// For each nonce, and for the rival, when the server's lease ends; 0 without one.
    pub(super) ends: [u8; MOST + 1],
    mark: FencingToken,
    pub(super) queue: Set,
    /// The polls that the server may still carry out, in any order.
    pub(super) requests: Set,
    /// The nonces whose release is on its way. A release can overtake any request.
    pub(super) releases: Set,
    /// The answer to the poll that the client waits for.
    pub(super) answer: Option<Answer>,
    /// For each nonce, the token in the message that is on its way.
    pub(super) messages: [FencingToken; MOST],
    pub(super) waiter: Waiter,
    /// When the rival asked for the lease that it believes in.
    pub(super) rival: Option<u8>,
    /// The rival's last token, and the largest one by which the waiter has held the lock.
    tokens: [FencingToken; 2],
    /// How often the connection broke, the subscription broke, and the rival acquired the name
    /// again.
    pub(super) counts: [u8; 3],
    /// A poll was refused because of an earlier nonce of its call, which holds the name still.
    refused_own: bool,
    /// A poll was carried out after the release of its nonce. Then others wait for its lease (W5).
    overtaken: bool,
    /// Of two holds, the later one has no larger token.
    pub(super) disordered: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Answer {
    Granted(FencingToken),
    Refused,
    /// The name is held for this earlier nonce.
    Yours(usize, FencingToken),
}

/// One call that waits. The nonces of its polls are their numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Waiter {
    pub(super) phase: Phase,
    pub(super) polls: usize,
    /// The poll whose answer it waits for.
    pub(super) awaits: Option<usize>,
    /// For each poll, when it was sent, and the earlier nonces that it names.
    asked: [u8; MOST],
    names: [Set; MOST],
    /// The polls that have no answer.
    unanswered: Set,
    /// The last poll that was refused.
    refused: Set,
    /// The nonces whose release it has sent.
    released: Set,
    /// The nonces that an answer has taken up, whose message may still come.
    taken_up: Set,
    pub(super) subscription: Subscription,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) enum Phase {
    #[default]
    Waiting,
    /// It holds the lock by this nonce, and counts the lease from `asked`.
    Holding {
        nonce: usize,
        asked: u8,
    },
    Over,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) enum Subscription {
    #[default]
    Up,
    Down,
    /// The server sends messages, and the client does not know yet that it is subscribed.
    AtServer,
}

impl State {
    /// The rival holds the name.
    pub(super) fn begin() -> Self {
        let mut state = Self::default();
        state.rival_acquires();
        state
    }

    /// The numbers that hold the name at the server.
    fn holders(&self) -> impl Iterator<Item = usize> {
        (0..=MOST).filter(|number| self.ends[*number] > 0)
    }

    pub(super) fn is_free(&self) -> bool {
        self.holders().next().is_none()
    }

    /// The last token of the first block above the mark, as in token.lua.
    fn next_token(&self) -> FencingToken {
        FencingToken::new((self.mark.get() / FencingToken::BLOCK + 2) * FencingToken::BLOCK - 1)
    }

    /// Puts the number for a whole lease. Returns the token that is accepted for it.
    fn grant(&mut self, number: usize) -> FencingToken {
        self.ends[number] = self.now + TTL;
        self.mark = self.next_token();
        self.mark
    }

    pub(super) fn drop(&mut self, number: usize) {
        self.ends[number] = 0;
        let own = self.holders().any(|holder| holder != RIVAL);
        self.refused_own &= own;
    }

    /// Whether the server would grant the name to a poll.
    fn admits(&self, shared: bool) -> bool {
        self.is_free() || shared && self.ends[RIVAL] == 0
    }

    /// Carries out a poll. Nobody hears the answer to a poll that was given up.
    pub(super) fn serve(&mut self, poll: usize, rule: Rule, shared: bool) {
        let names = std::mem::take(&mut self.waiter.names[poll]);
        self.requests &= !(1 << poll);
        self.overtaken |= self.waiter.released & (1 << poll) != 0;
        self.queue &= !names;
        let mut earlier = members(names).find(|nonce| self.ends[*nonce] > 0);
        if rule == Rule::DropsEarlier {
            earlier.take().into_iter().for_each(|nonce| self.drop(nonce));
        }
        let answer = match earlier {
            Some(nonce) => {
                let token = self.next_token();
                if rule != Rule::MarkStays {
                    self.mark = token;
                }
                Answer::Yours(nonce, token)
            }
            None if self.admits(shared) => Answer::Granted(self.grant(poll)),
            None => {
                self.queue |= 1 << poll;
                Answer::Refused
            }
        };
        if self.waiter.awaits == Some(poll) {
            self.answer = Some(answer);
            self.refused_own = answer == Answer::Refused && self.ends[RIVAL] == 0;
        }
    }

    /// Hands the name off, after a release, to `head` and to all that share it with `head`. Serves
    /// nobody if the server counts no subscriber.
    pub(super) fn hand_off(&mut self, head: Option<usize>, shared: bool) {
        let Some(head) = head.filter(|_| self.admits(shared)) else { return };
        if self.waiter.subscription == Subscription::Down {
            self.queue = 0;
            return;
        }
        let served = if shared { self.queue } else { 1 << head };
        self.queue &= !served;
        members(served).for_each(|nonce| self.messages[nonce] = self.grant(nonce));
    }

    pub(super) fn rival_acquires(&mut self) {
        let token = self.grant(RIVAL);
        self.disordered |= token <= self.tokens[1];
        (self.rival, self.tokens[0]) = (Some(self.now), token);
    }

    pub(super) fn tick(&mut self) {
        self.now += 1;
        for number in 0..=MOST {
            if self.ends[number] <= self.now {
                self.drop(number);
            }
        }
        self.rival = self.rival.filter(|asked| is_open(*asked, self.now));
        if matches!(self.waiter.phase, Phase::Holding { asked, .. } if !is_open(asked, self.now)) {
            self.unlock();
        }
    }

    /// Whether the waiter has the answer to a poll that was refused because of its own handoff.
    pub(super) fn waits_for_itself(&self) -> bool {
        let waits = self.waiter.phase == Phase::Waiting && self.waiter.awaits.is_none();
        waits && self.refused_own && self.is_quiet()
    }

    /// Whether the server keeps more for a call that has its result than the lock that it holds,
    /// and nothing on its way ends that.
    pub(super) fn has_leftovers(&self) -> bool {
        let held = match self.waiter.phase {
            Phase::Waiting => return false,
            Phase::Holding { nonce, .. } => nonce,
            Phase::Over => RIVAL,
        };
        let kept = self.queue != 0 || self.holders().any(|n| n != RIVAL && n != held);
        kept && self.is_quiet() && !self.overtaken
    }

    fn is_quiet(&self) -> bool {
        self.releases == 0 && self.messages == [FencingToken::NONE; MOST]
    }

    pub(super) fn poll(&mut self, rule: Rule) {
        let waiter = &mut self.waiter;
        let poll = waiter.polls;
        let names_all = rule != Rule::NamesAnsweredOnly;
        waiter.names[poll] = if names_all { waiter.open() } else { waiter.refused };
        waiter.asked[poll] = self.now;
        (waiter.polls, waiter.awaits) = (poll + 1, Some(poll));
        waiter.unanswered |= 1 << poll;
        self.requests |= 1 << poll;
    }

    /// The poll may still be carried out.
    pub(super) fn break_off(&mut self, rule: Rule) {
        self.answer = None;
        let given_up = self.waiter.awaits.take();
        if rule == Rule::ReleasesUnanswered {
            given_up.iter().for_each(|poll| self.releases |= 1 << poll);
        }
    }

    pub(super) fn hear(&mut self, rule: Rule, once: &Once) {
        let (answer, poll) = (self.answer.take(), self.waiter.awaits.take());
        let (Some(answer), Some(poll)) = (answer, poll) else { return };
        match (self.waiter.phase, answer) {
            (Phase::Waiting, Answer::Refused) => {
                self.waiter.close(1 << poll);
                self.waiter.refused = 1 << poll;
            }
            (Phase::Waiting, Answer::Granted(token)) => {
                self.waiter.refused = 0;
                self.hold_or_release(poll, poll, token);
            }
            (Phase::Waiting, Answer::Yours(nonce, token)) => {
                self.waiter.close(1 << poll);
                if rule == Rule::KeepsOthers {
                    self.waiter.refused = 0;
                }
                self.waiter.taken_up |= 1 << nonce;
                let from = if rule == Rule::CountsFromPoll { poll } else { nonce };
                let holds = self.hold_or_release(nonce, from, token);
                match self.messages[nonce] {
                    _ if !holds => once.see(6),
                    FencingToken::NONE => once.see(4),
                    _ => {}
                }
            }
            (Phase::Holding { nonce, .. }, Answer::Yours(same, token)) if nonce == same => {
                self.tokens[1] = self.tokens[1].max(token);
                once.see(7);
            }
            _ => {}
        }
    }

    pub(super) fn hear_message(&mut self, nonce: usize, rule: Rule, once: &Once) {
        let token = std::mem::take(&mut self.messages[nonce]);
        let bit = 1 << nonce;
        if self.waiter.taken_up & bit != 0 && rule != Rule::ReleasesTakenUp {
            self.waiter.taken_up &= !bit;
            once.see(5);
        } else if self.waiter.phase == Phase::Waiting && self.waiter.released & bit == 0 {
            self.hold_or_release(nonce, nonce, token);
        } else {
            self.release_all(bit);
        }
    }

    /// The server holds the name for `nonce`, as an answer or a message says. The lease counts from
    /// the poll `from`. If it has not ended, the call has the lock, and releases the other nonces
    /// to which the name may be handed off. Returns whether the call has the lock.
    fn hold_or_release(&mut self, nonce: usize, from: usize, token: FencingToken) -> bool {
        let asked = self.waiter.asked[from];
        if !is_open(asked, self.now) {
            self.release_all(1 << nonce);
            return false;
        }
        self.disordered |= token <= self.tokens[0];
        self.tokens[1] = self.tokens[1].max(token);
        self.waiter.phase = Phase::Holding { nonce, asked };
        self.waiter.asked = [0; MOST];
        self.waiter.close(1 << nonce);
        self.release_all(self.waiter.open());
        true
    }

    fn release_all(&mut self, nonces: Set) {
        self.releases |= nonces;
        self.waiter.released |= nonces;
        self.waiter.close(nonces);
    }

    pub(super) fn give_up(&mut self, rule: Rule) {
        let last = members(self.waiter.open()).last().map_or(0, |nonce| 1 << nonce);
        let all = self.waiter.open();
        self.release_all(if rule == Rule::LeavesLastOnly { last } else { all });
        self.end();
    }

    /// The watchdog does the same once the lease has ended.
    pub(super) fn unlock(&mut self) {
        if let Phase::Holding { nonce, .. } = self.waiter.phase {
            self.release_all(1 << nonce);
        }
        self.end();
    }

    /// What the call knew matters no more.
    fn end(&mut self) {
        (self.waiter.phase, self.waiter.awaits, self.answer) = (Phase::Over, None, None);
        self.waiter.asked = [0; MOST];
        self.waiter.close(Set::MAX);
    }

    pub(super) fn interrupt(&mut self, rule: Rule) {
        if rule != Rule::ForgetsUnread {
            self.messages = [FencingToken::NONE; MOST];
        }
        self.waiter.subscription = Subscription::Down;
        if rule != Rule::ForgetsOnceSubscribed {
            self.waiter.taken_up = 0;
        }
    }

    pub(super) fn subscribed(&mut self, rule: Rule) {
        self.waiter.subscription = Subscription::Up;
        if rule == Rule::ForgetsOnceSubscribed {
            self.waiter.taken_up = 0;
        }
    }
}

impl Waiter {
    /// The nonces to which the name may be handed off.
    pub(super) fn open(&self) -> Set {
        self.unanswered | self.refused
    }

    fn close(&mut self, nonces: Set) {
        (self.unanswered, self.refused) = (self.unanswered & !nonces, self.refused & !nonces);
    }
}

/// Whether a client believes at `now` in a lease that it asked for at `asked`. Clocks are exact
/// here.
fn is_open(asked: u8, now: u8) -> bool {
    const SECOND: Duration = Duration::from_secs(1);
    let at = |tick: u8| Instant::NEVER + SECOND * (u32::from(tick) + 1);
    at(now) < expiry(at(asked), SECOND * u32::from(TTL), 0.0)
}

/// The numbers in a set.
pub(super) fn members(set: Set) -> impl Iterator<Item = usize> {
    (0..MOST).filter(move |nonce| set & (1 << nonce) != 0)
}

/// Those that may be the head of this queue.
pub(super) fn heads(queue: Set) -> impl Iterator<Item = Option<usize>> {
    members(queue).map(Some).chain((queue == 0).then_some(None))
}
