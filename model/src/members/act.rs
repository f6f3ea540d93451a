use quorumlock_protocol::admission::members::{Membership, NoteStep, Seen, membership};

use super::Action;
use super::operator::{begin, may_end};
use super::rule::Rule;
use super::scenario::{Disk, Scenario};
use super::state::{Late, Note, Record, Server, State, Written};
use super::view::{admission, memories, memory, seen};

pub(super) fn clients<const N: usize>(
    scenario: &Scenario<N>,
    state: &State<N>,
    actions: &mut Vec<Action>,
) {
    for (c, client) in state.clients.iter().enumerate() {
        let lists = match client.list {
            Some(list) => list..list + 1,
            None => 0..scenario.lists(),
        };
        for list in lists {
            for node in scenario.members(list) {
                if votes(scenario, state, list, node) && useful(scenario, state, c, node) {
                    actions.push(Action::Vote { client: c, list, node });
                }
            }
        }
        if scenario.renewals {
            let has = |n: &usize| client.votes & (1 << n) != 0;
            actions.extend((0..N).filter(has).map(|n| Action::Lapse(c, n)));
        }
        // Clients are interchangeable, so they start in the order of their numbers.
        if client.list.is_none() {
            break;
        }
    }
}

/// Whether a node votes for a client of a list now.
fn votes<const N: usize>(scenario: &Scenario<N>, state: &State<N>, list: u8, node: usize) -> bool {
    let memory = memory(scenario, &state.nodes[node], list, node);
    let list = scenario.list(list);
    memory.is_some_and(|memory| matches!(membership(&memory, list), Membership::Votes(_)))
}

/// Whether the lock is free there, or held by this client with a vote that somebody waits for.
fn useful<const N: usize>(scenario: &Scenario<N>, state: &State<N>, c: usize, n: usize) -> bool {
    let key = state.nodes[n].key;
    let vote = 1 << (c * N + n);
    let awaited = state.nodes.iter().flat_map(|node| node.note).any(|note| note.after & vote != 0)
        || state.operator.confirmed.is_some_and(|confirmed| confirmed & vote != 0);
    match key {
        None => true,
        Some(holder) => usize::from(holder) == c && scenario.renewals && awaited,
    }
}

pub(super) fn faults<const N: usize>(
    scenario: &Scenario<N>,
    state: &State<N>,
    actions: &mut Vec<Action>,
) {
    let used = |n: &usize| state.nodes[*n] != Server::default();
    if state.restarts < scenario.restarts {
        actions.extend((0..N).filter(used).map(Action::Restart));
    }
    if state.clones < scenario.clones {
        for node in 0..N {
            let others = (0..N).filter(|of| *of != node);
            actions.extend(others.map(|of| Action::Clone { node, of }));
        }
    }
}

pub(super) fn entries<const N: usize>(
    scenario: &Scenario<N>,
    state: &State<N>,
    actions: &mut Vec<Action>,
) {
    if let Some(late) = state.late {
        let same = late.same || scenario.rule == Rule::LateUnguarded;
        let record = state.nodes[usize::from(late.node)].record;
        actions.push(if same && record.is_none() { Action::Carry } else { Action::Drop });
    }
    for list in 0..scenario.lists() {
        let nodes = memories(scenario, state, list);
        let seen = seen(scenario, list, &nodes);
        let admits = || admission(scenario, list, &nodes).is_some();
        for (node, seen) in scenario.members(list).zip(&seen) {
            match seen {
                Seen::Unproven(NoteStep::Write) if may_end(scenario, state, Rule::MatureAtOnce) => {
                    actions.push(Action::Note(node, list));
                }
                Seen::Unproven(NoteStep::TakeOver) => actions.push(Action::TakeOver(node, list)),
                Seen::Unproven(NoteStep::Mature) if admits() => {
                    actions.push(Action::Admit(node, list));
                    if scenario.late && state.late.is_none() {
                        actions.push(Action::Decide(node, list));
                    }
                }
                _ => {}
            }
        }
    }
}

pub(super) fn apply<const N: usize>(
    scenario: &Scenario<N>,
    state: &State<N>,
    action: Action,
) -> State<N> {
    let mut next = state.clone();
    let alive = state.alive();
    match action {
        Action::Vote { client, list, node } => {
            next.clients[client].list = Some(list);
            next.vote(client, node);
        }
        Action::Lapse(c, n) => next.lapse(c, n),
        Action::Restart(n) => {
            next.restarts += 1;
            next.spoil(n);
            next.nodes[n] = restarted(scenario.disk, state.nodes[n]);
        }
        Action::Clone { node, of } => {
            next.clones += 1;
            next.spoil(node);
            next.nodes[node] = Server { key: None, ..state.nodes[of] };
        }
        Action::Note(n, list) => {
            next.spoil(n);
            let written = Written::on(n, list);
            next.nodes[n].note = Some(Note { list, written, after: alive });
        }
        Action::TakeOver(n, list) => {
            next.spoil(n);
            if let Some(note) = &mut next.nodes[n].note {
                note.list = list;
            }
        }
        Action::Admit(n, list) => {
            if let Some(record) = record(scenario, state, n, list) {
                if scenario.disk == Disk::OldSave {
                    next.nodes[n].saved = state.nodes[n].note;
                }
                next.nodes[n].admit(record);
            }
        }
        Action::Decide(n, list) => {
            let late = |record| Late { node: n as u8, same: true, record };
            next.late = record(scenario, state, n, list).map(late);
        }
        Action::Carry => {
            if let Some(late) = next.late.take() {
                next.nodes[usize::from(late.node)].admit(late.record);
            }
        }
        Action::Drop => next.late = None,
        Action::Write(n) => {
            if let Some(record) = &mut next.nodes[n].record {
                record.terms = state.operator.current;
            }
        }
        Action::Confirm => next.operator.confirmed = Some(alive),
        Action::Begin => begin(scenario, state, &mut next.operator, true),
        Action::GoBack => begin(scenario, state, &mut next.operator, false),
    }
    next
}

fn restarted(disk: Disk, server: Server) -> Server {
    let before = |written: Written| Written { present: false, ..written };
    let record = |record: Record| Record { written: before(record.written), ..record };
    let note = |note: Note| Note { written: before(note.written), ..note };
    let Server { saved, .. } = server;
    match (disk, saved) {
        (Disk::Empty, _) => Server::default(),
        (Disk::OldSave, Some(_)) => Server { note: saved.map(note), saved, ..Server::default() },
        (Disk::OldSave, None) => {
            let (record, note) = (server.record.map(record), server.note.map(note));
            Server { record, note, ..Server::default() }
        }
    }
}

/// The record with which a client of the list admits the node now.
fn record<const N: usize>(
    scenario: &Scenario<N>,
    state: &State<N>,
    n: usize,
    list: u8,
) -> Option<Record> {
    let terms = admission(scenario, list, &memories(scenario, state, list))?;
    Some(Record { terms, written: Written::on(n, list) })
}
