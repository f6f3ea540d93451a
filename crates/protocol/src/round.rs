//! Pure: one acquisition on N nodes, from the answers to the decision.
//!
//! No socket, task, clock or random source: answers and `now` come in, a [`Step`] goes out.
//!
//! The fencing rule (PROTOCOL.md, Tokens): all nodes are asked to accept one token, each in the same
//! step in which it grants the name. A round is won when enough nodes *that hold our nonce* have
//! accepted the same token, inside the window. If enough nodes hold our nonce and too few accept,
//! another token is proposed to the nodes that hold it, above the largest mark that they showed. A
//! node that does not hold our nonce never counts, whatever it says (PROTOCOL.md T1), nor does a node
//! that has granted and not accepted (PROTOCOL.md T4).

mod node_vote;

use std::time::Duration;

use self::node_vote::{NodeVote, TokenState};

use crate::{
    Acceptance, Acquired, Answer, ConfigError, Denial, Error, FencingToken, Grant, Instant,
    MAX_RAISES, Name, NoAnswer, NoMajority, NodeProblem, NodeReport, Vote, Window, quorum_of,
};

/// One acquisition attempt.
#[derive(Clone, Debug)]
pub struct Round {
    /// How many nodes must hold our nonce and accept the token: a majority, or more to survive lost
    /// marks.
    confirm: usize,
    nodes: Vec<NodeVote>,
    /// The token that is proposed now.
    token: FencingToken,
    /// How often another token was proposed.
    raises: u32,
    misconfigured: Option<ConfigError>,
    /// The home node: where a denied waiter is queued.
    home: Option<usize>,
    /// Only the home node was asked so far: the others are asked once it has granted, or does not
    /// answer.
    home_only: bool,
}

/// What to do now.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Wait for more answers.
    Wait,
    /// Ask the nodes other than the home node.
    FanOut,
    /// Propose another token, above this mark: [`Round::propose`].
    Propose(FencingToken),
    /// Ask these nodes, which hold our nonce, to accept the token.
    Raise(FencingToken, Vec<usize>),
    /// The round is won.
    Won(Grant),
    /// The round cannot be won any more; [`Round::failure`] says why.
    Failed,
}

impl Round {
    /// A round in which all `nodes` were asked to accept `token`. The token stays unique even if
    /// `losses` nodes lose their marks: any two sets of `(N + losses + 1) / 2` nodes have more than
    /// `losses` in common.
    pub fn new(nodes: usize, losses: usize, token: FencingToken) -> Self {
        Self {
            confirm: quorum_of(nodes).max((nodes + losses + 1).div_ceil(2)).min(nodes),
            nodes: vec![NodeVote::Asked; nodes],
            token,
            raises: 0,
            misconfigured: None,
            home: None,
            home_only: false,
        }
    }

    /// Like [`Round::new`], for a waiter that is queued at the home node if it is denied: votes
    /// count as split only if the home node did not refuse ([`Acquired::Split`]).
    pub fn with_home(nodes: usize, losses: usize, token: FencingToken, home: usize) -> Self {
        Self { home: Some(home), ..Self::new(nodes, losses, token) }
    }

    /// Like [`Round::with_home`], but only the home node was asked: of many contenders one gets
    /// past the home node, so that contenders do not split the votes. Advice: [`Round::fan_out`] at
    /// any time makes it an ordinary round.
    pub fn home_first(nodes: usize, losses: usize, token: FencingToken, home: usize) -> Self {
        let mut round = Self { home_only: true, ..Self::with_home(nodes, losses, token, home) };
        for (node, vote) in round.nodes.iter_mut().enumerate() {
            if node != home {
                *vote = NodeVote::Unasked;
            }
        }
        round
    }

    /// The nodes asked so far.
    pub fn asked(&self) -> Vec<usize> {
        (0..self.nodes.len()).filter(|node| self.nodes[*node] != NodeVote::Unasked).collect()
    }

    /// Whether only the home node was asked so far.
    pub fn asks_home_first(&self) -> bool {
        self.home_only
    }

    /// Whether the home node has granted.
    pub fn has_home(&self) -> bool {
        matches!(self.home.map(|home| &self.nodes[home]), Some(NodeVote::Granted { .. }))
    }

    /// Makes this an ordinary round; returns the nodes that the caller must ask now.
    pub fn fan_out(&mut self) -> Vec<usize> {
        self.home_only = false;
        let mut asked = Vec::new();
        for (node, vote) in self.nodes.iter_mut().enumerate() {
            if *vote == NodeVote::Unasked {
                *vote = NodeVote::Asked;
                asked.push(node);
            }
        }
        asked
    }

    /// A node answered the acquire request.
    pub fn on_answer(&mut self, node: usize, answer: Answer<Vote>, now: Instant) -> Step {
        self.nodes[node] = match answer {
            // This vote is about the first token; after a raise it says nothing about the present
            // one.
            Answer::Yes(Vote { until, token }) => {
                let token =
                    if self.raises == 0 { TokenState::of(token) } else { TokenState::Unasked };
                NodeVote::Granted { until, token }
            }
            Answer::No(Denial::Busy(remaining)) => NodeVote::Busy(remaining),
            Answer::No(Denial::Gone) => NodeVote::Dropped,
            Answer::No(Denial::Refused(report)) => {
                NodeVote::Refused { report, held_until: Instant::NEVER }
            }
            Answer::No(Denial::Stale(report)) => NodeVote::Stale(report),
            // For the vote this node counts as not reached: it says neither yes nor busy.
            Answer::No(Denial::NotAdmitted(report)) => {
                NodeVote::NoAnswer(NoAnswer::NotSent(report))
            }
            Answer::No(Denial::Config(error)) => {
                let report = NodeReport::new("node", NodeProblem::NotAsked(error.to_string()));
                self.misconfigured.get_or_insert(error);
                NodeVote::NoAnswer(NoAnswer::NotSent(report))
            }
            Answer::NoAnswer(no_answer) => NodeVote::NoAnswer(no_answer),
        };
        self.decide(now)
    }

    /// Proposes another token to the nodes that hold our nonce, including those that accepted the
    /// one before. A node that did not say whether it accepts a token, or that was verified anew,
    /// is not asked again.
    pub fn propose(&mut self, token: FencingToken, now: Instant) -> Step {
        self.token = token;
        self.raises += 1;
        for vote in &mut self.nodes {
            if let NodeVote::Granted { token, .. } = vote
                && !matches!(token, TokenState::Stale | TokenState::Unconfirmed | TokenState::Late)
            {
                *token = TokenState::Unasked;
            }
        }
        self.decide(now)
    }

    /// A node that was asked to accept `token` answered.
    pub fn raised(
        &mut self,
        node: usize,
        token: FencingToken,
        answer: &Answer<Acceptance>,
        now: Instant,
    ) -> Step {
        if let NodeVote::Granted { until, token: state } = &mut self.nodes[node] {
            match answer {
                Answer::Yes(said) if token == self.token => *state = TokenState::of(*said),
                // This answer is about a token that is no longer proposed.
                Answer::Yes(_) => {}
                // The lease there expired, or another nonce took the name: the node's vote is void,
                // not just its confirmation.
                Answer::No(Denial::Gone | Denial::Busy(_) | Denial::NotAdmitted(_)) => {
                    self.nodes[node] = NodeVote::Dropped
                }
                Answer::No(Denial::Stale(_)) => *state = TokenState::Stale,
                // The node's mark is damaged, or the node is a replica now: it is no vote for the
                // token, though it holds our nonce.
                Answer::No(Denial::Refused(report)) => {
                    let (report, held_until) = (report.clone(), *until);
                    self.nodes[node] = NodeVote::Refused { report, held_until };
                }
                _ => *state = TokenState::Unconfirmed,
            }
        }
        self.decide(now)
    }

    /// Stops waiting for answers.
    pub fn close(&mut self, now: Instant) -> Step {
        for vote in &mut self.nodes {
            match vote {
                NodeVote::Asked => *vote = NodeVote::Late,
                NodeVote::Granted { token: token @ TokenState::Asked, .. } => {
                    *token = TokenState::Late
                }
                _ => {}
            }
        }
        self.decide(now)
    }

    /// Whether this node may hold our nonce: then it must be released if the round is not won.
    pub fn may_hold(&self, node: usize) -> bool {
        match &self.nodes[node] {
            NodeVote::Asked
            | NodeVote::Late
            | NodeVote::Granted { .. }
            | NodeVote::Refused { .. }
            | NodeVote::Stale(_) => true,
            NodeVote::NoAnswer(no_answer) => matches!(no_answer, NoAnswer::Unknown(_)),
            NodeVote::Unasked | NodeVote::Dropped | NodeVote::Busy(_) => false,
        }
    }

    /// How many nodes were asked and have not answered.
    pub fn unanswered(&self) -> usize {
        self.count(|vote| matches!(vote, NodeVote::Asked))
    }

    /// Whether the request to this node has ended without a grant.
    pub fn has_failed_at(&self, node: usize) -> bool {
        !matches!(
            self.nodes[node],
            NodeVote::Unasked | NodeVote::Asked | NodeVote::Late | NodeVote::Granted { .. }
        )
    }

    /// The nodes that said that they granted the lock.
    pub fn granted(&self) -> Vec<usize> {
        let granted = |node: &usize| matches!(self.nodes[*node], NodeVote::Granted { .. });
        (0..self.nodes.len()).filter(granted).collect()
    }

    /// The nodes that answered [`Denial::Stale`]: they may be asked again.
    pub fn stale(&self) -> Vec<usize> {
        let stale = |node: &usize| matches!(self.nodes[*node], NodeVote::Stale(_));
        (0..self.nodes.len()).filter(stale).collect()
    }

    /// Until when each node surely holds our nonce, whatever it says about the token.
    pub fn window(&self) -> Window {
        let mut window = Window::shut(self.nodes.len());
        for (node, vote) in self.nodes.iter().enumerate() {
            if let NodeVote::Granted { until, .. } | NodeVote::Refused { held_until: until, .. } =
                vote
            {
                window.record_held(node, *until);
            }
        }
        window
    }

    /// Why the round was not won. `waited` is how long nodes were waited for to the end, if they
    /// were. Nodes that were not waited for are not blamed.
    pub fn failure(
        &self,
        name: Option<&Name>,
        waited: Option<Duration>,
        label: impl Fn(usize) -> String,
    ) -> Result<Acquired, Error> {
        if let Some(error) = &self.misconfigured {
            return Err(error.clone().into());
        }
        let barring: Vec<_> = self.barring().cloned().collect();
        if !barring.is_empty() {
            let of = (self.nodes.len(), self.confirm);
            return Err(NoMajority::new(name.cloned(), of, 0, barring).into());
        }
        let refused = self.blocked_by_others()
            || self.reached() >= self.confirm && self.held() < self.confirm;
        match self.home.map(|home| &self.nodes[home]) {
            Some(NodeVote::Busy(left)) if self.home_only => return Ok(Acquired::Busy(*left)),
            Some(NodeVote::Busy(left)) if refused => {
                return Ok(Acquired::Busy(self.free_in().or(*left)));
            }
            _ if refused && self.held() > 0 => return Ok(Acquired::Split(self.free_in())),
            _ if refused => return Ok(Acquired::BusyElsewhere(self.free_in())),
            _ => {}
        }
        let again = |vote: &NodeVote| match vote {
            NodeVote::Stale(_) => true,
            NodeVote::Granted { token, .. } => {
                matches!(token, TokenState::Stale | TokenState::Behind(_))
            }
            _ => false,
        };
        if self.count(again) > 0 {
            return Ok(Acquired::Retry);
        }
        let report = |node: usize, problem| NodeReport::new(label(node), problem);
        let blamed = |(node, vote): (usize, &NodeVote)| match vote {
            NodeVote::Late => waited.map(|waited| report(node, NodeProblem::NoAnswer(waited))),
            NodeVote::NoAnswer(no_answer) => Some(no_answer.report().clone()),
            NodeVote::Refused { report, .. } => Some(report.clone()),
            NodeVote::Granted { token: TokenState::Unconfirmed, .. } => {
                Some(report(node, NodeProblem::Unconfirmed))
            }
            NodeVote::Granted { token: TokenState::Late, .. } => {
                waited.map(|_| report(node, NodeProblem::Unconfirmed))
            }
            _ => None,
        };
        let mut nodes: Vec<_> = self.nodes.iter().enumerate().filter_map(blamed).collect();
        if nodes.is_empty() {
            let held = |node: &usize| matches!(self.nodes[*node], NodeVote::Granted { .. });
            let held = (0..self.nodes.len()).filter(held);
            nodes = held.map(|node| report(node, NodeProblem::TooLate)).collect();
        }
        let granted = |node: &&NodeReport| {
            matches!(node.problem, NodeProblem::Unconfirmed | NodeProblem::TooLate)
        };
        let voted = self.reached() - nodes.iter().filter(granted).count();
        let of = (self.nodes.len(), self.confirm);
        Err(NoMajority::new(name.cloned(), of, voted, nodes).into())
    }

    fn decide(&mut self, now: Instant) -> Step {
        if self.misconfigured.is_some() || self.barring().next().is_some() {
            return Step::Failed;
        }
        if let (Some(home), true) = (self.home, self.home_only) {
            return match &self.nodes[home] {
                NodeVote::Asked => Step::Wait,
                NodeVote::Busy(_) => Step::Failed,
                // The home node has granted; or it does not vote, and then keeps no contender out
                // (W7).
                _ => Step::FanOut,
            };
        }
        if self.accepted(Instant::NEVER) >= self.confirm {
            // Checked after the last needed answer: this catches a pause during the acquisition
            // (H3). Nodes count only if they accepted and hold our nonce now: otherwise another
            // hold in between may have a larger token (PROTOCOL.md T6).
            return match self.accepted(now) >= self.confirm {
                true => Step::Won(Grant {
                    until: self.window().until(),
                    token: self.token,
                    counted: false,
                }),
                false => Step::Failed,
            };
        }
        let raise = self.mark_raises();
        if !raise.is_empty() {
            return Step::Raise(self.token, raise);
        }
        // Nodes that have not answered may never answer, and another trip is shorter than their
        // timeout.
        if self.open() < self.confirm
            && self.open() + self.raisable() >= self.confirm
            && let Some(mark) = self.largest_mark()
        {
            return Step::Propose(mark);
        }
        if self.may_win() { Step::Wait } else { self.settled() }
    }

    /// The nodes that belong to another cluster: with one of them no vote counts, so that foreign nodes
    /// and some of our nodes make no majority (PROTOCOL.md MEM2).
    fn barring(&self) -> impl Iterator<Item = &NodeReport> {
        self.nodes.iter().filter_map(|vote| match vote {
            NodeVote::Refused { report, .. } if report.problem.bars() => Some(report),
            _ => None,
        })
    }

    /// Marks the nodes that hold our nonce and were not asked about the token yet as asked, and
    /// returns them.
    fn mark_raises(&mut self) -> Vec<usize> {
        let mut raise = Vec::new();
        for (node, vote) in self.nodes.iter_mut().enumerate() {
            if let NodeVote::Granted { token: state @ TokenState::Unasked, .. } = vote {
                *state = TokenState::Asked;
                raise.push(node);
            }
        }
        raise
    }

    fn largest_mark(&self) -> Option<FencingToken> {
        let mark = |vote: &NodeVote| match vote {
            NodeVote::Granted { token: TokenState::Behind(mark), .. } => Some(*mark),
            _ => None,
        };
        self.nodes.iter().filter_map(mark).max()
    }

    /// How many of the nodes that hold our nonce have accepted the token, or still may.
    fn open(&self) -> usize {
        self.count(|b| {
            matches!(
                b,
                NodeVote::Granted {
                    token: TokenState::Unasked | TokenState::Asked | TokenState::Accepted,
                    ..
                }
            )
        })
    }

    fn may_win(&self) -> bool {
        let asked = self.count(|b| *b == NodeVote::Asked);
        asked + self.open() + self.raisable() >= self.confirm
    }

    /// How many nodes may accept another token.
    fn raisable(&self) -> usize {
        match self.raises < MAX_RAISES {
            true => {
                self.count(|b| matches!(b, NodeVote::Granted { token: TokenState::Behind(_), .. }))
            }
            false => 0,
        }
    }

    /// A round that cannot win ends at once, unless another answer can still tell whether another
    /// client holds the lock, too few nodes are reachable, or a node belongs to another cluster.
    fn settled(&self) -> Step {
        let asked = self.count(|b| *b == NodeVote::Asked);
        let known = self.blocked_by_others()
            || self.reached() >= self.confirm
            || self.reached() + asked < self.confirm && !(asked > 0 && self.has_new());
        if known { Step::Failed } else { Step::Wait }
    }

    /// Whether a node is new. Then the list of nodes may be wrong, and a node that belongs to another
    /// cluster, whose answer bars the client, may answer last (PROTOCOL.md MEM2).
    fn has_new(&self) -> bool {
        self.nodes.iter().any(|vote| match vote {
            NodeVote::NoAnswer(no_answer) => no_answer.report().problem == NodeProblem::New,
            _ => false,
        })
    }

    fn blocked_by_others(&self) -> bool {
        self.count(|b| matches!(b, NodeVote::Busy(_))) > self.nodes.len() - self.confirm
    }

    /// How many nodes have accepted the token and hold our nonce at `now`.
    fn accepted(&self, now: Instant) -> usize {
        self.count(
            |b| matches!(b, NodeVote::Granted { token: TokenState::Accepted, until } if *until > now),
        )
    }

    fn held(&self) -> usize {
        self.count(|b| matches!(b, NodeVote::Granted { .. }))
    }

    fn reached(&self) -> usize {
        self.count(|b| {
            matches!(b, NodeVote::Granted { .. } | NodeVote::Busy(_) | NodeVote::Dropped)
        })
    }

    /// When enough nodes may be free: the `confirm`-th smallest remaining lease.
    fn free_in(&self) -> Option<Duration> {
        let mut left: Vec<Duration> = self
            .nodes
            .iter()
            .filter_map(|vote| match vote {
                NodeVote::Busy(remaining) => *remaining,
                NodeVote::Granted { .. } | NodeVote::Dropped => Some(Duration::ZERO),
                _ => None,
            })
            .collect();
        left.sort_unstable();
        left.get(self.confirm - 1).copied()
    }

    fn count(&self, which: impl Fn(&NodeVote) -> bool) -> usize {
        self.nodes.iter().filter(|vote| which(vote)).count()
    }
}

#[cfg(test)]
mod tests;
