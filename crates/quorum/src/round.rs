//! Pure: one acquisition on N nodes, from the answers to the decision.
//!
//! No socket, task, clock or random source: answers and `now` come in, a [`Step`] goes out.
//!
//! The fencing rule (SAFETY.md, Tokens): let H be the first nodes that granted this nonce, as many as
//! must confirm. The token is the largest reply (if all are equal, one round trip is enough: the
//! steady state), and the others of H are raised to it, **only while they still hold this nonce**, and
//! from below.
//! Won when enough nodes *that hold our nonce* stand at the token, inside the window. Nodes that we
//! do not hold never count, whatever they say.

use std::time::Duration;

use quorumlock_core::{
    Acquired, Answer, ConfigError, Denial, Error, Fence, Grant, Instant, Name, NoMajority,
    NodeProblem, NodeReport, Silence, Vote, Window, quorum_of,
};

/// One acquisition attempt.
#[derive(Clone, Debug)]
pub struct Round {
    /// How many must hold our nonce at the token: a majority, or more to survive lost counters.
    confirm: usize,
    nodes: Vec<Ballot>,
    token: Option<Fence>,
    misconfigured: Option<ConfigError>,
    /// Where whoever asks stands in line if it is refused.
    gate: Option<usize>,
    /// Only the gate was asked so far: the others are asked once it has granted, or does not answer.
    gated: bool,
}

/// What one node has said so far.
#[derive(Clone, Debug, PartialEq)]
enum Ballot {
    /// Not asked before the gate has answered.
    Unasked,
    Asked,
    /// Asked, and no longer waited for.
    Late,
    Granted {
        vote: Vote,
        token: Stand,
    },
    /// Granted, but it held our nonce no more when it was to be raised.
    Dropped,
    Busy(Option<Duration>),
    Refused(NodeReport),
    Silent(Silence),
    Stale(NodeReport),
}

/// Where a node that holds our nonce stands towards the token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stand {
    /// No token yet, or it replied a larger value: it cannot confirm.
    Apart,
    Raising,
    Confirmed,
    /// It did not answer the raise.
    Unconfirmed,
    /// It was verified anew before the raise, or its counter was as high already (SAFETY.md a5).
    Stale,
}

/// What to do now.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Wait for more answers.
    Wait,
    /// Ask the nodes other than the gate, with this as the least token.
    FanOut(Fence),
    /// Raise the counters of these nodes to the token.
    Raise(Fence, Vec<usize>),
    /// Won.
    Won(Grant),
    /// Cannot be won any more; [`Round::failure`] says why.
    Failed,
}

impl Round {
    /// All `nodes` were asked. The token is to stay unique while `losses` counters are lost: with
    /// `N - q + 1 + losses` confirmations some counter is met by every later majority.
    pub fn new(nodes: usize, losses: usize) -> Self {
        let quorum = quorum_of(nodes);
        Self {
            confirm: quorum.max(nodes - quorum + 1 + losses).min(nodes),
            nodes: vec![Ballot::Asked; nodes],
            token: None,
            misconfigured: None,
            gate: None,
            gated: false,
        }
    }

    /// As that, by somebody who stands in line at `gate` if it is refused: a no of that node is told apart
    /// ([`Acquired::KeptOut`]).
    pub fn standing(nodes: usize, losses: usize, gate: usize) -> Self {
        Self { gate: Some(gate), ..Self::new(nodes, losses) }
    }

    /// Only `gate` was asked: of many contenders one gets past it, and does not split the votes with
    /// the others. Advice: [`Round::fan_out`] at any time makes it an ordinary round.
    pub fn gated(nodes: usize, losses: usize, gate: usize) -> Self {
        let mut round = Self { gated: true, ..Self::standing(nodes, losses, gate) };
        for (node, ballot) in round.nodes.iter_mut().enumerate() {
            if node != gate {
                *ballot = Ballot::Unasked;
            }
        }
        round
    }

    /// The nodes asked so far.
    pub fn asked(&self) -> Vec<usize> {
        (0..self.nodes.len()).filter(|node| self.nodes[*node] != Ballot::Unasked).collect()
    }

    /// Whether only the gate was asked so far.
    pub fn is_gated(&self) -> bool {
        self.gated
    }

    /// Whether the gate has granted.
    pub fn has_gate(&self) -> bool {
        matches!(self.gate.map(|gate| &self.nodes[gate]), Some(Ballot::Granted { .. }))
    }

    /// From now on all nodes are asked; those that were not yet.
    pub fn fan_out(&mut self) -> Vec<usize> {
        self.gated = false;
        let mut asked = Vec::new();
        for (node, ballot) in self.nodes.iter_mut().enumerate() {
            if *ballot == Ballot::Unasked {
                *ballot = Ballot::Asked;
                asked.push(node);
            }
        }
        asked
    }

    /// A node answered the acquire request.
    pub fn heard(&mut self, node: usize, answer: Answer<Vote>, now: Instant) -> Step {
        self.nodes[node] = match answer {
            Answer::Yes(vote) => Ballot::Granted { vote, token: self.stand(vote.fence) },
            Answer::No(Denial::Busy(remaining)) => Ballot::Busy(remaining),
            Answer::No(Denial::Gone) => Ballot::Dropped,
            Answer::No(Denial::Refused(report)) => Ballot::Refused(report),
            Answer::No(Denial::Stale(report)) => Ballot::Stale(report),
            // Not reached as far as the vote goes: it says neither yes nor busy.
            Answer::No(Denial::NotAdmitted(report)) => Ballot::Silent(Silence::Never(report)),
            Answer::No(Denial::Config(error)) => {
                let report = NodeReport::new("node", NodeProblem::NotAsked(error.to_string()));
                self.misconfigured.get_or_insert(error);
                Ballot::Silent(Silence::Never(report))
            }
            Answer::Silent(silence) => Ballot::Silent(silence),
        };
        self.decide(now)
    }

    /// A node answered the raise request.
    pub fn raised(&mut self, node: usize, answer: &Answer<()>, now: Instant) -> Step {
        if let Ballot::Granted { token, .. } = &mut self.nodes[node] {
            match answer {
                Answer::Yes(()) => *token = Stand::Confirmed,
                // It expired, or was taken: its vote is void, not just its confirmation.
                Answer::No(Denial::Gone | Denial::Busy(_) | Denial::NotAdmitted(_)) => {
                    self.nodes[node] = Ballot::Dropped
                }
                Answer::No(Denial::Stale(_)) => *token = Stand::Stale,
                _ => *token = Stand::Unconfirmed,
            }
        }
        self.decide(now)
    }

    /// No more answers are waited for.
    pub fn close(&mut self, now: Instant) -> Step {
        for ballot in &mut self.nodes {
            match ballot {
                Ballot::Asked => *ballot = Ballot::Late,
                Ballot::Granted { token: token @ Stand::Raising, .. } => {
                    *token = Stand::Unconfirmed;
                }
                _ => {}
            }
        }
        self.decide(now)
    }

    /// Whether this node may hold our nonce: it must be released if the round is not won.
    pub fn may_hold(&self, node: usize) -> bool {
        match &self.nodes[node] {
            Ballot::Asked
            | Ballot::Late
            | Ballot::Granted { .. }
            | Ballot::Refused(_)
            | Ballot::Stale(_) => true,
            Ballot::Silent(silence) => matches!(silence, Silence::Maybe(_)),
            Ballot::Unasked | Ballot::Dropped | Ballot::Busy(_) => false,
        }
    }

    /// How many nodes were asked and have not answered.
    pub fn unanswered(&self) -> usize {
        self.count(|ballot| matches!(ballot, Ballot::Asked))
    }

    /// The nodes that were verified while the round went on: they may be asked again.
    pub fn stale(&self) -> Vec<usize> {
        let stale = |node: &usize| matches!(self.nodes[*node], Ballot::Stale(_));
        (0..self.nodes.len()).filter(stale).collect()
    }

    /// Until when each node surely holds our nonce.
    pub fn window(&self) -> Window {
        let mut window = Window::shut(self.nodes.len());
        for (node, ballot) in self.nodes.iter().enumerate() {
            if let Ballot::Granted { vote, .. } = ballot {
                window.holds(node, vote.until);
            }
        }
        window
    }

    /// Why the round was not won; `waited`: for how long, if nodes were waited for to the end. Nodes that
    /// were not waited for are blamed for nothing.
    pub fn failure(
        &self,
        name: Option<&Name>,
        waited: Option<Duration>,
        label: impl Fn(usize) -> String,
    ) -> Result<Acquired, Error> {
        if let Some(error) = &self.misconfigured {
            return Err(error.clone().into());
        }
        let refused = self.blocked_by_others()
            || self.reached() >= self.confirm && self.held() < self.confirm;
        match self.gate.map(|gate| &self.nodes[gate]) {
            Some(Ballot::Busy(left)) if self.gated => return Ok(Acquired::KeptOut(*left)),
            Some(Ballot::Busy(left)) if refused => {
                return Ok(Acquired::KeptOut(self.free_in().or(*left)));
            }
            _ if refused => return Ok(Acquired::Busy(self.free_in())),
            _ => {}
        }
        if self.count(|b| matches!(b, Ballot::Stale(_)) || stands(b, Stand::Stale)) > 0 {
            return Ok(Acquired::Again);
        }
        let report = |node: usize, problem| NodeReport::new(label(node), problem);
        let blamed = |(node, ballot): (usize, &Ballot)| match ballot {
            Ballot::Late => waited.map(|waited| report(node, NodeProblem::NoAnswer(waited))),
            Ballot::Silent(silence) => Some(silence.report().clone()),
            Ballot::Refused(report) => Some(report.clone()),
            Ballot::Granted { token: Stand::Unconfirmed, .. } => {
                Some(report(node, NodeProblem::Unconfirmed))
            }
            // It replied a larger token than those that had granted before.
            Ballot::Granted { token: Stand::Apart, .. } if self.token.is_some() => {
                Some(report(node, NodeProblem::CounterMoved))
            }
            _ => None,
        };
        let mut nodes: Vec<_> = self.nodes.iter().enumerate().filter_map(blamed).collect();
        if nodes.is_empty() {
            let held = |node: &usize| matches!(self.nodes[*node], Ballot::Granted { .. });
            let held = (0..self.nodes.len()).filter(held);
            nodes = held.map(|node| report(node, NodeProblem::TooLate)).collect();
        }
        let granted = |node: &&NodeReport| {
            use NodeProblem::{CounterMoved, TooLate, Unconfirmed};
            matches!(node.problem, Unconfirmed | TooLate | CounterMoved)
        };
        let voted = self.reached() - nodes.iter().filter(granted).count();
        let of = (self.nodes.len(), self.confirm);
        Err(NoMajority::new(name.cloned(), of, voted, nodes).into())
    }

    fn decide(&mut self, now: Instant) -> Step {
        if self.misconfigured.is_some() {
            return Step::Failed;
        }
        if let (Some(gate), true) = (self.gate, self.gated) {
            // Its counter as floor, so that the others answer the same: else one round more (d4).
            return match &self.nodes[gate] {
                Ballot::Asked => Step::Wait,
                Ballot::Busy(_) => Step::Failed,
                Ballot::Granted { vote, .. } => Step::FanOut(vote.fence),
                // A gate that does not vote keeps nobody out (d1).
                _ => Step::FanOut(Fence::NONE),
            };
        }
        if self.held() >= self.confirm {
            self.choose_token();
        }
        if let Some(token) = self.token {
            let raise = self.mark_raises(token);
            if self.confirmed() {
                // Checked after the last needed answer: a pause while acquiring is caught (H3).
                let until = self.window().until();
                return match until > now {
                    true => Step::Won(Grant { until, fence: token }),
                    false => Step::Failed,
                };
            }
            if !raise.is_empty() {
                return Step::Raise(token, raise);
            }
        }
        if self.may_win() { Step::Wait } else { self.settled() }
    }

    /// Once enough nodes hold our nonce: the largest that they replied (SAFETY.md G3).
    fn choose_token(&mut self) {
        if self.token.is_some() {
            return;
        }
        let reply = |ballot: &Ballot| match ballot {
            Ballot::Granted { vote, .. } => Some(vote.fence),
            _ => None,
        };
        self.token = self.nodes.iter().filter_map(reply).max();
        for node in 0..self.nodes.len() {
            if let Ballot::Granted { vote, .. } = self.nodes[node] {
                let token = self.stand(vote.fence);
                self.nodes[node] = Ballot::Granted { vote, token };
            }
        }
    }

    fn stand(&self, reply: Fence) -> Stand {
        if self.token == Some(reply) { Stand::Confirmed } else { Stand::Apart }
    }

    /// The nodes that hold our nonce below the token, marked as being raised. The *read* set must
    /// lie within the *confirmed* set, so one that replied more stays apart (flaw a4).
    fn mark_raises(&mut self, token: Fence) -> Vec<usize> {
        if self.confirmed() {
            return Vec::new();
        }
        let mut raise = Vec::new();
        for (node, ballot) in self.nodes.iter_mut().enumerate() {
            if let Ballot::Granted { vote, token: stand @ Stand::Apart } = ballot
                && vote.fence < token
            {
                *stand = Stand::Raising;
                raise.push(node);
            }
        }
        raise
    }

    fn may_win(&self) -> bool {
        let open = self.count(|b| match b {
            Ballot::Asked => true,
            Ballot::Granted { token, .. } => match self.token {
                None => true,
                Some(_) => matches!(token, Stand::Raising | Stand::Confirmed),
            },
            _ => false,
        });
        open >= self.confirm
    }

    /// A round that cannot win ends at once, unless another answer can still tell whether
    /// somebody holds the lock or too few nodes are there.
    fn settled(&self) -> Step {
        let asked = self.count(|b| *b == Ballot::Asked);
        let known = self.blocked_by_others()
            || self.reached() >= self.confirm
            || self.reached() + asked < self.confirm;
        if known { Step::Failed } else { Step::Wait }
    }

    fn blocked_by_others(&self) -> bool {
        self.count(|b| matches!(b, Ballot::Busy(_))) > self.nodes.len() - self.confirm
    }

    fn confirmed(&self) -> bool {
        self.count(|b| stands(b, Stand::Confirmed)) >= self.confirm
    }

    fn held(&self) -> usize {
        self.count(|b| matches!(b, Ballot::Granted { .. }))
    }

    fn reached(&self) -> usize {
        self.count(|b| matches!(b, Ballot::Granted { .. } | Ballot::Busy(_) | Ballot::Dropped))
    }

    /// When enough nodes may be free: the q-th smallest remaining lease.
    fn free_in(&self) -> Option<Duration> {
        let mut left: Vec<Duration> = self
            .nodes
            .iter()
            .filter_map(|ballot| match ballot {
                Ballot::Busy(remaining) => *remaining,
                Ballot::Granted { .. } | Ballot::Dropped => Some(Duration::ZERO),
                _ => None,
            })
            .collect();
        left.sort_unstable();
        left.get(self.confirm - 1).copied()
    }

    fn count(&self, which: impl Fn(&Ballot) -> bool) -> usize {
        self.nodes.iter().filter(|ballot| which(ballot)).count()
    }
}

fn stands(ballot: &Ballot, stand: Stand) -> bool {
    matches!(ballot, Ballot::Granted { token, .. } if *token == stand)
}

#[cfg(test)]
mod tests;
