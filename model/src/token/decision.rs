use std::time::Duration;

use quorumlock_core::{
    Acceptance, Answer, Denial, Fence, Instant, NodeProblem, NodeReport, Silence, Vote,
};
use quorumlock_quorum::round::{Round, Step};

use super::TokenModel;
use super::rule::{Rule, Windows};
use super::server::{Said, Verdict};
use crate::kept::Kept;

/// Who decides for a client: what the library runs.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Decision {
    round: Kept<Round>,
    /// The window of the node that was asked first has shut; those of the others never do here.
    pub(super) late: bool,
}

/// When all nodes are asked, and when the window of the first one has shut.
const BEGUN: Instant = Instant::NEVER;
const LATE: Duration = Duration::from_secs(2);

impl Decision {
    pub(super) fn new<const N: usize, const K: usize>(model: &TokenModel<N, K>, token: u8) -> Self {
        let token = Fence::new(token.into());
        let round = match model.windows {
            Windows::HomeFirst => Round::gated(N, model.losses, token, 0),
            _ => Round::new(N, model.losses, token),
        };
        Self { round: Kept::new(round), late: false }
    }

    /// A node answered the acquire request; `None`: it never will.
    pub(super) fn heard<const N: usize, const K: usize>(
        &mut self,
        node: usize,
        said: Option<Said>,
        model: &TokenModel<N, K>,
    ) -> Step {
        let first = model.windows == Windows::HomeFirst && node == 0;
        let shuts = first && model.rule != Rule::BeyondWindow;
        let until = BEGUN + if shuts { LATE / 2 } else { LATE * 2 };
        let vote = |token| Vote { until, token };
        self.change(|round, now| round.heard(node, answer(said, vote), now))
    }

    /// A node answered the request to accept `token`.
    pub(super) fn raised(&mut self, node: usize, token: u8, said: Option<Said>) -> Step {
        let token = Fence::new(token.into());
        self.change(|round, now| round.raised(node, token, &answer(said, |token| token), now))
    }

    pub(super) fn propose(&mut self, token: u8) -> Step {
        self.change(|round, now| round.propose(Fence::new(token.into()), now))
    }

    pub(super) fn fan_out(&mut self) -> Vec<usize> {
        self.change(|round, _| round.fan_out())
    }

    pub(super) fn asked(&self) -> Vec<usize> {
        self.round.asked()
    }

    pub(super) fn close(&mut self) -> Step {
        self.change(|round, now| round.close(now))
    }

    fn change<T>(&mut self, act: impl FnOnce(&mut Round, Instant) -> T) -> T {
        let mut changed = Round::clone(&self.round);
        let now = if self.late { BEGUN + LATE } else { BEGUN };
        let result = act(&mut changed, now);
        self.round = Kept::new(changed);
        result
    }
}

fn answer<T>(said: Option<Said>, yes: impl Fn(Acceptance) -> T) -> Answer<T> {
    match said {
        Some(Said::Yes(Verdict::Accepted)) => Answer::Yes(yes(Acceptance::Accepted)),
        Some(Said::Yes(Verdict::Behind(mark))) => {
            Answer::Yes(yes(Acceptance::Behind(Fence::new(mark.into()))))
        }
        Some(Said::Busy(_)) => Answer::No(Denial::Busy(None)),
        Some(Said::Gone) => Answer::No(Denial::Gone),
        Some(Said::Unproven) => Answer::No(Denial::Stale(no_report())),
        None => Answer::Silent(Silence::Maybe(no_report())),
    }
}

fn no_report() -> NodeReport {
    NodeReport::new("", NodeProblem::TooLate)
}
