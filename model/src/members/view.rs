use std::sync::{Arc, LazyLock};

use quorumlock_protocol::admission::members::{
    self, CLOCK_BOUND, Entry, MemberRecord, NodeMemory, NoteStep, Seen, ServerClock, entry,
    note_age, note_step, view,
};

use super::rule::Rule;
use super::scenario::{LONGEST, Scenario};
use super::state::{Note, Server, State, Terms, Written};

/// The present run of a server, and an earlier one.
static RUNS: LazyLock<[Arc<str>; 2]> = LazyLock::new(|| ["present".into(), "before".into()]);

/// The terms with which a client of the list admits nodes that have a mature note, if it does.
pub(super) fn admission<const N: usize>(
    scenario: &Scenario<N>,
    list: u8,
    nodes: &[Option<NodeMemory>],
) -> Option<Terms> {
    let own = scenario.list(list);
    let seen = &seen(scenario, list, nodes);
    let newest = || {
        let records = seen.iter().filter_map(|seen| match seen {
            Seen::Votes(terms) | Seen::Foreign(terms) => Some(*terms),
            _ => None,
        });
        (records.clone().count(), records.max_by_key(|terms| terms.phase))
    };
    match (entry(own, seen), scenario.rule) {
        (Entry::BackIn { terms, .. } | Entry::Found(terms), _) => Some(Terms::of(&terms, scenario)),
        (Entry::Waits(missing), Rule::MajorityFounds)
            if seen.len() - missing.len() >= own.quorum() =>
        {
            Some(Terms { phase: 1, list, next: None })
        }
        (_, Rule::AnyRecords) => {
            let (records, newest) = newest();
            let newest = newest.filter(|newest| records >= own.quorum() && newest.admit(own))?;
            Some(Terms::of(newest, scenario))
        }
        (_, Rule::ChangeFounds) => {
            let ready =
                |seen: &Seen<'_>| matches!(seen, Seen::Votes(_) | Seen::Unproven(NoteStep::Mature));
            let (_, newest) = newest();
            seen.iter().all(ready).then(|| Terms::of(newest?, scenario).into()).flatten()
        }
        _ => None,
    }
}

/// Whether a client of the list founds the cluster, rather than a majority that takes nodes back.
pub(super) fn founds<const N: usize>(scenario: &Scenario<N>, state: &State<N>, list: u8) -> bool {
    let nodes = memories(scenario, state, list);
    matches!(entry(scenario.list(list), &seen(scenario, list, &nodes)), Entry::Found(_))
}

pub(super) fn seen<'a, const N: usize>(
    scenario: &Scenario<N>,
    list: u8,
    nodes: &'a [Option<NodeMemory>],
) -> Vec<Seen<'a>> {
    let age = note_age(LONGEST, 0.0, CLOCK_BOUND);
    let mut seen = view(scenario.list(list), nodes, age);
    if scenario.rule == Rule::NotTakenOver {
        for (seen, memory) in seen.iter_mut().zip(nodes) {
            let Some(NodeMemory { note: Some(note), clock, label, .. }) = memory else { continue };
            if *seen == Seen::Unproven(NoteStep::TakeOver) {
                *seen = Seen::Unproven(note_step(Some(note), label, &note.list, true, *clock, age));
            }
        }
    }
    seen
}

pub(super) fn memories<const N: usize>(
    scenario: &Scenario<N>,
    state: &State<N>,
    list: u8,
) -> Vec<Option<NodeMemory>> {
    scenario.members(list).map(|n| memory(scenario, &state.nodes[n], list, n)).collect()
}

/// What a client of the list reads on a server.
pub(super) fn memory<const N: usize>(
    scenario: &Scenario<N>,
    server: &Server,
    list: u8,
    node: usize,
) -> Option<NodeMemory> {
    let own = scenario.label(list, node)?;
    let own_list = scenario.list(list);
    let label = |written: Written| {
        scenario.label(written.list, usize::from(written.node)).cloned().unwrap_or_default()
    };
    let run = |present: bool| RUNS[usize::from(!present)].clone();
    let rule = scenario.rule;
    let record = server.record.map(|record| {
        let mut terms = record.terms;
        if rule == Rule::NoLists {
            (terms.list, terms.next) = (list, None);
        }
        MemberRecord {
            label: if rule == Rule::RecordWithoutLabel {
                own.clone()
            } else {
                label(record.written)
            },
            terms: terms.wide(scenario),
            run_identity: run(record.written.present || rule == Rule::RecordOutlivesRun),
        }
    });
    let alias_is_none = |record: &MemberRecord| rule != Rule::AliasIsNone || record.label == *own;
    // A client reads the note late enough for it to be mature as soon as it may be.
    let age = note_age(LONGEST, 0.0, CLOCK_BOUND).as_micros() as i64;
    let mature = |note: &Note| note.after == 0 || rule == Rule::MatureAtOnce;
    let now = server.note.filter(mature).map_or(age - 1, |_| age);
    let note = server.note.map(|note| members::Note {
        label: if rule == Rule::NoteWithoutLabel { own.clone() } else { label(note.written) },
        run_identity: run(note.written.present || rule == Rule::NoteOutlivesRun),
        list: if rule == Rule::AnyNoteFounds {
            own_list.clone()
        } else {
            scenario.list(note.list).clone()
        },
        since: 0,
    });
    Some(NodeMemory {
        label: own.clone(),
        run_identity: run(true),
        record: record.filter(alias_is_none),
        note,
        clock: ServerClock { server: now, client: now, bound: CLOCK_BOUND },
    })
}
