use std::collections::BTreeSet;

use super::*;
use quorumlock_core::Clock;

const LEASE: Duration = Duration::from_secs(10);

fn vote(now: Instant, fence: u64) -> Answer<Vote> {
    Answer::Yes(Vote { until: now + LEASE, fence: Fence::new(fence) })
}

fn busy(secs: u64) -> Answer<Vote> {
    Answer::No(Denial::Busy(Some(Duration::from_secs(secs))))
}

fn dead() -> Answer<Vote> {
    Answer::Silent(Silence::Never(NodeReport::new(
        "n",
        NodeProblem::NotConnected("refused".into()),
    )))
}

/// Why it failed, after nodes were waited for to the end.
fn failure(round: &Round) -> Result<Acquired, Error> {
    round.failure(None, Some(Duration::from_secs(1)), |node| format!("n{node}"))
}

fn now() -> Instant {
    Clock::manual().now()
}

fn won(step: &Step) -> Option<u64> {
    match step {
        Step::Won(grant) => Some(grant.fence.get()),
        _ => None,
    }
}

#[test]
fn one_node_is_a_quorum_of_one() {
    let mut round = Round::new(1, 0);
    assert_eq!(won(&round.heard(0, vote(now(), 7), now())), Some(7));
}

#[test]
fn equal_replies_of_a_majority_need_one_round_and_ignore_outliers() {
    let mut round = Round::new(5, 0);
    assert_eq!(round.heard(4, vote(now(), 9), now()), Step::Wait);
    assert_eq!(round.heard(0, vote(now(), 7), now()), Step::Wait);
    // Three hold us, but not at one value: the largest so far, and raises for those below.
    assert_eq!(round.heard(1, vote(now(), 7), now()), Step::Raise(Fence::new(9), vec![0, 1]));

    let mut round = Round::new(5, 0);
    round.heard(0, vote(now(), 7), now());
    round.heard(1, vote(now(), 7), now());
    assert_eq!(won(&round.heard(2, vote(now(), 7), now())), Some(7));
}

#[test]
fn a_raise_counts_only_while_held_and_a_straggler_may_stand_in() {
    let mut round = Round::new(5, 0);
    round.heard(0, vote(now(), 3), now());
    round.heard(1, vote(now(), 5), now());
    assert_eq!(round.heard(2, vote(now(), 5), now()), Step::Raise(Fence::new(5), vec![0]));
    // Node 0 held us no more: a majority is no longer confirmed (SAFETY.md a2).
    assert_eq!(round.raised(0, &Answer::No(Denial::Gone), now()), Step::Wait);
    assert_eq!(won(&round.heard(3, vote(now(), 5), now())), Some(5));
}

#[test]
fn a_late_larger_reply_cannot_confirm_a_smaller_token() {
    let mut round = Round::new(3, 0);
    round.heard(0, vote(now(), 4), now());
    assert_eq!(round.heard(1, vote(now(), 5), now()), Step::Raise(Fence::new(5), vec![0]));
    assert_eq!(round.raised(0, &Answer::No(Denial::Gone), now()), Step::Wait);
    // Node 2 replied 9: it holds us, but does not vouch for 5 (flaw a4).
    assert_eq!(round.heard(2, vote(now(), 9), now()), Step::Failed);
}

#[test]
fn a_dead_minority_is_not_waited_for() {
    let mut round = Round::new(5, 0);
    round.heard(0, dead(), now());
    round.heard(1, dead(), now());
    round.heard(2, vote(now(), 1), now());
    round.heard(3, vote(now(), 1), now());
    assert_eq!(won(&round.heard(4, vote(now(), 1), now())), Some(1));
}

#[test]
fn a_no_of_the_gate_is_told_apart() {
    for (gate, kept_out) in [(1, true), (3, false)] {
        let mut round = Round::standing(5, 0, gate);
        round.heard(0, busy(9), now());
        round.heard(1, busy(4), now());
        assert_eq!(round.heard(2, busy(6), now()), Step::Failed);
        let when_enough_are_free = Some(Duration::from_secs(9));
        assert_eq!(
            failure(&round).unwrap(),
            match kept_out {
                true => Acquired::KeptOut(when_enough_are_free),
                false => Acquired::Busy(when_enough_are_free),
            }
        );
    }
}

#[test]
fn a_round_that_cannot_win_ends_at_once_and_says_why() {
    let mut round = Round::new(5, 0);
    round.heard(0, busy(9), now());
    round.heard(1, busy(4), now());
    assert_eq!(round.heard(2, busy(6), now()), Step::Failed);
    assert_eq!(failure(&round).unwrap(), Acquired::Busy(Some(Duration::from_secs(9))));

    let mut round = Round::new(5, 0);
    round.heard(0, dead(), now());
    round.heard(1, dead(), now());
    // Two down and one busy cannot win, but whether a majority is there is not yet known.
    assert_eq!(round.heard(2, busy(6), now()), Step::Wait);
    round.heard(3, busy(5), now());
    assert_eq!(round.heard(4, busy(5), now()), Step::Failed);
    assert!(matches!(failure(&round), Ok(Acquired::Busy(_))));

    let mut round = Round::new(3, 0);
    round.heard(0, dead(), now());
    assert_eq!(round.heard(1, dead(), now()), Step::Failed);
    let Err(Error::Unreachable(why)) = failure(&round) else { panic!("reachable?") };
    assert_eq!((why.needed, why.nodes.len()), (2, 2));
}

/// Nodes that granted, or had no time to answer when it was decided, are not blamed.
#[test]
fn only_those_are_blamed_that_are_out() {
    let mut round = Round::new(5, 0);
    round.heard(0, vote(now(), 1), now());
    for node in 1..4 {
        round.heard(node, dead(), now());
    }
    round.close(now());
    let failed = round.failure(None, None, |node| format!("n{node}"));
    let Err(Error::Unreachable(why)) = failed else { panic!("{failed:?}") };
    assert_eq!((why.of, why.needed, why.answered, why.voted, why.nodes.len()), (5, 3, 1, 1, 3));
}

/// A key of another type, or a refusal, is a missing vote.
#[test]
fn what_a_minority_refuses_ends_no_round() {
    let barred =
        || Answer::No(Denial::Refused(NodeReport::new("n", NodeProblem::Permission("".into()))));
    let mut round = Round::new(3, 0);
    round.heard(0, barred(), now());
    round.heard(1, vote(now(), 1), now());
    assert!(matches!(round.heard(2, vote(now(), 1), now()), Step::Won(_)));

    let mut round = Round::new(3, 0);
    round.heard(0, barred(), now());
    assert_eq!(round.heard(1, barred(), now()), Step::Failed);
    let Err(Error::Refused(why)) = failure(&round) else { panic!("granted?") };
    assert_eq!((why.needed, why.answered, why.nodes.len()), (2, 2, 2));
}

/// Whether the delay was the network's or ours (SAFETY.md H3).
#[test]
fn an_answer_after_the_lease_has_ended_wins_nothing() {
    let asked = now();
    let mut round = Round::new(3, 0);
    round.heard(0, vote(asked, 1), asked);
    assert_eq!(round.heard(1, vote(asked, 1), asked + LEASE), Step::Failed);
    assert!(matches!(failure(&round), Err(Error::Unreachable(_))));
}

/// What the enumeration lets a node do.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Does {
    Grants(u64),
    Denies,
    Dies,
    /// Must be verified first.
    Stale,
    /// Never answers.
    Hangs,
}

/// Every combination of what up to five nodes do (grants with two counter values, denial, death,
/// stale scripts, silence), in every rotation of the order of answers, with raises answered yes, gone,
/// stale or never, and any number of lost counters to survive: the invariants hold in each.
#[test]
fn enumerated_completely_for_up_to_five_nodes() {
    let acts =
        [Does::Grants(5), Does::Grants(8), Does::Denies, Does::Dies, Does::Stale, Does::Hangs];
    let mut outcomes = BTreeSet::new();
    let mut cases = 0u32;
    for n in 1..=5 {
        for code in 0..acts.len().pow(n) {
            let nodes: Vec<Does> =
                (0..n).map(|i| acts[code / acts.len().pow(i) % acts.len()]).collect();
            for first in 0..nodes.len() {
                for raise in [Raised::Yes, Raised::Gone, Raised::Stale, Raised::Never] {
                    for losses in 0..quorum_of(nodes.len()) {
                        for gate in [None, Some((first, true)), Some((first, false))] {
                            outcomes.insert(play(&nodes, first, raise, losses, gate));
                            cases += 1;
                        }
                    }
                }
            }
        }
    }
    assert_eq!(cases, 12 * (6 + 2 * 2 * 36 + 2 * 3 * 216 + 3 * 4 * 1_296 + 3 * 5 * 7_776));
    // The generator is not blind: every kind of ending was seen.
    for seen in ["won in one round", "won by a raise", "busy", "kept out", "unreachable", "again"] {
        assert!(outcomes.contains(seen), "{seen} never happened");
    }
}

/// How raises are answered.
#[derive(Clone, Copy, Debug)]
enum Raised {
    Yes,
    Gone,
    Stale,
    Never,
}

fn play(
    nodes: &[Does],
    first: usize,
    raise: Raised,
    losses: usize,
    gate: Option<(usize, bool)>,
) -> &'static str {
    let now = now();
    let quorum = quorum_of(nodes.len());
    let mut round = match gate {
        Some((gate, true)) => Round::gated(nodes.len(), losses, gate),
        Some((gate, false)) => Round::standing(nodes.len(), losses, gate),
        None => Round::new(nodes.len(), losses),
    };
    let mut step = Step::Wait;
    let mut raised = BTreeSet::new();
    let mut gone = BTreeSet::new();
    for i in 0..nodes.len() {
        let node = (first + i) % nodes.len();
        if !matches!(step, Step::Wait) {
            break;
        }
        step = match nodes[node] {
            Does::Grants(fence) => round.heard(node, vote(now, fence), now),
            Does::Denies => round.heard(node, busy(3), now),
            Does::Dies => round.heard(node, dead(), now),
            Does::Stale => {
                let report = NodeReport::new("n", NodeProblem::Reverified);
                round.heard(node, Answer::No(Denial::Stale(report)), now)
            }
            Does::Hangs => {
                round.fan_out();
                continue;
            }
        };
        if let Step::FanOut(_) = step {
            assert_eq!(round.asked(), [node]);
            assert_eq!(round.fan_out().len(), nodes.len() - 1);
            // Alone it wins by itself.
            step = match nodes.len() {
                1 => round.close(now),
                _ => Step::Wait,
            };
        }
        while let Step::Raise(token, wanted) = step.clone() {
            step = Step::Wait;
            for node in wanted {
                let Does::Grants(reply) = nodes[node] else { panic!("raised a node not held") };
                assert!(reply < token.get(), "raised a node that stands high enough");
                step = match raise {
                    Raised::Yes => {
                        raised.insert(node);
                        round.raised(node, &Answer::Yes(()), now)
                    }
                    Raised::Gone => {
                        gone.insert(node);
                        round.raised(node, &Answer::No(Denial::Gone), now)
                    }
                    Raised::Stale => {
                        let report = NodeReport::new("n", NodeProblem::Reverified);
                        round.raised(node, &Answer::No(Denial::Stale(report)), now)
                    }
                    Raised::Never => Step::Wait,
                };
            }
        }
    }
    if step == Step::Wait {
        step = round.close(now);
    }
    let holds = |node: &usize| matches!(nodes[*node], Does::Grants(_)) && !gone.contains(node);
    match step {
        Step::Won(grant) => {
            // Theorem F's premise: a majority holds us, replied at most the token, and stands at it.
            let confirmed = (0..nodes.len()).filter(|node| {
                holds(node)
                    && (nodes[*node] == Does::Grants(grant.fence.get()) || raised.contains(node))
            });
            let confirmed = confirmed.count();
            assert!(confirmed >= quorum, "{nodes:?} {first} {raise:?}");
            // Whichever `losses` of them forget, every majority still meets one that has not.
            assert!(confirmed - losses + quorum > nodes.len(), "{nodes:?} {first} {raise:?}");
            assert_eq!(grant.until, now + LEASE);
            if raised.is_empty() { "won in one round" } else { "won by a raise" }
        }
        Step::Failed => {
            for node in 0..nodes.len() {
                // Everything that might have been granted gets released.
                let asked = round.asked().contains(&node);
                assert!(!asked || !holds(&node) || round.may_hold(node), "{nodes:?} leaks {node}");
                assert!(!asked || nodes[node] != Does::Hangs || round.may_hold(node));
            }
            match failure(&round) {
                Ok(Acquired::KeptOut(_)) => {
                    assert!(gate.is_some_and(|(gate, _)| nodes[gate] == Does::Denies));
                    "kept out"
                }
                Ok(Acquired::Busy(_)) => {
                    assert!(gate.is_none_or(|(gate, _)| nodes[gate] != Does::Denies));
                    "busy"
                }
                Ok(Acquired::Again) => "again",
                Ok(Acquired::Yes(_)) => panic!("a failure that grants"),
                Err(Error::Unreachable(why)) => {
                    assert!(why.nodes.iter().any(|node| !node.problem.answered()), "{why:?}");
                    assert!(why.voted <= why.answered, "{why:?}");
                    "unreachable"
                }
                // One did not confirm, and another has a larger counter.
                Err(Error::Refused(why)) => {
                    assert!(why.voted < why.needed && why.needed <= why.answered, "{why:?}");
                    "refused"
                }
                Err(other) => panic!("{other}"),
            }
        }
        Step::Wait | Step::Raise(..) | Step::FanOut(_) => {
            panic!("undecided at the end: {nodes:?} {step:?}")
        }
    }
}
