//! The seam: what a lock needs from whoever grants leases.
//!
//! A [`Lessor`] is what a `Locker` talks to: one Redis master, or a quorum of them. A [`Node`] is
//! one voter: it takes requests without waiting and answers each exactly once. A simulated node
//! implements the same trait as the real one.

use std::any::Any;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use quorumlock_watchdog::{Instant, Renewal};

use crate::admission::Examined;
use crate::{ConfigError, Error, Fence, Held, Holder, Name, NodeReport, Nonce, ReplyTo, Stamp};

/// What is asked of a node: to hold `nonce` at `name` for `ttl`.
#[derive(Clone, Debug)]
pub struct Term {
    /// The lock.
    pub name: Name,
    /// This acquisition. Nodes match nonces, never owners, so that a late request of an abandoned
    /// attempt can hurt nobody.
    pub nonce: Nonce,
    /// What the node keeps without news from us.
    pub ttl: Duration,
    /// How many guards share the lease: an absolute count, so that a repeated request cannot
    /// inflate it (Redisson #7367).
    pub holds: u32,
}

/// Which connection carries a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lane {
    /// The callers' connection, on their runtime.
    Work,
    /// The watchdog's own, on its own thread: a flood of acquisitions delays no renewal.
    Keep,
}

/// A node's answer: yes, a definite no, or none.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer<T> {
    /// Done.
    Yes(T),
    /// Definitely not done.
    No(Denial),
    /// No answer.
    Silent(Silence),
}

/// A definite no.
#[derive(Clone, Debug, PartialEq)]
pub enum Denial {
    /// Another nonce holds the name; its remaining lease, if it has one and the node said so.
    Busy(Option<Duration>),
    /// The name is not held by this nonce (any more).
    Gone,
    /// The call is wrong: no use in asking any node again.
    Config(ConfigError),
    /// It was verified under another stamp, or its answer without a script was unclear: it may grant in a fresh
    /// round.
    Stale(NodeReport),
    /// Its memory is not proven: it counts for nothing, renewals included.
    NotAdmitted(NodeReport),
    /// The server refused the command (out of memory, no permission, a key of another type, ...).
    Refused(NodeReport),
}

/// No answer, and whether the request may have been carried out all the same.
///
/// `Maybe` counts as not granted in the vote and as granted in the clean-up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Silence {
    /// It cannot have happened: the request never left.
    Never(NodeReport),
    /// It left; nobody knows.
    Maybe(NodeReport),
}

impl Silence {
    /// What the node did.
    pub fn report(&self) -> &NodeReport {
        match self {
            Self::Never(report) | Self::Maybe(report) => report,
        }
    }
}

/// One node's yes to an acquisition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Vote {
    /// Until when the node surely holds the nonce, on our clock.
    pub until: Instant,
    /// Whether it accepted the token that was proposed.
    pub token: Acceptance,
}

/// What a node that holds a nonce says of the token that was proposed for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Acceptance {
    /// It was above the mark of the name's slot, which it is now. Also if none was proposed.
    Accepted,
    /// It was not: the mark is this, or larger.
    Behind(Fence),
}

/// What an acquisition proposes to a node, and how it is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Proposal {
    /// The token, the last of its block; [`Fence::NONE`] without fencing.
    pub token: Fence,
    /// Whether nobody else is known to want the name: a denial may leave out how long the holder's lease
    /// lasts, and the release will most likely wake nobody.
    pub alone: bool,
    /// Whether only the script will do, since the answer without it was unclear.
    pub by_script: bool,
}

/// A node's yes to a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Freed {
    /// Whether the nonce was still held.
    pub held: bool,
    /// Whom that woke; `None` if that is not known. Advice: it lets them have their turn.
    pub woke: Option<Woke>,
}

/// Who was told that a name is free.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Woke {
    /// Nobody waits.
    Nobody,
    /// Whoever listens on the name's channel: programs that know of no queue.
    Strangers,
    /// The first in the node's queue.
    Waiter,
}

/// A place in a node's queue of those who wait for a name: who is denied takes it, and is woken alone
/// by a release. Advice, never safety.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InLine {
    /// For how long it has waited: first come, first served, though it may have been woken in vain.
    pub waited: Duration,
    /// A free name is left to those who stand before it, or were woken and have not come yet.
    pub others_first: bool,
    /// On what terms it may be handed the name by whoever releases it, where [`Node::hands_over`].
    pub offer: Option<Offer>,
    /// Under what nonce it asked before, and made the same offer: that is no more.
    pub before: Option<Nonce>,
}

/// On what terms a waiter takes a name that is handed over to it.
///
/// That is a grant, carried out by another's release: it answers the one attempt whose nonce it names, and
/// the lease counts from before that was asked (SAFETY.md G1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offer {
    /// How long the node keeps the name without news: no longer than others may wait in vain for one that
    /// was stopped before it heard.
    pub claim: Duration,
    /// Whether it gets tokens.
    pub fencing: bool,
}

/// What comes to a waiter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum News {
    /// The name may be free, or something may have been missed: ask.
    Ask,
    /// The name was given back, and nobody knows whose turn it is: ask, and leave it to whoever stands before.
    Freed,
    /// The name is free, and of those who wait at the node it is this one's turn.
    Turn,
    /// The name was handed over.
    Handed(Handed),
}

/// A name that was handed over to what a waiter asked under this nonce.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Handed {
    /// Which of its acquisitions it is.
    pub nonce: Nonce,
    /// The last of its tokens.
    pub fence: Fence,
}

/// What a release tells of the place in the node's queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spot {
    /// It gives up waiting, and may still stand there with this.
    Left(Offer),
    /// It stays, having waited so long: it keeps its turn, and nobody is woken.
    Kept(Duration),
    /// Whoever waits stands at another node: nobody need be looked for here.
    Elsewhere,
    /// It wants the name again: it stands behind all who wait, with what it asks under this nonce. Alone there, it
    /// is handed the name itself.
    Again(Nonce, Offer),
}

impl Spot {
    /// Whether it means to stand in the queue from now on: whoever cannot be told of its turn keeps others from
    /// theirs.
    pub fn stands(&self) -> bool {
        matches!(self, Self::Kept(_) | Self::Again(..))
    }
}

/// One voter: a Redis server, or a simulated one.
///
/// Requests are queued and written in order per [`Lane`]; nothing waits. Each [`ReplyTo`] is
/// answered exactly once, late answers included: a straggler's grant is still a vote.
pub trait Node: Send + Sync + 'static {
    /// Its URL without user and password, for people.
    fn label(&self) -> &str;
    /// A number for the server: once it has been reached the same for all clients, by whatever address they reach
    /// it; before that, one for its label.
    fn identity(&self) -> u64;
    /// Under what its memory was verified, as far as the [`Lane::Work`] connection knows now.
    fn stamp(&self) -> Stamp;
    /// Take the name if it is free, or say who holds it.
    ///
    /// [`Denial::Stale`] if the node is verified under another stamp by the time this is sent: all
    /// that one round asks must rest on what was known when it began, or a repair in between could
    /// miss its token (model M8e).
    ///
    /// In the same step in which it grants the name the node compares the token with its mark: it accepts
    /// what is above, and no mark moves for a caller that a script refuses (SAFETY.md, Tokens).
    ///
    /// Who is denied stands `in_line`, if the node can tell it of its turn by now.
    fn acquire(
        &self,
        term: &Term,
        proposal: Proposal,
        stamp: Stamp,
        in_line: Option<InLine>,
        to: ReplyTo<Answer<Vote>>,
    );
    /// Accept another token, only while the nonce is still held, and only from below. [`Denial::Stale`] as for
    /// [`Node::acquire`].
    fn raise(&self, term: &Term, token: Fence, stamp: Stamp, to: ReplyTo<Answer<Acceptance>>);
    /// Hold the name again for an acquisition whose window is open, at its token; a definite no if
    /// another holds it. Only for nodes whose memory is proven.
    fn recreate(&self, term: &Term, token: Fence, lane: Lane, to: ReplyTo<Answer<Instant>>);
    /// Lengthen what is held; one answer per term, or none at all. At most [`MOST_PER_CALL`].
    fn renew(&self, terms: &[Term], lane: Lane, to: ReplyTo<Vec<Answer<Instant>>>);
    /// Give back, and wake the first in the queue, unless `spot` says otherwise.
    ///
    /// If the connection breaks before the answer, it is asked again on the next one, while `ttl`
    /// lasts, and answered then. "Not held" counts as held if an earlier request freed it: `held`
    /// is what is known of that (decision 0031).
    fn release(
        &self,
        term: &Term,
        held: Held,
        lane: Lane,
        spot: Option<Spot>,
        to: ReplyTo<Answer<Freed>>,
    );
    /// Since when requests on `lane` can be sent; `None` while it is being connected. What can
    /// never be sent is answered at once.
    fn connected_since(&self, lane: Lane) -> Option<Instant> {
        let _ = lane;
        Some(Instant::NEVER)
    }
    /// By how many microseconds its wall clock differs from ours, if it has told.
    fn wall_offset(&self) -> Option<i64> {
        None
    }
    /// By how much, all in all, its clock was seen to be set forward: leases granted there before
    /// end so much earlier (SAFETY.md H6).
    fn set_forward(&self) -> Duration {
        Duration::ZERO
    }
    /// Who holds the name?
    fn inspect(&self, name: &Name, to: ReplyTo<Answer<Option<Holder>>>);
    /// Free the name, which anybody may hold, and raise its mark above the holder's token. True if it was held.
    fn force_release(&self, name: &Name, to: ReplyTo<Answer<bool>>);
    /// Leave the queue for a name. If this locker was woken already, the next one is; if it was handed the
    /// name, that is given back: what it asked last, and offered.
    fn leave(&self, name: &Name, offered: Option<&(Term, Offer)>);
    /// Whether a release may hand the name over to who stands in the queue ([`InLine::offer`]).
    fn hands_over(&self) -> bool {
        false
    }
    /// Tells `to` when the name may be free now, or was handed over: when it is its turn in the node's queue,
    /// and whenever news may have been missed (at once, or as soon as there is a connection, and after
    /// each new one). Ends when the result is dropped.
    fn listen(&self, name: &Name, to: Arc<dyn crate::Collect<News>>, from: usize) -> Listening;
}

/// Terms in one [`Node::renew`] at most.
pub const MOST_PER_CALL: usize = 100;

/// Keeps a subscription while it lives.
pub type Listening = Box<dyn Any + Send + Sync>;

/// A future of a [`Lessor`].
pub type Asked<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// How an acquisition is gone about: advice, never safety.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Approach {
    /// When it was begun.
    pub asked: Instant,
    /// Whether it gets tokens.
    pub fencing: bool,
    /// Whether the name's gate node is asked first, and the others only once it has granted: what
    /// keeps many contenders from splitting the votes.
    pub gate_first: bool,
    /// Whether it stands in line at all nodes, and not at the gate alone.
    pub everywhere: bool,
    /// For whoever listens already: its place in the nodes' queues if it is denied.
    pub in_line: Option<InLine>,
    /// Whether nobody else is known to want the name: a denial may leave out how long the holder's lease
    /// lasts, and the release will most likely wake nobody.
    pub alone: bool,
    /// See [`Proposal::by_script`].
    pub by_script: bool,
}

/// What a lessor granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant {
    /// Until when the lease stands: the q-th largest of the nodes' instants.
    pub until: Instant,
    /// The fencing token: the last of its block ([`Fence::BLOCK`]).
    pub fence: Fence,
}

/// The outcome of an acquisition that broke no rule.
#[derive(Clone, Debug, PartialEq)]
pub enum Acquired {
    /// Ours.
    Yes(Grant),
    /// Somebody else's; when enough nodes may be free, if they said so.
    Busy(Option<Duration>),
    /// As that, and so says the gate, or the only node: who asked stands in line there, if at all.
    KeptOut(Option<Duration>),
    /// Nobody's: a node must be verified first, too few accepted the token, or the script must be asked. Ask
    /// again, with a fresh nonce, and by script.
    Again,
}

/// Whoever grants leases. Everything above it (guards, waiting, watchdog, blocking API) is the
/// same for one node and for a quorum.
///
/// Every future ends within the answer timeout, whatever the nodes do, counted from when its
/// requests could be sent: the connect timeout comes first where nodes must be connected. A renewal
/// of a single node on [`Lane::Keep`] ends within four answer timeouts, for a late yes is still
/// one. Dropping one leaves nothing behind: what might have been granted is released.
pub trait Lessor: Send + Sync + 'static {
    /// How many nodes there are: their indices in [`Lessor::listen`].
    fn nodes(&self) -> usize;
    /// One attempt, with a fresh nonce.
    fn acquire(&self, term: Term, approach: Approach) -> Asked<Result<Acquired, Error>>;
    /// Lengthens at most [`MOST_PER_CALL`] leases; one answer per term.
    fn renew(&self, terms: Vec<Term>, lane: Lane) -> Asked<Vec<Renewal>>;
    /// Gives back. The requests are queued before this returns; the future only waits for the answers: where
    /// others wanted the name lately (`contended`), for a moment also for that of the node which wakes the next
    /// one, lest whoever asks again at once comes in its way.
    ///
    /// The future ends within twice the answer timeout: a release whose connection breaks is asked
    /// again. `held` is since when, and until when, the lease stands.
    fn release(
        &self,
        term: Term,
        held: Held,
        lane: Lane,
        contended: bool,
    ) -> Asked<Result<Freed, Error>>;
    /// Gives back, and stands in line again for what is asked under `next`: whoever listens is told. Of no use
    /// where the name is not handed over ([`Lessor::hands_over`]): then it only gives back.
    fn bump(&self, term: Term, held: Held, next: (Nonce, Offer)) -> Asked<Result<Freed, Error>> {
        let _ = next;
        self.release(term, held, Lane::Work, true)
    }
    /// Who holds the name?
    fn inspect(&self, name: Name) -> Asked<Result<Option<Holder>, Error>>;
    /// Frees the name, whoever holds it.
    fn force_release(&self, name: Name) -> Asked<Result<bool, Error>>;
    /// The node that waiters for `name` ask first, so that one of them alone goes on to the others.
    fn gate(&self, name: &Name) -> Option<usize>;
    /// Waits until every node has answered what was posted on `lane`, or for the answer timeout.
    fn settle(&self, lane: Lane) -> Asked<()>;
    /// Vouches for the memory of all nodes as they are now: nothing that counts can have been
    /// forgotten. On the operator's word.
    fn provision(&self) -> Asked<Result<(), Error>> {
        Box::pin(std::future::ready(Err(ConfigError::NoAdmission.into())))
    }
    /// Which nodes may vote now, in the order in which they were given.
    fn examine(&self) -> Asked<Result<Vec<Examined>, Error>> {
        Box::pin(std::future::ready(Err(ConfigError::NoAdmission.into())))
    }
    /// What it has to do on its own while a locker lives, on the watchdog's runtime: watching nodes
    /// whose memory is not proven. Nothing by default.
    fn tend(&self) -> Asked<()> {
        Box::pin(std::future::pending())
    }
    /// As [`Node::leave`], on all nodes.
    fn leave(&self, name: &Name, offered: Option<&(Term, Offer)>);
    /// As [`Node::hands_over`], where one node's vote is the lock.
    fn hands_over(&self) -> bool {
        false
    }
    /// As [`Node::listen`], for each node with its index.
    fn listen(&self, name: &Name, to: Arc<dyn crate::Collect<News>>) -> Listening;
}
