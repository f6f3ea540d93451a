use std::time::Duration;

use quorumlock_protocol::round::{Round, Step};
use quorumlock_protocol::{
    Acceptance, Answer, Denial, FencingToken, Instant, NoAnswer, NodeProblem, NodeReport, Vote,
};

use super::model::TokenModel;
use super::rule::{Rule, Windows};
use super::server::{Reply, Verdict};
use crate::debug_hashed::DebugHashed;

/// The decision maker of a client: the library's own `Round`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Decision {
    round: DebugHashed<Round>,
    /// The window of the home node has shut. Those of the other nodes never shut here.
    pub(super) late: bool,
}

/// The instant at which nodes are asked, and one at which the window of the home node has shut.
const BEGUN: Instant = Instant::NEVER;
const LATE: Duration = Duration::from_secs(2);

impl Decision {
    pub(super) fn new<const N: usize, const K: usize>(model: &TokenModel<N, K>, token: u8) -> Self {
        let token = FencingToken::new(token.into());
        let round = match model.windows {
            Windows::HomeFirst => Round::home_first(N, model.losses, token, 0),
            _ => Round::new(N, model.losses, token),
        };
        Self { round: DebugHashed::new(round), late: false }
    }

    /// A node answered the acquire request. `None`: no answer will come.
    pub(super) fn answered<const N: usize, const K: usize>(
        &mut self,
        node: usize,
        said: Option<Reply>,
        model: &TokenModel<N, K>,
    ) -> Step {
        let first = model.windows == Windows::HomeFirst && node == 0;
        let shuts = first && model.rule != Rule::BeyondWindow;
        let until = BEGUN + if shuts { LATE / 2 } else { LATE * 2 };
        let vote = |token| Vote { until, token };
        self.change(|round, now| round.on_answer(node, answer(said, vote), now))
    }

    /// A node answered the request to accept `token`. `None`: no answer will come.
    pub(super) fn raised(&mut self, node: usize, token: u8, said: Option<Reply>) -> Step {
        let token = FencingToken::new(token.into());
        self.change(|round, now| round.raised(node, token, &answer(said, |token| token), now))
    }

    pub(super) fn propose(&mut self, token: u8) -> Step {
        self.change(|round, now| round.propose(FencingToken::new(token.into()), now))
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
        self.round = DebugHashed::new(changed);
        result
    }
}

fn answer<T>(said: Option<Reply>, yes: impl Fn(Acceptance) -> T) -> Answer<T> {
    match said {
        Some(Reply::Yes(Verdict::Accepted)) => Answer::Yes(yes(Acceptance::Accepted)),
        Some(Reply::Yes(Verdict::Behind(mark))) => {
            Answer::Yes(yes(Acceptance::Behind(FencingToken::new(mark.into()))))
        }
        Some(Reply::Busy(_)) => Answer::No(Denial::Busy(None)),
        Some(Reply::Gone) => Answer::No(Denial::Gone),
        Some(Reply::Unproven) => Answer::No(Denial::Stale(no_report())),
        None => Answer::NoAnswer(NoAnswer::Unknown(no_report())),
    }
}

fn no_report() -> NodeReport {
    NodeReport::new("", NodeProblem::TooLate)
}
