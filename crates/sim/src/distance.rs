//! The latency between a client and a node, and whether the path between them is cut.

use super::link::LinkId;
use super::time::{MS, Micros};
use super::world::State;

impl State {
    /// The one-way latency of one message.
    pub fn latency(&mut self, at: LinkId) -> Micros {
        if self.plan.instant {
            return 0;
        }
        let (base, jitter) = (self.plan.latency, self.plan.jitter);
        let far = (at.client * 7 + at.node * 3) as u64 % 4;
        let usual = base * (4 + far) / 4 + self.dice.within(0, jitter);
        if !self.healed && self.dice.chance(self.plan.odds.delay) {
            let most = self.plan.answer_timeout.max(self.plan.lease);
            return usual + self.dice.spread(MS, most);
        }
        usual
    }

    pub fn is_cut(&self, client: usize, node: usize) -> bool {
        let (requests, replies) = self.cuts[self.processes[client].slot][node];
        requests > self.now || replies > self.now
    }
}
