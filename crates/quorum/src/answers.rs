//! Pure: what the answers of all nodes to one question are worth together.

use std::collections::HashMap;

use quorumlock_core::{
    Answer, ConfigError, Denial, Error, Holder, Instant, NodeReport, Unreachable,
};

/// The answers of all nodes, sorted by what they are worth.
pub(crate) struct Answers<T> {
    quorum: usize,
    yes: Vec<T>,
    silent: Vec<NodeReport>,
    misconfigured: Option<ConfigError>,
}

impl<T> Answers<T> {
    pub(crate) fn sort(
        quorum: usize,
        answers: Vec<Option<Answer<T>>>,
        late: impl Fn(usize) -> NodeReport,
    ) -> Self {
        let mut sorted = Self { quorum, yes: Vec::new(), silent: Vec::new(), misconfigured: None };
        for (i, answer) in answers.into_iter().enumerate() {
            match answer {
                Some(Answer::Yes(value)) => sorted.yes.push(value),
                Some(Answer::No(Denial::Config(error))) => {
                    sorted.misconfigured.get_or_insert(error);
                }
                Some(Answer::No(
                    Denial::Refused(report) | Denial::NotAdmitted(report) | Denial::Stale(report),
                )) => {
                    sorted.silent.push(report);
                }
                Some(Answer::Silent(silence)) => sorted.silent.push(silence.report().clone()),
                Some(Answer::No(Denial::Busy(_) | Denial::Gone)) => {}
                None => sorted.silent.push(late(i)),
            }
        }
        sorted
    }

    /// What a majority or more said.
    pub(crate) fn decide(self) -> Result<Vec<T>, Error> {
        match self.misconfigured {
            Some(error) => Err(error.into()),
            None if self.yes.len() < self.quorum => {
                Err(Unreachable::new(self.quorum, self.silent).into())
            }
            None => Ok(self.yes),
        }
    }
}

pub(crate) fn definite<T>(answers: &[Option<Answer<T>>]) -> usize {
    answers.iter().flatten().filter(|answer| matches!(answer, Answer::Yes(_))).count()
}

/// Whether waiting on can still change something for this lease of a batch: it is renewed by a
/// majority, or cannot be any more.
pub(crate) fn is_settled(
    answers: &[Option<Vec<Answer<Instant>>>],
    lease: usize,
    quorum: usize,
) -> bool {
    let open = answers.iter().filter(|said| said.is_none()).count();
    let yes = |said: &&Vec<Answer<Instant>>| matches!(said.get(lease), Some(Answer::Yes(_)));
    let yes = answers.iter().flatten().filter(yes).count();
    yes >= quorum || yes + open < quorum
}

pub(crate) fn held_by(answer: &Answer<Option<Holder>>) -> Option<&Holder> {
    match answer {
        Answer::Yes(holder) => holder.as_ref(),
        _ => None,
    }
}

/// The largest group of holders with one id, if it has at least `least` members.
pub(crate) fn majority<'a>(
    holders: impl Iterator<Item = &'a Holder>,
    least: usize,
) -> Option<Vec<&'a Holder>> {
    let mut by_id: HashMap<&str, Vec<&Holder>> = HashMap::new();
    for holder in holders {
        by_id.entry(&holder.id).or_default().push(holder);
    }
    by_id.into_values().max_by_key(Vec::len).filter(|same| same.len() >= least)
}
