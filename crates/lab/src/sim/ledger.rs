//! What every attempt may believe, kept from outside: from what is posted and delivered at the
//! boundary between the client's code and the simulated nodes.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use quorumlock_core::{Answer, Denial, Instant, Name, Nonce, Term, Watch, quorum_of};

use super::ask::{Ask, Told};
use super::invariants::Tokens;
use super::sometimes::{Seen, Sometimes};
use super::time::Micros;

/// All attempts of a run, and who holds what now.
#[derive(Default)]
pub(super) struct Ledger {
    pub(super) attempts: Vec<Attempt>,
    /// Only looked up, never walked: its order differs from run to run.
    numbers: HashMap<Nonce, usize>,
    /// Who may believe in which node.
    pub(super) believers: BTreeMap<(usize, Name), Vec<usize>>,
    /// The last attempt at a name that held a minority when it failed.
    split: BTreeMap<Name, (usize, Micros)>,
    /// Whose last attempt at a name became stale.
    stale: BTreeSet<(usize, Name)>,
    pub(super) holders: Vec<Holding>,
    pub(super) tokens: BTreeMap<Name, Tokens>,
    pub(super) seen: Seen,
}

/// One acquisition, from its first request.
#[derive(Debug)]
pub(super) struct Attempt {
    pub(super) client: usize,
    pub(super) name: Name,
    pub(super) nonce: Nonce,
    began: Micros,
    /// The node that was asked first.
    first: usize,
    /// The largest token that somebody had before it began.
    pub(super) after: u64,
    pub(super) nodes: Vec<View>,
    /// Until when it may be believed in if it is handed over.
    offered: Instant,
    /// Its holder has the guard.
    pub(super) granted: bool,
    /// Its client gave it up: a release was posted.
    pub(super) over: bool,
    /// That, or it was lost: nothing that comes later saves it.
    pub(super) ended: bool,
    /// When a node last said definitely no.
    pub(super) refused_at: Micros,
    /// Its window before that.
    pub(super) before: Instant,
    /// Its window when it ended.
    pub(super) at_end: Instant,
    /// When its window last grew.
    pub(super) grown_at: Micros,
    /// When a node last took its share of it.
    pub(super) topped_at: Micros,
    /// When a renewal was last answered after the answer timeout.
    pub(super) late_at: Micros,
    /// When it ended.
    pub(super) ended_at: Micros,
}

/// One node, as an attempt sees it.
#[derive(Clone, Copy, Debug)]
pub(super) struct View {
    /// Until when the client may believe that the node holds its nonce: e_n of the lemma.
    pub(super) until: Instant,
    /// The node said yes to the acquisition.
    pub(super) granted: bool,
    /// It had said so when the attempt ended.
    pub(super) counted: bool,
    /// The node itself said definitely no, whatever the client was told.
    pub(super) said_no: bool,
    /// It took its share of a lease that stood, and has not said no since.
    pub(super) recreated: bool,
    /// Requests of which the client awaits the answer.
    pub(super) open: i64,
    /// Requests that may still be executed.
    pub(super) travelling: u32,
    /// A message about it was lost or its order: its key may stay until it expires.
    pub(super) tainted: bool,
    /// What the node executed last for it.
    pub(super) last: &'static str,
    /// A release freed it at the node.
    pub(super) freed: bool,
}

/// A guard that somebody holds.
#[derive(Debug)]
pub(super) struct Holding {
    pub(super) client: usize,
    pub(super) attempt: usize,
    pub(super) watch: Watch,
    /// Until when it stood, when its holder looked last.
    pub(super) told: Instant,
}

impl Ledger {
    pub(super) fn number(&self, nonce: Nonce) -> Option<usize> {
        self.numbers.get(&nonce).copied()
    }

    pub(super) fn of(&self, term: &Term) -> Option<usize> {
        self.number(term.nonce)
    }

    /// A client hands a request to its connection.
    pub(super) fn posted(
        &mut self,
        client: usize,
        node: usize,
        ask: &Ask,
        size: usize,
        now: Micros,
    ) {
        match ask {
            Ask::Acquire(term, ..) if self.of(term).is_none() => {
                self.begin(client, term, size, now);
                if let Some(number) = self.of(term) {
                    self.attempts[number].first = node;
                }
            }
            Ask::Acquire(term, ..) => {
                if let Some(attempt) = self.of(term).map(|number| &self.attempts[number])
                    && attempt.began < now
                {
                    let silent = attempt.nodes[attempt.first].open > 0;
                    let seen = if silent { Sometimes::GateFallback } else { Sometimes::GatePassed };
                    self.seen.see(seen);
                }
            }
            Ask::Raise(..) => self.seen.see(Sometimes::SecondRound),
            Ask::Release(terms, ..) => {
                let (released, next) = (terms.first(), terms.get(1));
                if let Some(number) = released.and_then(|term| self.of(term)) {
                    self.give_up(number, now);
                    self.attempts[number].nodes[node].until = Instant::NEVER;
                }
                if let Some(next) = next {
                    self.begin(client, next, size, now);
                    self.seen.see(Sometimes::Bumped);
                }
            }
            _ => {}
        }
        self.each(ask, |ledger, number, _| ledger.attempts[number].nodes[node].open += 1);
    }

    /// What it asks now may be handed over, and counts until then.
    pub(super) fn offered(&mut self, nonce: Nonce, until: Instant) {
        if let Some(number) = self.number(nonce) {
            self.attempts[number].offered = until;
        }
    }

    /// A client is about to be told that it was handed a name.
    pub(super) fn handed(&mut self, node: usize, nonce: Nonce, now: Micros) {
        if let Some(number) = self.number(nonce) {
            let attempt = &mut self.attempts[number];
            attempt.nodes[node].granted = true;
            let until = attempt.offered;
            self.believe(number, node, until, now);
        }
    }

    /// What a client is about to be told.
    /// A release is asked again; the client waits on.
    pub(super) fn owed(&mut self, node: usize, ask: &Ask) {
        self.each(ask, |ledger, number, _| ledger.attempts[number].nodes[node].open -= 1);
    }

    pub(super) fn told(&mut self, node: usize, ask: &Ask, told: &Told, now: Micros) {
        self.each(ask, |ledger, number, _| ledger.attempts[number].nodes[node].open -= 1);
        match told {
            Told::Vote(_, Answer::Yes(vote)) => {
                if let Some(number) = ask.terms().first().and_then(|term| self.of(term)) {
                    let attempt = &mut self.attempts[number];
                    attempt.nodes[node].granted = true;
                    let (over, granted) = (attempt.over, attempt.granted);
                    self.believe(number, node, vote.until, now);
                    if over {
                        self.seen.see(Sometimes::LateGrantReleased);
                    } else if granted {
                        self.seen.see(Sometimes::LateGrantKept);
                    }
                }
            }
            Told::Vote(_, Answer::No(Denial::Stale(_)))
            | Told::Raised(_, Answer::No(Denial::Stale(_))) => {
                self.each(ask, |ledger, number, _| {
                    let attempt = &ledger.attempts[number];
                    ledger.stale.insert((attempt.client, attempt.name.clone()));
                })
            }
            Told::Raised(_, Answer::No(Denial::Gone)) => {
                self.seen.see(Sometimes::RaiseRefused);
            }
            Told::One(_, answer) => self.each(ask, |ledger, number, _| match answer {
                Answer::Yes(until) => {
                    let attempt = &mut ledger.attempts[number];
                    let (ended, view) = (attempt.ended, &mut attempt.nodes[node]);
                    (view.granted, attempt.topped_at) = (true, now);
                    view.said_no &= ended || !view.recreated;
                    ledger.seen.see(Sometimes::ToppedUp);
                    ledger.believe(number, node, *until, now);
                }
                Answer::No(Denial::Busy(_) | Denial::NotAdmitted(_)) => {
                    ledger.disbelieve(number, node, now);
                }
                _ => {}
            }),
            Told::Until(_, answers) => self.each(ask, |ledger, number, at| match answers.get(at) {
                Some(Answer::Yes(until)) => ledger.believe(number, node, *until, now),
                Some(Answer::No(Denial::Gone | Denial::NotAdmitted(_))) => {
                    // Also where it overtook the answer to the top-up that came after it.
                    let view = &mut ledger.attempts[number].nodes[node];
                    view.said_no |= view.recreated;
                    ledger.disbelieve(number, node, now);
                }
                _ if ledger.attempts[number].granted => {
                    ledger.seen.see(Sometimes::PartialRenewal);
                }
                _ => {}
            }),
            _ => {}
        }
    }

    fn each(&mut self, ask: &Ask, mut act: impl FnMut(&mut Self, usize, usize)) {
        for (at, term) in ask.terms().iter().enumerate() {
            if let Some(number) = self.of(term) {
                act(self, number, at);
            }
        }
    }

    fn begin(&mut self, client: usize, term: &Term, size: usize, now: Micros) {
        let number = self.attempts.len();
        if self.stale.remove(&(client, term.name.clone())) {
            self.seen.see(Sometimes::BegunAgain);
        }
        self.numbers.insert(term.nonce, number);
        self.attempts.push(Attempt {
            client,
            name: term.name.clone(),
            nonce: term.nonce,
            began: now,
            first: 0,
            after: self.tokens.get(&term.name).map_or(0, Tokens::largest),
            nodes: vec![View::NEW; size],
            offered: Instant::NEVER,
            granted: false,
            over: false,
            ended: false,
            refused_at: 0,
            before: Instant::NEVER,
            at_end: Instant::NEVER,
            grown_at: 0,
            topped_at: 0,
            late_at: 0,
            ended_at: Micros::MAX,
        });
    }

    fn give_up(&mut self, number: usize, now: Micros) {
        let attempt = &mut self.attempts[number];
        if attempt.over {
            return;
        }
        attempt.over = true;
        attempt.end(now);
        let votes = attempt.nodes.iter().filter(|view| view.granted).count();
        if !attempt.granted && votes > 0 && votes < quorum_of(attempt.nodes.len()) {
            let (client, began) = (attempt.client, attempt.began);
            let last = self.split.insert(attempt.name.clone(), (client, now));
            if last.is_some_and(|(other, ended)| other != client && ended >= began) {
                self.seen.see(Sometimes::SplitVote);
            }
        }
    }

    fn believe(&mut self, number: usize, node: usize, until: Instant, now: Micros) {
        let attempt = &mut self.attempts[number];
        if attempt.ended {
            // The client's code no longer listens: it releases what comes.
            return;
        }
        let before = attempt.until();
        let view = &mut attempt.nodes[node];
        view.until = view.until.max(until);
        if attempt.until() > before {
            attempt.grown_at = now;
        }
        let believers = self.believers.entry((node, attempt.name.clone())).or_default();
        if !believers.contains(&number) {
            believers.push(number);
        }
    }

    fn disbelieve(&mut self, number: usize, node: usize, now: Micros) {
        let attempt = &mut self.attempts[number];
        let before = attempt.until();
        attempt.nodes[node].until = Instant::NEVER;
        if attempt.until() < before {
            (attempt.before, attempt.refused_at) = (before, now);
        }
    }
}

impl Attempt {
    /// It was lost or given up.
    pub(super) fn end(&mut self, now: Micros) {
        if !std::mem::replace(&mut self.ended, true) {
            self.ended_at = now;
            self.at_end = self.until();
            self.nodes.iter_mut().for_each(|view| view.counted = view.granted);
        }
    }

    /// Its window now, or when it ended.
    pub(super) fn window(&self) -> Instant {
        if self.ended { self.at_end } else { self.until() }
    }

    /// The q-th largest e_n.
    pub(super) fn until(&self) -> Instant {
        let mut all: Vec<_> = self.nodes.iter().map(|view| view.until).collect();
        all.sort_unstable_by(|a, b| b.cmp(a));
        all[quorum_of(all.len()) - 1]
    }
}

impl View {
    const NEW: Self = Self {
        until: Instant::NEVER,
        granted: false,
        counted: false,
        said_no: false,
        recreated: false,
        open: 0,
        travelling: 0,
        tainted: false,
        last: "",
        freed: false,
    };
}
