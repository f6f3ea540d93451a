//! The task behind one connection: dials, and copies bytes between a stream and a [`Session`].

use std::future::{Future, poll_fn};
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures::task::AtomicWaker;
use quorumlock_protocol::telemetry::{ConnectionEnd, Event};
use quorumlock_protocol::{Instant, NodeProblem};
use quorumlock_watchdog::Clock;
use tokio::io::ReadBuf;
use tokio::time::Sleep;

use super::machine::{Disconnect, How, Pause, Redial, Requests, Session, Step};
use crate::dial::Dialer;
use crate::master::{MasterResolver, Opened};
use crate::node_facts::NodeFacts;
use crate::stream::Stream;

/// How often other members of a Redis Cluster are asked who serves the slots of one that does not greet.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// What the callers of one connection share with its driver.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) requests: Requests,
    pub(super) addresses: Arc<MasterResolver>,
    pub(super) facts: Arc<NodeFacts>,
    pub(super) clock: Clock,
    pub(super) wake: AtomicWaker,
}

/// Dropped with its task, also when the runtime ends. Then the next caller starts another driver on
/// its own runtime. If other callers wait already, the standby thread takes over: their runtimes live.
pub(super) struct Driver(pub(super) Arc<Shared>);

impl Drop for Driver {
    fn drop(&mut self) {
        let Shared { requests, addresses, clock, .. } = &*self.0;
        if !requests.abandoned(clock.now()) {
            requests.hand_over(clock.now());
            return;
        }
        let network = addresses.network();
        // A task that panics would do so again.
        match network.standby().filter(|_| !std::thread::panicking()) {
            Some(runtime) => network.spawn(runtime, Self(self.0.clone()).run()),
            None => requests.stranded(clock.now()),
        }
    }
}

impl Driver {
    pub(super) async fn run(self) {
        let shared = &self.0;
        let network = shared.addresses.network();
        let mut redial = Redial::new();
        loop {
            let pause = match shared.open().await {
                Ok((dialer, stream, mut greeted)) => {
                    if let (Some(slots), Some((router, source))) =
                        (greeted.slots.take(), shared.requests.router())
                    {
                        router.learn(&slots, &source);
                    }
                    let presence = greeted.presence.take();
                    shared.facts.identify(greeted.identity);
                    if let Some(shown) = greeted.time {
                        shared.facts.compare_clocks(shown, shared.clock.wall_micros());
                    }
                    let admitted = greeted.server.unproven.is_none();
                    let session =
                        Session::begin(&shared.requests, greeted.server, shared.clock.now());
                    let ended = Exchange::new(shared, stream, (session, admitted), dialer).await;
                    drop(presence);
                    let (node, Disconnect { why, how }) = (shared.addresses.label(), ended);
                    tracing::debug!(%node, %why, ?how, "connection ended");
                    redial.ended(how, network.pause_share())
                }
                Err(problem) => {
                    shared.requests.refused(&problem, shared.clock.now());
                    Pause::For(redial.refused(network.pause_share()))
                }
            };
            if shared.requests.closed() {
                return;
            }
            match pause {
                Pause::None => {}
                Pause::For(pause) => tokio::time::sleep(pause).await,
                Pause::UntilWanted(pause) => {
                    let _ = tokio::time::timeout(pause, shared.wanted()).await;
                }
            }
            if shared.requests.closed() {
                return;
            }
        }
    }
}

impl Shared {
    /// Connects. A member of a Redis Cluster that hangs may have lost its slots meanwhile (SLOT5).
    async fn open(&self) -> Result<Opened, NodeProblem> {
        let mut opening = pin!(self.addresses.open());
        if self.requests.router().is_none() {
            return opening.await;
        }
        loop {
            match tokio::time::timeout(LOOK_EVERY, &mut opening).await {
                Ok(opened) => return opened,
                Err(_) => self.requests.look_elsewhere(),
            }
        }
    }

    fn tell<'a>(&'a self, event: impl FnOnce(&'a str) -> Event<'a>) {
        let context = self.requests.context();
        if let Some(handler) = &context.on_event {
            handler.handle(&event(&context.label));
        }
    }

    /// Waits until something needs a connection.
    async fn wanted(&self) {
        poll_fn(|cx| {
            self.wake.register(cx.waker());
            if self.requests.wanted() { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }
}

/// Moves bytes both ways until the connection ends. One poll does all that it can without waiting.
struct Exchange<'a> {
    shared: &'a Shared,
    stream: Box<dyn Stream>,
    session: Session<'a>,
    /// Where this connection leads to.
    at: Arc<Dialer>,
    /// Fires at `deadline`.
    timer: Pin<Box<Sleep>>,
    deadline: Option<Instant>,
    /// Whether the node may vote.
    admitted: bool,
    /// How the session ended by itself. Otherwise the runtime of this task ends.
    ended: Option<How>,
}

impl<'a> Exchange<'a> {
    fn new(
        shared: &'a Shared,
        stream: Box<dyn Stream>,
        (session, admitted): (Session<'a>, bool),
        at: Arc<Dialer>,
    ) -> Self {
        shared.tell(|node| Event::Connected { node, admitted });
        let timer = Box::pin(tokio::time::sleep(Duration::ZERO));
        Self { shared, stream, session, at, timer, deadline: None, admitted, ended: None }
    }
}

impl Future for Exchange<'_> {
    type Output = Disconnect;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Disconnect> {
        let this = &mut *self;
        this.shared.wake.register(cx.waker());
        if this.shared.addresses.moved(&this.at) {
            this.session.moved();
        }
        this.session.woken();
        loop {
            match this.session.step() {
                Step::Yield => {
                    cx.waker().wake_by_ref();
                    return Poll::Pending;
                }
                Step::Read => this.read(cx),
                Step::Exchange => {
                    this.write(cx);
                    this.read(cx);
                }
                Step::Wait(deadline) => ready!(this.wait(deadline, cx)),
                Step::End(ended) => {
                    this.ended = Some(ended.how);
                    return Poll::Ready(ended);
                }
            }
        }
    }
}

impl Exchange<'_> {
    fn write(&mut self, cx: &mut Context<'_>) {
        while !self.session.to_write().is_empty() {
            match Pin::new(&mut *self.stream).poll_write(cx, self.session.to_write()) {
                Poll::Ready(Ok(0)) => return self.session.broke("the connection closed".into()),
                Poll::Ready(Ok(n)) => self.session.wrote(n),
                Poll::Ready(Err(e)) => return self.session.broke(broke(&e)),
                Poll::Pending => break,
            }
        }
        // TLS keeps bytes back until a flush; on TCP a flush costs nothing.
        if let Poll::Ready(Err(e)) = Pin::new(&mut *self.stream).poll_flush(cx) {
            self.session.broke(broke(&e));
        }
    }

    fn read(&mut self, cx: &mut Context<'_>) {
        let mut arrived = 0;
        if let Some(room) = self.session.room() {
            let mut room = ReadBuf::new(room);
            match Pin::new(&mut *self.stream).poll_read(cx, &mut room) {
                Poll::Pending => return,
                Poll::Ready(Err(e)) => return self.session.broke(broke(&e)),
                Poll::Ready(Ok(())) if room.filled().is_empty() => {
                    let e = io::Error::other("closed by the server");
                    return self.session.broke(broke(&e));
                }
                Poll::Ready(Ok(())) => arrived = room.filled().len(),
            }
        }
        self.session.received(arrived, self.shared.clock.now());
        if let Some(shown) = self.session.take_node_time() {
            self.shared.facts.compare_clocks(shown, self.shared.clock.wall_micros());
        }
    }

    /// Ready when the deadline may have passed.
    fn wait(&mut self, deadline: Option<Instant>, cx: &mut Context<'_>) -> Poll<()> {
        let Some(at) = deadline else { return Poll::Pending };
        if self.deadline != deadline {
            self.timer.set(tokio::time::sleep(at.since(self.shared.clock.now())));
            self.deadline = deadline;
        }
        ready!(self.timer.as_mut().poll(cx));
        self.deadline = None;
        self.session.on_deadline(self.shared.clock.now());
        Poll::Ready(())
    }
}

impl Drop for Exchange<'_> {
    fn drop(&mut self) {
        let now = self.shared.clock.now();
        match self.ended {
            Some(_) => self.session.end(now),
            None => self.session.abandon(now),
        }
        let end = match self.ended {
            _ if self.shared.requests.closed() => ConnectionEnd::Closed,
            None => ConnectionEnd::Closed,
            Some(How::Useful) => ConnectionEnd::Broken,
            Some(How::Idle) => ConnectionEnd::Idle,
            Some(How::Unanswered) => ConnectionEnd::Unanswered,
            Some(How::Ours) => ConnectionEnd::Replaced,
        };
        let admitted = self.admitted;
        self.shared.tell(|node| Event::Disconnected { node, admitted, end });
    }
}

fn broke(e: &io::Error) -> String {
    format!("the connection broke: {e}")
}
