//! When a holder begins to believe, is seen to believe, and believes no more.

use super::belief::Belief;
use super::world::State;

impl State {
    /// The holder of the attempt begins to believe.
    pub fn begin_belief(&mut self, attempt: usize, token: Option<u64>) {
        let Some(of) = self.ledger.attempts.get(attempt) else { return };
        let (client, claim, asked) = (of.client, of.claim.clone(), of.asked);
        let beliefs = &mut self.ledger.beliefs;
        let granted = beliefs.step();
        beliefs.open.insert(attempt, beliefs.all.len());
        beliefs.all.push(Belief { client, claim, asked, granted, until: granted, token });
        self.see_beliefs();
    }

    /// A holder whose lease is valid believes up to here.
    pub fn see_beliefs(&mut self) {
        let step = self.ledger.beliefs.step();
        for (attempt, place) in self.ledger.beliefs.open.clone() {
            if self.is_valid(attempt) {
                self.ledger.beliefs.all[place].until = step;
            }
        }
    }

    /// The holder of the attempt believes no more.
    pub fn end_belief(&mut self, attempt: usize) {
        let valid = self.is_valid(attempt);
        let beliefs = &mut self.ledger.beliefs;
        let Some(place) = beliefs.open.remove(&attempt) else { return };
        if valid {
            beliefs.all[place].until = beliefs.step();
        }
    }

    /// A process is gone, and all that it believed.
    pub fn end_beliefs_of(&mut self, client: usize) {
        let attempts = self.ledger.beliefs.open.keys().copied();
        let own = |attempt: &usize| self.ledger.attempts[*attempt].client == client;
        for attempt in attempts.filter(own).collect::<Vec<_>>() {
            self.end_belief(attempt);
        }
    }
}
