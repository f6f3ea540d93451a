//! The latency between a client and a node, and whether the path between them is cut.

use super::time::{MS, Micros};
use super::world::State;

impl State {
    /// The one-way latency of what is sent now.
    pub fn latency(&mut self, client: usize, node: usize) -> Micros {
        if self.plan.instant {
            return 0;
        }
        let (base, jitter) = (self.plan.latency, self.plan.jitter);
        let far = (client * 7 + node * 3) as u64 % 4;
        let usual = base * (4 + far) / 4 + self.dice.within(0, jitter);
        if !self.healed && self.dice.chance(self.plan.odds.delay) {
            let most = self.plan.answer_timeout.max(self.plan.lease);
            return usual + self.dice.spread(MS, most);
        }
        usual
    }
}
