use quorumlock_core::{Answer, Denial, Fence, Instant, NodeProblem, NodeReport, Silence, Vote};
use quorumlock_quorum::round::{Round, Step};

use super::server::Said;
use super::shortcut::Tally;
use super::{N, Rule};
use crate::kept::Kept;

/// Who decides for a client.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Decision {
    /// What the library runs.
    Library(Kept<Round>),
    /// The copy into which bugs can be planted.
    Copy(Tally),
}

/// No lease ends in this model.
const NOW: Instant = Instant::NEVER;

impl Decision {
    pub(super) fn new(rule: Rule) -> Self {
        match rule {
            Rule::Library | Rule::RefusalConfirms | Rule::RaiseUnheld | Rule::ConfirmUnraised => {
                Self::Library(Kept::new(Round::new(N, 0)))
            }
            Rule::LargestHeld | Rule::DenierConfirms | Rule::MedianReply => {
                Self::Copy(Tally::new(rule))
            }
        }
    }

    /// A node answered the acquire request; `None`: it never will.
    pub(super) fn heard(&mut self, node: usize, said: Option<Said>) -> Step {
        let vote = |counter: u8| Vote { until: open(), fence: Fence::new(counter.into()) };
        match self {
            Self::Library(round) => change(round, |r| r.heard(node, answer(said, vote), NOW)),
            Self::Copy(tally) => tally.heard(node, said),
        }
    }

    /// A node answered the raise request, or its vote is void.
    pub(super) fn raised(&mut self, node: usize, said: Option<Said>) -> Step {
        match self {
            Self::Library(round) => change(round, |r| r.raised(node, &answer(said, |_| ()), NOW)),
            Self::Copy(tally) => tally.raised(node, said),
        }
    }

    pub(super) fn close(&mut self) -> Step {
        match self {
            Self::Library(round) => change(round, |r| r.close(NOW)),
            Self::Copy(tally) => tally.decide(),
        }
    }
}

/// The end of a lease that has not ended.
pub(super) fn open() -> Instant {
    NOW + std::time::Duration::from_nanos(1)
}

fn change(round: &mut Kept<Round>, act: impl FnOnce(&mut Round) -> Step) -> Step {
    let mut changed = Round::clone(round);
    let step = act(&mut changed);
    *round = Kept::new(changed);
    step
}

fn answer<T>(said: Option<Said>, yes: impl Fn(u8) -> T) -> Answer<T> {
    match said {
        Some(Said::Yes(counter)) => Answer::Yes(yes(counter)),
        Some(Said::Busy(_)) => Answer::No(Denial::Busy(None)),
        Some(Said::Gone) => Answer::No(Denial::Gone),
        Some(Said::Refused) => Answer::No(Denial::Refused(no_report())),
        None => Answer::Silent(Silence::Maybe(no_report())),
    }
}

fn no_report() -> NodeReport {
    NodeReport::new("", NodeProblem::TooLate)
}
