//! Pure: one acquisition on N nodes, from the answers to the decision.
//!
//! No socket, task, clock or random source: answers and `now` come in, a [`Step`] goes out.
//!
//! The fencing rule (SAFETY.md, Tokens): all nodes are asked to accept one token, in the same step in which they
//! grant the name. Won when enough nodes *that hold our nonce* have accepted the same token, inside the window.
//! If enough hold and too few accept, another token is proposed to those that hold, above the largest mark that
//! they showed. Nodes that we do not hold never count, whatever they say (SAFETY.md a1), nor do those that have
//! granted and not accepted (SAFETY.md a4).

use std::time::Duration;

use quorumlock_core::{
    Acceptance, Acquired, Answer, ConfigError, Denial, Error, Fence, Grant, Instant, MOST_RAISES,
    Name, NoMajority, NodeProblem, NodeReport, Silence, Vote, Window, quorum_of,
};

/// One acquisition attempt.
#[derive(Clone, Debug)]
pub struct Round {
    /// How many must hold our nonce and accept the token: a majority, or more to survive lost marks.
    confirm: usize,
    nodes: Vec<Ballot>,
    /// What is proposed now.
    token: Fence,
    /// How often another token was proposed.
    raises: u32,
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
        until: Instant,
        token: Stand,
    },
    /// Granted, but it held our nonce no more when another token was proposed.
    Dropped,
    Busy(Option<Duration>),
    Refused(NodeReport),
    Silent(Silence),
    Stale(NodeReport),
}

/// Where a node that holds our nonce stands towards the token that is proposed now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stand {
    /// It was not asked for this token yet: it granted at an earlier one.
    Unasked,
    Asked,
    Accepted,
    /// Its mark is this, or larger.
    Behind(Fence),
    /// It did not answer.
    Unconfirmed,
    /// Asked, and no longer waited for.
    Late,
    /// It was verified anew meanwhile.
    Stale,
}

/// What to do now.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Wait for more answers.
    Wait,
    /// Ask the nodes other than the gate.
    FanOut,
    /// Propose another token, above this mark: [`Round::propose`].
    Propose(Fence),
    /// Ask these nodes, which hold our nonce, to accept the token.
    Raise(Fence, Vec<usize>),
    /// Won.
    Won(Grant),
    /// Cannot be won any more; [`Round::failure`] says why.
    Failed,
}

impl Round {
    /// All `nodes` were asked to accept `token`, which is to stay unique while the marks of `losses` nodes are
    /// lost: any two sets of `(N + losses + 1) / 2` nodes have more than `losses` in common.
    pub fn new(nodes: usize, losses: usize, token: Fence) -> Self {
        Self {
            confirm: quorum_of(nodes).max((nodes + losses + 1).div_ceil(2)).min(nodes),
            nodes: vec![Ballot::Asked; nodes],
            token,
            raises: 0,
            misconfigured: None,
            gate: None,
            gated: false,
        }
    }

    /// As that, by somebody who stands in line at `gate` if it is refused: a no of that node is told apart
    /// ([`Acquired::KeptOut`]).
    pub fn standing(nodes: usize, losses: usize, token: Fence, gate: usize) -> Self {
        Self { gate: Some(gate), ..Self::new(nodes, losses, token) }
    }

    /// Only `gate` was asked: of many contenders one gets past it, and does not split the votes with
    /// the others. Advice: [`Round::fan_out`] at any time makes it an ordinary round.
    pub fn gated(nodes: usize, losses: usize, token: Fence, gate: usize) -> Self {
        let mut round = Self { gated: true, ..Self::standing(nodes, losses, token, gate) };
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
            // What it says is of the first token.
            Answer::Yes(Vote { until, token }) => {
                let token = if self.raises == 0 { stand(token) } else { Stand::Unasked };
                Ballot::Granted { until, token }
            }
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

    /// Another token is proposed to the nodes that hold our nonce, those that accepted the one before included.
    pub fn propose(&mut self, token: Fence, now: Instant) -> Step {
        self.token = token;
        self.raises += 1;
        for ballot in &mut self.nodes {
            if let Ballot::Granted { token, .. } = ballot
                && !matches!(token, Stand::Stale | Stand::Unconfirmed | Stand::Late)
            {
                *token = Stand::Unasked;
            }
        }
        self.decide(now)
    }

    /// A node that was asked to accept `token` answered.
    pub fn raised(
        &mut self,
        node: usize,
        token: Fence,
        answer: &Answer<Acceptance>,
        now: Instant,
    ) -> Step {
        if let Ballot::Granted { token: stands, .. } = &mut self.nodes[node] {
            match answer {
                Answer::Yes(said) if token == self.token => *stands = stand(*said),
                // Of a token that is no longer proposed.
                Answer::Yes(_) => {}
                // It expired, or was taken: its vote is void, not just its confirmation.
                Answer::No(Denial::Gone | Denial::Busy(_) | Denial::NotAdmitted(_)) => {
                    self.nodes[node] = Ballot::Dropped
                }
                Answer::No(Denial::Stale(_)) => *stands = Stand::Stale,
                // A spoilt mark: whatever it holds, it is no vote.
                Answer::No(Denial::Refused(report)) => {
                    self.nodes[node] = Ballot::Refused(report.clone());
                }
                _ => *stands = Stand::Unconfirmed,
            }
        }
        self.decide(now)
    }

    /// No more answers are waited for.
    pub fn close(&mut self, now: Instant) -> Step {
        for ballot in &mut self.nodes {
            match ballot {
                Ballot::Asked => *ballot = Ballot::Late,
                Ballot::Granted { token: token @ Stand::Asked, .. } => *token = Stand::Late,
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
            if let Ballot::Granted { until, .. } = ballot {
                window.holds(node, *until);
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
        let again = |ballot: &Ballot| match ballot {
            Ballot::Stale(_) => true,
            Ballot::Granted { token, .. } => matches!(token, Stand::Stale | Stand::Behind(_)),
            _ => false,
        };
        if self.count(again) > 0 {
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
            Ballot::Granted { token: Stand::Late, .. } => {
                waited.map(|_| report(node, NodeProblem::Unconfirmed))
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
            matches!(node.problem, NodeProblem::Unconfirmed | NodeProblem::TooLate)
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
            return match &self.nodes[gate] {
                Ballot::Asked => Step::Wait,
                Ballot::Busy(_) => Step::Failed,
                // It has granted; or it does not vote, and keeps nobody out (d1).
                _ => Step::FanOut,
            };
        }
        if self.accepted(Instant::NEVER) >= self.confirm {
            // Checked after the last needed answer: a pause while acquiring is caught (H3). Those that accepted
            // hold our nonce now: else the token may be behind that of a hold in between (SAFETY.md a6).
            return match self.accepted(now) >= self.confirm {
                true => Step::Won(Grant { until: self.window().until(), fence: self.token }),
                false => Step::Failed,
            };
        }
        let raise = self.mark_raises();
        if !raise.is_empty() {
            return Step::Raise(self.token, raise);
        }
        // Those that are not heard of yet may never be: a trip is shorter than their timeout.
        if self.open() < self.confirm
            && self.open() + self.raisable() >= self.confirm
            && let Some(mark) = self.largest_mark()
        {
            return Step::Propose(mark);
        }
        if self.may_win() { Step::Wait } else { self.settled() }
    }

    /// The nodes that hold our nonce and were not asked to accept the token yet, which they are now.
    fn mark_raises(&mut self) -> Vec<usize> {
        let mut raise = Vec::new();
        for (node, ballot) in self.nodes.iter_mut().enumerate() {
            if let Ballot::Granted { token: stand @ Stand::Unasked, .. } = ballot {
                *stand = Stand::Asked;
                raise.push(node);
            }
        }
        raise
    }

    fn largest_mark(&self) -> Option<Fence> {
        let mark = |ballot: &Ballot| match ballot {
            Ballot::Granted { token: Stand::Behind(mark), .. } => Some(*mark),
            _ => None,
        };
        self.nodes.iter().filter_map(mark).max()
    }

    /// How many of the nodes that hold our nonce have accepted the token, or may.
    fn open(&self) -> usize {
        self.count(|b| {
            matches!(
                b,
                Ballot::Granted { token: Stand::Unasked | Stand::Asked | Stand::Accepted, .. }
            )
        })
    }

    fn may_win(&self) -> bool {
        let asked = self.count(|b| *b == Ballot::Asked);
        asked + self.open() + self.raisable() >= self.confirm
    }

    /// How many may accept another token.
    fn raisable(&self) -> usize {
        match self.raises < MOST_RAISES {
            true => self.count(|b| matches!(b, Ballot::Granted { token: Stand::Behind(_), .. })),
            false => 0,
        }
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

    /// How many have accepted the token, and hold our nonce at `now`.
    fn accepted(&self, now: Instant) -> usize {
        self.count(
            |b| matches!(b, Ballot::Granted { token: Stand::Accepted, until } if *until > now),
        )
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

fn stand(said: Acceptance) -> Stand {
    match said {
        Acceptance::Accepted => Stand::Accepted,
        Acceptance::Behind(mark) => Stand::Behind(mark),
    }
}

#[cfg(test)]
mod tests;
