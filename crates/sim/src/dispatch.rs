//! Which code handles an event.

use super::event::Event;
use super::invariants::wake;
use super::world::State;

impl State {
    /// Handles an event, or leaves it to the time at which its client resumes.
    pub fn happen(&mut self, event: Event) {
        wake::check_owed(self);
        if let Some(client) = event.client() {
            let process = &mut self.processes[client];
            if process.dead {
                return self.unheard(event);
            }
            if !process.hears {
                process.inbox.push(event);
                return;
            }
        }
        match event {
            Event::Dialed(conn) => self.dialed(conn),
            Event::Arrive(arrival) => self.arrive(arrival),
            Event::Bytes(conn, bytes) => self.bytes(conn, &bytes),
            Event::Message(conn, bytes, notification) => self.message(conn, &bytes, notification),
            Event::Writable(conn) => self.writable(conn),
            Event::Reset(conn) => self.reset(conn),
            Event::Closed(conn) => self.closed(conn),
            Event::Fault(moment) => self.fault(moment),
            Event::End(ending) => self.end(ending),
        }
    }
}
