//! Fencing tokens (docs/SAFETY.md, Tokens): clients propose them, nodes accept what is above their
//! marks.
//!
//! Any name may become free at any moment (expiry, release, deletion: all the same here), every
//! request and every answer may be late or lost, a client may give up at any moment, and it
//! proposes any number. So the search sees the tokens exactly where an argument by leases or by
//! clocks would have failed. Where a search asks for the order of *holds*, windows are right
//! instead ([`Windows`]).

mod client;
mod decision;
mod frugal;
mod orders;
mod repair;
mod rule;
mod server;
mod wire;

use quorumlock_core::quorum_of;
use stateright::{Model, Property};

use crate::search::Once;
use client::{Client, Phase, World};
use repair::Repair;
pub use rule::{Form, Loss, Rule, Windows};
use server::Server;
use wire::Way;
pub use wire::What;

/// What [`Once`] is told of wins.
const RAISED: u32 = 3;
const ONE_ROUND: u32 = 4;

/// What is searched; `N` nodes, `K` acquisitions.
#[derive(Debug)]
pub struct TokenModel<const N: usize, const K: usize> {
    /// Which rule.
    pub rule: Rule,
    /// What becomes of lost data.
    pub loss: Loss,
    /// Of how many nodes the marks may be lost, as clients count.
    pub losses: usize,
    /// What is known of the time for which nodes hold a nonce.
    pub windows: Windows,
    /// The marks before the first acquisition.
    pub marks: Vec<[u8; N]>,
    /// No larger token is proposed.
    pub top: u8,
    /// How many tokens a block has: proposals are the last ones of blocks.
    pub block: u8,
    /// So many times, all in all, marks move for a client that is refused, and nobody is told.
    pub nudges: u8,
    /// So many requests, all in all, are carried out once more; nobody hears the answer.
    pub copies: u8,
    /// Releases hand the name over to clients that wait.
    pub hands_over: bool,
    /// The order of grants at each node is minded.
    pub minds_grants: bool,
    /// Leaves out what cannot matter.
    pub frugal: bool,
    /// Each property speaks once.
    pub once: Once,
}

impl<const N: usize, const K: usize> TokenModel<N, K> {
    /// From marks of zero, with tokens up to 4, leaving out what cannot matter.
    pub fn new(rule: Rule, loss: Loss) -> Self {
        Self {
            rule,
            loss,
            losses: 0,
            windows: Windows::Unknown,
            marks: vec![[0; N]],
            top: 4,
            block: 1,
            nudges: 0,
            copies: 0,
            hands_over: false,
            minds_grants: false,
            frugal: true,
            once: Once::default(),
        }
    }

    /// Leaves out nothing; clients also look at a decision late, and are told that no answer will
    /// come.
    pub fn in_full(self) -> Self {
        Self { frugal: false, ..self }
    }

    /// With tokens up to `top`.
    pub fn up_to(self, top: u8) -> Self {
        Self { top, ..self }
    }

    /// With blocks of this size.
    pub fn in_blocks(self, block: u8) -> Self {
        Self { block, ..self }
    }

    /// With marks that move for clients that are refused.
    pub fn nudged(self, nudges: u8) -> Self {
        Self { nudges, ..self }
    }

    /// With requests that are carried out twice.
    pub fn repeated(self, copies: u8) -> Self {
        Self { copies, ..self }
    }

    /// With windows that are right.
    pub fn with_windows(self, windows: Windows) -> Self {
        Self { windows, ..self }
    }

    /// Minds the order in which each node grants.
    pub fn minding_grants(self) -> Self {
        Self { minds_grants: true, ..self }
    }

    /// Clients tolerate the loss of so many nodes' marks.
    pub fn tolerating(self, losses: usize) -> Self {
        Self { losses, ..self }
    }

    /// With releases that hand the name over.
    pub fn handing_over(self) -> Self {
        Self { hands_over: true, ..self }
    }

    /// From these marks.
    pub fn starting_at(self, marks: [u8; N]) -> Self {
        Self { marks: vec![marks], ..self }
    }

    /// From any marks up to `most`.
    pub fn uneven(self, most: u8) -> Self {
        let mut marks = vec![[0; N]];
        for n in 0..N {
            let all = |start: [u8; N]| (0..=most).map(move |mark| set(start, n, mark));
            marks = marks.into_iter().flat_map(all).collect();
        }
        // Sorted: nodes are alike, but for the one that loses its data.
        let first = usize::from(self.loss != Loss::Never);
        marks.retain(|marks| marks[first..].is_sorted());
        Self { marks, ..self }
    }

    /// What a client may propose above a mark.
    fn proposals(&self, mark: u8) -> impl Iterator<Item = u8> + use<N, K> {
        let block = if self.rule == Rule::Unrounded { 1 } else { self.block };
        (mark + 1..=self.top).filter(move |token| token % block == block - 1)
    }
}

fn set<const N: usize>(mut marks: [u8; N], n: usize, mark: u8) -> [u8; N] {
    marks[n] = mark;
    marks
}

/// Everything there is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State<const N: usize, const K: usize> {
    nodes: [Server; N],
    clients: [Client<N>; K],
    repair: Repair<N>,
    nudged: u8,
    copied: u8,
    hands: u8,
}

/// One step of the world. The first numbers are those of the client and the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// A client asks all nodes for the name, and proposes this token.
    Start(usize, u8),
    /// As that, and a node carries it out.
    Begin(usize, usize, u8),
    /// A node carries out a request of the client.
    Serve(usize, usize, What),
    /// The client hears the node's answer.
    Hear(usize, usize, What),
    /// The client is told that no answer will come.
    Silence(usize, usize, What),
    /// The client proposes another token.
    Propose(usize, u8),
    /// The client's window of node 0 shuts.
    Late(usize),
    /// The client waits no longer.
    Close(usize),
    /// The name is free at a node.
    Expire(usize),
    /// A node grants the client's request again, though it has lost the name.
    Again(usize, usize),
    /// The node's mark moves for somebody who is refused.
    Nudge(usize, u8),
    /// The holder's release gives the name to this client, which has proposed this token.
    Hand(usize, usize, u8),
    /// The client hears of that.
    HearHand(usize),
    /// Node 0 loses its data; the nodes are alike, so it may as well be that one.
    Lose,
    /// A node shows its mark to the repair of node 0.
    Show(usize),
    /// Node 0 counts again.
    Admit,
}

impl<const N: usize, const K: usize> Model for TokenModel<N, K> {
    type State = State<N, K>;
    type Action = Action;

    fn init_states(&self) -> Vec<Self::State> {
        let start = |marks: &[u8; N]| State {
            nodes: marks.map(Server::new),
            clients: std::array::from_fn(|_| Client::new()),
            repair: Repair::new(),
            nudged: 0,
            copied: 0,
            hands: 0,
        };
        self.marks.iter().map(start).collect()
    }

    fn actions(&self, state: &Self::State, actions: &mut Vec<Action>) {
        // A client proposes in the step in which it hears that it must.
        for (c, client) in state.clients.iter().enumerate() {
            if let Some(mark) = client.wish {
                actions.extend(self.proposals(mark).map(|token| Action::Propose(c, token)));
                return;
            }
        }
        match self.frugal {
            true => self.few_actions(state, actions),
            false => self.many_actions(state, actions),
        }
        self.other_actions(state, actions);
        if self.loss != Loss::Never {
            state.repair.actions(self.loss, &state.nodes, actions);
        }
    }

    fn next_state(&self, state: &Self::State, action: Action) -> Option<Self::State> {
        let mut next = state.clone();
        let world = World { model: self, returned: state.returned(), stamps: state.stamps() };
        let State { nodes, clients, repair, nudged, copied, hands } = &mut next;
        match action {
            Action::Start(c, token) => clients[c].start(token, &world),
            Action::Begin(c, n, token) => {
                clients[c].start(token, &world);
                clients[c].serve(&mut nodes[n], (c, n), What::Name, self);
                if self.hears_at_once(What::Name) {
                    clients[c].hear(n, What::Name, &world);
                }
            }
            Action::Serve(c, n, what) => {
                clients[c].serve(&mut nodes[n], (c, n), what, self);
                if self.hears_at_once(what) {
                    clients[c].hear(n, what, &world);
                }
            }
            Action::Hear(c, n, what) => clients[c].hear(n, what, &world),
            Action::Silence(c, n, what) => {
                clients[c].silence(n, what, &world);
                if self.frugal && clients[c].wish.is_none() {
                    return None;
                }
            }
            Action::Propose(c, token) => clients[c].propose(token, &world),
            Action::Late(c) => clients[c].grow_late(),
            Action::Close(c) => clients[c].close(&world),
            Action::Expire(n) => nodes[n].holder = None,
            Action::Again(c, n) => {
                *copied += 1;
                let _unheard = nodes[n].acquire(c, clients[c].first, self.rule);
            }
            Action::Nudge(n, mark) => {
                *nudged += 1;
                nodes[n].mark = mark;
            }
            Action::Hand(c, n, token) => {
                *hands += 1;
                if clients[c].phase == Phase::Idle {
                    clients[c].start(token, &world);
                }
                clients[c].handed = nodes[n].hand(c, self.block, self.rule);
            }
            Action::HearHand(c) => clients[c].hear_hand(&world),
            Action::Lose => repair.lose(self.loss, nodes),
            Action::Show(n) => repair.show(n, self.loss, nodes),
            Action::Admit => repair.admit(nodes),
        }
        if self.frugal {
            self.tidy(&mut next);
        }
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        self.all_properties()
    }
}

impl<const N: usize, const K: usize> TokenModel<N, K> {
    /// All that clients and nodes may do now; [`Self::few_actions`] leaves out what cannot matter.
    fn many_actions(&self, state: &State<N, K>, actions: &mut Vec<Action>) {
        for (c, client) in state.clients.iter().enumerate() {
            if client.phase == Phase::Idle {
                actions.extend(self.proposals(0).map(|token| Action::Start(c, token)));
                // In order of their numbers: clients are alike.
                break;
            }
            if matches!(client.phase, Phase::Open | Phase::Decided) {
                actions.push(Action::Close(c));
            }
            for (n, what, way) in client.messages() {
                match way {
                    Way::Answered(_) => actions.push(Action::Hear(c, n, what)),
                    _ => actions.push(Action::Serve(c, n, what)),
                }
                if way == Way::Asked && client.phase == Phase::Open {
                    actions.push(Action::Silence(c, n, what));
                }
            }
        }
    }

    /// What happens to names and marks.
    fn other_actions(&self, state: &State<N, K>, actions: &mut Vec<Action>) {
        for (n, node) in state.nodes.iter().enumerate() {
            if state.nudged < self.nudges {
                actions.extend((node.mark + 1..=self.top).map(|mark| Action::Nudge(n, mark)));
            }
            let Some(holder) = node.holder else {
                let again = |(c, client): (usize, &Client<N>)| {
                    (state.copied < self.copies && client.was_served(n))
                        .then_some(Action::Again(c, n))
                };
                actions.extend(state.clients.iter().enumerate().filter_map(again));
                continue;
            };
            let holder = &state.clients[usize::from(holder)];
            if self.may_go(holder, n) {
                actions.push(Action::Expire(n));
            }
            if self.hands_over && holder.has_ended() && node.mark != 0 {
                self.hands(state, n, actions);
            }
        }
        let handed = |c: &usize| state.clients[*c].handed.is_some();
        actions.extend((0..K).filter(handed).map(Action::HearHand));
        if self.windows == Windows::HomeFirst {
            let may = |c: &usize| state.clients[*c].may_be_late();
            actions.extend((0..K).filter(may).map(Action::Late));
        }
    }

    /// To whom a release may hand the name over.
    fn hands(&self, state: &State<N, K>, n: usize, actions: &mut Vec<Action>) {
        for (c, client) in state.clients.iter().enumerate() {
            if client.phase == Phase::Idle {
                // It has been refused, and that is when its search begins.
                actions.extend(self.proposals(0).map(|token| Action::Hand(c, n, token)));
                break;
            }
            if client.phase == Phase::Open && !client.was_served(n) {
                actions.push(Action::Hand(c, n, client.first));
            }
        }
    }

    /// Whether a node's name may become free, though its holder has not given it up there.
    fn may_go(&self, holder: &Client<N>, n: usize) -> bool {
        match self.windows {
            Windows::Unknown => true,
            Windows::Right => holder.has_ended(),
            Windows::HomeFirst => holder.has_ended() || n == 0 && holder.is_late(),
        }
    }
}

impl<const N: usize, const K: usize> State<N, K> {
    /// The acquisitions that have returned, as bits.
    fn returned(&self) -> u8 {
        let returned = |c: &usize| matches!(self.clients[*c].phase, Phase::Returned(_));
        (0..K).filter(returned).fold(0, |set, c| set | 1 << c)
    }

    fn stamps(&self) -> [u8; N] {
        self.nodes.each_ref().map(|node| node.stamp)
    }
}
