//! Requests to a server, and the answers decoded from its replies.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use quorumlock_protocol::telemetry::{Event, EventHandler};
use quorumlock_protocol::{ClockAnomaly, ClockMonitor, Instant, expiry};

use super::contended_names::ContendedNames;
use super::resp::Value;
use super::scripts::{Script, Scripts, Tokens};
use super::taken_up::TakenUp;
use super::unconfirmed_releases::{UnconfirmedRelease, UnconfirmedReleases};
use quorumlock_protocol::{
    Acceptance, Answer, Claim, ConfigError, Denial, FencingToken, Greeting, HeldInterval, Hints,
    Holder, Incarnation, Layout, LeaseRequest, Name, NoAnswer, NodeProblem, NodeReport, Nonce,
    Notified, QueueAction, ReleaseOutcome, RemoteGrant, Responder, RunIds, Unconfirmed, Vote,
};

/// One request and where its answer goes.
#[derive(Debug)]
pub(super) enum Command {
    Acquire {
        lease: LeaseRequest,
        token: FencingToken,
        incarnation: Incarnation,
        hints: Hints,
        to: Responder<Answer<Vote>>,
    },
    Raise {
        lease: LeaseRequest,
        token: FencingToken,
        incarnation: Incarnation,
        to: Responder<Answer<Acceptance>>,
    },
    Regrant {
        lease: LeaseRequest,
        token: FencingToken,
        to: Responder<Answer<Instant>>,
    },
    Renew {
        leases: Vec<LeaseRequest>,
        to: Responder<Vec<Answer<Instant>>>,
    },
    Release {
        lease: LeaseRequest,
        queue_action: Option<QueueAction>,
        unconfirmed: Unconfirmed,
        /// Until when it is repeated; `None` for the first request. An earlier request may have
        /// arrived. A repeat goes by the script, which notifies the next waiter also if that earlier
        /// request freed the name.
        repeat: Option<Instant>,
        to: Responder<Answer<ReleaseOutcome>>,
    },
    Inspect {
        claim: Claim,
        to: Responder<Answer<Option<Holder>>>,
    },
    ForceRelease {
        claim: Claim,
        /// Only if this is the holder.
        holder: Option<String>,
        to: Responder<Answer<bool>>,
    },
    /// Removes this locker (`true`) from the queue of a name. If it is not queued, or with `false`,
    /// notifies the next waiter of a free name. Nobody reads the reply.
    Dequeue(Claim, bool),
    /// A command that is sent as it is: an admission script, or a question to the server.
    Raw {
        command: redis::Cmd,
        to: Responder<Answer<Value>>,
    },
    /// `SCRIPT LOAD` after a NOSCRIPT. Nobody reads the reply.
    NoReply,
    /// How the server is set up now; the session reads the reply.
    LookAtSetup,
}

impl Command {
    /// A release that is sent for the first time.
    pub(super) fn release(
        lease: LeaseRequest,
        held: HeldInterval,
        queue_action: Option<QueueAction>,
        to: Responder<Answer<ReleaseOutcome>>,
    ) -> Self {
        Self::Release { lease, queue_action, unconfirmed: Unconfirmed::new(held), repeat: None, to }
    }

    /// A release that is sent again.
    pub(super) fn repeat(release: UnconfirmedRelease) -> Self {
        let UnconfirmedRelease { lease, queue_action, unconfirmed, to, until } = release;
        Self::Release { lease, queue_action, unconfirmed, repeat: Some(until), to }
    }

    /// The name that the request is about; `None` if it is about none, or about several.
    pub(super) fn name(&self) -> Option<&Name> {
        match self {
            Self::Renew { leases, .. } if leases.len() != 1 => None,
            _ => self.claim().map(Claim::name),
        }
    }

    /// What the request is about, or the first of what it is about; `None` if it is about nothing.
    pub(super) fn claim(&self) -> Option<&Claim> {
        match self {
            Self::Acquire { lease, .. }
            | Self::Raise { lease, .. }
            | Self::Regrant { lease, .. }
            | Self::Release { lease, .. } => Some(&lease.claim),
            Self::Renew { leases, .. } => leases.first().map(|lease| &lease.claim),
            Self::Inspect { claim, .. }
            | Self::ForceRelease { claim, .. }
            | Self::Dequeue(claim, _) => Some(claim),
            Self::Raw { .. } | Self::NoReply | Self::LookAtSetup => None,
        }
    }

    /// The token that an acquisition proposes; [`FencingToken::NONE`] for any other request.
    pub(super) fn token(&self) -> FencingToken {
        match self {
            Self::Acquire { token, .. } => *token,
            _ => FencingToken::NONE,
        }
    }

    pub(super) fn is_release(&self) -> bool {
        matches!(self, Self::Release { .. })
    }

    /// Whether the request reads or writes the marks of many slots.
    pub(super) fn copies_marks(&self) -> bool {
        matches!(self, Self::Raw { command, .. } if command.args_iter().nth(COPY_ARGS).is_some())
    }

    /// The scripts that may have to be loaded for this request.
    pub(super) fn scripts<'a>(&self, scripts: &'a Scripts) -> impl Iterator<Item = &'a Script> {
        let scripts = scripts.of_claim(self.claim());
        let lean = self.is_release().then_some(&scripts.delete_if_ours);
        self.script(scripts).into_iter().chain(lean)
    }

    /// Whether the request is a vote: only a node whose memory is proven may answer it.
    pub(super) fn votes(&self) -> bool {
        match self {
            Self::Acquire { .. }
            | Self::Raise { .. }
            | Self::Renew { .. }
            | Self::Regrant { .. } => true,
            Self::Release { .. }
            | Self::Inspect { .. }
            | Self::ForceRelease { .. }
            | Self::Dequeue(..)
            | Self::Raw { .. }
            | Self::NoReply
            | Self::LookAtSetup => false,
        }
    }

    /// The incarnation under which the node must be verified when the request is sent.
    pub(super) fn incarnation(&self) -> Option<Incarnation> {
        match self {
            Self::Acquire { incarnation, .. } | Self::Raise { incarnation, .. } => {
                Some(*incarnation)
            }
            _ => None,
        }
    }

    /// Tells the caller that there is no result: of a renewal, for each lease.
    fn fail(self, failed: &Failed) {
        match self {
            Self::Acquire { to, .. } => to.send(failed.answer()),
            Self::Raise { to, .. } => to.send(failed.answer()),
            Self::Regrant { to, .. } => to.send(failed.answer()),
            Self::Renew { leases, to } => {
                to.send(leases.iter().map(|_| failed.answer()).collect());
            }
            Self::Release { to, .. } => to.send(failed.answer()),
            Self::Inspect { to, .. } => to.send(failed.answer()),
            Self::ForceRelease { to, .. } => to.send(failed.answer()),
            Self::Raw { to, .. } => to.send(failed.answer()),
            Self::Dequeue(..) | Self::NoReply | Self::LookAtSetup => {}
        }
    }

    /// The script that the request runs.
    fn script<'a>(&self, scripts: &'a Scripts) -> Option<&'a Script> {
        Some(match self {
            Self::Acquire { .. } => &scripts.acquire,
            Self::Raise { .. } => &scripts.raise,
            Self::Renew { .. } => &scripts.renew,
            Self::Regrant { .. } => &scripts.regrant,
            Self::Release { .. } => &scripts.release,
            Self::Inspect { .. } => &scripts.inspect,
            Self::ForceRelease { .. } => &scripts.force_release,
            Self::Dequeue(..) => &scripts.dequeue,
            Self::Raw { .. } | Self::NoReply | Self::LookAtSetup => return None,
        })
    }
}

/// The state of a node that encoding and decoding share.
#[derive(Debug)]
pub(super) struct NodeContext {
    pub(super) label: String,
    pub(super) layout: Layout,
    pub(super) tokens: Tokens,
    /// The bound on the node's clock rate against ours.
    pub(super) max_clock_drift: f64,
    /// What is added to each lease at the node (`Settings::delay_at_node`).
    pub(super) delay: Duration,
    /// Whether a free name with a queue goes to its head only.
    pub(super) strict_order: bool,
    pub(super) unconfirmed: UnconfirmedReleases,
    /// Whether the node must prove its memory.
    pub(super) bound: bool,
    /// The run identities that both connections have found.
    pub(super) run_identities: Mutex<RunIds>,
    pub(super) contended: ContendedNames,
    /// The node refuses acquisitions without a script.
    pub(super) scripts_only: AtomicBool,
    pub(super) clock_monitor: Mutex<ClockMonitor>,
    /// The sum of all forward jumps of the node's clock that were seen, in microseconds.
    pub(super) clock_advance: AtomicU64,
    /// The id of this locker in the queues of the nodes, and at the end of its private channels.
    /// Unique among all processes.
    pub(super) waiter: Nonce,
    /// The attempts that have a name by handoff, and were told by a reply.
    pub(super) taken_up: TakenUp,
    /// Whether it is a member of a Redis Cluster, which refuses a transaction about several slots.
    pub(super) redis_cluster: bool,
    /// Whether the locker only observes (`Settings::observes`).
    pub(super) observes: bool,
    pub(super) on_event: Option<EventHandler>,
}

/// Why a request has no result.
enum Failed {
    No(Denial),
    NoAnswer(NoAnswer),
}

impl Failed {
    fn answer<T>(&self) -> Answer<T> {
        match self {
            Self::No(denial) => Answer::No(denial.clone()),
            Self::NoAnswer(no_answer) => Answer::NoAnswer(no_answer.clone()),
        }
    }
}

impl NodeContext {
    /// Decodes the reply and answers the caller. `asked`: when the request was queued.
    #[expect(clippy::too_many_lines, reason = "an arm for each command")]
    pub(super) fn answer(&self, request: Command, asked: Instant, reply: Value) {
        match (&request, &reply) {
            (Command::Acquire { lease, hints, .. }, Value::Array(denied)) => {
                lease.claim.names().for_each(|name| self.contended.seen(name));
                self.refused(lease, hints, denied);
            }
            // Others want the name: let its release notify a waiter of another process in the same
            // step.
            (Command::Acquire { lease, hints, .. }, Value::Int(_)) if hints.is_contended() => {
                lease.claim.names().for_each(|name| self.contended.seen(name));
            }
            (Command::Release { queue_action: Some(QueueAction::KeepPlace(_)), .. }, _) => {}
            (Command::Release { lease, .. }, Value::Int(n)) if *n > 0 => {
                self.contended.released(lease.name(), notified(*n) == Notified::Waiter);
            }
            _ => {}
        }
        match request {
            Command::Acquire { lease, to, .. } => to.send(match reply {
                Value::Int(said) => {
                    let until = expiry(asked, lease.ttl, self.max_clock_drift);
                    let token = match self.tokens {
                        Tokens::Proposed => acceptance(said),
                        Tokens::Counted => {
                            Acceptance::Counted(FencingToken::new(said.unsigned_abs()))
                        }
                    };
                    Answer::Yes(Vote { until, token })
                }
                Value::Array(denied) => Answer::No(Denial::Busy(remaining(denied.first()))),
                // The reply to a bare SET or RESTORE.
                Value::Okay => {
                    let until = expiry(asked, lease.ttl, self.max_clock_drift);
                    Answer::Yes(Vote { until, token: Acceptance::Accepted })
                }
                Value::Error(text) if text.starts_with("BUSYKEY") => Answer::No(Denial::Busy(None)),
                Value::Nil => Answer::No(Denial::Busy(None)),
                other => self.unexpected_reply(&lease.claim.label(), other),
            }),
            Command::Raise { lease, to, .. } => to.send(match reply {
                Value::Int(mark) => Answer::Yes(acceptance(mark)),
                Value::Nil => Answer::No(Denial::Gone),
                other => self.unexpected_reply(&lease.claim.label(), other),
            }),
            Command::Regrant { lease, to, .. } => to.send(match reply {
                Value::Int(1) => Answer::Yes(expiry(asked, lease.ttl, self.max_clock_drift)),
                Value::Array(denied) => Answer::No(Denial::Busy(remaining(denied.first()))),
                other => self.unexpected_reply(&lease.claim.label(), other),
            }),
            Command::Renew { leases, to } => to.send(match reply {
                // The last one is the node's time.
                Value::Array(items) if items.len() == leases.len() + 1 => leases
                    .iter()
                    .zip(items)
                    .map(|(lease, item)| match item {
                        Value::Int(1) => {
                            Answer::Yes(expiry(asked, lease.ttl, self.max_clock_drift))
                        }
                        Value::Int(0) => Answer::No(Denial::Gone),
                        other => self.unexpected_reply(lease.name(), other),
                    })
                    .collect(),
                other => leases
                    .iter()
                    .map(|lease| self.unexpected_reply(lease.name(), other.clone()))
                    .collect(),
            }),
            Command::Release { lease, unconfirmed, to, .. } => to.send(match reply {
                Value::Int(n) => {
                    let forgot = self.bound && unconfirmed.forgotten(&self.run_identities());
                    let notified = Some(notified(n));
                    Answer::Yes(ReleaseOutcome { held: n > 0, forgot: n == 0 && forgot, notified })
                }
                // This nonce does not hold a key of another type.
                Value::Error(text) if text.contains(WRONG_TYPE) => {
                    Answer::Yes(ReleaseOutcome { held: false, forgot: false, notified: None })
                }
                other => self.unexpected_reply(lease.name(), other),
            }),
            Command::Inspect { claim, to } => to.send(match reply {
                Value::Nil => Answer::Yes(None),
                Value::Array(items) => Answer::Yes(holder(&items)),
                other => self.unexpected_reply(claim.name(), other),
            }),
            Command::ForceRelease { claim, to, .. } => to.send(match reply {
                Value::Int(held) => Answer::Yes(held == 1),
                other => self.unexpected_reply(claim.name(), other),
            }),
            Command::Raw { to, .. } => to.send(match reply {
                Value::Error(text) => {
                    Answer::No(Denial::Refused(self.report(NodeProblem::from_reply(&text))))
                }
                reply => Answer::Yes(reply),
            }),
            Command::Dequeue(..) | Command::NoReply | Command::LookAtSetup => {}
        }
    }

    /// Tells the waiter what the reply of a refusal says besides the remaining lease (wait_queue.lua).
    fn refused(&self, lease: &LeaseRequest, hints: &Hints, reply: &[Value]) {
        let enqueue = hints.enqueue();
        if let ([Value::Text(_), nonce, token], Some(enqueue)) = (reply, enqueue) {
            let (nonce, token) = (Nonce::parse(&nonce.text()), token.text().parse());
            if let (Some(nonce), Ok(token)) = (nonce, token) {
                self.taken_up.add(nonce);
                enqueue
                    .queued_at
                    .add_handoff(RemoteGrant { nonce, token: FencingToken::new(token) });
            }
            return;
        }
        let mut told = reply.iter().skip(1).filter_map(Value::int);
        let place = told.next().and_then(|place| u32::try_from(place).ok());
        if let (Some(place @ 1..), Some(enqueue)) = (place, enqueue) {
            enqueue.queued_at.set_place(place);
        }
        if lease.claim.slots().is_some() {
            let free = told.filter_map(|slot| u16::try_from(slot).ok());
            if let Some(slots) = hints.free_slots() {
                slots.report(free);
            }
        } else if let Some(enqueue) = enqueue {
            // Of several names, the one that refused the caller.
            let names = told.filter_map(|at| usize::try_from(at - 1).ok());
            names.for_each(|at| enqueue.queued_at.add_name(at));
        }
    }

    /// Answers a repeated release. `greeting` describes the connection that carried the repeat.
    /// "Not held" counts as held if an earlier request freed the lock.
    pub(super) fn answer_repeat(
        &self,
        request: Command,
        greeting: Greeting,
        reply: Value,
        now: Instant,
    ) {
        match (request, reply) {
            (Command::Release { unconfirmed, to, .. }, Value::Int(0))
                if unconfirmed.was_freed(greeting, &self.run_identities(), now) =>
            {
                let outcome = ReleaseOutcome { held: true, forgot: false, notified: None };
                to.send(Answer::Yes(outcome));
            }
            (request, reply) => self.answer(request, now, reply),
        }
    }

    pub(super) fn run_identities(&self) -> MutexGuard<'_, RunIds> {
        self.run_identities.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells the caller that there is no answer. Every release is repeated on the next connection;
    /// if it may have arrived, its caller goes on waiting for that answer.
    pub(super) fn no_answer(&self, request: Command, no_answer: &NoAnswer, now: Instant) {
        match request {
            Command::Release { lease, queue_action, unconfirmed, repeat, to } => {
                let waits_on = repeat.is_some() || matches!(no_answer, NoAnswer::Unknown(_));
                let (asks_on, told) = match waits_on {
                    true => (to, None),
                    false => (Responder::nobody(), Some(to)),
                };
                let until = repeat.unwrap_or_else(|| self.hold_ends(now, lease.ttl));
                let to = asks_on;
                let release = UnconfirmedRelease { lease, queue_action, unconfirmed, to, until };
                self.unconfirmed.add(release, now);
                if let Some(told) = told {
                    told.send(Answer::NoAnswer(no_answer.clone()));
                }
            }
            other => other.fail(&Failed::NoAnswer(no_answer.clone())),
        }
    }

    /// Answers a request that rests on an incarnation which is no longer the node's, or that needs
    /// a fresh round: the server did not know the script, or the answer without a script was
    /// unclear.
    pub(super) fn stale(&self, request: Command, now: Instant) {
        let report = self.report(NodeProblem::Reverified);
        self.deny(request, &Denial::Stale(report.clone()), report, now);
    }

    /// Answers a vote request to a node whose memory is not proven: it counts for nothing now.
    pub(super) fn unproven(&self, request: Command, why: &Denial, now: Instant) {
        self.deny(request, why, self.report(NodeProblem::NotAdmitted), now);
    }

    /// Denies a vote request, or an inspection; any other request hears that it was not sent.
    fn deny(&self, request: Command, denial: &Denial, report: NodeReport, now: Instant) {
        match request {
            Command::Acquire { .. }
            | Command::Raise { .. }
            | Command::Regrant { .. }
            | Command::Inspect { .. }
            | Command::Renew { .. } => request.fail(&Failed::No(denial.clone())),
            other => self.no_answer(other, &NoAnswer::NotSent(report), now),
        }
    }

    /// Tells the caller that this node can never answer in this configuration.
    pub(super) fn misconfigured(&self, request: Command, error: &ConfigError, now: Instant) {
        let no = Denial::Config(error.clone());
        match request {
            Command::Renew { .. } => {
                // This says nothing about leases that are held: their windows decide.
                let why = self.report(NodeProblem::NotAsked(error.to_string()));
                request.fail(&Failed::NoAnswer(NoAnswer::NotSent(why)));
            }
            Command::Release { lease, queue_action, unconfirmed, repeat, to } => {
                let until = repeat.unwrap_or_else(|| self.hold_ends(now, lease.ttl));
                let nobody = Responder::nobody();
                let release =
                    UnconfirmedRelease { lease, queue_action, unconfirmed, to: nobody, until };
                self.unconfirmed.add(release, now);
                to.send(Answer::No(no));
            }
            other => other.fail(&Failed::No(no)),
        }
    }

    /// Checks the node's clock by the TIME in the reply to a renewal, which was queued at `asked`
    /// and answered at `heard`. Returns that time in microseconds.
    pub(super) fn check_node_clock(
        &self,
        request: &Command,
        (asked, heard): (Instant, Instant),
        reply: &Value,
    ) -> Option<i64> {
        let (Command::Renew { leases, .. }, Value::Array(items)) = (request, reply) else {
            return None;
        };
        let shown = items.get(leases.len()).and_then(micros)?;
        let anomaly_seen = {
            let mut monitor = self.clock_monitor.lock().unwrap_or_else(PoisonError::into_inner);
            monitor.observe(asked, heard, shown)
        };
        let node = &self.label;
        if let (Some(anomaly), Some(handler)) = (anomaly_seen, &self.on_event) {
            handler.handle(&Event::NodeClock { node, anomaly });
        }
        match anomaly_seen {
            Some(ClockAnomaly::Forward(by)) => {
                let micros = u64::try_from(by.as_micros()).unwrap_or(u64::MAX);
                self.clock_advance.fetch_add(micros, Ordering::AcqRel);
                tracing::warn!(node, ?by, "its clock was set forward: leases there end early");
            }
            Some(ClockAnomaly::Back(by)) => {
                tracing::warn!(node, ?by, "its clock was set back: leases there end late");
            }
            Some(ClockAnomaly::Frozen) => {
                tracing::warn!(node, "its clock stands still: leases there never end");
            }
            None => {}
        }
        Some(shown)
    }

    /// When a hold of `lease` that the node got by `now` ends there at the latest, by our clock.
    fn hold_ends(&self, now: Instant, lease: Duration) -> Instant {
        let rate = (1.0 - self.max_clock_drift).clamp(0.5, 1.0);
        now + (lease + self.delay).div_f64(rate)
    }

    pub(super) fn report(&self, problem: NodeProblem) -> NodeReport {
        NodeReport::new(self.label.clone(), problem)
    }

    /// The denial for a reply that the request does not expect, most often an error of the server.
    fn unexpected_reply<T>(&self, name: &Name, reply: Value) -> Answer<T> {
        self.failed(match reply {
            Value::Error(text) => {
                let key = name.to_string();
                match text.split_once(' ') {
                    Some(("NOTALOCK", found)) => {
                        NodeProblem::NotALock { key, found: found.to_owned() }
                    }
                    Some(("OTHERKIND", found)) => {
                        NodeProblem::WrongType { key, found: found.to_owned() }
                    }
                    _ if text.contains(WRONG_TYPE) => {
                        NodeProblem::WrongType { key, found: "of another type".to_owned() }
                    }
                    _ => NodeProblem::from_reply(&text),
                }
            }
            other => NodeProblem::Malformed(format!("{other:?}")),
        })
    }

    fn failed<T>(&self, problem: NodeProblem) -> Answer<T> {
        Answer::No(Denial::Refused(self.report(problem)))
    }
}

/// No request with more arguments than this is about anything but marks.
const COPY_ARGS: usize = 1_000;

const WRONG_TYPE: &str = "WRONGTYPE";

/// Decodes what `accept` in token.lua returns.
fn acceptance(mark: i64) -> Acceptance {
    match u64::try_from(mark).unwrap_or(0) {
        0 => Acceptance::Accepted,
        mark => Acceptance::Behind(FencingToken::new(mark)),
    }
}

/// Decodes the reply to TIME, in microseconds.
pub(super) fn micros(time: &Value) -> Option<i64> {
    let Value::Array(parts) = time else { return None };
    let [seconds, micros] = parts.as_slice() else { return None };
    let number = |value: &Value| value.text().parse::<i64>().ok();
    number(seconds)?.checked_mul(1_000_000)?.checked_add(number(micros)?)
}

fn remaining(pttl: Option<&Value>) -> Option<Duration> {
    match pttl {
        Some(Value::Int(ms)) => u64::try_from(*ms).ok().map(Duration::from_millis),
        _ => None,
    }
}

/// Decodes the reply to a release: 1 + what notify_next.lua returns.
fn notified(reply: i64) -> Notified {
    match reply {
        ..2 => Notified::Nobody,
        2 => Notified::Channel,
        3.. => Notified::Waiter,
    }
}

fn holder(items: &[Value]) -> Option<Holder> {
    let [Value::Text(id), Value::Text(holds), pttl, mark, waiters] = items else { return None };
    let holds = std::str::from_utf8(holds).ok().and_then(|text| text.parse().ok()).unwrap_or(1);
    let id = String::from_utf8_lossy(id).into_owned();
    let mut holder = Holder::new(id, remaining(Some(pttl)), holds);
    holder.last_token = mark.text().parse().ok().map(FencingToken::new);
    holder.waiters = waiters.int().and_then(|waiters| u64::try_from(waiters).ok());
    Some(holder)
}
