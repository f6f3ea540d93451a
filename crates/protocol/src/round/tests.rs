mod failure;
mod window;

use std::collections::BTreeSet;

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

/// What a node does in the enumeration.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Does {
    /// It grants, with this mark.
    Grants(u64),
    Denies,
    Dies,
    /// It must be verified first.
    Stale,
    /// It never answers.
    Hangs,
}

/// Every combination of what up to five nodes do (grant below and at their mark, deny, die, have
/// stale scripts, not answer), in every rotation of the order of answers, with raises answered yes,
/// gone, stale, never, or by a mark that other clients have moved, and any number of lost marks to
/// survive: the invariants hold in each.
#[test]
fn enumerated_completely_for_up_to_five_nodes() {
    let acts =
        [Does::Grants(50), Does::Grants(180), Does::Denies, Does::Dies, Does::Stale, Does::Hangs];
    let mut outcomes = BTreeSet::new();
    let mut cases = 0u32;
    for n in 1..=5 {
        for code in 0..acts.len().pow(n) {
            let nodes: Vec<Does> =
                (0..n).map(|i| acts[code / acts.len().pow(i) % acts.len()]).collect();
            for first in 0..nodes.len() {
                for raise in Raised::ALL {
                    for losses in (0..nodes.len()).step_by(2) {
                        for home in [None, Some((first, true)), Some((first, false))] {
                            outcomes.insert(Case::new(&nodes, raise, losses, home).run(first));
                            cases += 1;
                        }
                    }
                }
            }
        }
    }
    assert_eq!(cases, 15 * (6 + 2 * 36 + 3 * 2 * 216 + 4 * 2 * 1_296 + 5 * 3 * 7_776));
    // The generator reaches every kind of ending.
    for seen in [
        "won in one round",
        "won by a raise",
        "busy",
        "busy elsewhere",
        "split",
        "unreachable",
        "again",
    ] {
        assert!(outcomes.contains(seen), "{seen} never happened");
    }
}

/// How nodes answer raises.
#[derive(Clone, Copy, Debug)]
enum Raised {
    /// By the rule of marks.
    Yes,
    Gone,
    Stale,
    Never,
    /// Other clients move the mark before each raise.
    Ahead,
}

impl Raised {
    const ALL: [Self; 5] = [Self::Yes, Self::Gone, Self::Stale, Self::Never, Self::Ahead];
}

/// One round of the enumeration, and what its nodes have done so far.
struct Case<'a> {
    nodes: &'a [Does],
    raise: Raised,
    losses: usize,
    home: Option<(usize, bool)>,
    round: Round,
    marks: Vec<u64>,
    /// The token that each node accepted last.
    accepted: Vec<Option<FencingToken>>,
    gone: BTreeSet<usize>,
    proposals: u32,
}

impl<'a> Case<'a> {
    fn new(nodes: &'a [Does], raise: Raised, losses: usize, home: Option<(usize, bool)>) -> Self {
        let round = match home {
            Some((home, true)) => Round::home_first(nodes.len(), losses, FIRST, home),
            Some((home, false)) => Round::with_home(nodes.len(), losses, FIRST, home),
            None => Round::new(nodes.len(), losses, FIRST),
        };
        let mark = |does: &Does| if let Does::Grants(mark) = does { *mark } else { 0 };
        let marks = nodes.iter().map(mark).collect();
        let (accepted, gone) = (vec![None; nodes.len()], BTreeSet::new());
        Self { nodes, raise, losses, home, round, marks, accepted, gone, proposals: 0 }
    }

    /// Runs the round; the nodes answer in order, beginning with `first`.
    fn run(mut self, first: usize) -> &'static str {
        let mut step = Step::Wait;
        for i in 0..self.nodes.len() {
            let node = (first + i) % self.nodes.len();
            if step != Step::Wait {
                break;
            }
            step = self.answers(node);
            if step == Step::FanOut {
                assert_eq!(self.round.asked(), [node]);
                assert_eq!(self.round.fan_out().len(), self.nodes.len() - 1);
                // With one node there is no other node to ask.
                step = match self.nodes.len() {
                    1 => self.round.close(now()),
                    _ => Step::Wait,
                };
            }
            step = self.follow(step);
        }
        if step == Step::Wait {
            step = self.round.close(now());
        }
        match step {
            Step::Won(grant) => self.check_grant(grant),
            Step::Failed => self.check_failure(),
            other => panic!("undecided at the end: {:?} {other:?}", self.nodes),
        }
    }

    fn answers(&mut self, node: usize) -> Step {
        let answer = match self.nodes[node] {
            Does::Grants(_) => {
                let token = self.accepts(node, FIRST);
                Answer::Yes(Vote { until: now() + LEASE, token })
            }
            Does::Denies => busy(3),
            Does::Dies => dead(),
            Does::Stale => {
                let report = NodeReport::new("n", NodeProblem::Reverified);
                Answer::No(Denial::Stale(report))
            }
            Does::Hangs => {
                self.round.fan_out();
                return Step::Wait;
            }
        };
        self.round.on_answer(node, answer, now())
    }

    /// The rule by which a node accepts a token.
    fn accepts(&mut self, node: usize, token: FencingToken) -> Acceptance {
        if token.get() <= self.marks[node] {
            return Acceptance::Behind(FencingToken::new(self.marks[node]));
        }
        self.marks[node] = token.get();
        self.accepted[node] = Some(token);
        Acceptance::Accepted
    }

    /// Proposes and raises until the round waits or has ended.
    fn follow(&mut self, mut step: Step) -> Step {
        loop {
            step = match step {
                Step::Propose(mark) => {
                    self.proposals += 1;
                    assert!(self.proposals <= MAX_RAISES, "{:?}", self.nodes);
                    let held = |node: &usize| matches!(self.nodes[*node], Does::Grants(_));
                    let largest = (0..self.nodes.len()).filter(held).map(|node| self.marks[node]);
                    assert!(largest.max() >= Some(mark.get()), "no node has shown {mark}");
                    self.round.propose(FencingToken::new(mark.get() + 32), now())
                }
                Step::Raise(token, wanted) => self.ask_to_accept(token, wanted),
                other => return other,
            };
        }
    }

    fn ask_to_accept(&mut self, token: FencingToken, wanted: Vec<usize>) -> Step {
        for node in wanted {
            assert!(matches!(self.nodes[node], Does::Grants(_)), "raised a node not held");
            assert!(!self.gone.contains(&node), "raised a node that is not held any more");
            assert!(self.accepted[node] < Some(token), "asked twice for the same");
            let answer = match self.raise {
                Raised::Yes => Answer::Yes(self.accepts(node, token)),
                Raised::Ahead => {
                    self.marks[node] = token.get() + 7;
                    Answer::Yes(self.accepts(node, token))
                }
                Raised::Gone => {
                    self.gone.insert(node);
                    Answer::No(Denial::Gone)
                }
                Raised::Stale => {
                    let report = NodeReport::new("n", NodeProblem::Reverified);
                    Answer::No(Denial::Stale(report))
                }
                Raised::Never => continue,
            };
            let step = self.round.raised(node, token, &answer, now());
            // The remaining nodes are asked about the next token, if there is one.
            if step != Step::Wait {
                return step;
            }
        }
        Step::Wait
    }

    fn holds(&self, node: usize) -> bool {
        matches!(self.nodes[node], Does::Grants(_)) && !self.gone.contains(&node)
    }

    fn check_grant(&self, grant: Grant) -> &'static str {
        let n = self.nodes.len();
        let count = |node: &usize| self.holds(*node) && self.accepted[*node] == Some(grant.token);
        let accepted = (0..n).filter(count).count();
        // The theorem's premise: a majority holds our nonce, and has accepted this token and no
        // other since.
        assert!(accepted >= quorum_of(n), "{:?} {:?}", self.nodes, self.raise);
        // Whichever `losses` of these nodes lose their marks, another winner has a node in common
        // that has not.
        assert!(2 * accepted - n > self.losses, "{:?} {:?}", self.nodes, self.raise);
        assert_eq!(grant.until, now() + LEASE);
        assert_eq!(grant.token == FIRST, self.proposals == 0);
        if self.proposals == 0 { "won in one round" } else { "won by a raise" }
    }

    fn check_failure(&self) -> &'static str {
        let nodes = self.nodes;
        for node in 0..nodes.len() {
            // Every node that might have granted is released.
            let asked = self.round.asked().contains(&node);
            let (held, hangs) = (self.holds(node), nodes[node] == Does::Hangs);
            assert!(!asked || !held || self.round.may_hold(node), "{nodes:?} leaks {node}");
            assert!(!asked || !hangs || self.round.may_hold(node));
        }
        match failure(&self.round) {
            Ok(Acquired::Split(_)) => {
                assert!(self.home.is_none_or(|(home, _)| nodes[home] != Does::Denies));
                assert!((0..nodes.len()).any(|node| self.holds(node)), "{nodes:?}");
                "split"
            }
            Ok(Acquired::Busy(_)) => {
                assert!(self.home.is_some_and(|(home, _)| nodes[home] == Does::Denies));
                "busy"
            }
            Ok(Acquired::BusyElsewhere(_)) => "busy elsewhere",
            Ok(Acquired::Retry) => "again",
            Ok(Acquired::Granted(_)) => panic!("a failure that grants"),
            Err(Error::Unreachable(why)) => {
                assert!(why.nodes.iter().any(|node| !node.problem.answered()), "{why:?}");
                assert!(why.voted <= why.answered, "{why:?}");
                "unreachable"
            }
            // A node did not say whether it accepts the token.
            Err(Error::Refused(why)) => {
                assert!(why.voted < why.needed && why.needed <= why.answered, "{why:?}");
                "refused"
            }
            Err(other) => panic!("{other}"),
        }
    }
}
