//! One connection to a server, and the one task that drives it.
//!
//! Requests are appended to one buffer as bytes; the driver writes whatever is there in one go
//! (natural batching) and hands each reply to whoever asked, with no channel per command. The task
//! lives on the caller's runtime: a thread hop costs more than the round trip.

use std::collections::VecDeque;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures::task::AtomicWaker;
use quorumlock_watchdog::clock::wall_micros;
use quorumlock_watchdog::{Clock, Instant};
use tokio::io::ReadBuf;
use tokio::runtime::Handle;
use tokio::time::Sleep;

use super::dial::{Dialer, Stream, Trouble};
use super::request::{Dialect, Request};
use super::resp::{self, Value};
use crate::{ConfigError, Silence};

/// One connection: dialled at the first request, re-dialled when it breaks, closed on drop.
#[derive(Debug)]
pub(super) struct Line(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    dialer: Arc<Dialer>,
    dialect: Arc<Dialect>,
    clock: Clock,
    stall: Duration,
    state: Mutex<State>,
    wake: AtomicWaker,
}

#[derive(Debug)]
struct State {
    phase: Phase,
    /// What is queued, as bytes and as requests.
    out: Vec<u8>,
    queued: VecDeque<Pending>,
    closed: bool,
}

#[derive(Debug)]
enum Phase {
    /// No driver: none yet, or its runtime is gone.
    Idle,
    /// Requests wait for the connection.
    Dialing,
    Up,
    /// The driver dials on in the background; requests fail at once.
    Down(Trouble),
}

#[derive(Debug)]
struct Pending {
    request: Request,
    asked: Instant,
    /// Sent a second time, after a NOSCRIPT.
    again: bool,
}

/// A server that is this far behind gets no more: every queue has a bound.
const MOST_QUEUED: usize = 65_536;

impl Line {
    pub(super) fn new(
        dialer: Arc<Dialer>,
        dialect: Arc<Dialect>,
        clock: Clock,
        stall: Duration,
    ) -> Self {
        let state =
            State { phase: Phase::Idle, out: Vec::new(), queued: VecDeque::new(), closed: false };
        Self(Arc::new(Shared {
            dialer,
            dialect,
            clock,
            stall,
            state: Mutex::new(state),
            wake: AtomicWaker::new(),
        }))
    }

    /// Queues a request; its answer comes exactly once. Never blocks.
    pub(super) fn post(&self, request: Request) {
        let shared = &self.0;
        // The lease counts from before the command enters our own queue.
        let asked = shared.clock.now();
        let mut state = shared.state();
        match &state.phase {
            Phase::Up | Phase::Dialing if state.queued.len() < MOST_QUEUED => {
                state.push(&shared.dialect, Pending { request, asked, again: false });
                drop(state);
                shared.wake.wake();
            }
            Phase::Up | Phase::Dialing => {
                drop(state);
                let what = format!("{MOST_QUEUED} requests wait already");
                let silence = Silence::Never(shared.dialect.report(what));
                shared.dialect.silent(request, &silence);
            }
            Phase::Down(trouble) => {
                let trouble = trouble.clone();
                drop(state);
                shared.dialect.refuse(request, &trouble);
            }
            Phase::Idle => match Handle::try_current() {
                Ok(runtime) => {
                    state.phase = Phase::Dialing;
                    state.push(&shared.dialect, Pending { request, asked, again: false });
                    drop(state);
                    runtime.spawn(drive(Driver(shared.clone())));
                }
                Err(_) => {
                    drop(state);
                    shared.dialect.misconfigured(request, &ConfigError::NoRuntime);
                }
            },
        }
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        self.0.state().closed = true;
        self.0.wake.wake();
    }
}

impl State {
    fn push(&mut self, dialect: &Dialect, pending: Pending) {
        dialect.encode(&pending.request, wall_micros, &mut self.out);
        self.queued.push_back(pending);
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the phase; whatever is queued and will not be sent in it is answered.
    fn enter(&self, phase: Phase, refuse: Option<&Trouble>) {
        let mut state = self.state();
        state.phase = phase;
        let Some(trouble) = refuse else { return };
        state.out.clear();
        let queued = std::mem::take(&mut state.queued);
        drop(state);
        for pending in queued {
            self.dialect.refuse(pending.request, trouble);
        }
    }

    fn closed(&self) -> bool {
        self.state().closed
    }
}

impl Dialect {
    /// Answers a request that was never sent.
    fn refuse(&self, request: Request, trouble: &Trouble) {
        match trouble {
            Trouble::Passing(what) => {
                self.silent(request, &Silence::Never(self.report(what.clone())));
            }
            Trouble::Config(error) => self.misconfigured(request, error),
        }
    }
}

/// Dropped with its task, also when the runtime ends: then the line can be dialled from another.
struct Driver(Arc<Shared>);

impl Drop for Driver {
    fn drop(&mut self) {
        let gone = Trouble::Passing("its runtime ended".into());
        self.0.enter(Phase::Idle, Some(&gone));
    }
}

const FIRST_BACKOFF: Duration = Duration::from_millis(20);
const LAST_BACKOFF: Duration = Duration::from_secs(1);

async fn drive(driver: Driver) {
    let shared = &driver.0;
    let mut backoff = FIRST_BACKOFF;
    loop {
        match shared.dialer.open(&shared.dialect.scripts).await {
            Ok(stream) => {
                shared.enter(Phase::Up, None);
                let ended = Pump::new(shared, stream).await;
                if shared.closed() {
                    return;
                }
                tracing::debug!(node = %shared.dialect.label, why = %ended.why, "connection ended");
                if ended.useful {
                    // Most often a restart or an idle limit: requests may wait for one re-dial.
                    backoff = FIRST_BACKOFF;
                    shared.enter(Phase::Dialing, None);
                    continue;
                }
                let trouble = Trouble::Passing(ended.why);
                shared.enter(Phase::Down(trouble.clone()), Some(&trouble));
            }
            Err(trouble) => shared.enter(Phase::Down(trouble.clone()), Some(&trouble)),
        }
        if shared.closed() {
            return;
        }
        // Jittered, so that the clients of a restarted server do not come all at once.
        tokio::time::sleep(backoff.mul_f64(rand::random_range(0.5..1.0))).await;
        backoff = (backoff * 2).min(LAST_BACKOFF);
        if shared.closed() {
            return;
        }
    }
}

struct Ended {
    why: String,
    /// Whether the server answered anything on this connection.
    useful: bool,
}

/// Moves bytes both ways until the connection ends. One poll does all that can be done at once.
struct Pump<'a> {
    shared: &'a Shared,
    stream: Box<dyn Stream>,
    out: Vec<u8>,
    written: usize,
    inflight: VecDeque<Pending>,
    inbox: Inbox,
    stall: Pin<Box<Sleep>>,
    /// Since the stall timer last fired.
    heard: bool,
    useful: bool,
}

impl<'a> Pump<'a> {
    fn new(shared: &'a Shared, stream: Box<dyn Stream>) -> Self {
        Self {
            shared,
            stream,
            out: Vec::new(),
            written: 0,
            inflight: VecDeque::new(),
            inbox: Inbox::default(),
            stall: Box::pin(tokio::time::sleep(shared.stall)),
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
        let why = loop {
            let Some(taken) = this.take() else { break "closed".to_owned() };
            let progress = match (this.poll_write(cx), this.poll_read(cx)) {
                (Err(why), _) | (_, Err(why)) => break why,
                (Ok(wrote), Ok(read)) => taken || wrote || read,
            };
            if progress {
                continue;
            }
            if this.stalled(cx) {
                break format!("gave no answer for {:?}", this.shared.stall);
            }
            return Poll::Pending;
        };
        Poll::Ready(Ended { why, useful: this.useful })
    }
}

impl Pump<'_> {
    /// Takes what was queued, once all that was taken before is written. `None`: we may end.
    fn take(&mut self) -> Option<bool> {
        if self.written < self.out.len() {
            return Some(false);
        }
        self.out.clear();
        self.written = 0;
        let mut state = self.shared.state();
        if state.out.is_empty() {
            return (!state.closed || !self.inflight.is_empty()).then_some(false);
        }
        std::mem::swap(&mut self.out, &mut state.out);
        self.heard |= self.inflight.is_empty();
        self.inflight.append(&mut state.queued);
        Some(true)
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
        match self.inbox.poll_fill(&mut *self.stream, cx) {
            Poll::Pending => return Ok(false),
            Poll::Ready(Err(e)) => return Err(broke(&e)),
            Poll::Ready(Ok(())) => {}
        }
        while let Some(reply) = self.inbox.next().map_err(|e| format!("speaks no RESP: {e}"))? {
            let Some(pending) = self.inflight.pop_front() else {
                return Err("sent a reply to nothing".into());
            };
            self.heard = true;
            self.useful = true;
            self.settle(pending, reply);
        }
        Ok(true)
    }

    fn settle(&self, pending: Pending, reply: Value) {
        let shared = self.shared;
        match reply {
            // The server's script cache was emptied (SCRIPT FLUSH). Nothing has happened yet.
            Value::Error(text) if text.starts_with("NOSCRIPT") && !pending.again => {
                let mut state = shared.state();
                if let Some(script) = shared.dialect.script(&pending.request) {
                    let mut load = redis::cmd("SCRIPT");
                    load.arg("LOAD").arg(script.text);
                    state.out.extend_from_slice(&load.get_packed_command());
                    let request = Request::Load;
                    state.queued.push_back(Pending { request, asked: pending.asked, again: true });
                }
                state.push(&shared.dialect, Pending { again: true, ..pending });
            }
            reply => shared.dialect.answer(pending.request, pending.asked, reply),
        }
    }

    /// True if requests are out and nothing was heard for a whole period. A timeout alone never
    /// breaks a TCP connection; a new one may find a way round a dead path.
    fn stalled(&mut self, cx: &mut Context<'_>) -> bool {
        while !self.inflight.is_empty() && self.stall.as_mut().poll(cx).is_ready() {
            if !std::mem::take(&mut self.heard) {
                return true;
            }
            self.stall.set(tokio::time::sleep(self.shared.stall));
        }
        false
    }
}

/// What was written (or may have been) and not answered may have happened.
impl Drop for Pump<'_> {
    fn drop(&mut self) {
        let dialect = &self.shared.dialect;
        let silence = Silence::Maybe(dialect.report("the connection broke before it answered"));
        for pending in self.inflight.drain(..) {
            dialect.silent(pending.request, &silence);
        }
    }
}

fn broke(e: &io::Error) -> String {
    format!("the connection broke: {e}")
}

/// Bytes that arrived and are not yet decoded.
struct Inbox {
    buffer: Vec<u8>,
    start: usize,
    end: usize,
}

impl Default for Inbox {
    fn default() -> Self {
        Self { buffer: vec![0; 16 << 10], start: 0, end: 0 }
    }
}

impl Inbox {
    fn poll_fill(&mut self, stream: &mut dyn Stream, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        } else if self.end == self.buffer.len() {
            self.buffer.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
            if self.end > self.buffer.len() / 2 {
                self.buffer.resize(self.buffer.len() * 2, 0);
            }
        }
        let mut room = ReadBuf::new(&mut self.buffer[self.end..]);
        ready!(Pin::new(stream).poll_read(cx, &mut room))?;
        match room.filled().len() {
            0 => Poll::Ready(Err(io::Error::other("closed by the server"))),
            n => {
                self.end += n;
                Poll::Ready(Ok(()))
            }
        }
    }

    fn next(&mut self) -> Result<Option<Value>, &'static str> {
        match resp::decode(&self.buffer[self.start..self.end]) {
            Ok(None) => Ok(None),
            Ok(Some((value, len))) => {
                self.start += len;
                Ok(Some(value))
            }
            Err(malformed) => Err(malformed.0),
        }
    }
}
