//! Pure: one acquisition on N nodes, from the answers to the decision.
//!
//! No socket, task, clock or random source: answers and `now` come in, a [`Step`] goes out.
//!
//! The fencing rule (SAFETY.md, Tokens): let H be the nodes that granted this nonce. If a majority of
//! all nodes replied the same value, that is the token (equal-set rule: one round trip in the
//! steady state). Else the token is the largest reply, and the other nodes of H are raised to it,
//! **only while they still hold this nonce**. Won when a majority *that hold our nonce* stand at
//! the token, inside the window. Nodes that we do not hold never count, whatever they say.

use std::time::Duration;

use quorumlock_core::{
    Acquired, Answer, ConfigError, Denial, Error, Fence, Grant, Instant, NodeReport, Silence,
    Unreachable, Vote, Window, quorum_of,
};

/// One acquisition attempt.
#[derive(Clone, Debug)]
pub struct Round {
    quorum: usize,
    nodes: Vec<Ballot>,
    token: Option<Fence>,
    misconfigured: Option<ConfigError>,
}

/// What one node has said so far.
#[derive(Clone, Debug, PartialEq)]
enum Ballot {
    Asked,
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
}

/// What to do now.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Wait for more answers.
    Wait,
    /// Raise the counters of these nodes to the token.
    Raise(Fence, Vec<usize>),
    /// Won.
    Won(Grant),
    /// Cannot be won any more; [`Round::failure`] says why.
    Failed,
}

impl Round {
    /// All `nodes` were asked.
    pub fn new(nodes: usize) -> Self {
        Self {
            quorum: quorum_of(nodes),
            nodes: vec![Ballot::Asked; nodes],
            token: None,
            misconfigured: None,
        }
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
                let report = NodeReport::new("node", error.to_string());
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
                _ => *token = Stand::Unconfirmed,
            }
        }
        self.decide(now)
    }

    /// No more answers are waited for.
    pub fn close(&mut self, now: Instant, missing: impl Fn(usize) -> NodeReport) -> Step {
        for (node, ballot) in self.nodes.iter_mut().enumerate() {
            match ballot {
                Ballot::Asked => *ballot = Ballot::Silent(Silence::Maybe(missing(node))),
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
            Ballot::Asked | Ballot::Granted { .. } | Ballot::Refused(_) => true,
            Ballot::Silent(silence) => matches!(silence, Silence::Maybe(_)),
            Ballot::Dropped | Ballot::Busy(_) | Ballot::Stale(_) => false,
        }
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

    /// Why the round was not won.
    pub fn failure(&self) -> Result<Acquired, Error> {
        if let Some(error) = &self.misconfigured {
            return Err(error.clone().into());
        }
        if self.blocked_by_others() || self.reached() >= self.quorum && self.held() < self.quorum {
            return Ok(Acquired::Busy(self.free_in()));
        }
        if self.count(|b| matches!(b, Ballot::Stale(_))) > 0 {
            return Ok(Acquired::Again);
        }
        let silent = |ballot: &Ballot| match ballot {
            Ballot::Silent(silence) => Some(silence.report().clone()),
            Ballot::Refused(report) => Some(report.clone()),
            Ballot::Granted { token: Stand::Unconfirmed, .. } => {
                Some(NodeReport::new("a node", "granted, but did not confirm the fencing token"))
            }
            _ => None,
        };
        let mut nodes: Vec<_> = self.nodes.iter().filter_map(silent).collect();
        if nodes.is_empty() {
            nodes.push(NodeReport::new("all nodes", "answered after the lease had ended"));
        }
        Err(Unreachable::new(self.quorum, nodes).into())
    }

    fn decide(&mut self, now: Instant) -> Step {
        if self.misconfigured.is_some() {
            return Step::Failed;
        }
        if self.held() >= self.quorum {
            self.choose_token();
        }
        if let Some(token) = self.token {
            let raise = self.mark_raises(token);
            if self.count(|b| stands(b, Stand::Confirmed)) >= self.quorum {
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

    /// Once a majority holds our nonce: what they all reply, or the largest (SAFETY.md G3).
    fn choose_token(&mut self) {
        if self.token.is_some() {
            return;
        }
        let mut replies: Vec<Fence> = self
            .nodes
            .iter()
            .filter_map(|ballot| match ballot {
                Ballot::Granted { vote, .. } => Some(vote.fence),
                _ => None,
            })
            .collect();
        replies.sort_unstable();
        let equal = replies.chunk_by(|a, b| a == b).find(|set| set.len() >= self.quorum);
        let token = equal.and_then(<[_]>::first).or_else(|| replies.last()).copied();
        self.token = token;
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
        if self.count(|b| stands(b, Stand::Confirmed)) >= self.quorum {
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
        open >= self.quorum
    }

    /// A round that cannot win ends at once, unless another answer can still tell whether
    /// somebody holds the lock or too few nodes are there.
    fn settled(&self) -> Step {
        let asked = self.count(|b| *b == Ballot::Asked);
        let known = self.blocked_by_others()
            || self.reached() >= self.quorum
            || self.reached() + asked < self.quorum;
        if known { Step::Failed } else { Step::Wait }
    }

    fn blocked_by_others(&self) -> bool {
        self.count(|b| matches!(b, Ballot::Busy(_))) > self.nodes.len() - self.quorum
    }

    fn held(&self) -> usize {
        self.count(|b| matches!(b, Ballot::Granted { .. }))
    }

    fn reached(&self) -> usize {
        self.count(|b| matches!(b, Ballot::Granted { .. } | Ballot::Busy(_) | Ballot::Dropped))
    }

    /// When a majority may be free: the q-th smallest remaining lease.
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
        left.get(self.quorum - 1).copied()
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
