use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::time::Duration;

use quorumlock_protocol::{Greeting, Instant, NoAnswer, NodeProblem};

use super::in_flight::{Extent, InFlight, Transaction};
use super::read_buffer::ReadBuffer;
use super::replica_acks::ReplicaAcks;
use super::requests::Requests;
use super::setup_look::SetupLook;
use super::txn_acquire::{TxnReplies, TxnVerdict};
use crate::command::Command;
use crate::resp::Value;
use crate::server_info::ServerInfo;

/// How a connection ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Disconnect {
    pub(crate) why: String,
    pub(crate) how: How,
}

/// What the end of a connection says about the next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum How {
    /// The server answered a request on it.
    Useful,
    /// The client itself ended it.
    Ours,
    /// It broke while no request was in flight.
    Idle,
    /// The server answered none of the requests sent on it.
    Unanswered,
}

/// What the driver has to do next.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Let other tasks run, then call [`Session::woken`].
    Yield,
    /// Read once.
    Read,
    /// Write as much as the stream takes, flush, and read once.
    Exchange,
    /// Wait for bytes, for a request, or for the deadline, which [`Session::on_deadline`] handles.
    Wait(Option<Instant>),
    /// Call [`Session::end`], and close the stream.
    End(Disconnect),
}

/// One connection, from its handshake to its end.
pub(crate) struct Session<'a> {
    requests: &'a Requests,
    driver: DriverState,
    out: Vec<u8>,
    written: usize,
    inflight: VecDeque<InFlight>,
    /// How many requests at the end of `inflight` have their bytes in `out`.
    batch: usize,
    /// Acquisitions whose transaction has not ended.
    open_transaction: Vec<InFlight>,
    /// The first error of that transaction.
    transaction_error: Option<Value>,
    read_buffer: ReadBuffer,
    /// When to look whether a reply has come.
    stall_at: Instant,
    /// Set while the node's memory is not proven: when to verify the node again.
    recheck_at: Option<Instant>,
    /// When to replace this connection, because its credentials end soon.
    replace_at: Option<Instant>,
    look: SetupLook,
    /// A deadline that ends this connection has passed.
    expired: Option<Expired>,
    /// The server may not be the verified one, or not the master: end this connection once idle.
    reverify: bool,
    /// Whether `read_buffer` may hold whole replies that are not handled yet.
    more: bool,
    /// The run identity of the server there, and when the handshake ended.
    greeting: Greeting,
    acks: ReplicaAcks,
    /// How many callers the last read answered: that many tasks may send a request soon.
    answered: usize,
    /// Whether the other answered tasks had a chance to send requests since the last write.
    yielded: bool,
    /// Whether a batch was larger than [`BUFFER_CAPACITY`].
    burst: bool,
    /// Whether a reply came since the stall deadline last passed.
    replied: bool,
    /// Whether a reply came at all.
    useful: bool,
    /// Why nothing more can be written or read.
    broken: Option<String>,
    /// The node's wall clock, in microseconds, if a reply has just shown it.
    node_time: Option<i64>,
}

/// Where the driver stands between two calls of [`Session::woken`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DriverState {
    Woken,
    /// The driver is to exchange bytes, whatever is queued.
    Fresh,
    /// The driver exchanged bytes; `progress`: requests were taken, or bytes moved.
    Exchanged {
        progress: bool,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Expired {
    Stall,
    Recheck,
}

impl<'a> Session<'a> {
    /// The handshake of a new connection has ended.
    pub(crate) fn begin(requests: &'a Requests, server: ServerInfo, now: Instant) -> Self {
        let (unproven, replace_at) = (server.unproven.is_some(), server.replace_at);
        let acks = ReplicaAcks::new(requests.rules.acks, server.replicas());
        let look = SetupLook::new(&server, requests.context.waiter, now);
        requests.connected(server, now);
        Self {
            requests,
            driver: DriverState::Woken,
            out: Vec::new(),
            written: 0,
            inflight: VecDeque::new(),
            batch: 0,
            open_transaction: Vec::new(),
            transaction_error: None,
            read_buffer: ReadBuffer::default(),
            stall_at: now + requests.rules.stall,
            recheck_at: unproven.then_some(now + RECHECK),
            replace_at,
            look,
            expired: None,
            reverify: false,
            more: false,
            greeting: requests.greeting(),
            acks,
            answered: 0,
            yielded: false,
            burst: false,
            replied: true,
            useful: false,
            broken: None,
            node_time: None,
        }
    }

    /// The driver runs: something may have happened.
    pub(crate) fn woken(&mut self) {
        self.driver = DriverState::Woken;
    }

    /// The node's master is elsewhere: this connection ends once idle.
    pub(crate) fn moved(&mut self) {
        self.reverify = true;
    }

    /// What the driver has to do next.
    pub(crate) fn step(&mut self) -> Step {
        if self.broken.is_some() {
            return self.disconnect();
        }
        match self.driver {
            DriverState::Woken => {
                if self.yields() {
                    return Step::Yield;
                }
                self.yielded = false;
                self.driver = DriverState::Fresh;
                // Read first when idle, to notice a closed connection before writing to it.
                if self.idle() { Step::Read } else { self.exchange() }
            }
            DriverState::Fresh => self.exchange(),
            DriverState::Exchanged { .. } if self.more => Step::Yield,
            DriverState::Exchanged { progress: true } => self.exchange(),
            DriverState::Exchanged { progress: false } => self.rest(),
        }
    }

    /// The bytes to be written.
    pub(crate) fn to_write(&self) -> &[u8] {
        &self.out[self.written..]
    }

    /// The stream took `n` of the bytes to be written.
    pub(crate) fn wrote(&mut self, n: usize) {
        self.written += n;
        self.driver = DriverState::Exchanged { progress: true };
    }

    /// Where to put bytes that arrive; `None` if replies that arrived are not handled yet, which
    /// [`Session::received`] with no bytes does.
    pub(crate) fn room(&mut self) -> Option<&mut [u8]> {
        (!self.more).then(|| self.read_buffer.room())
    }

    /// `n` bytes arrived in the room: handles the whole replies among them, and answers their
    /// callers.
    pub(crate) fn received(&mut self, n: usize, now: Instant) {
        self.read_buffer.filled(n);
        if self.driver != DriverState::Fresh {
            self.driver = DriverState::Exchanged { progress: true };
        }
        self.look_at_deadlines(now);
        if let Err(why) = self.handle_replies(now) {
            self.broke(why);
        }
    }

    /// Nothing more can be written or read.
    pub(crate) fn broke(&mut self, why: String) {
        self.broken.get_or_insert(why);
    }

    /// The deadline of [`Step::Wait`] may have passed.
    pub(crate) fn on_deadline(&mut self, now: Instant) {
        self.look_at_deadlines(now);
        match (self.idle(), self.recheck_at) {
            (true, Some(recheck_at)) if recheck_at <= now => {
                self.expired = Some(Expired::Recheck);
            }
            (false, _) if self.stall_at <= now => {
                let stall = self.requests.rules.stall;
                let copies = |first: &InFlight| first.copies(now, stall);
                if std::mem::take(&mut self.replied) || self.inflight.front().is_some_and(copies) {
                    self.stall_at = now + stall;
                } else {
                    self.expired = Some(Expired::Stall);
                }
            }
            _ => {}
        }
    }

    /// Ends this connection once idle, if its credentials end soon. Asks how the server is set up now.
    fn look_at_deadlines(&mut self, now: Instant) {
        self.reverify |= self.replace_at.is_some_and(|at| at <= now);
        if self.look.is_due(now) {
            self.requests.push(InFlight::new(Command::LookAtSetup, now));
            self.driver = DriverState::Fresh;
        }
    }

    /// The node's wall clock, in microseconds, if a reply showed it since the last call.
    pub(crate) fn take_node_time(&mut self) -> Option<i64> {
        self.node_time.take()
    }

    /// The connection has ended. A request that was written, even in part, and not answered may
    /// have been carried out. A request that was not written waits for the next connection.
    pub(crate) fn end(&mut self, now: Instant) {
        self.end_with(NodeProblem::Broken("before it answered".into()), |_| false, now);
    }

    /// As [`Self::end`], because the runtime of the driver ends. The server is as well as before: the
    /// callers may ask again at once, and requests that can be repeated are.
    pub(crate) fn abandon(&mut self, now: Instant) {
        // A renewal writes only what is held.
        let repeats =
            |request: &Command| matches!(request, Command::Inspect { .. } | Command::Renew { .. });
        self.end_with(NodeProblem::RuntimeEnded, repeats, now);
    }

    fn end_with(&mut self, why: NodeProblem, repeats: fn(&Command) -> bool, now: Instant) {
        let context = &self.requests.context;
        let no_answer = NoAnswer::Unknown(context.report(why));
        for pending in self.acks.withheld().chain(self.open_transaction.drain(..)) {
            context.no_answer(pending.request, &no_answer, now);
        }
        let (mut unwritten, earlier) =
            (VecDeque::new(), self.inflight.len().saturating_sub(self.batch));
        for (i, mut pending) in self.inflight.drain(..).enumerate() {
            let extent = match i < earlier {
                true => Extent::Whole,
                false => pending.extent(self.written),
            };
            if let (Extent::Whole, Command::Release { unconfirmed, .. }) =
                (extent, &mut pending.request)
            {
                unconfirmed.written(self.greeting.run_identity, now);
            }
            match extent {
                Extent::Nothing => unwritten.push_back(pending),
                _ if repeats(&pending.request) => unwritten.push_back(pending),
                Extent::Part | Extent::Whole => context.no_answer(pending.request, &no_answer, now),
            }
        }
        self.requests.disconnected(unwritten);
    }

    /// The first of several tasks that were just answered wakes the driver before the others have
    /// run. Let them send requests too, and write all of them at once.
    fn yields(&mut self) -> bool {
        self.answered > 1
            && !self.more
            && self.requests.state().send_queue.has_bytes()
            && !std::mem::replace(&mut self.yielded, true)
    }

    fn exchange(&mut self) -> Step {
        match self.take() {
            Some(progress) => {
                self.driver = DriverState::Exchanged { progress };
                Step::Exchange
            }
            None => {
                self.broke("closed".to_owned());
                self.disconnect()
            }
        }
    }

    /// Moves the queued requests to `out` once all of `out` is written. Returns whether it moved
    /// any; `None` if the connection is closed and no request is in flight.
    fn take(&mut self) -> Option<bool> {
        if self.written < self.out.len() {
            return Some(false);
        }
        self.out.clear();
        (self.written, self.batch) = (0, 0);
        if self.reverify || self.acks.waiting() {
            // The queue waits for the next connection, or for the replicas.
            return Some(false);
        }
        let mut state = self.requests.state();
        if !state.send_queue.has_bytes() {
            return (!state.closed || !self.inflight.is_empty()).then_some(false);
        }
        let before = self.inflight.len();
        state.send_queue.move_to(&mut self.out, &mut self.inflight);
        drop(state);
        self.batch = self.inflight.len() - before;
        self.burst |= self.out.len() > BUFFER_CAPACITY;
        self.acks.follow(self.inflight.range(before..), &mut self.out);
        Some(true)
    }

    /// Nothing more can be done now: ends this connection, or waits.
    fn rest(&mut self) -> Step {
        let idle = self.idle();
        // Read the replies to earlier requests first: other rounds would count them as no answer.
        if self.reverify && idle {
            return Step::End(ours("it must be verified again"));
        }
        match self.expired.take() {
            Some(Expired::Recheck) if idle => {
                return Step::End(ours("its memory is looked at again"));
            }
            Some(Expired::Stall) if !idle => {
                self.broke(format!("gave no answer for {:?}", self.requests.rules.stall));
                return self.disconnect();
            }
            _ => {}
        }
        if self.burst && idle {
            self.shrink_buffers();
        }
        let deadlines = [self.recheck_at, self.replace_at, self.look.next()];
        let first = deadlines.into_iter().flatten().min();
        Step::Wait(if idle { first } else { Some(self.stall_at) })
    }

    fn disconnect(&mut self) -> Step {
        let how = match self.idle() {
            true => How::Idle,
            false if self.useful => How::Useful,
            false => How::Unanswered,
        };
        Step::End(Disconnect { why: self.broken.clone().unwrap_or_default(), how })
    }

    /// Whether no reply is awaited.
    fn idle(&self) -> bool {
        self.inflight.is_empty() && !self.acks.waiting()
    }

    /// Frees the room that a burst of requests took.
    fn shrink_buffers(&mut self) {
        self.burst = false;
        self.out.shrink_to(BUFFER_CAPACITY);
        self.inflight.shrink_to(BUFFER_CAPACITY / size_of::<InFlight>());
        self.open_transaction.shrink_to(0);
        self.requests.state().send_queue.shrink_to(BUFFER_CAPACITY);
    }

    fn handle_replies(&mut self, now: Instant) -> Result<(), String> {
        (self.answered, self.more) = (0, false);
        let slice = YIELD_AFTER.max(self.inflight.len() / SLICES);
        while let Some(reply) =
            self.read_buffer.next().map_err(|e| format!("speaks no RESP: {e}"))?
        {
            (self.replied, self.useful) = (true, true);
            let Some(first) = self.inflight.front_mut() else {
                self.acknowledge(&reply, now)?;
                continue;
            };
            let several = first.several();
            let whole =
                first.on_reply(reply).and_then(|reply| Some((reply, self.inflight.pop_front()?)));
            let Some((reply, pending)) = whole else { continue };
            if let (true, Command::Release { lease, .. }, Value::Int(3 | -1)) =
                (several, &pending.request, &reply)
            {
                // A waiter is queued. Unlike the release script, these commands did not notify it
                // in the same step (W4).
                let notify = Command::Dequeue(lease.claim.clone(), false);
                self.requests.push(InFlight::new(notify, pending.asked));
            }
            match pending.transaction() {
                Transaction::No => {
                    self.answered += 1;
                    self.settle(pending, reply, now);
                }
                Transaction::Joined | Transaction::Ended => self.on_txn_reply(pending, reply, now),
            }
            if self.answered >= slice {
                self.more = true;
                break;
            }
        }
        Ok(())
    }

    /// Handles the last reply to an acquisition without a script. The reply to EXEC decides all
    /// acquisitions in the transaction.
    fn on_txn_reply(&mut self, pending: InFlight, reply: Value, now: Instant) {
        let incarnation = pending.request.incarnation().filter(|_| self.requests.rules.bound);
        let ended = pending.transaction() == Transaction::Ended;
        self.open_transaction.push(pending);
        if !ended {
            if let Value::Error(_) = reply {
                self.transaction_error.get_or_insert(reply);
            }
            return;
        }
        let mut replies =
            TxnReplies::read(self.transaction_error.take().unwrap_or(reply), incarnation);
        let mut acquisitions = std::mem::take(&mut self.open_transaction);
        self.answered += acquisitions.len();
        for pending in acquisitions.drain(..) {
            let verdict = replies.next(pending.request.token());
            self.conclude(pending, verdict, now);
        }
        self.open_transaction = acquisitions;
    }

    /// Answers an acquisition without a script. If unclear, the caller begins again by script.
    fn conclude(&mut self, pending: InFlight, verdict: TxnVerdict, now: Instant) {
        match verdict {
            TxnVerdict::Clear(reply) => self.settle(pending, reply, now),
            unclear => {
                self.reverify |= unclear == TxnVerdict::Unproven;
                if unclear == TxnVerdict::Forbidden {
                    self.requests.context.scripts_only.store(true, Ordering::Relaxed);
                }
                self.requests.context.stale(pending.request, now);
            }
        }
    }

    fn settle(&mut self, pending: InFlight, reply: Value, now: Instant) {
        let requests = self.requests;
        let Some((pending, reply)) = requests.follow_redirect(pending, reply, now) else { return };
        match reply {
            reply if matches!(pending.request, Command::LookAtSetup) => {
                self.reverify |= self.look.differs(&reply);
            }
            // The server has another run identity or incarnation. The script did nothing, and the
            // node's memory is unknown: verify it on a new connection before any other request.
            Value::Error(text) if requests.must_verify(&text) && pending.request.votes() => {
                self.reverify = true;
                requests.context.stale(pending.request, now);
            }
            // The server's script cache was emptied (SCRIPT FLUSH). The request did nothing. The
            // driver does not resend an acquisition: its release may be on its way already (H17).
            Value::Error(text) if text.starts_with("NOSCRIPT") && !pending.as_text => {
                // With admission this is a sign of lost memory, too. Only votes stop here.
                self.reverify |= requests.must_verify(&text);
                if !pending.resent {
                    requests.reload_scripts(&pending);
                }
                if let Command::Acquire { .. } = pending.request {
                    requests.context.stale(pending.request, now);
                } else {
                    requests.push(pending.once_more());
                }
            }
            // The master is a replica now, and did nothing.
            Value::Error(text)
                if is_replica(&text) && (!requests.rules.bound || pending.request.is_release()) =>
            {
                self.reverify = true;
                self.refused_by_replica(pending, text, now);
            }
            reply => {
                if let Some((pending, reply)) = self.acks.withhold(pending, reply) {
                    self.answer(pending, reply, now);
                }
            }
        }
    }

    /// Asks the new master, once. A release is repeated until its lease has ended: the server may
    /// become a master again, with our lock.
    fn refused_by_replica(&self, pending: InFlight, error: String, now: Instant) {
        let requests = self.requests;
        let rules = &requests.rules;
        let may_find_another = rules.several && !rules.bound && !pending.resent;
        match &pending.request {
            Command::Acquire { .. } if may_find_another => {
                requests.context.stale(pending.request, now);
            }
            _ if may_find_another => requests.push(pending.once_more()),
            request if request.is_release() => {
                let problem = NodeProblem::from_reply(&error);
                let no_answer = NoAnswer::NotSent(requests.context.report(problem));
                requests.context.no_answer(pending.request, &no_answer, now);
            }
            _ => {
                let InFlight { request, asked, .. } = pending;
                requests.context.answer(request, asked, Value::Error(error));
            }
        }
    }

    fn answer(&mut self, pending: InFlight, reply: Value, now: Instant) {
        let (context, InFlight { request, asked, .. }) = (&self.requests.context, pending);
        if let Some(shown) = context.check_node_clock(&request, (asked, now), &reply) {
            self.node_time = Some(shown);
        }
        match request {
            repeat @ Command::Release { repeat: Some(_), .. } => {
                context.answer_repeat(repeat, self.greeting, reply, now);
            }
            request => self.requests.answer(request, asked, reply, now),
        }
    }

    /// The reply to the WAIT behind the last batch.
    fn acknowledge(&mut self, reply: &Value, now: Instant) -> Result<(), String> {
        let Some(judged) = self.acks.judge(reply) else {
            return Err("sent a reply to nothing".into());
        };
        // Too few replicas follow: this may be the old master, and another server the new (H25).
        self.reverify |= !judged.enough && self.requests.rules.several;
        self.answered += judged.answers.len();
        for (pending, reply) in judged.answers {
            self.answer(pending, reply, now);
        }
        Ok(())
    }
}

fn ours(why: &str) -> Disconnect {
    Disconnect { why: why.to_owned(), how: How::Ours }
}

impl std::fmt::Debug for Session<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session").field("inflight", &self.inflight.len()).finish_non_exhaustive()
    }
}

/// The driver yields after this many answers, so that the answered tasks send requests before the
/// others are answered: the server and the driver then work at the same time, not in turns.
const YIELD_AFTER: usize = 16;
/// With many requests in flight the driver yields after one in this many of them, if that is more:
/// each slice costs a write.
const SLICES: usize = 8;

/// The room that each buffer of an idle connection keeps, in bytes.
const BUFFER_CAPACITY: usize = 16 << 10;

/// How long an idle connection to an unproven node lasts. The next one verifies the node again.
const RECHECK: Duration = Duration::from_millis(250);

/// Whether the master was demoted while we were connected.
fn is_replica(error: &str) -> bool {
    error.contains("READONLY") || error.starts_with("MASTERDOWN")
}
