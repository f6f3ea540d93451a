//! Waking (PROTOCOL.md W1 to W5): what is released while somebody waits for it is asked for and taken
//! within bounds that have nothing to do with the lease.

use quorumlock_protocol::{Claim, Nonce};

use crate::owed::Owed;
use crate::time::{MS, Micros, SECOND};
use crate::violation::Violation;
use crate::world::State;

/// The bound from the release to the next grant, in round trips: messages, retries after split
/// votes.
const MAX_ROUND_TRIPS: u64 = 30;
/// Shorter than the sleep of a waiter between polls, so that a poll does not hide a missing
/// notification.
const MIN_BOUND: Micros = 110 * MS;
/// The bound from the release to the next request of a waiter: a client that releases without the
/// script learns of the waiters by the reply, and has the first one notified by a second request.
const ROUND_TRIPS_TO_ASK: u64 = 2;
/// Timers are late by a tick, at each of the four steps on the way. A message of a node that is not
/// the home node waits for others for as long as a tick, or two.
const TICKS: Micros = 8 * MS;
/// A release hands off to a waiter that has asked for within this time (W5).
const FRESH: Micros = 2 * SECOND;

/// Checks a grant to `attempt` in the calm phase. For `free`, the lock was free and had waiters.
pub fn check(state: &mut State, attempt: usize, free: Micros) {
    // Others held the lock meanwhile if this one shares it with them.
    let shares = state.ledger.attempts[attempt].claim.reads();
    if !shares && free > MIN_BOUND.max(MAX_ROUND_TRIPS * round_trip(state)) {
        state.violate(Violation::NotWoken { attempt, after_us: free });
    }
}

/// The longest round trip between a client and a node.
fn round_trip(state: &State) -> Micros {
    2 * (2 * state.plan.latency + state.plan.jitter)
}

/// A node has executed a release of `attempt`, after which the client does not keep its place. In the
/// calm phase, some waiter must ask if the name is free. Of several nodes, another one may have notified
/// that waiter before: the bound on the next grant holds there.
pub fn released(state: &mut State, node: usize, attempt: usize) {
    if state.plan.nodes > 1 || !state.healed || state.now < state.plan.recovered() {
        return;
    }
    let claim = &state.ledger.attempts[attempt].claim;
    let server = &state.servers[node];
    let time = server.clock.micros(state.now);
    let name = claim.name();
    if !claim.is_one() || server.store.holders(name, time).next().is_some() {
        return;
    }
    let key = name.waiters_key();
    let members = server.store.members(key.as_bytes(), time);
    let waiters: Vec<_> = members.filter_map(|member| state.waiter(node, claim, member)).collect();
    if !waiters.is_empty() {
        let (name, at) = (name.clone(), state.now);
        state.workload.owed.push(Owed { node, name, at, waiters });
    }
}

/// A node has granted `attempt`, or handed its name off to it: the name is not free any more.
pub fn taken(state: &mut State, node: usize, attempt: usize) {
    check_owed(state);
    let claim = &state.ledger.attempts[attempt].claim;
    let taken = |owed: &Owed| owed.node == node && claim.names().any(|name| *name == owed.name);
    state.workload.owed.retain(|owed| !taken(owed));
}

/// A client is about to ask for `claim`.
pub fn asked(state: &mut State, client: usize, claim: &Claim) {
    check_owed(state);
    state.workload.owed.retain(|owed| !owed.is_of(client, claim));
}

/// A client leaves the queue of `claim`, and lets the node notify the next waiter.
pub fn passes_on(state: &mut State, client: usize, claim: &Claim) {
    check_owed(state);
    let now = state.now;
    for owed in state.workload.owed.iter_mut().filter(|owed| owed.is_of(client, claim)) {
        owed.at = now;
    }
}

/// Checks the releases after which a waiter should have asked by now.
pub fn check_owed(state: &mut State) {
    if state.workload.owed.is_empty() {
        return;
    }
    let bound = ROUND_TRIPS_TO_ASK * round_trip(state) + TICKS;
    let (now, owed) = (state.now, std::mem::take(&mut state.workload.owed));
    let (over, open): (Vec<_>, _) = owed.into_iter().partition(|owed| now > owed.at + bound);
    state.workload.owed = open;
    for owed in over {
        let asks = owed.waiters.iter().any(|(client, _)| state.is_asking(*client, &owed));
        let mut waiters = owed.waiters.iter();
        if !asks && waiters.any(|(client, claim)| state.still_waits(*client, claim, &owed)) {
            let (node, name) = (owed.node, owed.name.to_string());
            state.violate(Violation::NotAsked { node, name, after_us: bound });
        }
    }
}

/// Checks a handoff that a node has just carried out: its waiter has shown life (W5).
pub fn check_handoff(state: &mut State, node: usize, attempt: usize) {
    let shown = state.servers[node].clock.micros(state.now);
    let enqueued_at = state.ledger.attempts[attempt].nodes[node].enqueued_at;
    let after_us = enqueued_at.map_or(0, |enqueued_at| shown.saturating_sub(enqueued_at));
    taken(state, node, attempt);
    if after_us > FRESH {
        state.violate(Violation::HandedToSilent { node, attempt, after_us });
    }
}

/// Checks a request that a node has just refused: no release has handed the name off to one of the
/// `earlier` requests of its call (W5).
pub fn refused(state: &mut State, node: usize, attempt: usize, earlier: &[Nonce]) {
    let shown = state.servers[node].clock.micros(state.now);
    state.ledger.attempts[attempt].nodes[node].enqueued_at = Some(shown);
    let name = state.ledger.attempts[attempt].claim.name();
    let own =
        state.servers[node].store.holders(name, shown).find(|held| earlier.contains(&held.nonce));
    if let Some(own) = own.and_then(|held| state.ledger.number(held.nonce)) {
        state.violate(Violation::RefusedByOwn { node, attempts: [own, attempt] });
    }
}

impl State {
    /// The process that has this member in the queue of `claim`, if it waits, runs, and has a
    /// subscription; and what it waits for.
    fn waiter(&self, node: usize, claim: &Claim, member: &[u8]) -> Option<(usize, Claim)> {
        let mut words = member.split(|byte| *byte == b' ');
        let (waiter, kind) = (words.next()?, words.next()?);
        let claim = match kind {
            b"read" => Claim::read(claim.name().clone()),
            b"write" => Claim::write(claim.name().clone()),
            b"permit" => claim.clone(),
            _ => claim.name().clone().into(),
        };
        let channel = [b"quorumlock:wake:", waiter].concat();
        let mut subscribers = self.servers[node].channels.get(&channel)?.iter();
        let client = subscribers.find_map(|conn| self.hears(*conn))?;
        let process = &self.processes[client];
        let runs = !process.dead && !process.stopped && process.hears;
        (runs && process.waits_for(node, &claim)).then_some((client, claim))
    }

    /// The process that hears what its node sends over the connection.
    fn hears(&self, conn: usize) -> Option<usize> {
        let conn = self.conns.get(&conn)?;
        (conn.is_open() && !conn.loses_in).then_some(conn.id.client)
    }

    /// Whether the process awaits the answer to a request for what was released.
    fn is_asking(&self, client: usize, owed: &Owed) -> bool {
        self.ledger.attempts.iter().rev().any(|attempt| {
            attempt.client == client
                && attempt.nodes.iter().any(|view| view.open > 0)
                && !attempt.over
                && owed.is_for(&attempt.claim)
        })
    }

    /// Whether the process has waited for what was released all the time.
    fn still_waits(&self, client: usize, claim: &Claim, owed: &Owed) -> bool {
        let process = &self.processes[client];
        let ran = !process.dead && !process.stopped && process.resumed_at <= owed.at;
        ran && process.waits_for(owed.node, claim) && self.is_subscribed(client, owed.node)
    }

    /// Whether messages of the node reach the process.
    fn is_subscribed(&self, client: usize, node: usize) -> bool {
        let conns = self.conns_of(client, node).into_iter();
        conns.filter(|conn| self.subscribes(*conn)).any(|conn| self.hears(conn.number).is_some())
    }

    /// `client` is told that a name was handed off to `attempt`. The queue member may be a leftover
    /// of a lost or repeated request. Then `client` releases the name if it waits for it; otherwise
    /// the name stays held until its lease ends (PROTOCOL.md W5).
    pub fn record_lost_handoff(
        &mut self,
        (client, node): (usize, usize),
        claim: &Claim,
        attempt: usize,
    ) {
        if !self.ledger.attempts[attempt].nodes[node].tainted {
            return;
        }
        let (now, server) = (self.now, &self.servers[node]);
        let left = match self.processes[client].waits_for(node, claim) {
            true => 0,
            false => server.store.remaining(claim.name(), server.clock.micros(now)).unwrap_or(0),
        };
        // The node's clock may be slow.
        let left = (left as f64 * (1.0 + self.plan.max_clock_drift)) as u64 * MS;
        self.workload.lost_handoff_time += if self.healed { left } else { 0 };
        self.workload.free_from(claim, now + left);
    }
}
