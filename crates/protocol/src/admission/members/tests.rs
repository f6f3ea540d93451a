use std::sync::Arc;
use std::time::Duration;

use super::*;

const AGE: Duration = Duration::from_secs(30);

fn list(names: &str) -> MemberList {
    MemberList::new(names.chars().map(|name| name.to_string()))
}

fn terms(phase: u64, lists: &[&str]) -> Terms {
    Terms { phase, list: list(lists[0]), next: lists.get(1).map(|next| list(next)) }
}

fn seconds(time: i64) -> i64 {
    time * 1_000_000
}

fn clock(server: i64, client: i64) -> ServerClock {
    ServerClock { server: seconds(server), client: seconds(client), bound: CLOCK_BOUND }
}

/// A node `a` of the list `abc` with a record, and perhaps a change.
fn node(change: impl Fn(&mut NodeMemory)) -> NodeMemory {
    let run: Arc<str> = "run1".into();
    let mut node = NodeMemory {
        label: "a".into(),
        run_identity: run.clone(),
        record: Some(MemberRecord {
            label: "a".into(),
            terms: terms(3, &["abc"]),
            run_identity: run,
        }),
        note: None,
        clock: clock(100, 100),
    };
    change(&mut node);
    node
}

fn note(of: &str) -> Note {
    Note { label: "a".into(), run_identity: "run1".into(), list: list(of), since: seconds(100) }
}

/// A node without a record, 30 s after this note.
fn noted(note: Note) -> NodeMemory {
    node(|node| {
        (node.record, node.note) = (None, Some(note.clone()));
        node.clock = clock(130, 130);
    })
}

#[test]
fn a_list_is_a_set() {
    assert_eq!(MemberList::new(["c", "a", "b", "a"]), list("abc"));
    assert_eq!(list("cab").to_string(), "a, b, c");
    assert_eq!((list("abc").quorum(), list("abcd").quorum()), (2, 3));
    assert!(list("abc").contains("b") && !list("abc").contains("d"));
}

#[test]
fn lists_differ_by_one_if_a_server_is_added_or_removed_and_not_if_it_is_exchanged() {
    assert!(list("abc").differs_by_one(&list("abcd")));
    assert!(list("abcd").differs_by_one(&list("bcd")));
    for other in ["abc", "bcd", "abcde", "cde"] {
        assert!(!list("abc").differs_by_one(&list(other)), "{other}");
    }
    assert!(!list("a").differs_by_one(&list("")), "a list has a server");
}

/// PROTOCOL.md MEM1.
#[test]
fn majorities_of_lists_that_differ_by_one_share_a_server() {
    for size in 1..8 {
        let (less, more) = (&"abcdefgh"[..size], &"abcdefgh"[..=size]);
        let (less, more) = (list(less), list(more));
        assert!(less.quorum() + more.quorum() > more.labels().len(), "{less}");
    }
}

/// PROTOCOL.md MEM2.
#[test]
fn a_node_votes_for_the_lists_of_its_record() {
    let record = terms(3, &["abc"]);
    assert_eq!(membership(&node(|_| {}), &list("abc")), Membership::Votes(&record));
    let other = node(|_| {});
    assert_eq!(membership(&other, &list("ade")), Membership::Foreign(&record));
    let changing = node(|node| {
        node.record.as_mut().unwrap().terms = terms(4, &["abc", "abcd"]);
    });
    for known in ["abc", "abcd"] {
        assert!(matches!(membership(&changing, &list(known)), Membership::Votes(_)), "{known}");
    }
    assert!(matches!(membership(&changing, &list("bcd")), Membership::Foreign(_)));
}

/// PROTOCOL.md MEM2.
#[test]
fn a_record_of_another_run_is_as_good_as_none_and_one_of_another_label_does_not_vote() {
    let restarted = node(|node| node.run_identity = "run2".into());
    assert_eq!(membership(&restarted, &list("abc")), Membership::Unproven(None));
    assert_eq!(membership(&restarted, &list("ade")), Membership::Unproven(None));
    let cloned = node(|node| node.label = "b".into());
    assert_eq!(membership(&cloned, &list("abc")), Membership::Unproven(None));
    // Clients of another list know the same server by another address.
    let alias = node(|node| node.label = "A".into());
    assert!(matches!(membership(&alias, &list("Ade")), Membership::Foreign(_)));
}

/// PROTOCOL.md MEM3.
#[test]
fn a_note_is_of_one_run_and_one_label() {
    let ours = noted(note("abc"));
    assert_eq!(membership(&ours, &list("abc")), Membership::Unproven(Some(&note("abc"))));
    let restarted = noted(Note { run_identity: "run0".into(), ..note("abc") });
    assert_eq!(membership(&restarted, &list("abc")), Membership::Unproven(None));
    let of = |label, list_of, majority| {
        let written = Note { label, ..note(list_of) };
        note_step(Some(&written), "a", &list("abc"), majority, clock(130, 130), AGE)
    };
    assert_eq!(of("b".into(), "abc", false), NoteStep::Write, "the server was cloned");
    assert_eq!(of("A".into(), "Ade", true), NoteStep::Write, "its time is not proven");
    assert_eq!(of("A".into(), "Ade", false), NoteStep::OtherList, "else both write for ever");
}

/// PROTOCOL.md MEM3.
#[test]
fn a_note_is_mature_by_the_servers_own_time() {
    let at = |time| note_step(Some(&note("abc")), "a", &list("abc"), false, clock(time, time), AGE);
    assert_eq!(note_step(None, "a", &list("abc"), false, clock(9, 9), AGE), NoteStep::Write);
    assert_eq!(at(100), NoteStep::Wait(AGE));
    assert_eq!(at(129), NoteStep::Wait(Duration::from_secs(1)));
    assert_eq!(at(130), NoteStep::Mature);
    assert_eq!(at(99), NoteStep::Write, "a time that went back begins anew");
}

/// PROTOCOL.md MEM3.
#[test]
fn clocks_that_differ_write_and_mature_nothing() {
    for (server, client) in [(105, 100), (95, 100)] {
        assert!(clock(server, client).agrees());
    }
    for (server, client) in [(106, 100), (94, 100), (3_700, 100)] {
        let step = note_step(None, "a", &list("abc"), true, clock(server, client), AGE);
        assert_eq!(step, NoteStep::ClocksDiffer(seconds(server - client)));
    }
    let late = note_step(Some(&note("abc")), "a", &list("abc"), true, clock(3_700, 130), AGE);
    assert_eq!(late, NoteStep::ClocksDiffer(seconds(3_570)), "set an hour ahead");
    let far = ServerClock { server: i64::MIN, client: i64::MAX, bound: CLOCK_BOUND };
    assert!(!far.agrees());
    assert_eq!(note_age(Duration::from_secs(10), 0.01, CLOCK_BOUND), Duration::from_millis(20_210));
}

/// PROTOCOL.md MEM4.
#[test]
fn a_majority_takes_over_the_note_of_another_list() {
    let of =
        |majority| note_step(Some(&note("ade")), "a", &list("abc"), majority, clock(130, 130), AGE);
    assert_eq!(of(true), NoteStep::TakeOver);
    assert_eq!(of(false), NoteStep::OtherList);
}

const MATURE: Seen<'_> = Seen::Unproven(NoteStep::Mature);
const YOUNG: Seen<'_> = Seen::Unproven(NoteStep::Wait(AGE));

/// PROTOCOL.md MEM4.
#[test]
fn a_majority_of_the_list_takes_a_node_back_with_its_newest_record() {
    let (old, new) = (terms(3, &["abc"]), terms(4, &["abc", "abcd"]));
    let back = Entry::BackIn { terms: new.clone(), voters: vec![0, 1] };
    let nodes = [Seen::Votes(&old), Seen::Votes(&new), MATURE];
    assert_eq!(entry(&list("abc"), &nodes), back);
    // One record is no majority, though it is newer than a foreign one.
    let foreign = [Seen::Foreign(&old), Seen::Votes(&new), MATURE];
    assert_eq!(entry(&list("abcd"), &foreign), Entry::Barred(old.clone()));
    assert_eq!(entry(&list("abc"), &[Seen::Votes(&new), MATURE, YOUNG]), Entry::Waits(vec![0, 2]));
}

/// PROTOCOL.md MEM5.
#[test]
fn founding_takes_all_nodes_and_records_of_exactly_this_list() {
    let abc = list("abc");
    let first = terms(1, &["abc"]);
    assert_eq!(entry(&abc, &[MATURE, MATURE, MATURE]), Entry::Found(first));
    for (missing, seen) in [(0, Seen::Silent), (1, YOUNG), (2, Seen::Silent)] {
        let mut nodes = [MATURE; 3];
        nodes[missing] = seen;
        assert_eq!(entry(&abc, &nodes), Entry::Waits(vec![missing]));
    }
    let (exact, more) = (terms(7, &["abc"]), terms(7, &["abc", "abcd"]));
    assert_eq!(entry(&abc, &[Seen::Votes(&exact), MATURE, MATURE]), Entry::Found(exact.clone()));
    assert_eq!(entry(&abc, &[Seen::Votes(&more), MATURE, MATURE]), Entry::Waits(vec![0]));
    // Not all nodes were asked.
    assert_eq!(entry(&abc, &[MATURE, MATURE]), Entry::Waits(vec![]));
}

#[test]
fn the_view_of_a_list_reads_each_node_and_finds_its_majority() {
    let [one, two] = ["b", "c"].map(|label| {
        Some(node(|node| {
            node.label = label.into();
            node.record.as_mut().unwrap().label = label.into();
        }))
    });
    let record = terms(3, &["abc"]);
    let other = Some(noted(note("ade")));
    let nodes = [other.clone(), one.clone(), two];
    let seen = view(&list("abc"), &nodes, AGE);
    let votes = Seen::Votes(&record);
    assert_eq!(seen, [Seen::Unproven(NoteStep::TakeOver), votes, votes]);
    let nodes = [other, one, None];
    let seen = view(&list("abc"), &nodes, AGE);
    assert_eq!(seen, [Seen::Unproven(NoteStep::OtherList), votes, Seen::Silent]);
}

/// PROTOCOL.md MEM6.
#[test]
fn a_change_goes_by_one_server_through_a_phase_with_both_lists() {
    let (one, both, new) = (terms(3, &["abc"]), terms(4, &["abc", "abcd"]), terms(5, &["abcd"]));
    assert_eq!(next_terms(&one, &list("abcd")), Ok(Some(both.clone())));
    assert_eq!(next_terms(&both, &list("abcd")), Ok(Some(new.clone())));
    assert_eq!(next_terms(&both, &list("abc")), Ok(Some(terms(5, &["abc"]))), "back");
    assert_eq!(next_terms(&new, &list("abcd")), Ok(None));
    let not_by_one = ChangeRefused::NotByOne { present: list("abc"), target: list("bcd") };
    assert_eq!(next_terms(&one, &list("bcd")), Err(not_by_one));
    let under_way = ChangeRefused::UnderWay { present: list("abc"), next: list("abcd") };
    assert_eq!(next_terms(&both, &list("ab")), Err(under_way));
}

/// PROTOCOL.md MEM6.
#[test]
fn the_next_phase_waits_for_every_node_that_stays_and_for_the_longest_lease() {
    let removing = |waited, confirmed: &'static str| {
        let (current, target) = (terms(3, &["abc"]), list("ab"));
        change_step(&current, &target, |label| confirmed.contains(label), waited, AGE)
    };
    let missing = ChangeStep::Unconfirmed(vec!["b".into()]);
    assert_eq!(removing(AGE, "ac"), Ok(missing));
    let second = Duration::from_secs(1);
    assert_eq!(removing(AGE - second, "ab"), Ok(ChangeStep::Wait(second)), "c may be dead");
    assert_eq!(removing(AGE, "ab"), Ok(ChangeStep::Begin(terms(4, &["abc", "ab"]))));
    let adding = |confirmed: &'static str| {
        let (current, target) = (terms(4, &["abc", "abcd"]), list("abcd"));
        change_step(&current, &target, |label| confirmed.contains(label), AGE, AGE)
    };
    assert_eq!(adding("abc"), Ok(ChangeStep::Unconfirmed(vec!["d".into()])));
    assert_eq!(adding("abcd"), Ok(ChangeStep::Begin(terms(5, &["abcd"]))));
    let done = change_step(&terms(5, &["abcd"]), &list("abcd"), |_| true, Duration::ZERO, AGE);
    assert_eq!(done, Ok(ChangeStep::Done));
}

/// PROTOCOL.md MEM6.
#[test]
fn a_change_until_both_vote_ends_in_the_phase_with_both_lists() {
    let (one, both) = (terms(3, &["abc"]), terms(4, &["abc", "abcd"]));
    let (wait, begin) = (ChangeStep::Wait(AGE), ChangeStep::Begin(terms(5, &["abcd"])));
    let missing = ChangeStep::Unconfirmed(vec!["d".into()]);
    let both_vote = |step: &ChangeStep, at| step.clone().limited_to(Until::BothVote, at);
    for step in [&wait, &begin] {
        assert_eq!(both_vote(step, &both), ChangeStep::Done, "{step:?}");
        assert_eq!(both_vote(step, &one), *step, "the change has not begun");
    }
    assert_eq!(both_vote(&missing, &both), missing, "not all vote for both yet");
    for step in [wait, begin, missing] {
        assert_eq!(step.clone().limited_to(Until::OnlyTarget, &both), step);
    }
}

/// PROTOCOL.md MEM6.
#[test]
fn a_record_follows_by_one_phase_and_one_step_of_its_own_list() {
    let (one, both, new) = (terms(3, &["abc"]), terms(4, &["abc", "abcd"]), terms(5, &["abcd"]));
    assert!(may_follow(&one, &both) && may_follow(&both, &new));
    assert!(!may_follow(&one, &new), "over a phase");
    assert!(!may_follow(&both, &one), "back in time");
    assert!(!may_follow(&terms(2, &["abc"]), &both), "two phases");
    assert!(!may_follow(&terms(3, &["abd"]), &both), "another list");
    assert!(!may_follow(&one, &terms(4, &["abc", "bcd"])), "an exchange");
    assert!(!may_follow(&one, &terms(4, &["abcd"])), "without the phase of both");
}

#[test]
fn a_list_is_read_as_it_was_written() {
    assert_eq!(MemberList::parse(&list("abc").text()), Some(list("abc")));
    assert_eq!(MemberList::parse(""), None);
}

/// PROTOCOL.md MEM4.
#[test]
fn a_client_notes_takes_over_and_admits_and_a_barred_one_does_nothing() {
    let of = |label: &str, memory: NodeMemory| {
        let mut memory = memory;
        memory.label = label.into();
        if let Some(record) = &mut memory.record {
            record.label = label.into();
        }
        if let Some(note) = &mut memory.note {
            note.label = label.into();
        }
        Some(memory)
    };
    let blank = node(|node| node.record = None);
    let all = |a: &NodeMemory, others: &NodeMemory| {
        let nodes = [of("a", a.clone()), of("b", others.clone()), of("c", others.clone())];
        actions(&list("abc"), &nodes, AGE)
    };
    let voter = node(|_| {});
    assert_eq!(all(&blank, &voter), [MemberAction::Note(0)]);
    assert_eq!(all(&noted(note("ade")), &voter), [MemberAction::TakeOver(0)]);
    let terms = terms(3, &["abc"]);
    let back = MemberAction::Admit { node: 0, terms, helpers: vec![1, 2], needed: 2, first: false };
    assert_eq!(all(&noted(note("abc")), &voter), [back]);
    let founded = all(&noted(note("abc")), &noted(note("abc")));
    let found = |node, helpers: [usize; 2]| {
        let (terms, helpers) = (self::terms(1, &["abc"]), helpers.to_vec());
        MemberAction::Admit { node, terms, helpers, needed: 2, first: true }
    };
    assert_eq!(founded, [found(0, [1, 2]), found(1, [0, 2]), found(2, [0, 1])], "all of them");
    let first = |memory: &NodeMemory| {
        let founded = all(memory, memory);
        founded.iter().all(|action| matches!(action, MemberAction::Admit { first: true, .. }))
    };
    let recorded = noted(note("abc"));
    let new = NodeMemory { record: None, ..recorded.clone() };
    assert!(first(&new));
    assert_eq!(first(&recorded), recorded.record.is_none(), "a record of an earlier run");
    let foreign = node(|node| node.record.as_mut().unwrap().terms.list = list("ade"));
    assert_eq!(all(&foreign, &blank), []);
}
