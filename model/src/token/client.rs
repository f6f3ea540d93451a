use std::mem;

use quorumlock_quorum::round::Step;

use super::decision::Decision;
use super::server::{Answer, Said, Server};
use super::{Form, Loss, N, ONE_ROUND, Rule, SECOND_ROUND, TokenModel};

/// One acquisition.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Client {
    pub(super) phase: Phase,
    decision: Decision,
    pub(super) wires: [Wire; N],
    /// The acquisitions that had returned when it started, as bits.
    pub(super) after: u8,
    raised: bool,
    /// The latest life of node 0 that it has heard of, and the one whose grant it counts.
    noted: u8,
    vote: u8,
    /// The stamps to which its requests are bound, where they are.
    bound: [u8; N],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Phase {
    Idle,
    Open,
    /// Decided, but not yet looked at.
    Decided,
    Returned(u8),
    Failed,
}

/// What is between a client and a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Wire {
    Nothing,
    Asked,
    /// Nobody waits for the answer any more, the request may be carried out all the same.
    AskedLate,
    Granted(Answer),
    Raising(u8),
    RaisingLate(u8),
    Raised(Answer),
}

impl Wire {
    pub(super) fn is_request(&self) -> bool {
        !self.is_answer() && *self != Self::Nothing
    }

    pub(super) fn is_answer(&self) -> bool {
        matches!(self, Self::Granted(_) | Self::Raised(_))
    }

    /// Nobody waits for the answer any more.
    fn abandon(&mut self) {
        *self = match *self {
            Self::Asked | Self::AskedLate => Self::AskedLate,
            Self::Raising(token) | Self::RaisingLate(token) => Self::RaisingLate(token),
            _ => Self::Nothing,
        };
    }
}

impl Client {
    pub(super) fn new(rule: Rule) -> Self {
        Self {
            phase: Phase::Idle,
            decision: Decision::new(rule),
            wires: [Wire::Nothing; N],
            after: 0,
            raised: false,
            noted: 0,
            vote: 0,
            bound: [0; N],
        }
    }

    pub(super) fn start(&mut self, after: u8, nodes: &[Server; N], loss: Loss) {
        self.phase = Phase::Open;
        self.wires = [Wire::Asked; N];
        self.after = after;
        if loss.binds() {
            self.bound = nodes.each_ref().map(|node| node.noted);
        }
    }

    /// The node carries out what was asked of it.
    pub(super) fn serve<const K: usize>(
        &mut self,
        node: &mut Server,
        me: usize,
        n: usize,
        model: &TokenModel<K>,
    ) {
        let stale = self.is_stale(node, n, model.loss);
        let wire = &mut self.wires[n];
        let answer = match *wire {
            _ if stale => node.answer(Said::Refused),
            Wire::Raising(token) | Wire::RaisingLate(token) => {
                node.raise(me, token, model.rule, model.nudges)
            }
            _ => node.acquire(me, model.rule, model.loss, model.nudges),
        };
        *wire = match wire {
            Wire::Asked => Wire::Granted(answer),
            Wire::Raising(_) => Wire::Raised(answer),
            _ => Wire::Nothing,
        };
    }

    /// Whether the node has carried out what it was asked first.
    pub(super) fn was_served(&self, n: usize) -> bool {
        self.phase != Phase::Idle && !matches!(self.wires[n], Wire::Asked | Wire::AskedLate)
    }

    /// Whether a request is bound to a stamp that the node no longer has.
    pub(super) fn is_stale(&self, node: &Server, n: usize, loss: Loss) -> bool {
        self.phase != Phase::Idle && loss.binds() && self.bound[n] != node.noted
    }

    pub(super) fn hear<const K: usize>(
        &mut self,
        node: usize,
        nodes: &[Server; N],
        model: &TokenModel<K>,
    ) {
        match mem::replace(&mut self.wires[node], Wire::Nothing) {
            Wire::Granted(answer) => {
                let answer = self.mind_lives(node, answer, nodes, model);
                if node == 0 {
                    self.vote = answer.life;
                }
                let step = self.decision.heard(node, Some(answer.said));
                self.act(step, nodes, model);
            }
            Wire::Raised(answer) if self.phase == Phase::Open => {
                let answer = self.mind_lives(node, answer, nodes, model);
                let said = match answer.said {
                    Said::Gone if model.rule == Rule::RefusalConfirms => Said::Yes(0),
                    said => said,
                };
                let step = self.decision.raised(node, Some(said));
                self.act(step, nodes, model);
            }
            _ => {}
        }
    }

    pub(super) fn silence<const K: usize>(
        &mut self,
        node: usize,
        nodes: &[Server; N],
        model: &TokenModel<K>,
    ) {
        let step = match self.wires[node] {
            Wire::Raising(_) => self.decision.raised(node, None),
            _ => self.decision.heard(node, None),
        };
        self.wires[node].abandon();
        self.act(step, nodes, model);
    }

    pub(super) fn close<const K: usize>(&mut self, model: &TokenModel<K>) {
        let phase = match self.decision.close() {
            Step::Won(grant) => Phase::Returned(grant.fence.get() as u8),
            _ => Phase::Failed,
        };
        self.wires.iter_mut().for_each(Wire::abandon);
        // What it has learned matters no more: forgetting it merges states.
        let (wires, bound) = (self.wires, self.bound);
        let mut ended = Self { phase, wires, bound, ..Self::new(model.rule) };
        if let Phase::Returned(_) = phase {
            model.once.see(if self.raised { SECOND_ROUND } else { ONE_ROUND });
            ended.after = self.after;
        }
        *self = ended;
    }

    /// The barrier (form (b) of safety.md 2a, "One lost node made safe"): an answer that knows of
    /// a later life of node 0 voids node 0's earlier vote *before* it is counted itself.
    fn mind_lives<const K: usize>(
        &mut self,
        node: usize,
        answer: Answer,
        nodes: &[Server; N],
        model: &TokenModel<K>,
    ) -> Answer {
        if model.loss != Loss::Repaired(Form::Lives) {
            return answer;
        }
        let before = self.noted;
        self.noted = before.max(answer.noted);
        if node == 0 {
            let said = if answer.life < self.noted { Said::Gone } else { answer.said };
            return Answer { said, ..answer };
        }
        if before < self.noted && self.vote < self.noted {
            let step = self.decision.raised(0, Some(Said::Gone));
            self.act(step, nodes, model);
        }
        answer
    }

    fn act<const K: usize>(&mut self, step: Step, servers: &[Server; N], model: &TokenModel<K>) {
        match step {
            Step::Raise(token, nodes) if self.phase == Phase::Open => {
                self.raised = true;
                for node in nodes {
                    self.wires[node] = Wire::Raising(token.get() as u8);
                    if model.loss == Loss::Repaired(Form::StampsWhenSent) {
                        self.bound[node] = servers[node].noted;
                    }
                }
            }
            Step::Won(_) | Step::Failed if self.phase == Phase::Open => {
                self.phase = Phase::Decided;
                if model.frugal {
                    self.close(model);
                }
            }
            _ => {}
        }
    }
}
