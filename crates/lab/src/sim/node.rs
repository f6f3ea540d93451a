use std::sync::Arc;

use quorumlock_core::{
    Answer, Collect, Counter, Fence, Freed, Holder, Instant, Lane, Listening, Name, Node, ReplyTo,
    Stamp, Term, Vote,
};

use super::ask::{Ask, To};
use super::link::LinkId;
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

    fn post(&self, lane: Lane, ask: Ask, to: To) {
        let link = LinkId { client: self.client, node: self.node, lane };
        self.world.with(|state| state.post(link, ask, to));
    }
}

impl Node for SimNode {
    fn label(&self) -> &str {
        &self.label
    }

    fn stamp(&self) -> Stamp {
        Stamp::NONE
    }

    fn acquire(&self, term: &Term, counter: Counter, _: Stamp, to: ReplyTo<Answer<Vote>>) {
        self.post(Lane::Work, Ask::Acquire(term.clone(), counter), To::Vote(to));
    }

    fn raise(&self, term: &Term, fence: Fence, _: Stamp, to: ReplyTo<Answer<()>>) {
        self.post(Lane::Work, Ask::Raise(term.clone(), fence), To::Done(to));
    }

    /// Only with admission, which is not simulated yet.
    fn recreate(&self, _: &Term, _: Fence, _: Lane, _: ReplyTo<Answer<Instant>>) {}

    fn renew(&self, terms: &[Term], lane: Lane, to: ReplyTo<Vec<Answer<Instant>>>) {
        self.post(lane, Ask::Renew(terms.to_vec()), To::Until(to));
    }

    fn release(&self, term: &Term, lane: Lane, to: ReplyTo<Answer<Freed>>) {
        self.post(lane, Ask::Release(term.clone()), To::Freed(to));
    }

    fn inspect(&self, name: &Name, to: ReplyTo<Answer<Option<Holder>>>) {
        self.post(Lane::Work, Ask::Inspect(name.clone()), To::Holder(to));
    }

    fn force_release(&self, name: &Name, to: ReplyTo<Answer<bool>>) {
        self.post(Lane::Work, Ask::ForceRelease(name.clone()), To::Forced(to));
    }

    fn listen(&self, name: &Name, to: Arc<dyn Collect<()>>, from: usize) -> Listening {
        let (client, node) = (self.client, self.node);
        let id = self.world.with(|state| {
            if state.closed {
                return 0;
            }
            let first = !state.processes[client].waits_for(node, name);
            let id = state.processes[client].listen(node, name, (to, from));
            let delay = state.ear_latency(client, node);
            let event = match first {
                true => Event::Subscribe(client, node, name.clone()),
                // The channel is subscribed already; the newcomer looks again all the same.
                false => Event::Subscribed(client, node, name.clone()),
            };
            state.after(delay, event);
            id
        });
        Box::new(Hearing { world: self.world.clone(), client, node, name: name.clone(), id })
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
            let (last, gone) = process.unlisten(self.node, &self.name, self.id);
            if last {
                let server = &mut state.servers[self.node];
                server.subscribed.remove(&(self.name.clone(), self.client));
            }
            gone
        });
        // Not under the world's lock: it may be the last of what calls back into it.
        drop(gone);
    }
}
