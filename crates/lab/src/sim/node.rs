use std::sync::Arc;

use quorumlock_core::admission::{Marks, Sheet, Voter};
use quorumlock_core::{
    Acceptance, Answer, Asked, Collect, Fence, Freed, Held, Holder, InLine, Instant, Lane,
    Listening, Name, News, Node, NodeProblem, NodeReport, Offer, Proposal, ReplyTo, Slot, Spot,
    Stamp, Term, Vote,
};

use super::ask::{Ask, Filed, Office, To};
use super::link::LinkId;
use super::mutants::Bug;
use super::store::Store;
use super::world::{Event, World};

/// A simulated node, as one client sees it: the same trait as the real one.
#[derive(Debug)]
pub struct SimNode {
    world: World,
    client: usize,
    node: usize,
    label: String,
}

impl SimNode {
    pub(super) fn new(world: World, client: usize, node: usize) -> Self {
        let label = world.with(|state| state.servers[node].label.clone());
        Self { world, client, node, label }
    }

    /// Deletes a lock by hand, as an operator would; whether it was there.
    pub fn delete(&self, name: &Name) -> bool {
        self.world.with(|state| state.servers[self.node].store.drop_lock(name))
    }

    /// Deletes everything by hand: the server goes on as it is.
    pub fn flush(&self) {
        self.world.with(|state| state.servers[self.node].store = Store::default());
    }

    /// The mark of a name's slot.
    pub fn mark(&self, name: &Name) -> Option<u64> {
        self.world.with(|state| state.servers[self.node].store.marks.get(&name.slot()).copied())
    }

    /// How many wait for a name.
    pub fn waiting(&self, name: &Name) -> usize {
        self.world.with(|state| {
            let server = &state.servers[self.node];
            server.store.waiting(name, server.clock.micros(state.now))
        })
    }

    /// Whether this client can be told of its turn.
    pub fn hears(&self) -> bool {
        self.world.with(|state| {
            let process = state.processes.get(self.client);
            process.is_some_and(|process| process.tuned[self.node].1)
        })
    }

    fn post(&self, lane: Lane, ask: Ask, to: To) {
        let link = LinkId { client: self.client, node: self.node, lane };
        self.world.with(|state| state.post(link, ask, to));
    }
}

impl Node for SimNode {
    fn label(&self) -> &str {
        &self.label
    }

    fn identity(&self) -> u64 {
        self.world.with(|state| state.identity(self.client, self.node))
    }

    fn stamp(&self) -> Stamp {
        self.world.with(|state| state.known_stamp(self.client, self.node))
    }

    fn acquire(
        &self,
        term: &Term,
        proposal: Proposal,
        stamp: Stamp,
        in_line: Option<InLine>,
        to: ReplyTo<Answer<Vote>>,
    ) {
        let in_line = in_line.filter(|in_line| in_line.before.is_some() || self.hears());
        self.post(Lane::Work, Ask::Acquire(term.clone(), proposal, stamp, in_line), To::Vote(to));
    }

    fn raise(&self, term: &Term, token: Fence, stamp: Stamp, to: ReplyTo<Answer<Acceptance>>) {
        self.post(Lane::Work, Ask::Raise(term.clone(), token, stamp), To::Raised(to));
    }

    fn recreate(&self, term: &Term, fence: Fence, lane: Lane, to: ReplyTo<Answer<Instant>>) {
        self.post(lane, Ask::Recreate(term.clone(), fence), To::One(to));
    }

    fn renew(&self, terms: &[Term], lane: Lane, to: ReplyTo<Vec<Answer<Instant>>>) {
        self.post(lane, Ask::Renew(terms.to_vec()), To::Until(to));
    }

    fn release(
        &self,
        term: &Term,
        held: Held,
        lane: Lane,
        spot: Option<Spot>,
        to: ReplyTo<Answer<Freed>>,
    ) {
        let spot = spot.filter(|spot| !spot.stands() || self.hears());
        self.post(lane, Ask::release(term, held, spot), To::Freed(to));
    }

    fn connected_since(&self, lane: Lane) -> Option<Instant> {
        let link = LinkId { client: self.client, node: self.node, lane };
        self.world.with(|state| state.connected_since(link))
    }

    fn inspect(&self, name: &Name, to: ReplyTo<Answer<Option<Holder>>>) {
        self.post(Lane::Work, Ask::Inspect(name.clone()), To::Holder(to));
    }

    fn force_release(&self, name: &Name, to: ReplyTo<Answer<bool>>) {
        self.post(Lane::Work, Ask::ForceRelease(name.clone()), To::Forced(to));
    }

    fn leave(&self, name: &Name, offered: Option<&(Term, Offer)>) {
        if let Some((term, offer)) = offered {
            let release = Ask::release(term, Held::UNKNOWN, Some(Spot::Left(*offer)));
            self.post(Lane::Work, release, To::Freed(ReplyTo::nobody()));
        } else if self.hears() {
            self.post(Lane::Work, Ask::Leave(name.clone()), To::Forced(ReplyTo::nobody()));
        }
    }

    fn hands_over(&self) -> bool {
        self.world.with(|state| state.plan.charter.is_none())
    }

    fn listen(&self, name: &Name, to: Arc<dyn Collect<News>>, from: usize) -> Listening {
        let (client, node) = (self.client, self.node);
        let id = self.world.with(|state| {
            if state.closed {
                return 0;
            }
            let id = state.processes[client].listen(node, name, (to, from));
            match state.processes[client].tuned[node] {
                (_, true) if state.bug == Some(Bug::NoLookAfterSubscribe) => {}
                // The newcomer looks again all the same.
                (_, true) => state.tell_ears(client, node, name, News::Ask),
                (true, false) => {}
                (false, false) => {
                    state.processes[client].tuned[node].0 = true;
                    let delay = state.ear_latency(client, node);
                    state.after(delay, Event::Subscribe(client, node));
                }
            }
            id
        });
        Box::new(Hearing { world: self.world.clone(), client, node, name: name.clone(), id })
    }
}

impl SimNode {
    fn office(&self, office: Office) -> Asked<Result<Filed, NodeReport>> {
        let (slot, to) = Slot::new();
        self.post(Lane::Keep, Ask::Office(office), To::Filed(to));
        let label = self.label.clone();
        Box::pin(async move {
            match slot.await {
                Answer::Yes(filed) => Ok(filed),
                Answer::No(denial) => {
                    Err(NodeReport::new(label, NodeProblem::Malformed(format!("{denial:?}"))))
                }
                Answer::Silent(silence) => Err(silence.report().clone()),
            }
        })
    }

    fn number(&self, office: Office) -> Asked<Result<u64, NodeReport>> {
        let told = self.office(office);
        Box::pin(async move {
            told.await.map(|filed| match filed {
                Filed::Number(number) => number,
                Filed::Sheet(_) | Filed::Marks(_) => 0,
            })
        })
    }
}

impl Voter for SimNode {
    fn proven(&self) -> bool {
        self.world.with(|state| state.known_proven(self.client, self.node))
    }

    fn examine(&self) -> Asked<Result<Sheet, NodeReport>> {
        let told = self.office(Office::Examine);
        let label = self.label.clone();
        Box::pin(async move {
            match told.await? {
                Filed::Sheet(sheet) => Ok(*sheet),
                Filed::Number(_) | Filed::Marks(_) => {
                    Err(NodeReport::new(label, NodeProblem::Malformed("no sheet".into())))
                }
            }
        })
    }

    fn note(&self, id: &str) -> Asked<Result<(), NodeReport>> {
        let told = self.number(Office::Note(id.to_owned()));
        Box::pin(async move { told.await.map(|_| ()) })
    }

    fn barrier(&self, stamp: &str) -> Asked<Result<Marks, NodeReport>> {
        let told = self.office(Office::Barrier(stamp.to_owned()));
        let label = self.label.clone();
        Box::pin(async move {
            match told.await? {
                Filed::Marks(marks) => Ok(marks),
                _ => Err(NodeReport::new(label, NodeProblem::Malformed("no marks".into()))),
            }
        })
    }

    fn admit(&self, note: &str, stamp: &str, marks: &Marks) -> Asked<Result<bool, NodeReport>> {
        let (note, stamp, marks) = (note.to_owned(), stamp.to_owned(), marks.clone());
        let told = self.number(Office::Admit { note, stamp, marks });
        Box::pin(async move { told.await.map(|done| done == 1) })
    }

    fn provision(&self, stamp: &str, replace: bool) -> Asked<Result<bool, NodeReport>> {
        let told = self.number(Office::Provision { stamp: stamp.to_owned(), replace });
        Box::pin(async move { told.await.map(|done| done == 1) })
    }
}

struct Hearing {
    world: World,
    client: usize,
    node: usize,
    name: Name,
    id: u64,
}

impl Drop for Hearing {
    fn drop(&mut self) {
        let gone = self.world.with(|state| {
            let process = state.processes.get_mut(self.client)?;
            process.unlisten(self.node, &self.name, self.id)
        });
        // Not under the world's lock: it may be the last of what calls back into it.
        drop(gone);
    }
}
