use std::collections::BTreeSet;

use quorumlock_core::{Counter, Fence, Freed, Name, Nonce, Term, Wire};

use super::ask::{Ask, Reply, millis};
use super::dice::Dice;
use super::mutants::Bug;
use super::plan::Plan;
use super::store::{Field, Store, Take, WrongType};
use super::time::{Micros, NodeClock};
use super::world::Arrival;

/// One node: its data, its clock, and whether it runs.
#[derive(Debug)]
pub(super) struct Server {
    pub(super) label: String,
    pub(super) store: Store,
    pub(super) clock: NodeClock,
    /// By how much its clock may still be put back: what it holds outlives its lease by that.
    pub(super) back: Micros,
    pub(super) run: Run,
    /// Which clients subscribe to which name's channel.
    pub(super) subscribed: BTreeSet<(Name, usize)>,
    pub(super) keep_ms: u64,
    pub(super) bug: Option<Bug>,
}

/// One life of the process. A crash ends it and with it every connection.
#[derive(Debug, Default)]
pub(super) struct Run {
    pub(super) number: u64,
    pub(super) down: bool,
    /// `SIGSTOP`: what comes meanwhile is executed when it goes on.
    pub(super) stopped: bool,
    pub(super) backlog: Vec<Arrival>,
}

/// What a request did.
pub(super) struct Did {
    pub(super) reply: Reply,
    /// To be published to whoever subscribes.
    pub(super) freed: Option<Name>,
}

impl Server {
    pub(super) fn new(number: usize, plan: &Plan, bug: Option<Bug>, dice: &mut Dice) -> Self {
        Self {
            label: format!("sim://n{number}"),
            store: Store::default(),
            clock: NodeClock::new(plan.epoch, plan.node_drift(dice)),
            back: plan.clock_back,
            run: Run::default(),
            subscribed: BTreeSet::new(),
            keep_ms: millis(plan.settings().fence_ttl),
            bug,
        }
    }

    /// Whether anybody gets through to it.
    pub(super) fn answers(&self) -> bool {
        !self.run.down && !self.run.stopped
    }

    pub(super) fn execute(&mut self, ask: &Ask, client: usize, wire: Wire, now: Micros) -> Did {
        let time = self.clock.micros(now);
        for term in ask.terms() {
            self.store.about_to_write(&term.name, now);
        }
        let bug = self.bug;
        let by = |term: &Term| (wire, field(bug, term, client));
        let mut freed = None;
        let reply = match ask {
            Ask::Acquire(term, counter) => {
                let take = take(term, by(term), *counter, self.keep_ms);
                self.acquire(term, &take, time)
            }
            Ask::Raise(term, token) => {
                let keep = self.keep_ms;
                if self.bug == Some(Bug::RaiseNotHeld) {
                    self.store.raise_counter(&term.name, token.get(), keep, time);
                    Reply::Raised(true)
                } else {
                    let raised = self.store.raise(&term.name, by(term), token.get(), keep, time);
                    raised.map_or(Reply::WrongType, Reply::Raised)
                }
            }
            Ask::Renew(terms) => {
                let held = terms.iter().map(|term| self.renew(term, by(term), time));
                Reply::Renewed(held.collect())
            }
            Ask::Release(term) => match self.release(term, by(term), time) {
                Ok(held) => {
                    freed = held.then(|| term.name.clone());
                    let waiting = if held { self.waiting(&term.name) } else { 0 };
                    Reply::Freed(Freed { held, waiting })
                }
                Err(WrongType) => Reply::WrongType,
            },
            Ask::Inspect(name) => Reply::Holder(self.store.inspect(name, time)),
            Ask::ForceRelease(name) => {
                self.store.about_to_write(name, now);
                let held = self.store.force_release(name, time);
                freed = held.then(|| name.clone());
                Reply::Forced(held)
            }
        };
        Did { reply, freed }
    }

    fn acquire(&mut self, term: &Term, take: &Take, time: Micros) -> Reply {
        if self.bug == Some(Bug::CountsNotHeld)
            && self.store.held(&term.name, time).is_some_and(|held| held.by != take.by)
        {
            return Reply::CounterOnly(self.store.counter(&term.name, time).unwrap_or(0));
        }
        self.store.acquire(&term.name, take, time).map_or(Reply::WrongType, Reply::Taken)
    }

    fn renew(&mut self, term: &Term, by: (Wire, Field), time: Micros) -> bool {
        let ttl = millis(term.ttl);
        match (self.bug, self.store.held(&term.name, time)) {
            (Some(Bug::RenewalRecreates), None) => {
                let counter = Counter { tokens: 1, least: Fence::NONE, seed: time };
                let take = take(term, by, counter, self.keep_ms);
                self.store.acquire(&term.name, &take, time).is_ok()
            }
            (Some(Bug::RenewsAnybodys), Some(held)) => {
                let by = (held.wire, held.by);
                self.store.renew(&term.name, by, ttl, term.holds, time)
            }
            _ => self.store.renew(&term.name, by, ttl, term.holds, time),
        }
    }

    fn release(&mut self, term: &Term, by: (Wire, Field), time: Micros) -> Result<bool, WrongType> {
        match self.bug {
            Some(Bug::ReleasesAnybodys) => {
                Ok(self.store.held(&term.name, time).is_some() && self.store.drop_lock(&term.name))
            }
            _ => self.store.release(&term.name, by, time),
        }
    }

    fn waiting(&self, name: &Name) -> u64 {
        let from = self.subscribed.range((name.clone(), 0)..);
        from.take_while(|(waited_for, _)| waited_for == name).count() as u64
    }
}

fn take(term: &Term, (wire, by): (Wire, Field), counter: Counter, keep_ms: u64) -> Take {
    Take { wire, by, ttl_ms: millis(term.ttl), holds: term.holds, counter, keep_ms }
}

fn field(bug: Option<Bug>, term: &Term, client: usize) -> Field {
    let nonce = match bug {
        Some(Bug::OwnerNotNonce) => Nonce::from_u128(client as u128),
        _ => term.nonce,
    };
    Field { nonce, client: client as u64 }
}
