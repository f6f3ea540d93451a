//! A Redis server as a voter.

mod acks;
mod crowds;
mod debts;
mod dial;
mod dump;
mod encode;
mod greet;
mod inbox;
mod line;
mod listen;
mod master;
mod office;
mod outbox;
mod pending;
mod plain;
mod pulse;
mod pump;
mod request;
mod resp;
mod scripts;
mod tls;

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use quorumlock_watchdog::{Clock, Instant};
use tokio::sync::Notify;

use self::acks::Wanted;
use self::crowds::Crowds;
use self::debts::Debts;
use self::dial::{Dialer, Roster, Target};
use self::line::Line;
use self::listen::Ears;
use self::master::Addresses;
use self::pulse::Pulse;
use self::request::{Dialect, Request};
use self::scripts::Scripts;
use self::tls::Tls;
use crate::admission::Charter;
use crate::ids::next_id;
use crate::{
    Acceptance, Answer, Collect, ConfigError, Fence, Freed, Held, Holder, InLine, Lane, Listening,
    Name, News, Node, Nonce, Offer, Proposal, ReplyTo, Settings, Spot, Stamp, Term, Vote, Wire,
    fingerprint,
};

/// One Redis (or Valkey) server: two connections for requests, one for subscriptions, all dialled
/// when first needed, on the runtime that needs them.
#[derive(Debug)]
pub struct RedisNode {
    dialect: Arc<Dialect>,
    charter: Option<Arc<Charter>>,
    work: Arc<Line>,
    keep: Line,
    ears: Ears,
    hands_over: bool,
}

/// The nodes at `urls`, which share a locker. No I/O yet.
///
/// # Errors
/// [`ConfigError`]: a bad URL, none at all, one server twice, settings out of bounds.
pub fn redis_nodes(
    urls: &[impl AsRef<str>],
    wire: Wire,
    charter: Option<&Charter>,
    settings: &Settings,
    clock: &Clock,
) -> Result<Vec<RedisNode>, ConfigError> {
    settings.check()?;
    settings.check_replicas(0)?;
    let maker = Maker {
        wire,
        charter: charter.cloned().map(Arc::new),
        settings,
        clock,
        roster: Roster::default(),
        client_id: next_id(),
        waiter: Nonce::fresh()?,
        strangers: wire == Wire::Redisson && urls.len() == 1,
        hands_over: false,
    };
    parse(urls)?.into_iter().map(|target| maker.node(vec![target])).collect()
}

/// The one node at `urls`: a server, or a master and its replicas, whichever is the master. No I/O
/// yet.
///
/// # Errors
/// As [`redis_nodes`].
pub fn redis_master(
    urls: &[impl AsRef<str>],
    wire: Wire,
    settings: &Settings,
    clock: &Clock,
) -> Result<RedisNode, ConfigError> {
    settings.check()?;
    let targets = parse(urls)?;
    settings.check_replicas(match targets.len() {
        // Behind one address may be any number.
        1 => MOST_REPLICAS,
        n => n - 1,
    })?;
    let roster = Roster::default();
    let (client_id, waiter) = (next_id(), Nonce::fresh()?);
    let strangers = wire == Wire::Redisson;
    // What replicas must have is not granted before they do.
    let hands_over = settings.handover && settings.replicas == 0;
    Maker { wire, charter: None, settings, clock, roster, client_id, waiter, strangers, hands_over }
        .node(targets)
}

/// The number of what is called so.
fn identity(what: &str) -> u64 {
    const BASIS: u64 = 0xcbf2_9ce4_8422_2325;
    fingerprint(BASIS, what)
}

/// Nobody has more, and somebody may have meant milliseconds.
const MOST_REPLICAS: usize = 32;

fn parse(urls: &[impl AsRef<str>]) -> Result<Vec<Target>, ConfigError> {
    let targets =
        urls.iter().map(|url| Target::parse(url.as_ref())).collect::<Result<Vec<_>, _>>()?;
    if targets.is_empty() {
        return Err(ConfigError::NoNodes);
    }
    for (i, target) in targets.iter().enumerate() {
        if let Some(twin) = targets[..i].iter().find(|other| other.label() == target.label()) {
            let (a, b) = (twin.label().to_owned(), target.label().to_owned());
            return Err(ConfigError::SameServer { a, b });
        }
    }
    Ok(targets)
}

/// What the nodes of one locker have in common.
struct Maker<'a> {
    wire: Wire,
    charter: Option<Arc<Charter>>,
    settings: &'a Settings,
    clock: &'a Clock,
    roster: Roster,
    client_id: u64,
    waiter: Nonce,
    /// Whether programs that know of no queue may hold and free the same names.
    strangers: bool,
    /// Whether whoever releases a name hands it over to who waits.
    hands_over: bool,
}

impl Maker<'_> {
    fn node(&self, targets: Vec<Target>) -> Result<RedisNode, ConfigError> {
        let Self { wire, settings, .. } = *self;
        let replicated = targets.len() > 1;
        let dialers = targets.into_iter().map(|target| self.dialer(target, replicated));
        let addresses = Arc::new(Addresses::new(dialers.collect::<Result<_, _>>()?));
        let label = addresses.label();
        let dialect = Arc::new(Dialect {
            identity: AtomicU64::new(identity(&label)),
            identified: Notify::new(),
            label,
            wire,
            rho: settings.rho,
            debts: Debts::default(),
            lives: Mutex::default(),
            crowds: Crowds::default(),
            scripts_only: AtomicBool::new(settings.scripts_only),
            pulse: Mutex::new(Pulse::new(settings.rho)),
            set_forward: AtomicU64::new(0),
            wall_offset: AtomicI64::new(i64::MIN),
            clock: self.clock.clone(),
            client_id: self.client_id,
            waiter: self.waiter,
        });
        // Twice the time after which nobody waits for an answer any more.
        let stall = settings.answer_timeout * 2;
        let acks = Wanted::new(settings.replicas, settings.replica_timeout());
        let line = || Line::new(addresses.clone(), dialect.clone(), stall, acks);
        let (work, keep) = (Arc::new(line()), line());
        let passes_on = Arc::downgrade(&work);
        let ears = Ears::new(addresses.clone(), dialect.clone(), passes_on, self.strangers);
        let (charter, hands_over) = (self.charter.clone(), self.hands_over);
        Ok(RedisNode { dialect, charter, work, keep, ears, hands_over })
    }

    fn dialer(&self, target: Target, replicated: bool) -> Result<Dialer, ConfigError> {
        let settings = self.settings;
        let tls = match target.wants_tls() {
            true => Some(Tls::new(settings.tls_ca.as_deref(), settings.tls_client.as_ref())?),
            false => None,
        };
        Ok(Dialer {
            target,
            tls,
            client_name: settings.client_name.clone(),
            connect_timeout: settings.connect_timeout,
            user_timeout: settings.answer_timeout * 2,
            // What the addresses of one master have in common is no mistake.
            roster: if replicated { Roster::default() } else { self.roster.clone() },
            wire: self.wire,
            charter: self.charter.clone(),
            unbound: Arc::new(Scripts::unbound(self.wire)),
        })
    }
}

impl RedisNode {
    fn line(&self, lane: Lane) -> &Line {
        match lane {
            Lane::Work => &self.work,
            Lane::Keep => &self.keep,
        }
    }
}

impl Node for RedisNode {
    fn label(&self) -> &str {
        &self.dialect.label
    }

    fn identity(&self) -> u64 {
        self.dialect.identity.load(Ordering::Relaxed)
    }

    fn stamp(&self) -> Stamp {
        self.work.stamp()
    }

    fn acquire(
        &self,
        term: &Term,
        proposal: Proposal,
        stamp: Stamp,
        in_line: Option<InLine>,
        to: ReplyTo<Answer<Vote>>,
    ) {
        // Whoever cannot be told of its turn keeps others from theirs; whoever stands there already stays there
        // as what it asks now.
        let stands = |in_line: &InLine| in_line.before.is_some() || self.ears.hear();
        let in_line = in_line.filter(stands).map(Box::new);
        self.work.post(Request::Acquire { term: term.clone(), proposal, stamp, in_line, to });
    }

    fn raise(&self, term: &Term, token: Fence, stamp: Stamp, to: ReplyTo<Answer<Acceptance>>) {
        self.work.post(Request::Raise { term: term.clone(), token, stamp, to });
    }

    fn recreate(&self, term: &Term, token: Fence, lane: Lane, to: ReplyTo<Answer<Instant>>) {
        self.line(lane).post(Request::Recreate { term: term.clone(), token, to });
    }

    fn renew(&self, terms: &[Term], lane: Lane, to: ReplyTo<Vec<Answer<Instant>>>) {
        self.line(lane).post(Request::Renew { terms: terms.to_vec(), to });
    }

    fn release(
        &self,
        term: &Term,
        held: Held,
        lane: Lane,
        spot: Option<Spot>,
        to: ReplyTo<Answer<Freed>>,
    ) {
        let spot = spot.filter(|spot| !spot.stands() || self.ears.hear());
        self.line(lane).post(Request::release(term.clone(), held, spot, to));
    }

    fn connected_since(&self, lane: Lane) -> Option<Instant> {
        self.line(lane).connected_since()
    }

    fn wall_offset(&self) -> Option<i64> {
        let offset = self.dialect.wall_offset.load(Ordering::Relaxed);
        (offset != i64::MIN).then_some(offset)
    }

    fn set_forward(&self) -> Duration {
        Duration::from_micros(self.dialect.set_forward.load(Ordering::Acquire))
    }

    fn inspect(&self, name: &Name, to: ReplyTo<Answer<Option<Holder>>>) {
        self.work.post(Request::Inspect { name: name.clone(), to });
    }

    fn force_release(&self, name: &Name, to: ReplyTo<Answer<bool>>) {
        self.work.post(Request::ForceRelease { name: name.clone(), to });
    }

    fn leave(&self, name: &Name, offered: Option<&(Term, Offer)>) {
        if let Some((term, offer)) = offered {
            let (term, spot) = (term.clone(), Some(Spot::Left(*offer)));
            self.work.post(Request::release(term, Held::UNKNOWN, spot, ReplyTo::nobody()));
        } else if self.ears.hear() {
            self.work.post(Request::Leave(name.clone(), true));
        }
    }

    fn hands_over(&self) -> bool {
        self.hands_over
    }

    fn listen(&self, name: &Name, to: Arc<dyn Collect<News>>, from: usize) -> Listening {
        self.ears.listen(name, to, from)
    }
}
