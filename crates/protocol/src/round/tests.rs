mod enumeration;
mod failure;
mod window;

use super::*;
use crate::test_clock::Clock;

const LEASE: Duration = Duration::from_secs(10);
/// The token that is proposed first.
const FIRST: FencingToken = FencingToken::new(100);

fn propose(above: u64) -> Step {
    Step::Propose(FencingToken::new(above))
}

fn accepts(now: Instant) -> Answer<Vote> {
    Answer::Yes(Vote { until: now + LEASE, token: Acceptance::Accepted })
}

/// A grant by a node with this mark, which is not below the first token.
fn behind(now: Instant, mark: u64) -> Answer<Vote> {
    assert!(mark >= FIRST.get());
    Answer::Yes(Vote { until: now + LEASE, token: Acceptance::Behind(FencingToken::new(mark)) })
}

const ACCEPTED: Answer<Acceptance> = Answer::Yes(Acceptance::Accepted);

fn still_behind(mark: u64) -> Answer<Acceptance> {
    Answer::Yes(Acceptance::Behind(FencingToken::new(mark)))
}

fn busy(secs: u64) -> Answer<Vote> {
    Answer::No(Denial::Busy(Some(Duration::from_secs(secs))))
}

fn dead() -> Answer<Vote> {
    let problem = NodeProblem::NotConnected("refused".into());
    Answer::NoAnswer(NoAnswer::NotSent(NodeReport::new("n", problem)))
}

fn failure(round: &Round) -> Result<Acquired, Error> {
    round.failure(None, Some(Duration::from_secs(1)), |node| format!("n{node}"))
}

fn now() -> Instant {
    Clock::manual().now()
}

fn won(step: &Step) -> Option<u64> {
    match step {
        Step::Won(grant) => Some(grant.token.get()),
        _ => None,
    }
}

/// PROTOCOL.md MAJ3.
#[test]
fn busy_and_late_nodes_end_a_round_that_they_keep_out() {
    let begun = || {
        let mut round = round_of(5, 0).majority_first(vec![0, 1, 2, 3, 4]);
        round.on_answer(0, busy(9), now());
        round
    };
    let late = |node: usize| node == 2;
    let mut one = begun();
    assert!(!one.is_kept_out(late), "one busy and one late node leave three");
    assert_eq!(one.on_answer(1, busy(9), now()), Step::Wait);
    assert!(!one.is_kept_out(|_| false), "nobody is late");
    assert!(one.is_kept_out(late));
    one.close(now());
    let left = Some(Duration::from_secs(9));
    assert_eq!(failure(&one).expect("others hold it"), Acquired::BusyElsewhere(left));

    let mut slow = round_of(5, 0).majority_first(vec![0, 1, 2, 3, 4]);
    assert!(!slow.is_kept_out(|_| true), "nobody is busy: a late answer may be a vote");
    let mut heard = begun();
    heard.on_answer(1, busy(9), now());
    heard.ask_more();
    for node in [2, 3] {
        assert_eq!(heard.on_answer(node, accepts(now()), now()), Step::Wait);
    }
    assert!(!heard.is_kept_out(late), "it has answered");
    assert!(heard.is_kept_out(|node| node == 4), "the last one does not");
}

/// A round with the first token proposed to all nodes.
fn round_of(nodes: usize, losses: usize) -> Round {
    Round::new(nodes, losses, FIRST)
}

#[test]
fn one_node_is_a_quorum_of_one() {
    let mut round = round_of(1, 0);
    assert_eq!(won(&round.on_answer(0, accepts(now()), now())), Some(100));
}

#[test]
fn a_majority_that_accepts_needs_one_round() {
    let mut round = round_of(5, 0);
    // One node is behind, which does not prevent a win.
    assert_eq!(round.on_answer(4, behind(now(), 120), now()), Step::Wait);
    assert_eq!(round.on_answer(0, accepts(now()), now()), Step::Wait);
    assert_eq!(round.on_answer(1, accepts(now()), now()), propose(120));

    let mut round = round_of(5, 0);
    round.on_answer(0, accepts(now()), now());
    round.on_answer(1, accepts(now()), now());
    assert_eq!(won(&round.on_answer(2, accepts(now()), now())), Some(100));
}

/// Nodes that accepted the first token are asked for the second as well: nodes count if they
/// accepted the same token, and not if they have only granted (PROTOCOL.md T4).
#[test]
fn where_too_few_accept_all_that_hold_are_asked_above_the_largest_mark() {
    let mut round = round_of(3, 0);
    round.on_answer(0, behind(now(), 150), now());
    assert_eq!(round.on_answer(1, behind(now(), 120), now()), propose(150));

    let mut round = round_of(5, 0);
    round.on_answer(0, accepts(now()), now());
    round.on_answer(1, behind(now(), 120), now());
    assert_eq!(round.on_answer(2, behind(now(), 150), now()), propose(150));
    let second = FencingToken::new(182);
    assert_eq!(round.propose(second, now()), Step::Raise(second, vec![0, 1, 2]));
    assert_eq!(round.raised(1, second, &ACCEPTED, now()), Step::Wait);
    assert_eq!(round.raised(2, second, &ACCEPTED, now()), Step::Wait);
    assert_eq!(won(&round.raised(0, second, &ACCEPTED, now())), Some(182));
}

#[test]
fn an_answer_to_an_older_token_does_not_count_for_a_newer_one() {
    let mut round = round_of(3, 0);
    round.on_answer(0, behind(now(), 120), now());
    round.on_answer(1, behind(now(), 120), now());
    let (second, third) = (FencingToken::new(152), FencingToken::new(192));
    assert_eq!(round.propose(second, now()), Step::Raise(second, vec![0, 1]));
    assert_eq!(round.raised(0, second, &still_behind(160), now()), propose(160));
    assert_eq!(round.propose(third, now()), Step::Raise(third, vec![0, 1]));
    assert_eq!(round.raised(0, third, &ACCEPTED, now()), Step::Wait);
    // Node 1 accepted the second token, not the third; or its mark was above the second token,
    // which says nothing about the third.
    assert_eq!(round.raised(1, second, &ACCEPTED, now()), Step::Wait);
    assert_eq!(round.raised(1, second, &still_behind(500), now()), Step::Wait);
    assert_eq!(won(&round.raised(1, third, &ACCEPTED, now())), Some(192));
}

/// The token answer in a grant is about the first token.
#[test]
fn the_grant_of_a_straggler_after_a_raise_is_asked_for_the_new_token() {
    for grant in [accepts(now()), behind(now(), 130)] {
        let mut round = round_of(5, 0);
        round.on_answer(0, accepts(now()), now());
        round.on_answer(1, behind(now(), 120), now());
        assert_eq!(round.on_answer(2, accepts(now()), now()), propose(120));
        let second = FencingToken::new(152);
        round.propose(second, now());
        round.raised(0, second, &ACCEPTED, now());
        round.raised(1, second, &ACCEPTED, now());
        assert_eq!(round.on_answer(3, grant, now()), Step::Raise(second, vec![3]));
        assert_eq!(won(&round.raised(3, second, &ACCEPTED, now())), Some(152));
    }
}

#[test]
fn a_raise_that_is_gone_voids_the_vote_and_a_straggler_may_stand_in() {
    let mut round = round_of(5, 0);
    round.on_answer(0, behind(now(), 120), now());
    round.on_answer(1, accepts(now()), now());
    round.on_answer(2, accepts(now()), now());
    let second = FencingToken::new(152);
    round.propose(second, now());
    round.raised(1, second, &ACCEPTED, now());
    round.raised(2, second, &ACCEPTED, now());
    // Node 0 no longer held our nonce: it is no vote, and there is nothing to release on it
    // (PROTOCOL.md T2).
    assert_eq!(round.raised(0, second, &Answer::No(Denial::Gone), now()), Step::Wait);
    assert!(!round.may_hold(0));
    assert!(!round.window().is_held_by(0));
    assert_eq!(round.on_answer(3, accepts(now()), now()), Step::Raise(second, vec![3]));
    assert_eq!(won(&round.raised(3, second, &ACCEPTED, now())), Some(152));

    let mut round = round_of(3, 0);
    round.on_answer(0, behind(now(), 120), now());
    round.on_answer(1, behind(now(), 120), now());
    round.propose(second, now());
    round.raised(0, second, &Answer::No(Denial::Gone), now());
    round.raised(1, second, &ACCEPTED, now());
    // Two nodes answered that they do not hold our nonce.
    assert_eq!(round.on_answer(2, busy(3), now()), Step::Failed);
    assert!(matches!(failure(&round), Ok(Acquired::Split(_))));
}

#[test]
fn after_three_raises_in_vain_it_is_begun_again() {
    let mut round = round_of(1, 0);
    let mut step = round.on_answer(0, behind(now(), 100), now());
    for raise in 1..=u64::from(MAX_RAISES) {
        let Step::Propose(mark) = step else { panic!("{step:?}") };
        assert_eq!(mark.get(), raise * 100);
        let token = FencingToken::new(mark.get() + 32);
        assert_eq!(round.propose(token, now()), Step::Raise(token, vec![0]));
        step = round.raised(0, token, &still_behind((raise + 1) * 100), now());
    }
    assert_eq!(step, Step::Failed);
    assert!(matches!(failure(&round), Ok(Acquired::Retry)));
    assert!(round.may_hold(0), "it is released");
}

/// Whichever nodes lose their marks, two acquisitions have a node in common that has kept its mark.
#[test]
fn more_nodes_must_accept_to_survive_lost_marks() {
    for (nodes, losses, needed) in
        [(3, 0, 2), (3, 1, 3), (3, 2, 3), (4, 1, 3), (5, 0, 3), (5, 1, 4), (5, 2, 4), (5, 4, 5)]
    {
        let mut round = round_of(nodes, losses);
        for node in 0..needed - 1 {
            let step = round.on_answer(node, accepts(now()), now());
            assert_eq!(step, Step::Wait, "{nodes} {losses}");
        }
        let step = round.on_answer(needed - 1, accepts(now()), now());
        assert_eq!(won(&step), Some(100), "{nodes} {losses}");
        assert!(2 * needed - nodes > losses);
        assert!(2 * (needed - 1) <= nodes + losses, "no more than needed");
    }
}

#[test]
fn a_dead_minority_is_not_waited_for() {
    let mut round = round_of(5, 0);
    round.on_answer(0, dead(), now());
    round.on_answer(1, dead(), now());
    round.on_answer(2, accepts(now()), now());
    round.on_answer(3, accepts(now()), now());
    assert_eq!(won(&round.on_answer(4, accepts(now()), now())), Some(100));
}

/// PROTOCOL.md W8.
#[test]
fn a_refusal_says_whether_the_home_node_refused_and_whether_votes_are_split() {
    for (home, grants, refused) in [
        (1, true, Acquired::Busy as fn(_) -> _),
        (3, true, Acquired::Split),
        (4, true, Acquired::Split),
        (4, false, Acquired::BusyElsewhere),
    ] {
        let mut round = Round::with_home(5, 0, FIRST, home);
        round.on_answer(3, if grants { accepts(now()) } else { dead() }, now());
        round.on_answer(0, busy(9), now());
        round.on_answer(1, busy(4), now());
        assert_eq!(round.on_answer(2, busy(6), now()), Step::Failed);
        let when_enough_are_free = Some(Duration::from_secs(if grants { 6 } else { 9 }));
        assert_eq!(failure(&round).unwrap(), refused(when_enough_are_free), "{home} {grants}");
    }
}

#[test]
fn a_round_that_cannot_win_ends_at_once_and_says_why() {
    let mut round = round_of(5, 0);
    round.on_answer(0, busy(9), now());
    round.on_answer(1, busy(4), now());
    assert_eq!(round.on_answer(2, busy(6), now()), Step::Failed);
    assert_eq!(failure(&round).unwrap(), Acquired::BusyElsewhere(Some(Duration::from_secs(9))));

    let mut round = round_of(5, 0);
    round.on_answer(0, dead(), now());
    round.on_answer(1, dead(), now());
    // Two nodes down and one busy cannot win, but it is not known yet whether a majority is
    // reachable.
    assert_eq!(round.on_answer(2, busy(6), now()), Step::Wait);
    round.on_answer(3, busy(5), now());
    assert_eq!(round.on_answer(4, busy(5), now()), Step::Failed);
    assert!(matches!(failure(&round), Ok(Acquired::BusyElsewhere(_))));

    let mut round = round_of(3, 0);
    round.on_answer(0, dead(), now());
    assert_eq!(round.on_answer(1, dead(), now()), Step::Failed);
    let Err(Error::Unreachable(why)) = failure(&round) else { panic!("reachable?") };
    assert_eq!((why.needed, why.nodes.len()), (2, 2));
}

/// A damaged mark, a key of another type or a refusal is a missing vote.
#[test]
fn what_a_minority_refuses_ends_no_round() {
    let bad = || NodeProblem::BadMark { key: "quorumlock:token:{7}".into() };
    let barred = || Answer::No(Denial::Refused(NodeReport::new("n", bad())));
    let mut round = round_of(3, 0);
    round.on_answer(0, barred(), now());
    round.on_answer(1, accepts(now()), now());
    assert!(matches!(round.on_answer(2, accepts(now()), now()), Step::Won(_)));

    let mut round = round_of(3, 0);
    round.on_answer(0, barred(), now());
    assert_eq!(round.on_answer(1, barred(), now()), Step::Failed);
    let Err(Error::Refused(why)) = failure(&round) else { panic!("granted?") };
    assert_eq!((why.needed, why.answered, why.nodes.len()), (2, 2, 2));
}

/// The transaction says only that the token is not above the mark: the answer to a raise tells what
/// is wrong with the mark.
#[test]
fn a_mark_that_cannot_be_raised_is_named_and_its_vote_is_missing() {
    let bad = NodeProblem::BadMark { key: "quorumlock:token:{7}".into() };
    let refused = Answer::No(Denial::Refused(NodeReport::new("n", bad.clone())));
    let second = FencingToken::new(132);
    for (others_accept, wins) in [(true, true), (false, false)] {
        let mut round = round_of(3, 0);
        round.on_answer(0, behind(now(), 100), now());
        round.on_answer(1, behind(now(), 100), now());
        round.propose(second, now());
        assert_eq!(round.raised(0, second, &refused, now()), Step::Wait);
        assert!(round.may_hold(0), "it is released");
        round.on_answer(2, accepts(now()), now());
        round.raised(2, second, &ACCEPTED, now());
        let answer = if others_accept { &ACCEPTED } else { &refused };
        let step = round.raised(1, second, answer, now());
        assert_eq!(won(&step).is_some(), wins, "{step:?}");
        if !wins {
            let Err(Error::Refused(why)) = failure(&round) else { panic!("granted?") };
            assert!(why.nodes.iter().all(|node| node.problem == bad), "{why:?}");
            assert_eq!((why.nodes.len(), why.answered, why.voted), (2, 3, 1));
        }
    }
}

/// Whether the network or this client caused the delay (SAFETY.md H3).
#[test]
fn an_answer_after_the_lease_has_ended_wins_nothing() {
    let asked = now();
    let mut round = round_of(3, 0);
    round.on_answer(0, accepts(asked), asked);
    assert_eq!(round.on_answer(1, accepts(asked), asked + LEASE), Step::Failed);
    assert!(matches!(failure(&round), Err(Error::Unreachable(_))));
}

/// A node where our lease has ended may have granted another hold since, with a larger token
/// (PROTOCOL.md T6).
#[test]
fn those_that_accepted_must_hold_when_it_is_decided() {
    let second = FencingToken::new(152);
    for (ended, wins) in [(false, true), (true, false)] {
        let asked = now();
        let later = if ended { asked + LEASE } else { asked };
        let mut round = round_of(5, 0);
        round.on_answer(0, behind(asked, 120), asked);
        round.on_answer(1, behind(later, 120), later);
        round.on_answer(2, behind(later, 120), later);
        round.propose(second, later);
        // This node holds our nonce and never answers the raise: enough nodes hold our nonce, and
        // too few of them have accepted.
        round.on_answer(3, accepts(later), later);
        round.raised(0, second, &ACCEPTED, later);
        round.raised(1, second, &ACCEPTED, later);
        let step = round.raised(2, second, &ACCEPTED, later);
        assert!(round.window().until() > later);
        assert_eq!(won(&step).is_some(), wins, "{step:?}");
    }
}
