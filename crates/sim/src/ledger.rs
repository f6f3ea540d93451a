//! What each attempt may believe, recorded from the outside: the ledger sees what is posted and
//! delivered at the boundary between the client's code and the simulated nodes.

use std::collections::{BTreeMap, BTreeSet};

use foldhash::HashMap;
use quorumlock_core::HoldView;
use quorumlock_protocol::{Answer, Claim, Denial, Instant, LeaseRequest, Name, Nonce, quorum_of};

use super::belief::Beliefs;
use super::invariants::Tokens;
use super::request::{SimAnswer, SimRequest};
use super::sometimes::{Seen, Sometimes};
use super::time::Micros;

/// All attempts of a run, and the guards that are held now.
#[derive(Default)]
pub struct Ledger {
    pub attempts: Vec<Attempt>,
    /// For lookups only. Iteration would make runs differ, because its order is random.
    numbers: HashMap<Nonce, usize>,
    /// For each node and name: the attempts that have believed that the node holds their nonce.
    pub believers: BTreeMap<(usize, Name), Vec<usize>>,
    /// For each name: the last attempt that held a minority when it failed (client, end).
    split: BTreeMap<Claim, (usize, Micros)>,
    /// The clients whose last attempt at a name became stale.
    stale: BTreeSet<(usize, Claim)>,
    pub holders: Vec<Holding>,
    /// The attempts whose holders gave them up after their loss, and nobody has taken over since, with
    /// the window end that the holder read last.
    pub lost: Vec<(usize, Instant)>,
    pub tokens: BTreeMap<Name, Tokens>,
    pub beliefs: Beliefs,
    pub seen: Seen,
}

/// One acquisition, from its first request.
#[derive(Debug)]
pub struct Attempt {
    pub client: usize,
    pub claim: Claim,
    pub nonce: Nonce,
    began: Micros,
    /// The step at which it began (`Belief`).
    pub asked: u64,
    /// The node to which its first request went.
    first: usize,
    /// The largest token that any holder of one of its names had received before it began.
    pub after: u64,
    pub nodes: Vec<View>,
    /// The window end at a node that hands the name off to it.
    offered: Instant,
    /// The reply to a later request told that it has the name by handoff.
    pub taken_up: bool,
    /// Its holder has the guard.
    pub granted: bool,
    /// Its client has posted a release.
    pub over: bool,
    /// It was released or lost. No later answer extends it.
    pub ended: bool,
    /// When its client last heard a definite no that shortened its window.
    pub refused_at: Micros,
    /// Its furthest window that such an answer shortened.
    pub before: Instant,
    /// Its window when it ended.
    pub at_end: Instant,
    /// When its window last grew.
    pub grown_at: Micros,
    /// When its client last heard that a node took its share in a top-up.
    pub topped_at: Micros,
    /// When an answer to a renewal last came after the answer timeout.
    pub late_at: Micros,
    /// When it ended.
    pub ended_at: Micros,
}

/// One node, as an attempt sees it.
#[derive(Clone, Copy, Debug)]
pub struct View {
    /// The end of the client's belief that the node holds its nonce: e_n of the lemma.
    pub until: Instant,
    /// The client heard that the node granted the name.
    pub granted: bool,
    /// The value of `granted` when the attempt ended.
    pub counted: bool,
    /// The node gave a definite no, whether or not the client heard it.
    pub denied: bool,
    /// The node took its share in a top-up, and has given no definite no since.
    pub regranted: bool,
    /// Requests whose answer the client awaits.
    pub open: i64,
    /// Requests that the node may still execute, and handoff messages that are still on their way.
    pub travelling: u32,
    /// A message about it was lost, delayed, repeated or reordered, so its key may stay until it
    /// expires.
    pub tainted: bool,
    /// The verb of the last request that the node executed for it.
    pub last: &'static str,
    /// A release by its nonce freed the name at the node.
    pub freed: bool,
    /// What the node's clock showed when the node last refused and enqueued it.
    pub enqueued_at: Option<Micros>,
    /// How many requests its client has written.
    pub written: u32,
    /// How many releases its client's code has posted, and its connection has written.
    pub releases: u32,
    pub releases_written: u32,
    /// Until when its client may send a release of which nobody hears.
    pub owed_until: Micros,
}

/// A guard that a client holds.
#[derive(Debug)]
pub struct Holding {
    pub client: usize,
    pub attempt: usize,
    pub view: HoldView,
    /// The window end that its holder read last.
    pub promised_until: Instant,
}

impl Ledger {
    pub fn number(&self, nonce: Nonce) -> Option<usize> {
        self.numbers.get(&nonce).copied()
    }

    /// A node, as the attempt with this nonce sees it.
    pub fn view(&mut self, node: usize, nonce: Nonce) -> Option<&mut View> {
        let number = self.number(nonce)?;
        Some(&mut self.attempts[number].nodes[node])
    }

    pub fn of(&self, lease: &LeaseRequest) -> Option<usize> {
        self.number(lease.nonce)
    }

    /// A client hands a request to its connection.
    pub fn posted(
        &mut self,
        client: usize,
        node: usize,
        request: &SimRequest,
        size: usize,
        now: Micros,
    ) {
        match request {
            SimRequest::Acquire(lease) if self.of(lease).is_none() => {
                self.begin(client, lease, size, now);
                if let Some(number) = self.of(lease) {
                    self.attempts[number].first = node;
                }
            }
            SimRequest::Acquire(lease) => {
                if let Some(attempt) = self.of(lease).map(|number| &self.attempts[number])
                    && attempt.began < now
                {
                    let silent = attempt.nodes[attempt.first].open > 0;
                    let seen = if silent { Sometimes::HomeFallback } else { Sometimes::HomePassed };
                    self.seen.see(seen);
                }
            }
            SimRequest::Raise(..) => self.seen.see(Sometimes::SecondRound),
            SimRequest::Release(lease) => {
                if let Some(number) = self.of(lease) {
                    self.give_up(number, now);
                    let view = &mut self.attempts[number].nodes[node];
                    view.until = Instant::NEVER;
                    // One command for each name.
                    view.releases += lease.claim.count() as u32;
                }
            }
            _ => {}
        }
        self.each(request, |ledger, number, _| ledger.attempts[number].nodes[node].open += 1);
    }

    /// The request under `nonce` offers a handoff, and a lease from it counts until `until`.
    pub fn offered(&mut self, nonce: Nonce, until: Instant) {
        if let Some(number) = self.number(nonce) {
            self.attempts[number].offered = until;
        }
    }

    /// A client is about to hear that `node` handed a name off to it.
    pub fn handed_off(&mut self, node: usize, nonce: Nonce, now: Micros) {
        if let Some(number) = self.number(nonce) {
            let attempt = &mut self.attempts[number];
            attempt.nodes[node].granted = true;
            let until = attempt.offered;
            self.believe(number, node, until, now);
        }
    }

    pub fn delivered(
        &mut self,
        node: usize,
        request: &SimRequest,
        answer: &SimAnswer,
        now: Micros,
    ) {
        self.each(request, |ledger, number, _| ledger.attempts[number].nodes[node].open -= 1);
        match answer {
            SimAnswer::Vote(Answer::Yes(vote)) => {
                if let Some(number) = request.leases().first().and_then(|lease| self.of(lease)) {
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
            SimAnswer::Vote(Answer::No(Denial::Stale(_)))
            | SimAnswer::Raised(Answer::No(Denial::Stale(_))) => {
                self.each(request, |ledger, number, _| {
                    let attempt = &ledger.attempts[number];
                    ledger.stale.insert((attempt.client, attempt.claim.clone()));
                })
            }
            SimAnswer::Raised(Answer::No(Denial::Gone)) => {
                self.seen.see(Sometimes::RaiseRefused);
            }
            SimAnswer::One(answer) => self.each(request, |ledger, number, _| match answer {
                Answer::Yes(until) => {
                    let attempt = &mut ledger.attempts[number];
                    let (ended, view) = (attempt.ended, &mut attempt.nodes[node]);
                    (view.granted, attempt.topped_at) = (true, now);
                    view.denied &= ended || !view.regranted;
                    ledger.seen.see(Sometimes::ToppedUp);
                    ledger.believe(number, node, *until, now);
                }
                Answer::No(Denial::Busy(_) | Denial::NotAdmitted(_)) => {
                    ledger.disbelieve(number, node, now);
                }
                _ => {}
            }),
            SimAnswer::Until(answers) => {
                self.each(request, |ledger, number, at| match answers.get(at) {
                    Some(Answer::Yes(until)) => ledger.believe(number, node, *until, now),
                    Some(Answer::No(Denial::Gone | Denial::NotAdmitted(_))) => {
                        // The no may overtake the answer to a later top-up. It still counts.
                        let view = &mut ledger.attempts[number].nodes[node];
                        view.denied |= view.regranted;
                        ledger.disbelieve(number, node, now);
                    }
                    _ if ledger.attempts[number].granted => {
                        ledger.seen.see(Sometimes::PartialRenewal);
                    }
                    _ => {}
                })
            }
            _ => {}
        }
    }

    fn each(&mut self, request: &SimRequest, mut act: impl FnMut(&mut Self, usize, usize)) {
        for (at, lease) in request.leases().iter().enumerate() {
            if let Some(number) = self.of(lease) {
                act(self, number, at);
            }
        }
    }

    fn begin(&mut self, client: usize, lease: &LeaseRequest, size: usize, now: Micros) {
        let number = self.attempts.len();
        if self.stale.remove(&(client, lease.claim.clone())) {
            self.seen.see(Sometimes::Retried);
        }
        self.numbers.insert(lease.nonce, number);
        let last = self.attempts.iter().rev().find(|attempt| attempt.client == client);
        if lease.claim.slots().is_some()
            && last.is_some_and(|last| {
                !last.granted
                    && last.claim != lease.claim
                    && last.claim.any_of_slots() == lease.claim.any_of_slots()
            })
        {
            self.seen.see(Sometimes::SlotTriedNext);
        }
        let largest = |name| self.tokens.get(name).map(Tokens::largest);
        self.attempts.push(Attempt {
            client,
            claim: lease.claim.clone(),
            nonce: lease.nonce,
            began: now,
            asked: self.beliefs.step(),
            first: 0,
            after: lease.claim.names().filter_map(largest).max().unwrap_or(0),
            nodes: vec![View::NEW; size],
            offered: Instant::NEVER,
            taken_up: false,
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
            let last = self.split.insert(attempt.claim.clone(), (client, now));
            if last.is_some_and(|(other, ended)| other != client && ended >= began) {
                self.seen.see(Sometimes::SplitVote);
            }
        }
    }

    fn believe(&mut self, number: usize, node: usize, until: Instant, now: Micros) {
        let attempt = &mut self.attempts[number];
        if attempt.ended {
            // The client no longer counts answers for this attempt: it releases every late grant.
            return;
        }
        let before = attempt.until();
        let view = &mut attempt.nodes[node];
        view.until = view.until.max(until);
        if attempt.until() > before {
            attempt.grown_at = now;
        }
        for name in attempt.claim.names() {
            let believers = self.believers.entry((node, name.clone())).or_default();
            if !believers.contains(&number) {
                believers.push(number);
            }
        }
    }

    fn disbelieve(&mut self, number: usize, node: usize, now: Micros) {
        let attempt = &mut self.attempts[number];
        let before = attempt.until();
        attempt.nodes[node].until = Instant::NEVER;
        if attempt.until() < before {
            (attempt.before, attempt.refused_at) = (attempt.before.max(before), now);
        }
    }
}

impl Attempt {
    /// The attempt was lost or released.
    pub fn end(&mut self, now: Micros) {
        if !std::mem::replace(&mut self.ended, true) {
            self.ended_at = now;
            self.at_end = self.until();
            self.nodes.iter_mut().for_each(|view| view.counted = view.granted);
        }
    }

    /// Its window now, or the one at its end if it has ended.
    pub fn window(&self) -> Instant {
        if self.ended { self.at_end } else { self.until() }
    }

    /// The q-th largest e_n.
    pub fn until(&self) -> Instant {
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
        denied: false,
        regranted: false,
        open: 0,
        travelling: 0,
        tainted: false,
        last: "",
        freed: false,
        enqueued_at: None,
        written: 0,
        releases: 0,
        releases_written: 0,
        owed_until: 0,
    };
}
