//! Which nodes the window of a round counts.

use super::*;

/// PROTOCOL.md WIN1: an error is no definite no. A node that granted the name and answers the raise
/// with an error, as a replica does, is no vote for the token; and it holds our nonce.
#[test]
fn a_node_that_refuses_a_raise_holds_on() {
    let problem = NodeProblem::from_reply("READONLY You can't write against a read only replica.");
    let refused = Answer::No(Denial::Refused(NodeReport::new("n", problem)));
    let second = FencingToken::new(132);
    for (answer, holds) in [(refused, true), (Answer::No(Denial::Gone), false)] {
        let mut round = round_of(3, 0);
        for node in 0..3 {
            round.on_answer(node, behind(now(), 100), now());
        }
        round.propose(second, now());
        round.raised(2, second, &answer, now());
        round.raised(1, second, &ACCEPTED, now());
        assert!(won(&round.raised(0, second, &ACCEPTED, now())).is_some());
        let mut window = round.window();
        assert_eq!(window.is_held_by(2), holds);
        window.record_lost(0);
        assert_eq!(window.until() > now(), holds, "one of the others is lost");
    }
}

/// PROTOCOL.md WIN1: an error in place of a grant says nothing of what the node holds.
#[test]
fn a_node_that_refuses_the_name_does_not_hold_it() {
    let mut round = round_of(3, 0);
    let problem = NodeProblem::BadMark { key: "quorumlock:token:{7}".into() };
    round.on_answer(0, Answer::No(Denial::Refused(NodeReport::new("n", problem))), now());
    round.on_answer(1, accepts(now()), now());
    assert!(won(&round.on_answer(2, accepts(now()), now())).is_some());
    assert!(!round.window().is_held_by(0));
}
