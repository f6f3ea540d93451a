//! A real node and a simulated one, asked the same.

#![allow(clippy::unwrap_used)] // a test: whatever cannot be is its failure

mod hand;
mod op;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use quorumlock_core::admission::{Charter, Marks, Sheet, Voter};
use quorumlock_core::{
    Acceptance, Answer, Clock, Collect, Denial, Fence, Held, Holder, InLine, Lane, Name, News,
    Node as _, NodeReport, Nonce, Proposal, ReplyTo, Settings, Slot, Stamp, Term, Wire, Woke,
    redis_nodes,
};
use quorumlock_lab::sim;
use tokio::sync::Notify;

use hand::by_hand;
pub(crate) use op::{Op, Token};

/// Over soon, over late, longer than the charter allows.
const LEASES: [Duration; 3] =
    [Duration::from_millis(600), Duration::from_secs(60), Duration::from_secs(120)];
/// All short leases are over, and nodes that were not proven have been looked at again.
const LONG: Duration = Duration::from_millis(700);
/// A connection has been dialled again.
const REDIAL: Duration = Duration::from_millis(25);
const PATIENCE: Duration = Duration::from_secs(5);
/// Either answer may be late by so much.
const SLACK: u64 = 150;

/// One side: the node, its clock, and what stands there.
struct Side<N> {
    node: N,
    clock: Clock,
    /// What was proposed last for each name.
    tokens: [u64; 2],
    label: &'static str,
}

/// What a side said, in words that both use.
#[derive(Clone, Debug, PartialEq)]
struct Said {
    what: String,
    /// Milliseconds: compared with a tolerance.
    millis: Option<u64>,
    /// The mark that a token is not above.
    mark: Option<u64>,
}

/// Runs `ops` on both; the first difference is an error.
pub(crate) fn compare(
    url: &str,
    address: SocketAddr,
    wire: Wire,
    strict: bool,
    ops: &[Op],
) -> Result<(), String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(|e| e.to_string())?.block_on(run(url, address, wire, strict, ops))
}

async fn run(
    url: &str,
    address: SocketAddr,
    wire: Wire,
    strict: bool,
    ops: &[Op],
) -> Result<(), String> {
    by_hand(address, "FLUSHALL");
    let charter = Charter {
        prefix: "twin".into(),
        cluster: "twin".into(),
        epoch: 3,
        nodes: 1,
        longest: Duration::from_secs(90),
    };
    let charter = strict.then_some(&charter);
    let settings = Settings::default();
    let clock = Clock::system();
    let mut nodes = redis_nodes(&[url], wire, charter, &settings, &clock).unwrap();
    let node = nodes.pop().unwrap();
    let mut real = Side { node, clock, tokens: [0; 2], label: "real" };
    let (mut nodes, clock) = sim::nodes(1, wire, charter);
    let node = nodes.pop().unwrap();
    let mut model = Side { node, clock, tokens: [0; 2], label: "simulated" };
    // Both stand in queues as soon as they can be told of their turn.
    let ears = [(); 2].map(|()| Arc::new(Ear::default()));
    let _listening: Vec<_> = (0..2)
        .flat_map(|name| {
            let name = name_of(name);
            let [a, b] = ears.clone();
            [real.node.listen(&name, a, 0), model.node.listen(&name, b, 0)]
        })
        .collect();
    for ear in &ears {
        let told = tokio::time::timeout(PATIENCE, ear.0.notified()).await;
        told.map_err(|_| "a node told nobody that it can be heard")?;
    }
    let mut fresh = 1;
    for (step, op) in ops.iter().enumerate() {
        let seed = Clock::system().wall_micros();
        fresh += 1;
        match op {
            Op::Delete { name } => {
                let key = name_of(*name);
                let there = by_hand(address, &format!("DEL {}", key.as_str())) == ":1";
                let gone = model.node.delete(&key);
                // One that has expired is there until somebody looks.
                let _ = (there, gone);
            }
            Op::Flush => {
                by_hand(address, "FLUSHALL");
                model.node.flush();
                (real.tokens, model.tokens) = ([0; 2], [0; 2]);
            }
            _ => {}
        }
        let late = |side: &str| format!("step {step}, {op:?}: the {side} gave no answer");
        let (a, b) = (real.step(op, seed, fresh), model.step(op, seed, fresh));
        let a = tokio::time::timeout(PATIENCE, a).await.map_err(|_| late("server"))?;
        let b = tokio::time::timeout(PATIENCE, b).await.map_err(|_| late("model"))?;
        let unlike = |what: &str, a: &dyn std::fmt::Debug, b: &dyn std::fmt::Debug| {
            Err(format!("step {step}, {op:?}: {what}: the server {a:?}, the model {b:?}"))
        };
        if a.what != b.what || !near(a.millis, b.millis, SLACK) || a.mark != b.mark {
            return unlike("answers", &a, &b);
        }
        if a.what.contains("Stale") {
            tokio::time::sleep(REDIAL).await;
        }
        if matches!(op, Op::Wait | Op::Provision { .. } | Op::Admit { .. }) {
            tokio::time::sleep(LONG).await;
        }
        for name in 0..2 {
            let key = name_of(name);
            let told = by_hand(address, &format!("ZSCORE {} m", key.mark_key()));
            let (a, b) = (told.parse().ok(), model.node.mark(&key));
            if a != b {
                return unlike("marks", &a, &b);
            }
            let told = by_hand(address, &format!("ZCARD {}", key.waiters_key()));
            let (a, b) = (told, format!(":{}", model.node.waiting(&key)));
            if a != b {
                return unlike("waiting", &a, &b);
            }
        }
        let (a, b) = (known(&real), known(&model));
        if a != b {
            return unlike("verified under", &a, &b);
        }
    }
    Ok(())
}

/// What is heard changes nothing here, but that something can be.
#[derive(Default)]
struct Ear(Notify);

impl Collect<News> for Ear {
    fn collect(&self, _from: usize, _news: News) {
        self.0.notify_one();
    }
}

fn known<N: Voter>(side: &Side<N>) -> (Stamp, bool) {
    (side.node.stamp(), side.node.proven())
}

impl<N: Voter> Side<N> {
    async fn step(&mut self, op: &Op, seed: u64, fresh: u128) -> Said {
        let stamp = Nonce::from_u128(fresh).to_string();
        let known = self.node.stamp();
        match op {
            Op::Acquire { at, ttl, token, line, before, plain } => {
                let last = &mut self.tokens[at.1];
                *last = match token {
                    Token::None => 0,
                    Token::Now => seed,
                    Token::Behind => seed - 7_200_000_000,
                    Token::Again => *last,
                };
                let (token, alone, by_script) = (Fence::new(*last), *plain, !*plain);
                let proposal = Proposal { token, alone, by_script };
                let term = term(*at, LEASES[*ttl], 1);
                let before = before.map(nonce_of);
                let line = line.map(|line| InLine { before, ..line });
                let answer = ask(|to| self.node.acquire(&term, proposal, known, line, to)).await;
                let now = self.clock.now();
                self.said(&answer, |vote| (ms(vote.until.since(now)), mark(vote.token)))
            }
            Op::Raise { at, by } => {
                // Without a token nothing is raised.
                let token = Fence::new(self.tokens[at.1].saturating_add_signed(*by).max(1));
                let term = term(*at, LEASES[1], 1);
                let answer = ask(|to| self.node.raise(&term, token, known, to)).await;
                self.said(&answer, |said| (None, mark(*said)))
            }
            Op::Renew { at, ttl, holds } => {
                let terms = [term(*at, LEASES[*ttl], *holds)];
                let answers = ask_all(|to| self.node.renew(&terms, Lane::Work, to)).await;
                let now = self.clock.now();
                match answers.first() {
                    Some(one) => self.said(one, |until| (ms(until.since(now)), None)),
                    None => Said { what: "nothing".into(), millis: None, mark: None },
                }
            }
            Op::Recreate { at, ttl, by } => {
                let token = Fence::new(self.tokens[at.1].saturating_add_signed(*by));
                let term = term(*at, LEASES[*ttl], 2);
                let answer = ask(|to| self.node.recreate(&term, token, Lane::Keep, to)).await;
                let now = self.clock.now();
                self.said(&answer, |until| (ms(until.since(now)), None))
            }
            Op::Release { at, spot } => {
                let term = term(*at, LEASES[1], 1);
                let answer =
                    ask(|to| self.node.release(&term, Held::UNKNOWN, Lane::Work, *spot, to)).await;
                let mut said = self.said(&answer, |_| (None, None));
                if let Answer::Yes(freed) = &answer {
                    // In the model nobody listens on the channels of names.
                    let turn = freed.woke == Some(Woke::Waiter);
                    said.what = format!("held {}, woke a waiter {turn}", freed.held);
                }
                said
            }
            Op::Inspect { name } => {
                let answer = ask(|to| self.node.inspect(&name_of(*name), to)).await;
                let mut said = self.said(&answer, |holder| {
                    (holder.as_ref().and_then(|holder| holder.remaining).and_then(ms), None)
                });
                if let Answer::Yes(holder) = &answer {
                    said.what = format!("{:?}", holder.as_ref().map(who));
                }
                said
            }
            Op::Force { name } => {
                let answer = ask(|to| self.node.force_release(&name_of(*name), to)).await;
                self.said(&answer, |held| (Some(u64::from(*held)), None))
            }
            Op::Leave { at, offer } => {
                let name = name_of(at.1);
                let offered = offer.map(|offer| (term(*at, LEASES[1], 1), offer));
                self.node.leave(&name, offered.as_ref());
                // Answered behind it, on the same connection.
                ask(|to| self.node.inspect(&name, to)).await;
                self.filed(Ok(()), |()| "-".into())
            }
            Op::Examine => self.filed(self.node.examine().await, |sheet| sheet_in_words(&sheet)),
            Op::Note => self.filed(self.node.note(&stamp).await, |()| "noted".into()),
            Op::Barrier => {
                self.filed(self.node.barrier(&stamp).await, |marks| format!("{marks:?}"))
            }
            Op::Admit { right } => {
                let sheet = self.node.examine().await.ok().and_then(|sheet| sheet.record);
                let note = match sheet {
                    Some(record) if *right => record.pending,
                    _ => "another".into(),
                };
                let mark = Fence::new(self.tokens[0] + 1_000_000);
                let marks = Marks::from([(name_of(0).slot(), mark)]);
                self.filed(self.node.admit(&note, &stamp, &marks).await, |done| done.to_string())
            }
            Op::Provision { replace } => {
                let done = self.node.provision(&stamp, *replace).await;
                self.filed(done, |done| done.to_string())
            }
            Op::Delete { .. } | Op::Wait | Op::Flush => self.filed(Ok(()), |()| "-".into()),
        }
    }

    fn said<T>(&self, answer: &Answer<T>, yes: impl Fn(&T) -> (Option<u64>, Option<u64>)) -> Said {
        let (what, (millis, mark)) = match answer {
            Answer::Yes(value) => ("yes", yes(value)),
            Answer::No(Denial::Busy(left)) => ("Busy", (left.and_then(ms), None)),
            Answer::No(Denial::Gone) => ("Gone", (None, None)),
            Answer::No(Denial::Config(_)) => ("Config", (None, None)),
            Answer::No(Denial::Stale(_)) => ("Stale", (None, None)),
            Answer::No(Denial::NotAdmitted(_)) => ("NotAdmitted", (None, None)),
            Answer::No(Denial::Refused(_)) => ("Refused", (None, None)),
            Answer::Silent(_) => (self.label, (None, None)),
        };
        Said { what: what.into(), millis, mark }
    }

    fn filed<T>(&self, told: Result<T, NodeReport>, yes: impl Fn(T) -> String) -> Said {
        let what = told.map_or_else(|report| format!("{}: {report}", self.label), yes);
        Said { what, millis: None, mark: None }
    }
}

fn mark(said: Acceptance) -> Option<u64> {
    match said {
        Acceptance::Accepted => None,
        Acceptance::Behind(mark) => Some(mark.get()),
    }
}

fn sheet_in_words(sheet: &Sheet) -> String {
    let record = sheet.record.as_ref().map(|record| {
        let watched = record.pending.starts_with(&sheet.life) && !record.pending.is_empty();
        let agreed = (&record.cluster, record.epoch, record.nodes, record.longest_ms);
        format!("{agreed:?} {} {} {watched}", record.stamp, record.life == sheet.life)
    });
    let major = sheet.major >= 7;
    format!("{record:?} {} {} {} {major}", sheet.role, sheet.replicas, sheet.policy)
}

/// Without the client's number behind the colon, which each side draws for itself.
fn who(holder: &Holder) -> (String, u32) {
    let id = holder.id.split(':').next().unwrap_or_default().to_owned();
    (id, holder.holds)
}

fn term((who, name): (usize, usize), ttl: Duration, holds: u32) -> Term {
    Term { name: name_of(name), nonce: nonce_of(who), ttl, holds }
}

/// One release of eight, by its nonce, is told to strangers too, and there are none in the model.
pub(crate) fn nonce_of(who: usize) -> Nonce {
    Nonce::from_u128(0x1_u128 << 124 | who as u128)
}

fn name_of(name: usize) -> Name {
    Name::new(&format!("twin/{name}")).unwrap()
}

async fn ask<T: Send + 'static>(post: impl FnOnce(ReplyTo<Answer<T>>)) -> Answer<T> {
    let (slot, to) = Slot::new();
    post(to);
    slot.await
}

async fn ask_all<T: Send + 'static>(post: impl FnOnce(ReplyTo<Vec<T>>)) -> Vec<T> {
    let (slot, to) = Slot::new();
    post(to);
    slot.await
}

fn ms(d: Duration) -> Option<u64> {
    u64::try_from(d.as_millis()).ok()
}

fn near(a: Option<u64>, b: Option<u64>, slack: u64) -> bool {
    match (a, b) {
        (Some(a), Some(b)) => a.abs_diff(b) <= slack,
        (a, b) => a == b,
    }
}
