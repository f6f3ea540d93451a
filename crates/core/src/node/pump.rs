//! Moves bytes and replies of one connection.

use std::collections::VecDeque;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::Sleep;

use super::acks::Acks;
use super::dial::Stream;
use super::inbox::Inbox;
use super::line::Shared;
use super::pending::{Extent, Pending};
use super::plain::{Outcome, Said};
use super::request::Request;
use super::resp::Value;
use crate::{Greeting, NodeProblem, Silence};

/// How a connection ended.
pub(super) struct Ended {
    pub(super) why: String,
    pub(super) how: How,
}

/// What was to be expected of the next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum How {
    /// The server answered, or it is we who ended it.
    Useful,
    /// It was cut while nothing was asked.
    Idle,
    /// Nothing that was asked on it was answered.
    InVain,
}

/// Moves bytes both ways until the connection ends. One poll does all that can be done at once.
pub(super) struct Pump<'a> {
    shared: &'a Shared,
    stream: Box<dyn Stream>,
    out: Vec<u8>,
    written: usize,
    inflight: VecDeque<Pending>,
    /// How many of these, the last ones, are in `out`.
    batch: usize,
    /// Acquisitions whose transaction has not ended.
    sharing: Vec<Pending>,
    /// The first error of that transaction.
    fault: Option<Value>,
    inbox: Inbox,
    stall: Pin<Box<Sleep>>,
    /// While the node's memory is not proven: when to look again.
    recheck: Option<Pin<Box<Sleep>>>,
    /// The server is not the one that was verified.
    reverify: bool,
    /// Whether replies may have arrived that are not looked at yet.
    more: bool,
    /// Which address of the node this connection leads to, and who greeted us there.
    at: usize,
    greeting: Greeting,
    acks: Acks,
    /// How many replies the last read brought: so many tasks are about to ask again.
    crowd: usize,
    /// Whether others had their chance to ask since the last write.
    waited: bool,
    /// Whether more was sent at once than is kept room for.
    burst: bool,
    /// Since the stall timer last fired.
    heard: bool,
    useful: bool,
}

impl<'a> Pump<'a> {
    pub(super) fn new(shared: &'a Shared, stream: Box<dyn Stream>) -> Self {
        let (greeted, greeting) = shared.greeting();
        let unproven = greeted.as_ref().is_some_and(|greeted| greeted.unproven.is_some());
        Self {
            shared,
            stream,
            out: Vec::new(),
            written: 0,
            inflight: VecDeque::new(),
            batch: 0,
            sharing: Vec::new(),
            fault: None,
            inbox: Inbox::default(),
            stall: Box::pin(tokio::time::sleep(shared.stall)),
            recheck: unproven.then(|| Box::pin(tokio::time::sleep(RECHECK))),
            reverify: false,
            more: false,
            at: greeted.as_ref().map_or(0, |greeted| greeted.at),
            greeting,
            acks: Acks::new(shared.acks),
            crowd: 0,
            waited: false,
            burst: false,
            heard: true,
            useful: false,
        }
    }
}

impl Future for Pump<'_> {
    type Output = Ended;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Ended> {
        let this = &mut *self;
        this.shared.wake.register(cx.waker());
        // The first of several tasks that were just answered wakes us before the others have run:
        // let them ask too, and write all of it in one go.
        let asked = this.shared.state().outbox.has_bytes();
        if this.crowd > 1 && !this.more && asked && !std::mem::replace(&mut this.waited, true) {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        this.waited = false;
        this.reverify |= this.shared.addresses.moved(this.at);
        // A connection that has ended is seen before anything is written to it.
        let ended = this.idle().then(|| this.poll_read(cx));
        let mut ours = false;
        let why = loop {
            if let Some(Err(why)) = ended {
                break why;
            }
            let Some(taken) = this.take() else { break "closed".to_owned() };
            let progress = match (this.poll_write(cx), this.poll_read(cx)) {
                (Err(why), _) | (_, Err(why)) => break why,
                (Ok(wrote), Ok(read)) => taken || wrote || read,
            };
            if this.more {
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            if progress {
                continue;
            }
            // What was sent before that is heard first: other rounds would take it for silence.
            if this.reverify && this.idle() {
                ours = true;
                break "it must be verified again".to_owned();
            }
            if this.idle()
                && let Some(recheck) = &mut this.recheck
                && recheck.as_mut().poll(cx).is_ready()
            {
                ours = true;
                break "its memory is looked at again".to_owned();
            }
            if this.stalled(cx) {
                break format!("gave no answer for {:?}", this.shared.stall);
            }
            if this.burst && this.idle() {
                this.slim();
            }
            return Poll::Pending;
        };
        let how = match this.idle() {
            _ if ours => How::Useful,
            true => How::Idle,
            false if this.useful => How::Useful,
            false => How::InVain,
        };
        Poll::Ready(Ended { why, how })
    }
}

impl Pump<'_> {
    /// Takes what was queued, once all that was taken before is written. `None`: we may end.
    fn take(&mut self) -> Option<bool> {
        if self.written < self.out.len() {
            return Some(false);
        }
        self.out.clear();
        (self.written, self.batch) = (0, 0);
        if self.reverify || self.acks.waiting() {
            // It waits for the next connection, or for the replicas.
            return Some(false);
        }
        let mut state = self.shared.state();
        if !state.outbox.has_bytes() {
            return (!state.closed || !self.inflight.is_empty()).then_some(false);
        }
        self.heard |= self.inflight.is_empty();
        let before = self.inflight.len();
        state.outbox.move_to(&mut self.out, &mut self.inflight);
        drop(state);
        self.batch = self.inflight.len() - before;
        self.burst |= self.out.len() > ROOM;
        self.acks.follow(self.inflight.range(before..), &mut self.out);
        Some(true)
    }

    /// No answer is awaited.
    fn idle(&self) -> bool {
        self.inflight.is_empty() && !self.acks.waiting()
    }

    /// After a burst: what it took is not kept for the next one.
    fn slim(&mut self) {
        self.burst = false;
        self.out.shrink_to(ROOM);
        self.inflight.shrink_to(ROOM / size_of::<Pending>());
        self.sharing.shrink_to(0);
        self.shared.state().outbox.shrink_to(ROOM);
    }

    fn poll_write(&mut self, cx: &mut Context<'_>) -> Result<bool, String> {
        let before = self.written;
        while self.written < self.out.len() {
            let stream = Pin::new(&mut *self.stream);
            match stream.poll_write(cx, &self.out[self.written..]) {
                Poll::Ready(Ok(0)) => return Err("the connection closed".into()),
                Poll::Ready(Ok(n)) => self.written += n,
                Poll::Ready(Err(e)) => return Err(broke(&e)),
                Poll::Pending => break,
            }
        }
        // TLS keeps bytes back until it is told to flush; for TCP this is free.
        match Pin::new(&mut *self.stream).poll_flush(cx) {
            Poll::Ready(Err(e)) => Err(broke(&e)),
            _ => Ok(self.written > before),
        }
    }

    fn poll_read(&mut self, cx: &mut Context<'_>) -> Result<bool, String> {
        if !std::mem::take(&mut self.more) {
            match self.inbox.poll_fill(&mut *self.stream, cx) {
                Poll::Pending => return Ok(false),
                Poll::Ready(Err(e)) => return Err(broke(&e)),
                Poll::Ready(Ok(())) => {}
            }
        }
        self.crowd = 0;
        let slice = SLICE.max(self.inflight.len() / SLICES);
        while let Some(reply) = self.inbox.next().map_err(|e| format!("speaks no RESP: {e}"))? {
            (self.heard, self.useful) = (true, true);
            let Some(first) = self.inflight.front_mut() else {
                self.acknowledge(&reply)?;
                continue;
            };
            let several = first.several();
            let whole =
                first.hear(reply).and_then(|reply| Some((reply, self.inflight.pop_front()?)));
            let Some((reply, pending)) = whole else { continue };
            if let (true, Request::Release { term, .. }, Value::Int(3 | -1)) =
                (several, &pending.request, &reply)
            {
                // Somebody waits, and was not woken in the same step as when a script releases (e6).
                let wake = Pending::new(Request::Leave(term.name.clone(), false), pending.asked);
                self.shared.state().push(&self.shared.dialect, wake);
            }
            match &pending.request {
                Request::Acquire { .. } if several => self.share(pending, reply),
                _ => {
                    self.crowd += 1;
                    self.settle(pending, reply);
                }
            }
            if self.crowd >= slice {
                self.more = true;
                break;
            }
        }
        Ok(true)
    }

    /// An acquisition without a script hears what its commands came to, or that of all in the transaction.
    fn share(&mut self, pending: Pending, reply: Value) {
        let stamp = pending.request.stamp().filter(|_| self.shared.bound());
        let ended = pending.ended_transaction();
        self.sharing.push(pending);
        if !ended {
            if let Value::Error(_) = reply {
                self.fault.get_or_insert(reply);
            }
            return;
        }
        let mut outcome = Outcome::read(self.fault.take().unwrap_or(reply), stamp);
        let mut sharing = std::mem::take(&mut self.sharing);
        self.crowd += sharing.len();
        for pending in sharing.drain(..) {
            let said = outcome.next(pending.request.token());
            self.conclude(pending, said);
        }
        self.sharing = sharing;
    }

    /// An acquisition without a script is answered, or begun again with one.
    fn conclude(&mut self, pending: Pending, said: Said) {
        match said {
            Said::Clear(reply) => self.settle(pending, reply),
            unclear => {
                self.reverify |= unclear == Said::Unproven;
                if unclear == Said::Forbidden {
                    self.shared.dialect.scripts_only.store(true, Ordering::Relaxed);
                }
                self.shared.dialect.stale(pending.request);
            }
        }
    }

    fn settle(&mut self, pending: Pending, reply: Value) {
        let shared = self.shared;
        match reply {
            // Another life of the server, or another stamp. Nothing has happened yet, and nothing
            // is known: verify, on a new connection, before anything else is asked.
            Value::Error(text) if shared.must_verify(&text) && pending.request.votes() => {
                self.reverify = true;
                shared.dialect.stale(pending.request);
            }
            // The server's script cache was emptied (SCRIPT FLUSH). Nothing has happened yet. An
            // acquisition is not sent again by us: its release may be on its way already (H17).
            Value::Error(text) if text.starts_with("NOSCRIPT") && !pending.as_text => {
                // With admission that tells of a loss, too; what is no vote goes on all the same.
                self.reverify |= shared.must_verify(&text);
                let mut state = shared.state();
                let greeted = state.greeted.clone();
                let scripts = greeted.as_ref().map(|greeted| &*greeted.scripts);
                if let Some(scripts) = scripts
                    && !pending.again
                {
                    for script in pending.request.scripts(scripts) {
                        let mut load = redis::cmd("SCRIPT");
                        load.arg("LOAD").arg(&script.text);
                        state.outbox.push_aside(&load, &pending);
                    }
                }
                if let Request::Acquire { .. } = pending.request {
                    drop(state);
                    shared.dialect.stale(pending.request);
                } else {
                    state.push(&shared.dialect, pending.once_more());
                }
            }
            // The master is a replica now, and nothing has happened: another may be asked, once.
            Value::Error(text) if is_replica(&text) && !shared.bound() => {
                self.reverify = true;
                match &pending.request {
                    _ if pending.again || !shared.addresses.several() => {
                        let Pending { request, asked, .. } = pending;
                        shared.dialect.answer(request, asked, Value::Error(text));
                    }
                    Request::Acquire { .. } => shared.dialect.stale(pending.request),
                    _ => shared.state().push(&shared.dialect, pending.once_more()),
                }
            }
            reply => {
                let Some((pending, reply)) = self.acks.keep_back(pending, reply) else { return };
                match pending.request {
                    repeat @ Request::Release { repeat: true, .. } => {
                        shared.dialect.answer_repeat(repeat, self.greeting, reply);
                    }
                    request => shared.dialect.answer(request, pending.asked, reply),
                }
            }
        }
    }

    /// The reply to the WAIT behind the last batch.
    fn acknowledge(&mut self, reply: &Value) -> Result<(), String> {
        let Some(judged) = self.acks.judge(reply) else {
            return Err("sent a reply to nothing".into());
        };
        // Too few replicas follow: this may be an old master, and another the new one (H25).
        self.reverify |= !judged.enough && self.shared.addresses.several();
        self.crowd += judged.answers.len();
        for (pending, reply) in judged.answers {
            self.shared.dialect.answer(pending.request, pending.asked, reply);
        }
        Ok(())
    }

    /// True if requests are out and nothing was heard for a whole period. A timeout alone never
    /// breaks a TCP connection; a new one may find a way round a dead path.
    fn stalled(&mut self, cx: &mut Context<'_>) -> bool {
        while !self.idle() && self.stall.as_mut().poll(cx).is_ready() {
            if !std::mem::take(&mut self.heard) {
                return true;
            }
            self.stall.set(tokio::time::sleep(self.shared.stall));
        }
        false
    }
}

/// What was written in part and not answered may have happened. What was not written waits for the
/// next connection.
impl Drop for Pump<'_> {
    fn drop(&mut self) {
        let dialect = &self.shared.dialect;
        let silence =
            Silence::Maybe(dialect.report(NodeProblem::Broken("before it answered".into())));
        for pending in self.acks.kept_back().chain(self.sharing.drain(..)) {
            dialect.silent(pending.request, &silence);
        }
        let now = dialect.clock.now();
        let (mut unwritten, earlier) =
            (VecDeque::new(), self.inflight.len().saturating_sub(self.batch));
        for (i, mut pending) in self.inflight.drain(..).enumerate() {
            let extent = match i < earlier {
                true => Extent::Whole,
                false => pending.extent(self.written),
            };
            if let (Extent::Whole, Request::Release { unconfirmed, .. }) =
                (extent, &mut pending.request)
            {
                unconfirmed.written(self.greeting.life, now);
            }
            match extent {
                Extent::Nothing => unwritten.push_back(pending),
                Extent::Part | Extent::Whole => dialect.silent(pending.request, &silence),
            }
        }
        self.shared.state().outbox.put_back(unwritten);
    }
}

impl Shared {
    /// With admission a script that is unknown, or bound to another stamp, tells of a loss.
    fn must_verify(&self, error: &str) -> bool {
        self.bound() && (error.starts_with("NOSCRIPT") || error.starts_with("UNPROVEN"))
    }
}

/// So many tasks that were answered may ask again before the others are answered: the server then
/// works on their requests while we are at the rest, and not in turns with us.
const SLICE: usize = 16;
/// With many requests out it is a larger slice, since each costs a write: one in so many of them.
const SLICES: usize = 8;

/// What an idle connection keeps for bytes and for requests, in bytes each.
const ROOM: usize = 16 << 10;

/// How often an unproven node is looked at again.
const RECHECK: Duration = Duration::from_millis(250);

/// A master that was demoted while we were connected.
fn is_replica(error: &str) -> bool {
    error.contains("READONLY") || error.starts_with("MASTERDOWN")
}

fn broke(e: &io::Error) -> String {
    format!("the connection broke: {e}")
}
