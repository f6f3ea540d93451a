//! Every round of up to five nodes.

use std::collections::BTreeSet;

use super::*;

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
/// gone, stale, never, or by a mark that other clients have moved, any number of lost marks to
/// survive, the home node, all nodes or a majority asked first: the invariants hold in each.
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
                            for order in [None, Some(first)] {
                                let case = Case::new(&nodes, (raise, losses), home, order);
                                outcomes.insert(case.run(first));
                                cases += 1;
                            }
                        }
                    }
                }
            }
        }
    }
    assert_eq!(cases, 30 * (6 + 2 * 36 + 3 * 2 * 216 + 4 * 2 * 1_296 + 5 * 3 * 7_776));
    // The generator reaches every kind of ending.
    for seen in [
        "won in one round",
        "won by a majority alone",
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
    /// How many nodes must accept.
    needed: usize,
    marks: Vec<u64>,
    /// The token that each node accepted last.
    accepted: Vec<Option<FencingToken>>,
    gone: BTreeSet<usize>,
    proposals: u32,
}

impl<'a> Case<'a> {
    fn new(
        nodes: &'a [Does],
        (raise, losses): (Raised, usize),
        home: Option<(usize, bool)>,
        order: Option<usize>,
    ) -> Self {
        let n = nodes.len();
        let round = match home {
            Some((home, true)) => Round::home_first(n, losses, FIRST, home),
            Some((home, false)) => Round::with_home(n, losses, FIRST, home),
            None => Round::new(n, losses, FIRST),
        };
        let round = match order {
            Some(first) => round.majority_first((0..n).map(|i| (first + i) % n).collect()),
            None => round,
        };
        let needed = quorum_of(n).max((n + losses + 1).div_ceil(2)).min(n);
        let mark = |does: &Does| if let Does::Grants(mark) = does { *mark } else { 0 };
        let marks = nodes.iter().map(mark).collect();
        let (accepted, gone) = (vec![None; n], BTreeSet::new());
        Self { nodes, raise, losses, home, round, needed, marks, accepted, gone, proposals: 0 }
    }

    /// Runs the round; the nodes that are asked answer in order, beginning with `first`.
    fn run(mut self, first: usize) -> &'static str {
        let n = self.nodes.len();
        let (mut step, mut heard) = (Step::Wait, BTreeSet::new());
        while step == Step::Wait {
            let mut order = (0..n).map(|i| (first + i) % n);
            let asked = |node: &usize| self.round.has_asked(*node) && !heard.contains(node);
            step = match order.find(asked) {
                Some(node) => {
                    heard.insert(node);
                    self.answers(node)
                }
                // Those that were asked are late.
                None if self.round.has_unasked() => Step::AskMore,
                None => self.round.close(now()),
            };
            step = self.follow(step);
        }
        match step {
            Step::Won(grant) => self.check_grant(grant),
            Step::Failed => self.check_failure(),
            other => panic!("undecided at the end: {:?} {other:?}", self.nodes),
        }
    }

    fn ask_more(&mut self) -> Step {
        let (before, home_first) = (self.round.asked().len(), self.round.asks_home_first());
        let asked = self.round.ask_more().len();
        assert!(!home_first || before == 1);
        assert!(home_first || before >= self.needed && !self.round.has_unasked());
        match asked {
            // With one node there is no other node to ask.
            0 => self.round.close(now()),
            _ => Step::Wait,
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
            Does::Hangs => return Step::Wait,
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
                Step::AskMore => self.ask_more(),
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
        assert_eq!(grant.partial, self.round.has_unasked());
        // Nobody is asked in vain.
        assert!(!grant.partial || accepted == self.needed, "{:?}", self.nodes);
        match (self.proposals, grant.partial) {
            (0, true) => "won by a majority alone",
            (0, false) => "won in one round",
            _ => "won by a raise",
        }
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
        // A node that was not asked is not busy (PROTOCOL.md MAJ2).
        let busy = (0..nodes.len())
            .filter(|node| self.round.has_asked(*node) && nodes[*node] == Does::Denies)
            .count();
        let barred = self.round.asks_home_first() || busy > nodes.len() - self.needed;
        assert!(!self.round.has_unasked() || barred, "{nodes:?}");
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
