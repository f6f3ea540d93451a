//! Which code handles an event.

use super::event::Event;
use super::world::State;

impl State {
    /// Handles an event, or leaves it to the time at which its client resumes.
    pub fn happen(&mut self, event: Event) {
        if let Some(client) = event.client() {
            let process = &mut self.processes[client];
            if process.dead {
                return;
            }
            if process.stopped {
                process.inbox.push(event);
                return;
            }
        }
        match event {
            Event::Arrive(arrival) => self.arrive(arrival),
            Event::Answer(link, connection, id, reply) => self.answer(link, connection, id, reply),
            Event::Redial(link, connection) => self.redial(link, connection),
            Event::Dialed(link, connection, last) => self.dialed(link, connection, last),
            Event::Greeted(link, connection, run, handshake) => {
                self.greeted(link, connection, run, handshake);
            }
            Event::Recheck(link, connection) => self.recheck(link, connection),
            Event::Stall(link, connection) => self.stall(link, connection),
            Event::Broken(link, connection) => self.broken_from_outside(link, connection),
            Event::Subscribe(client, node) => self.subscribe(client, node),
            Event::Subscribed(client, node) => self.subscribed(client, node),
            Event::Message(client, node, name, handoff) => {
                self.message((client, node), &name, handoff);
            }
            Event::Fault(moment) => self.fault(moment),
            Event::End(ending) => self.end(ending),
        }
    }
}
