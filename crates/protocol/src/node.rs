//! What a lock needs from the servers: requests, answers, and the trait [`Node`].
//!
//! A lessor (the trait `Lessor` of quorumlock-core) is what a `Locker` talks to: one Redis master,
//! or a quorum of nodes. A [`Node`] is one voter: it takes requests without waiting and answers
//! each request exactly once. A simulated node implements the same trait as the real one.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use crate::{
    Claim, ConfigError, FencingToken, HeldInterval, Hints, Holder, Incarnation, Instant,
    LeaseRequest, ListPosition, ListStep, Name, NodeProblem, NodeReport, Notified, OnDropped,
    Responder, WaitQueue,
};

/// Which connection carries a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lane {
    /// The callers' connection, on their runtime.
    Caller,
    /// The watchdog's own, on its own thread: a flood of acquisitions delays no renewal.
    Watchdog,
}

/// A node's answer: yes, a definite no, or none.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer<T> {
    /// The node did it.
    Yes(T),
    /// The node definitely did not do it.
    No(Denial),
    /// No answer.
    NoAnswer(NoAnswer),
}

impl<T> OnDropped for Answer<T> {
    fn missing() -> Self {
        Self::NoAnswer(NoAnswer::Unknown(NodeReport::new(
            "node",
            NodeProblem::Broken("the request was dropped".into()),
        )))
    }
}

/// A definite no.
#[derive(Clone, Debug, PartialEq)]
pub enum Denial {
    /// Another nonce holds the name. Its remaining lease, if it has an expiry and the node told it.
    Busy(Option<Duration>),
    /// This nonce does not hold the name, or no longer holds it.
    Gone,
    /// The call is wrong: no node would answer otherwise.
    Config(ConfigError),
    /// The node was verified under another incarnation, or its answer without a script was unclear.
    /// It may grant in a fresh round.
    Stale(NodeReport),
    /// The node's memory is not proven: the node counts for nothing, renewals included.
    NotAdmitted(NodeReport),
    /// The server refused the command (out of memory, no permission, a key of another type, ...).
    Refused(NodeReport),
}

/// No answer, and whether the node may have carried the request out all the same.
///
/// `Unknown` counts as not granted in the vote and as granted in the clean-up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoAnswer {
    /// The node cannot have carried it out: the request was never sent.
    NotSent(NodeReport),
    /// The request was sent; whether the node carried it out is unknown.
    Unknown(NodeReport),
}

impl NoAnswer {
    /// Why there is no answer.
    pub fn report(&self) -> &NodeReport {
        match self {
            Self::NotSent(report) | Self::Unknown(report) => report,
        }
    }
}

/// One node's yes to an acquisition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Vote {
    /// Until when the node surely holds the nonce, on our clock.
    pub until: Instant,
    /// Whether the node accepted the proposed token.
    pub token: Acceptance,
}

/// What a node that holds a nonce says about the token proposed for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Acceptance {
    /// The token was above the mark of the name's slot, and is the mark now. Also if no token was
    /// proposed.
    Accepted,
    /// The token was not above the mark: the mark is this, or larger.
    Behind(FencingToken),
    /// The node counts tokens itself and ignores the proposal: this is its token
    /// ([`Settings::redisson_fenced`](crate::Settings)). Never on a quorum.
    Counted(FencingToken),
}

/// A node's yes to a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReleaseOutcome {
    /// Whether the nonce was still held.
    pub held: bool,
    /// Whether the node has lost its memory since it last held the nonce, as far as the client knows:
    /// then its "not held" says nothing about the lock (decision 7). Under strict admission only.
    pub forgot: bool,
    /// Whom the release notified; `None` if unknown. Advice: the releasing process lets that waiter
    /// go first.
    pub notified: Option<Notified>,
}

impl ReleaseOutcome {
    /// The outcome for a claim, from the outcomes for its names: it was held if all of them were.
    pub fn of_all(names: Vec<Self>) -> Self {
        let all = names.iter().map(|outcome| outcome.notified).collect::<Option<Vec<_>>>();
        Self {
            held: names.iter().all(|outcome| outcome.held),
            forgot: names.iter().any(|outcome| outcome.forgot),
            notified: all.and_then(|notified| notified.into_iter().max()),
        }
    }
}

/// One voter: a Redis server, or a simulated one.
///
/// Requests are queued and written in order per [`Lane`]; no method waits. Each [`Responder`] is
/// answered exactly once, late answers included: a late grant is still a vote.
pub trait Node: Send + Sync + 'static {
    /// The node's URL without user and password, for messages.
    fn label(&self) -> &str;
    /// A number for the server. Once the server has been reached, all clients compute the same
    /// number, whichever address they use; before that, it is computed from the label.
    fn identity(&self) -> u64;
    /// The incarnation under which the node's memory was verified, as far as the [`Lane::Caller`]
    /// connection knows now.
    fn incarnation(&self) -> Incarnation;
    /// Takes the name if it is free; [`Denial::Busy`] if another nonce holds it.
    ///
    /// [`Denial::Stale`] if, when the request is sent, the node has another incarnation than the
    /// given one. All requests of one round must rest on what was known when the round began:
    /// otherwise a repair in between could miss the round's token (PROTOCOL.md ADM3, M8e).
    ///
    /// The node compares the token ([`FencingToken::NONE`] without fencing) with its mark in the same step
    /// in which it grants the name, and accepts a token above the mark. No mark moves for a caller
    /// that a script refuses (SAFETY.md, Tokens).
    ///
    /// A node with a [`WaitQueue`] queues a denied caller in the same step, if the [`Hints`] ask for
    /// it.
    fn acquire(
        &self,
        lease: &LeaseRequest,
        token: FencingToken,
        stamp: Incarnation,
        hints: Hints,
        to: Responder<Answer<Vote>>,
    );
    /// Proposes another token. The node accepts it only while it still holds the nonce, and only if
    /// the token is above its mark. [`Denial::Stale`] as for [`Node::acquire`].
    fn raise(
        &self,
        lease: &LeaseRequest,
        token: FencingToken,
        stamp: Incarnation,
        to: Responder<Answer<Acceptance>>,
    );
    /// Grants the name again to an acquisition whose window is open, with its token; a definite no
    /// if another nonce holds the name. Only for nodes whose memory is proven.
    fn regrant(
        &self,
        lease: &LeaseRequest,
        token: FencingToken,
        lane: Lane,
        to: Responder<Answer<Instant>>,
    );
    /// Extends leases: one answer per lease request, in order, or no answers at all.
    fn renew(&self, leases: &[LeaseRequest], lane: Lane, to: Responder<Vec<Answer<Instant>>>);
    /// Releases the nonce, and hands the name off to the first waiter in the queue or notifies it.
    /// If the [`Hints`] queue the caller, it takes its place again instead, and nobody is notified.
    ///
    /// If the connection breaks before the answer, the release is sent again on the next
    /// connection, while `ttl` lasts, and answered then. "Not held" counts as held if an earlier
    /// request released the lock: `held` is what the holder knows about that (decision 0016).
    fn release(
        &self,
        lease: &LeaseRequest,
        held: HeldInterval,
        lane: Lane,
        hints: Hints,
        to: Responder<Answer<ReleaseOutcome>>,
    );
    /// Since when requests on `lane` can be sent; `None` while the node is being connected.
    /// Requests that can never be sent are answered at once.
    fn connected_since(&self, lane: Lane) -> Option<Instant> {
        let _ = lane;
        Some(Instant::NEVER)
    }
    /// Whether a connection was ever made, for either lane. Without one, no request of this process is at the
    /// node.
    fn greeted(&self) -> bool {
        true
    }
    /// A number for the server that serves the name: renewals at one server do not wait for another that
    /// hangs. A node that is one server serves all names.
    fn shard(&self, name: &Name) -> u64 {
        let _ = name;
        0
    }
    /// How many microseconds the node's wall clock differs from ours; `None` if the node has not
    /// told its time.
    fn wall_offset(&self) -> Option<i64> {
        None
    }
    /// The sum of all forward jumps of the node's clock that were seen. Leases granted there before
    /// a jump end that much earlier (SAFETY.md H6).
    fn clock_advance(&self) -> Duration {
        Duration::ZERO
    }
    /// Finds keys that look like locks, in one step of a listing. Not every node lists.
    fn list(&self, at: ListPosition, to: Responder<Answer<ListStep>>) {
        let _ = (at, to);
    }
    /// Says who holds the claim's name.
    fn inspect(&self, claim: &Claim, to: Responder<Answer<Option<Holder>>>);
    /// Releases the claim's name, whichever client holds it, and raises its mark, if it has one, above
    /// the holder's token. With `of` only if that is the id of its holder. True if it was held so.
    fn force_release(&self, claim: &Claim, of: Option<&str>, to: Responder<Answer<bool>>);
    /// The node's queues of waiters; `None` if it keeps none: then waiters poll.
    fn wait_queue(&self) -> Option<&dyn WaitQueue> {
        None
    }
}

/// A future of a lessor or a node.
pub type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// How often another token is proposed to nodes that have granted, before the attempt is released
/// and begun again.
pub const MAX_RAISES: u32 = 3;

/// Whether the node may have granted the request: true for every answer but a definite refusal. A
/// server error may come after the script's first write, and a transaction that finds another
/// memory than the verified one has set the name all the same.
pub fn might_be_granted<T>(answer: &Answer<T>) -> bool {
    match answer {
        Answer::Yes(_)
        | Answer::No(Denial::Refused(_) | Denial::Stale(_))
        | Answer::NoAnswer(NoAnswer::Unknown(_)) => true,
        Answer::No(Denial::Busy(_) | Denial::Gone | Denial::Config(_) | Denial::NotAdmitted(_))
        | Answer::NoAnswer(NoAnswer::NotSent(_)) => false,
    }
}
