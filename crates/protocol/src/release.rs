//! Pure: what the answers of the nodes to a release mean together (PROTOCOL.md REL4).

use crate::{Answer, Instant, Notified, ReleaseOutcome, Window, quorum_of};

/// A release on N nodes.
#[derive(Clone, Debug)]
pub struct Release {
    /// The nodes that are asked: all that may hold the nonce, at least.
    asked: Vec<bool>,
    /// Until when each node surely holds the nonce; `None`: nothing is known.
    held: Option<Window>,
}

impl Release {
    /// A release of a hold with this window on the nodes that `asked` has.
    pub fn new(asked: Vec<bool>, held: Option<Window>) -> Self {
        Self { asked, held }
    }

    /// The same release, on all nodes.
    #[must_use]
    pub fn on_all(mut self) -> Self {
        self.asked.fill(true);
        self
    }

    /// Whether this node is asked.
    pub fn asks(&self, node: usize) -> bool {
        self.asked[node]
    }

    /// How many nodes are asked.
    pub fn asked(&self) -> usize {
        self.asked.iter().filter(|asked| **asked).count()
    }

    /// Until when this node surely holds the nonce.
    pub fn held_until(&self, node: usize) -> Instant {
        self.held.as_ref().map_or(Instant::NEVER, |held| held.held_until(node))
    }

    /// Whether no majority may hold the nonce any more, so that another client can be granted the
    /// lock.
    pub fn is_freed(&self, answers: &[Option<Answer<ReleaseOutcome>>]) -> bool {
        self.silent(answers).count() <= self.asked.len() - self.quorum()
    }

    /// Whether a node that surely held the nonce, and remembers, denies it.
    fn is_disputed(&self, answers: &[Option<Answer<ReleaseOutcome>>]) -> bool {
        let denies = |(node, said): (usize, &Option<_>)| {
            self.held_until(node) > Instant::NEVER
                && matches!(
                    said,
                    Some(Answer::Yes(ReleaseOutcome { held: false, forgot: false, .. }))
                )
        };
        answers.iter().enumerate().any(denies)
    }

    /// Whether another client can be granted the lock, and no node's denial makes the answers of the
    /// others matter.
    pub fn is_enough(&self, answers: &[Option<Answer<ReleaseOutcome>>], now: Instant) -> bool {
        self.is_freed(answers) && !self.is_disputed(answers) || self.is_settled(answers, now)
    }

    /// Whether no further answer can change what the release tells.
    pub fn is_settled(&self, answers: &[Option<Answer<ReleaseOutcome>>], now: Instant) -> bool {
        let open = (0..self.asked.len()).any(|node| self.asks(node) && answers[node].is_none());
        !open
            || self.is_freed(answers)
                && (count(answers, |said| said.held) >= self.quorum()
                    || !self.was_held(answers, now))
    }

    /// Whether the lock was held until its release: the nodes that held the nonce, and those that do
    /// not tell and surely held it, are a majority. A node's "not held" counts against it if the
    /// node remembers, and nothing is known of the hold.
    pub fn was_held(&self, answers: &[Option<Answer<ReleaseOutcome>>], now: Instant) -> bool {
        let held = count(answers, |said| said.held);
        let open = self.silent(answers).chain(self.forgot(answers));
        let open = open.filter(|node| self.held_until(*node) > now).count();
        match self.held {
            Some(_) => held + open >= self.quorum(),
            None => {
                let denials = count(answers, |said| !said.held && !said.forgot);
                denials <= self.asked.len() - self.quorum()
            }
        }
    }

    /// What the release tells of the hold, and whom it notified, if all nodes told or one notified a
    /// waiter.
    pub fn outcome(
        &self,
        answers: &[Option<Answer<ReleaseOutcome>>],
        now: Instant,
    ) -> ReleaseOutcome {
        let said = answers.iter().flatten().filter_map(|answer| match answer {
            Answer::Yes(said) => Some(said),
            _ => None,
        });
        let notified = said.clone().filter_map(|said| said.notified).max();
        // A node whose answer is missing may have notified a waiter.
        let all_told = said.count() == self.asked();
        ReleaseOutcome {
            held: self.was_held(answers, now),
            forgot: false,
            notified: notified.filter(|notified| *notified == Notified::Waiter || all_told),
        }
    }

    /// The nodes that were asked and do not say whether they held the nonce.
    fn silent(&self, answers: &[Option<Answer<ReleaseOutcome>>]) -> impl Iterator<Item = usize> {
        let tells = |node: &usize| matches!(answers[*node], Some(Answer::Yes(_)));
        (0..self.asked.len()).filter(move |node| self.asks(*node) && !tells(node))
    }

    fn forgot(&self, answers: &[Option<Answer<ReleaseOutcome>>]) -> impl Iterator<Item = usize> {
        let forgot =
            |node: &usize| matches!(&answers[*node], Some(Answer::Yes(said)) if said.forgot);
        (0..self.asked.len()).filter(forgot)
    }

    fn quorum(&self) -> usize {
        quorum_of(self.asked.len())
    }
}

fn count(
    answers: &[Option<Answer<ReleaseOutcome>>],
    which: impl Fn(&ReleaseOutcome) -> bool,
) -> usize {
    let said = answers.iter().flatten();
    said.filter(|answer| matches!(answer, Answer::Yes(said) if which(said))).count()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{Denial, NodeProblem, NodeReport};

    /// What each node says: `h` held, `g` gone, `f` forgot, `e` an error, `.` nothing yet, ` ` it is
    /// not asked. `held`: `h` it surely holds the nonce, `.` it does not.
    fn release(said: &str, held: &str) -> (bool, bool, bool) {
        let now = Instant::NEVER + Duration::from_secs(1);
        let mut window = Window::shut(said.len());
        for (node, _) in held.chars().enumerate().filter(|(_, held)| *held == 'h') {
            window.record_held(node, now + Duration::from_secs(1));
        }
        let release = Release::new(said.chars().map(|c| c != ' ').collect(), Some(window));
        let outcome = |held, forgot| ReleaseOutcome { held, forgot, notified: None };
        let freed = |held, forgot| Some(Answer::Yes(outcome(held, forgot)));
        let refused = || NodeReport::new("a", NodeProblem::OutOfMemory("b".to_owned()));
        let answers: Vec<_> = said
            .chars()
            .map(|said| match said {
                'h' => freed(true, false),
                'g' => freed(false, false),
                'f' => freed(false, true),
                'e' => Some(Answer::No(Denial::Refused(refused()))),
                _ => None,
            })
            .collect();
        (
            release.is_freed(&answers),
            release.is_settled(&answers, now),
            release.was_held(&answers, now),
        )
    }

    #[test]
    fn another_client_can_have_the_lock_once_no_majority_may_hold_it() {
        for (said, freed) in [
            (".", false),
            ("h", true),
            ("...", false),
            ("h..", false),
            ("hg.", true),
            ("h. ", true),
            (".. ", false),
            ("h..  ", true),
            ("...  ", false),
            ("hh...", false),
            ("hge..", false),
            ("hgf..", true),
        ] {
            assert_eq!(release(said, &"h".repeat(said.len())).0, freed, "{said}");
        }
    }

    /// PROTOCOL.md REL4.
    #[test]
    fn it_was_held_if_a_majority_held_it_or_surely_did() {
        for (said, held, settled, was_held) in [
            ("h", "h", true, true),
            ("g", "h", true, false),
            ("hh.", "hhh", true, true),
            ("hg.", "hhh", false, true),
            ("hgg", "hhh", true, false),
            // The third node was not asked for the lock, or is dead.
            ("hh ", "hh.", true, true),
            ("h. ", "hh.", false, true),
            ("he ", "hh.", true, true),
            ("hg ", "hh.", true, false),
            ("hf ", "hh.", true, true),
            ("hf ", "h..", true, false),
            ("h..  ", "hhh..", false, true),
            ("hg.  ", "hhh..", true, false),
            ("hhh..", "hhhhh", true, true),
            // Two nodes have never held it: what they say counts for nothing.
            ("hh.gg", "hhh..", false, true),
            ("hh.gg", "hh...", true, false),
            ("hhegg", "hhh..", true, true),
            ("ggg..", "hhhhh", true, false),
        ] {
            let (_, told, outcome) = release(said, held);
            assert_eq!((told, outcome), (settled, was_held), "{said} {held}");
        }
    }
}
