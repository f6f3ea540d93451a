use std::collections::BTreeSet;

use quorumlock_core::admission::{Charter, Marks, Sheet, Standing, judge};
use quorumlock_core::{Fence, Handed, InLine, Name, Nonce, Proposal, Stamp, Term, Wire};

use super::ask::{Ask, Filed, Office, Reply, millis};
use super::mutants::Bug;
use super::plain;
use super::plan::Plan;
use super::queue::Place;
use super::sometimes::Sometimes;
use super::store::{Field, Store, Take, Taken};
use super::time::{Micros, NodeClock, SECOND, micros};
use super::world::Arrival;
use crate::dice::Dice;

/// One node: its data, its clock, and whether it runs.
#[derive(Debug)]
pub(super) struct Server {
    pub(super) label: String,
    pub(super) store: Store,
    pub(super) clock: NodeClock,
    /// By how much its clock may still be put back: what it holds outlives its lease by that.
    pub(super) back: Micros,
    pub(super) run: Run,
    pub(super) life: Life,
    /// What all clients agree on, with admission.
    pub(super) charter: Option<Charter>,
    /// Which clients subscribe to their own channel.
    pub(super) subscribed: BTreeSet<usize>,
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

/// What tells one memory from another, and does not outlive the process.
#[derive(Debug, Default)]
pub(super) struct Life {
    number: u64,
    /// The run id; a stale replica that is promoted has one of its own.
    run: u64,
    /// The replication id.
    history: u64,
    /// Stamps to which loaded scripts are bound.
    pub(super) scripts: Vec<Stamp>,
    /// When the process began, by its own clock.
    pub(super) born: Micros,
}

/// What a request did.
pub(super) struct Did {
    pub(super) reply: Reply,
    /// Whose turn it is, of those who subscribe.
    pub(super) woken: Option<Woken>,
    pub(super) seen: Option<Sometimes>,
}

/// Who is told that a name is free, or that it has been handed over.
pub(super) struct Woken {
    pub(super) client: usize,
    pub(super) name: Name,
    pub(super) handed: Option<Handed>,
}

impl Server {
    pub(super) fn new(number: usize, plan: &Plan, bug: Option<Bug>, dice: &mut Dice) -> Self {
        Self {
            label: format!("sim://n{number}"),
            store: Store::default(),
            clock: NodeClock::new(plan.epoch, plan.node_drift(dice)),
            back: plan.clock_back,
            run: Run::default(),
            life: Life {
                number: number as u64 + 1,
                born: plan.epoch - plan.up_for,
                ..Life::default()
            },
            charter: plan.charter.clone(),
            subscribed: BTreeSet::new(),
            bug,
        }
    }

    /// Whether anybody gets through to it.
    pub(super) fn answers(&self) -> bool {
        !self.run.down && !self.run.stopped
    }

    pub(super) fn execute(
        &mut self,
        ask: &Ask,
        bound: Stamp,
        (client, wire): (usize, Wire),
        now: Micros,
    ) -> Did {
        let refusal = self.refuses(ask, bound).filter(|_| ask.votes());
        let plain = plain::is_plain(ask, self.charter.as_ref(), bound != Stamp::NONE);
        if let Some(refusal) = refusal.as_ref().filter(|_| !plain) {
            return Did { reply: refusal.clone(), woken: None, seen: None };
        }
        self.store.bound = bound != Stamp::NONE;
        let time = self.clock.micros(now);
        for term in ask.terms() {
            self.store.about_to_write(&term.name, now);
            self.store.touch(&term.name, time);
        }
        let bug = self.bug;
        if let (
            Some(Bug::AcceptsEqual),
            Ask::Acquire(term, Proposal { token, .. }, ..) | Ask::Raise(term, token, _),
        ) = (bug, ask)
        {
            self.store.forget_equal(&term.name, token.get());
        }
        let by = |term: &Term| (wire, field(bug, term, client));
        let (mut woken, mut seen) = (None, None);
        let reply = match ask {
            Ask::Acquire(term, proposal, ..) if plain => {
                let take = take(term, by(term), proposal.token);
                let taken = self.store.acquire_plain(&term.name, &take, time);
                seen = Some(plain::seen(refusal.is_some(), taken));
                refusal
                    .filter(|_| bug != Some(Bug::BelievesAnyMemory))
                    .unwrap_or(Reply::Taken(taken))
            }
            Ask::Acquire(term, proposal, _, in_line) => {
                let take = take(term, by(term), proposal.token);
                self.take_or_stand(term, &take, *in_line, (client, time))
            }
            Ask::Raise(term, token, _) => {
                let raised = self.store.raise(&term.name, by(term), token.get(), time);
                raised.map_or(Reply::WrongType, Reply::Raised)
            }
            Ask::Recreate(term, token) => {
                let mut take = take(term, by(term), *token);
                take.ttl_ms = self.at_most(take.ttl_ms);
                let held = self.store.recreate(&term.name, &take, time);
                held.map_or(Reply::WrongType, Reply::Recreated)
            }
            Ask::Renew(terms) => {
                let held = terms.iter().map(|term| self.renew(term, by(term), time));
                Reply::Renewed(held.collect())
            }
            Ask::Release(terms, spot, _) => {
                let reply;
                (reply, woken) = self.give_back(&terms[0], *spot, (client, by(&terms[0])), time);
                reply
            }
            Ask::Inspect(name) => Reply::Holder(self.store.inspect(name, time)),
            Ask::ForceRelease(name) => {
                self.store.about_to_write(name, now);
                let held = self.store.force_release(name, time);
                woken = held.then(|| self.wake(name, wire, time)).flatten();
                Reply::Forced(held)
            }
            Ask::Leave(name) => {
                self.store.about_to_write(name, now);
                let late = !self.store.leave(name, Place::of(client, None), time);
                if late && self.store.held(name, time).is_none() {
                    woken = self.wake(name, wire, time);
                }
                Reply::Forced(false)
            }
            Ask::Office(office) => Reply::Filed(self.office(office, now)),
        };
        Did { reply, woken, seen }
    }

    /// What a voting script that is bound to `stamp` answers before it does anything.
    fn refuses(&self, ask: &Ask, stamp: Stamp) -> Option<Reply> {
        let charter = self.charter.as_ref().filter(|_| stamp != Stamp::NONE)?;
        // The script cache does not outlive the process: NOSCRIPT.
        let loaded = self.life.scripts.contains(&stamp);
        let checked = self.bug != Some(Bug::RecordAtConnect);
        if !loaded || checked && self.stamp() != Some(stamp) {
            return Some(Reply::Unproven);
        }
        let long = |term: &Term| millis(term.ttl) > charter.longest_ms();
        matches!(ask, Ask::Acquire(term, ..) if long(term)).then_some(Reply::TooLong)
    }

    fn stamp(&self) -> Option<Stamp> {
        self.store.page.as_ref().and_then(|page| Stamp::parse(&page.record.stamp))
    }

    fn office(&mut self, office: &Office, now: Micros) -> Filed {
        let Some(charter) = self.charter.clone() else { return Filed::Number(0) };
        let life = self.life.id();
        let store = &mut self.store;
        Filed::Number(match office {
            Office::Examine => return Filed::Sheet(Box::new(self.sheet())),
            Office::Note(id) => {
                store.note(id, &charter, &life, now);
                0
            }
            Office::Barrier(stamp) => {
                let marks = store.barrier(stamp, &life, self.bug != Some(Bug::NoBarrier), now);
                let copied = self.bug != Some(Bug::CopiesNoMarks);
                return Filed::Marks(if copied { marks } else { Marks::new() });
            }
            Office::Admit { note, stamp, marks } => {
                u64::from(store.admit((note, stamp, marks), &life, now))
            }
            Office::Provision { stamp, replace } => {
                u64::from(store.provision((stamp, *replace), &charter, &life, now))
            }
        })
    }

    /// `sheet.lua`.
    pub(super) fn sheet(&self) -> Sheet {
        Sheet {
            record: self.store.page.as_ref().map(|page| page.record.clone()),
            life: self.life.id(),
            role: "master".into(),
            replicas: 0,
            policy: "noeviction".into(),
            major: 7,
        }
    }

    /// What `INFO server` says of it, in whole seconds.
    pub(super) fn uptime(&self, now: Micros) -> Micros {
        let whole = |micros: Micros| micros - micros % SECOND;
        whole(self.clock.micros(now)).saturating_sub(whole(self.life.born))
    }

    /// What a client that connects now finds.
    pub(super) fn standing(&self) -> Option<Standing> {
        let charter = self.charter.as_ref()?;
        Some(judge(&self.sheet(), charter))
    }

    /// Whether it counts, by its record.
    pub(super) fn admitted(&self) -> bool {
        self.store.admits(&self.life.id())
    }

    /// No lease longer than L.
    fn at_most(&self, ttl_ms: u64) -> u64 {
        match &self.charter {
            Some(charter) if self.store.bound => ttl_ms.min(charter.longest_ms()),
            _ => ttl_ms,
        }
    }

    fn acquire(&mut self, term: &Term, take: &Take, time: Micros) -> Reply {
        self.store.acquire(&term.name, take, time).map_or(Reply::WrongType, Reply::Taken)
    }

    fn renew(&mut self, term: &Term, by: (Wire, Field), time: Micros) -> bool {
        let ttl = self.at_most(millis(term.ttl));
        match (self.bug, self.store.held(&term.name, time)) {
            (Some(Bug::RenewalRecreates), None) => {
                let take = take(term, by, Fence::NONE);
                self.store.acquire(&term.name, &take, time).is_ok()
            }
            (Some(Bug::RenewsAnybodys), Some(held)) => {
                let by = (held.wire, held.by);
                self.store.renew(&term.name, by, ttl, term.holds, time)
            }
            _ => self.store.renew(&term.name, by, ttl, term.holds, time),
        }
    }

    /// `queue.lua`.
    fn take_or_stand(
        &mut self,
        term: &Term,
        take: &Take,
        in_line: Option<InLine>,
        (client, time): (usize, Micros),
    ) -> Reply {
        let name = &term.name;
        let Some(in_line) = in_line else { return self.acquire(term, take, time) };
        let (place, before) = Place::at(client, term.nonce, in_line);
        let reply = match self.store.others_first(name, (in_line, (place, before)), time) {
            true => Reply::Taken(Taken::Busy(None)),
            false => self.acquire(term, take, time),
        };
        match &reply {
            Reply::Taken(Taken::Busy(_)) => {
                if in_line.before.is_some() {
                    self.store.leave(name, before, time);
                }
                let waited = micros(in_line.waited);
                self.store.stand(name, place, waited, take.ttl_ms.max(1_000), time);
            }
            Reply::Taken(_) => self.store.served(name, before, time),
            _ => {}
        }
        reply
    }
}

impl Life {
    /// Run id and replication id, as a record keeps them.
    pub(super) fn id(&self) -> String {
        let Self { number, run, history, .. } = self;
        format!("{number:020x}{run:020x}/{number:020x}{history:020x}")
    }

    /// Another process: its scripts are gone, and it has been up since `born`.
    pub(super) fn restart(&mut self, born: Micros) {
        (self.run, self.history) = (self.run + 1, self.history + 1);
        self.scripts.clear();
        self.born = born;
    }

    /// The same process with the data of another: it keeps its run id and its scripts.
    pub(super) fn resync(&mut self) {
        self.history += 1;
    }
}

fn take(term: &Term, (wire, by): (Wire, Field), token: Fence) -> Take {
    Take { wire, by, ttl_ms: millis(term.ttl), holds: term.holds, token: token.get() }
}

fn field(bug: Option<Bug>, term: &Term, client: usize) -> Field {
    let nonce = match bug {
        Some(Bug::OwnerNotNonce) => Nonce::from_u128(client as u128),
        _ => term.nonce,
    };
    Field { nonce, client: client as u64 }
}
