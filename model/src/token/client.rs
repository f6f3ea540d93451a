use quorumlock_protocol::round::Step;

use super::decision::Decision;
use super::model::{ONE_ROUND, RAISED, TokenModel};
use super::rule::{Form, Loss, Rule, Windows};
use super::server::{Reply, Server, Verdict};
use super::wire::{Way, What, Wire};

/// One acquisition.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Client<const N: usize> {
    pub(super) phase: Phase,
    decision: Option<Decision>,
    pub(super) wires: [Wire; N],
    /// The acquisitions, as bits, whose tokens must be smaller: those that had returned when this
    /// one started; where windows are right, those that had returned when this one won.
    pub(super) after: u8,
    /// The token that the client proposed first, and the one that it proposes now.
    pub(super) first: u8,
    token: u8,
    /// The mark above which the client must propose another token.
    pub(super) above: Option<u8>,
    /// The token with which a release handed the name to this client. The client has not heard of
    /// it yet.
    pub(super) handoff: Option<u8>,
    /// The incarnations to which the client's requests are bound, where the model binds them.
    pub(super) bound: [u8; N],
    /// The order of grants; kept only with [`TokenModel::minds_grants`].
    pub(super) grants: Grants<N>,
}

/// The nodes that count for the client's token, as bits; and for each node the acquisitions to
/// which it had granted the name before, as bits.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Grants<const N: usize> {
    pub(super) confirmed: u8,
    pub(super) before: [u8; N],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Phase {
    Idle,
    Open,
    /// The round has decided; the client has not yet looked at the result.
    Decided,
    Returned(u8),
    Failed,
}

/// The surroundings of a client: the model, and what the client can observe.
pub(super) struct World<'a, const N: usize, const K: usize> {
    pub(super) model: &'a TokenModel<N, K>,
    /// The acquisitions that have returned, as bits.
    pub(super) returned: u8,
    pub(super) incarnations: [u8; N],
}

impl<const N: usize> Client<N> {
    pub(super) fn new() -> Self {
        Self {
            phase: Phase::Idle,
            decision: None,
            wires: std::array::from_fn(|_| Wire::default()),
            after: 0,
            first: 0,
            token: 0,
            above: None,
            handoff: None,
            bound: [0; N],
            grants: Grants { confirmed: 0, before: [0; N] },
        }
    }

    pub(super) fn has_ended(&self) -> bool {
        matches!(self.phase, Phase::Returned(_) | Phase::Failed)
    }

    pub(super) fn start<const K: usize>(&mut self, token: u8, world: &World<'_, N, K>) {
        let decision = Decision::new(world.model, token);
        decision.asked().into_iter().for_each(|node| self.wires[node].ask(What::Name));
        self.decision = Some(decision);
        (self.phase, self.after) = (Phase::Open, world.returned);
        (self.first, self.token) = (token, token);
        if world.model.loss.binds() {
            self.bound = world.incarnations;
        }
    }

    /// The node carries out the client's request.
    pub(super) fn serve<const K: usize>(
        &mut self,
        node: &mut Server,
        (me, n): (usize, usize),
        what: What,
        model: &TokenModel<N, K>,
    ) {
        let said = match what {
            _ if self.is_stale(node, n, model.loss) => Reply::Unproven,
            What::Name => node.acquire(me, self.first, model.rule, &model.claims),
            What::Token(token) => node.raise(me, token, model.rule, model.claims[me]),
        };
        if model.minds_grants && what == What::Name && matches!(said, Reply::Yes(_)) {
            self.grants.before[n] = node.granted;
            node.granted |= 1 << me;
        }
        self.wires[n].answer(what, said);
    }

    /// Whether the node has carried out the client's acquire request.
    pub(super) fn was_served(&self, n: usize) -> bool {
        self.first != 0 && !self.wires[n].asks_for(|what| what == What::Name)
    }

    /// Whether the client's requests are bound to an incarnation that the node no longer has.
    pub(super) fn is_stale(&self, node: &Server, n: usize, loss: Loss) -> bool {
        self.phase != Phase::Idle && loss.binds() && self.bound[n] != node.incarnation
    }

    pub(super) fn receive<const K: usize>(
        &mut self,
        node: usize,
        what: What,
        world: &World<'_, N, K>,
    ) {
        let (Some(said), Some(decision)) = (self.wires[node].take(what), &mut self.decision) else {
            return;
        };
        let said = believed(said, what, world.model.rule);
        let accepted = said == Reply::Yes(Verdict::Accepted);
        let step = match what {
            What::Name => decision.answered(node, Some(said), world.model),
            What::Token(_) if self.phase != Phase::Open => return,
            What::Token(_) if world.model.rule == Rule::OlderConfirms => {
                decision.raised(node, self.token, Some(said))
            }
            What::Token(token) => decision.raised(node, token, Some(said)),
        };
        let asked = if let What::Token(token) = what { token } else { self.first };
        if world.model.minds_grants && accepted && asked == self.token {
            self.grants.confirmed |= 1 << node;
        }
        self.act(step, world);
    }

    /// The client is told that no answer will come.
    pub(super) fn no_answer<const K: usize>(
        &mut self,
        node: usize,
        what: What,
        world: &World<'_, N, K>,
    ) {
        self.wires[node].give_up(what);
        let Some(decision) = &mut self.decision else { return };
        let step = match what {
            What::Name => decision.answered(node, None, world.model),
            What::Token(token) => decision.raised(node, token, None),
        };
        self.act(step, world);
    }

    /// The client hears that a release handed it the name.
    pub(super) fn receive_handoff<const K: usize>(&mut self, world: &World<'_, N, K>) {
        if let Some(token) = self.handoff.take() {
            self.end(Phase::Returned(token), world);
        }
    }

    pub(super) fn propose<const K: usize>(&mut self, token: u8, world: &World<'_, N, K>) {
        let Some(decision) = &mut self.decision else { return };
        let step = decision.propose(token);
        (self.token, self.above, self.grants.confirmed) = (token, None, 0);
        self.act(step, world);
    }

    pub(super) fn may_be_late(&self) -> bool {
        let asked = |decision: &Decision| !decision.late && decision.asked().len() == N;
        self.decision.as_ref().is_some_and(asked)
    }

    pub(super) fn is_late(&self) -> bool {
        self.decision.as_ref().is_some_and(|decision| decision.late)
    }

    /// The window of node 0 shuts.
    pub(super) fn grow_late(&mut self) {
        if let Some(decision) = &mut self.decision {
            decision.late = true;
        }
    }

    /// The client stops waiting, and takes the result of the round as it stands.
    pub(super) fn close<const K: usize>(&mut self, world: &World<'_, N, K>) {
        let Some(mut decision) = self.decision.take() else { return };
        let phase = match decision.close() {
            Step::Won(grant) => Phase::Returned(grant.token.get() as u8),
            _ => Phase::Failed,
        };
        if phase != Phase::Failed {
            world.model.once.see(if self.token == self.first { ONE_ROUND } else { RAISED });
        }
        self.end(phase, world);
    }

    /// Forgets what the client has learned: nothing reads it any more, and forgetting it merges
    /// states.
    fn end<const K: usize>(&mut self, phase: Phase, world: &World<'_, N, K>) {
        self.wires.iter_mut().for_each(Wire::abandon);
        let mut ended = Self { phase, first: self.first, bound: self.bound, ..Self::new() };
        std::mem::swap(&mut ended.wires, &mut self.wires);
        if phase != Phase::Failed {
            let at_the_win = world.model.windows != Windows::Unknown;
            ended.after = if at_the_win { world.returned } else { self.after };
            ended.grants = self.grants.clone();
        }
        *self = ended;
    }

    fn act<const K: usize>(&mut self, step: Step, world: &World<'_, N, K>) {
        if self.phase != Phase::Open {
            return;
        }
        let decided = match step {
            Step::Propose(mark) => {
                let mark = mark.get() as u8;
                self.above = Some(mark);
                // The model has no larger token to propose: the acquisition ends.
                world.model.proposals(mark).next().is_none()
            }
            Step::Raise(token, nodes) => {
                let what = What::Token(token.get() as u8);
                for node in nodes {
                    self.wires[node].ask(what);
                    if world.model.loss == Loss::Repaired(Form::IncarnationsWhenSent) {
                        self.bound[node] = world.incarnations[node];
                    }
                }
                false
            }
            Step::FanOut => {
                let others = self.decision.as_mut().map(Decision::fan_out).unwrap_or_default();
                others.into_iter().for_each(|node| self.wires[node].ask(What::Name));
                false
            }
            Step::Won(_) | Step::Failed => true,
            Step::Wait => false,
        };
        if decided {
            (self.phase, self.above) = (Phase::Decided, None);
            if world.model.frugal {
                self.close(world);
            }
        }
    }

    /// The answers and awaited requests, for [`super::Action::Hear`] and
    /// [`super::Action::Silence`].
    pub(super) fn messages(&self) -> impl Iterator<Item = (usize, What, Way)> + '_ {
        let of = |(n, wire): (usize, &'_ Wire)| {
            wire.messages().map(move |m| (n, m.what, m.way)).collect::<Vec<_>>()
        };
        self.wires.iter().enumerate().flat_map(of)
    }
}

/// The answer as the client understands it: planted bugs take a no for a yes.
fn believed(said: Reply, what: What, rule: Rule) -> Reply {
    match (rule, said, what) {
        (Rule::DenierConfirms, Reply::Busy(Verdict::Accepted), _)
        | (Rule::GoneConfirms, Reply::Gone, What::Token(_))
        | (Rule::GrantConfirms, Reply::Yes(_), What::Name) => Reply::Yes(Verdict::Accepted),
        _ => said,
    }
}
