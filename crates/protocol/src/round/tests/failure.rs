//! Which nodes are blamed for a round that is not won.

use super::*;
use crate::admission::members::{MemberList, Terms};

fn new() -> Answer<Vote> {
    Answer::No(Denial::NotAdmitted(NodeReport::new("n", NodeProblem::New)))
}

/// PROTOCOL.md MEM2.
#[test]
fn a_node_of_another_cluster_ends_the_round_whatever_the_others_say_before() {
    let list = |labels: [&'static str; 3]| MemberList::new(labels);
    let found = Terms { phase: 1, list: list(["a", "d", "e"]), next: None };
    let problem = NodeProblem::OtherMembers { found, ours: list(["a", "b", "c"]) };
    let foreign = NodeReport::new("a", problem.clone());
    let mut round = Round::new(5, 0, FencingToken::NONE);
    for node in 1..5 {
        let step = round.on_answer(node, new(), Instant::NEVER);
        assert_eq!(step, Step::Wait, "the last node may bar the client");
    }
    assert_eq!(
        round.on_answer(0, Answer::No(Denial::Refused(foreign)), Instant::NEVER),
        Step::Failed
    );
    let failure = round.failure(None, None, |node| node.to_string());
    let Err(Error::Refused(refused)) = &failure else { panic!("{failure:?}") };
    assert_eq!(refused.nodes, [NodeReport::new("a", problem)]);
    let error = failure.unwrap_err();
    assert!(!error.is_retryable());
    assert!(error.to_string().contains("[a, d, e]") && error.to_string().contains("[a, b, c]"));
}

/// PROTOCOL.md MEM2.
#[test]
fn beside_new_nodes_a_round_that_cannot_win_waits_for_the_others() {
    let mut round = round_of(3, 0);
    assert_eq!(round.on_answer(0, new(), now()), Step::Wait);
    assert_eq!(round.on_answer(1, new(), now()), Step::Wait, "the third may bar the client");
    assert_eq!(round.on_answer(2, dead(), now()), Step::Failed);
    let mut round = round_of(3, 0);
    round.on_answer(0, new(), now());
    round.on_answer(1, new(), now());
    assert_eq!(round.close(now()), Step::Failed, "the call's time is over");
    let mut round = round_of(3, 0);
    round.on_answer(0, dead(), now());
    assert_eq!(round.on_answer(1, dead(), now()), Step::Failed, "no node is new");
}

/// Nodes that granted, or had no time to answer before the decision, are not blamed.
#[test]
fn only_those_are_blamed_that_are_out() {
    let mut round = round_of(5, 0);
    round.on_answer(0, accepts(now()), now());
    for node in 1..4 {
        round.on_answer(node, dead(), now());
    }
    round.close(now());
    let failed = round.failure(None, None, |node| format!("n{node}"));
    let Err(Error::Unreachable(why)) = failed else { panic!("{failed:?}") };
    assert_eq!((why.of, why.needed, why.answered, why.voted, why.nodes.len()), (5, 3, 1, 1, 3));
}

#[test]
fn a_node_that_does_not_confirm_is_named() {
    let mut round = round_of(3, 0);
    round.on_answer(0, dead(), now());
    round.on_answer(1, behind(now(), 120), now());
    round.on_answer(2, accepts(now()), now());
    let second = FencingToken::new(152);
    round.propose(second, now());
    round.raised(2, second, &ACCEPTED, now());
    assert_eq!(round.close(now()), Step::Failed);
    let Err(Error::Unreachable(why)) = failure(&round) else { panic!("granted?") };
    assert!(why.nodes.iter().any(|node| node.problem == NodeProblem::Unconfirmed), "{why:?}");
    assert_eq!((why.needed, why.answered, why.voted), (2, 1, 1));
}
