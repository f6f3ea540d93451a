use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use quorumlock_protocol::{Answer, Denial, Instant, NodeProblem, NodeReport};

/// Which nodes did not carry out the watchdog's last renewal, and why. For messages: a lost lock is most
/// often the trouble of some nodes.
#[derive(Clone, Debug, Default)]
pub struct RenewalProblems(Arc<Mutex<BTreeMap<usize, Asked>>>);

/// A node that has not answered, or has not carried out what it was asked.
#[derive(Debug)]
struct Asked {
    label: String,
    /// Since when it has not answered.
    silent_since: Option<Instant>,
    problem: Option<NodeReport>,
}

/// A node that answers needs less. A node that was asked just now has no trouble yet.
const MIN_SILENCE: Duration = Duration::from_millis(100);

impl RenewalProblems {
    /// Notes that a node is asked to renew leases.
    pub fn asked(&self, node: usize, label: &str, now: Instant) {
        let mut nodes = self.nodes();
        let asked = nodes.entry(node).or_insert_with(|| Asked {
            label: label.to_owned(),
            silent_since: None,
            problem: None,
        });
        asked.silent_since.get_or_insert(now);
    }

    /// Notes a node's answers. A node has no trouble if it answers that it no longer holds a lease.
    pub fn answered(&self, node: usize, answers: &[Answer<Instant>]) {
        let mut nodes = self.nodes();
        match (answers.iter().find_map(problem), nodes.get_mut(&node)) {
            (Some(report), Some(asked)) => {
                (asked.silent_since, asked.problem) = (None, Some(report.clone()));
            }
            _ => drop(nodes.remove(&node)),
        }
    }

    /// The nodes with trouble at `now`, in their order.
    pub fn all(&self, now: Instant) -> Vec<NodeReport> {
        let trouble = |asked: &Asked| {
            let silent = asked.silent_since.map(|since| now.since(since));
            let silent = silent.filter(|silent| *silent >= MIN_SILENCE);
            let no_answer = |silent: Duration| {
                let seconds = Duration::from_secs_f64((silent.as_secs_f64() * 10.0).round() / 10.0);
                NodeReport::new(asked.label.clone(), NodeProblem::NoAnswer(seconds))
            };
            silent.map(no_answer).or_else(|| asked.problem.clone())
        };
        self.nodes().values().filter_map(trouble).collect()
    }

    fn nodes(&self) -> MutexGuard<'_, BTreeMap<usize, Asked>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn problem(answer: &Answer<Instant>) -> Option<&NodeReport> {
    match answer {
        Answer::NoAnswer(none) => Some(none.report()),
        Answer::No(
            Denial::Stale(report) | Denial::NotAdmitted(report) | Denial::Refused(report),
        ) => Some(report),
        Answer::Yes(_) | Answer::No(Denial::Gone | Denial::Busy(_) | Denial::Config(_)) => None,
    }
}

#[cfg(test)]
mod tests {
    use quorumlock_protocol::NoAnswer;
    use quorumlock_watchdog::Clock;

    use super::*;

    #[test]
    fn a_node_has_trouble_until_it_carries_out_a_renewal() {
        let (clock, problems) = (Clock::manual(), RenewalProblems::default());
        let ask = || (0..3).for_each(|node| problems.asked(node, "n", clock.now()));
        let told = || problems.all(clock.now()).len();
        ask();
        assert_eq!(told(), 0, "asked just now");
        problems.answered(0, &[Answer::Yes(clock.now())]);
        let broken = NodeReport::new("n", NodeProblem::Broken("it broke".into()));
        problems.answered(1, &[Answer::NoAnswer(NoAnswer::Unknown(broken.clone()))]);
        assert_eq!(problems.all(clock.now()), [broken]);
        clock.advance(Duration::from_secs(1));
        ask();
        let silent = NodeProblem::NoAnswer(Duration::from_secs(1));
        assert_eq!(problems.all(clock.now())[1].problem, silent, "since it was first asked");
        problems.answered(1, &[Answer::No(Denial::Gone)]);
        problems.answered(2, &[Answer::Yes(clock.now())]);
        assert_eq!(told(), 0);
    }
}
