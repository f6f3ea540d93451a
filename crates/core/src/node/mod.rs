//! A Redis server as a voter.

mod debts;
mod dial;
mod encode;
mod greet;
mod line;
mod listen;
mod office;
mod pulse;
mod pump;
mod request;
mod resp;
mod scripts;
mod tls;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use quorumlock_watchdog::{Clock, Instant};

use self::debts::Debts;
use self::dial::{Dialer, Roster, Target};
use self::line::Line;
use self::listen::Ears;
use self::pulse::Pulse;
use self::request::{Dialect, Request};
use self::scripts::Scripts;
use self::tls::Tls;
use crate::admission::Charter;
use crate::ids::next_id;
use crate::{
    Answer, Collect, ConfigError, Counter, Fence, Freed, Holder, InLine, Lane, Listening, Name,
    Node, Nonce, ReplyTo, Settings, Stamp, Term, Vote, Wire,
};

/// One Redis (or Valkey) server: two connections for requests, one for subscriptions, all dialled
/// when first needed, on the runtime that needs them.
#[derive(Debug)]
pub struct RedisNode {
    dialect: Arc<Dialect>,
    dialer: Arc<Dialer>,
    work: Arc<Line>,
    keep: Line,
    ears: Ears,
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
    let roster = Roster::default();
    let (client_id, waiter) = (next_id(), Nonce::fresh()?);
    let charter = charter.cloned().map(Arc::new);
    let strangers = wire == Wire::Redisson && targets.len() == 1;
    let node = |target: Target| {
        let tls = match target.wants_tls() {
            true => Some(Tls::new(settings.tls_ca.as_deref())?),
            false => None,
        };
        let dialect = Dialect {
            label: target.label().to_owned(),
            wire,
            rho: settings.rho,
            fence_ttl: settings.fence_ttl,
            debts: Debts::default(),
            pulse: Mutex::new(Pulse::new(settings.rho)),
            set_forward: AtomicU64::new(0),
            clock: clock.clone(),
            client_id,
            waiter,
        };
        let dialer = Dialer {
            target,
            tls,
            client_name: settings.client_name.clone(),
            connect_timeout: settings.connect_timeout,
            user_timeout: settings.answer_timeout * 2,
            roster: roster.clone(),
            wire,
            charter: charter.clone(),
            unbound: Arc::new(Scripts::unbound(wire)),
        };
        // Twice the time after which nobody waits for an answer any more.
        Ok(RedisNode::new(dialect, dialer, settings.answer_timeout * 2, strangers))
    };
    targets.into_iter().map(node).collect()
}

impl RedisNode {
    /// Silent for longer than `stall`, a connection is given up. `strangers`: whether programs that
    /// know of no queue may hold and free the same names.
    fn new(dialect: Dialect, dialer: Dialer, stall: Duration, strangers: bool) -> Self {
        let (dialect, dialer) = (Arc::new(dialect), Arc::new(dialer));
        let line = || Line::new(dialer.clone(), dialect.clone(), stall);
        let (work, keep) = (Arc::new(line()), line());
        let ears = Ears::new(dialer.clone(), dialect.waiter, Arc::downgrade(&work), strangers);
        Self { dialect, dialer, work, keep, ears }
    }

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

    fn stamp(&self) -> Stamp {
        self.work.stamp()
    }

    fn acquire(
        &self,
        term: &Term,
        counter: Counter,
        stamp: Stamp,
        in_line: Option<InLine>,
        to: ReplyTo<Answer<Vote>>,
    ) {
        // Whoever cannot be told of its turn keeps others from theirs.
        let in_line = in_line.filter(|_| self.ears.hear());
        self.work.post(Request::Acquire { term: term.clone(), counter, stamp, in_line, to });
    }

    fn raise(&self, term: &Term, fence: Fence, stamp: Stamp, to: ReplyTo<Answer<()>>) {
        self.work.post(Request::Raise { term: term.clone(), fence, stamp, to });
    }

    fn recreate(&self, term: &Term, fence: Fence, lane: Lane, to: ReplyTo<Answer<Instant>>) {
        self.line(lane).post(Request::Recreate { term: term.clone(), fence, to });
    }

    fn renew(&self, terms: &[Term], lane: Lane, to: ReplyTo<Vec<Answer<Instant>>>) {
        self.line(lane).post(Request::Renew { terms: terms.to_vec(), to });
    }

    fn release(&self, term: &Term, lane: Lane, to: ReplyTo<Answer<Freed>>) {
        self.line(lane).post(Request::Release { term: term.clone(), to });
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

    fn leave(&self, name: &Name) {
        if self.ears.hear() {
            self.work.post(Request::Leave(name.clone()));
        }
    }

    fn listen(&self, name: &Name, to: Arc<dyn Collect<()>>, from: usize) -> Listening {
        self.ears.listen(name, to, from)
    }
}
