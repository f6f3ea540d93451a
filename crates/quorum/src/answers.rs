//! Pure: what the answers of all nodes to one question are worth together.

use std::collections::HashMap;

use quorumlock_core::{
    Answer, Denial, Error, Freed, Holder, Instant, Name, NoMajority, NodeReport,
};

/// What a majority or more said; `late` tells of a node that has not answered.
pub(crate) fn decide<T>(
    name: Option<Name>,
    quorum: usize,
    answers: Vec<Option<Answer<T>>>,
    late: impl Fn(usize) -> NodeReport,
) -> Result<Vec<T>, Error> {
    let misconfigured = answers.iter().flatten().find_map(|answer| match answer {
        Answer::No(Denial::Config(error)) => Some(error.clone()),
        _ => None,
    });
    if let Some(error) = misconfigured {
        return Err(error.into());
    }
    let (of, voted) = (answers.len(), definite(&answers));
    if voted >= quorum {
        let yes = |answer| match answer {
            Some(Answer::Yes(value)) => Some(value),
            _ => None,
        };
        return Ok(answers.into_iter().filter_map(yes).collect());
    }
    let silent = |(node, answer)| match answer {
        Some(Answer::No(
            Denial::Refused(report) | Denial::NotAdmitted(report) | Denial::Stale(report),
        )) => Some(report),
        Some(Answer::Silent(silence)) => Some(silence.report().clone()),
        Some(_) => None,
        None => Some(late(node)),
    };
    let silent = answers.into_iter().enumerate().filter_map(silent).collect();
    Err(NoMajority::new(name, (of, quorum), voted, silent).into())
}

pub(crate) fn definite<T>(answers: &[Option<Answer<T>>]) -> usize {
    answers.iter().flatten().filter(|answer| matches!(answer, Answer::Yes(_))).count()
}

/// Whether waiting on cannot change what a release tells: a majority held the lock, or can no longer
/// have. A node that was topped up late may hold what the others have lost.
pub(crate) fn is_freed(answers: &[Option<Answer<Freed>>], quorum: usize) -> bool {
    let said = definite(answers);
    let held = |answer: &&Answer<Freed>| matches!(answer, Answer::Yes(freed) if freed.held);
    let held = answers.iter().flatten().filter(held).count();
    said >= quorum && (held >= quorum || said - held > answers.len() - quorum)
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

#[cfg(test)]
mod tests {
    use quorumlock_core::{Answer, Denial, Freed, NodeProblem, NodeReport};

    use super::is_freed;

    /// `h` held, `g` gone, `e` an error, `.` nothing yet.
    fn told(answers: &str) -> bool {
        let freed = |held| Some(Answer::Yes(Freed { held, woke: None }));
        let answers: Vec<_> = answers
            .chars()
            .map(|said| match said {
                'h' => freed(true),
                'g' => freed(false),
                'e' => Some(Answer::No(Denial::Refused(NodeReport::new(
                    "a",
                    NodeProblem::OutOfMemory("b".to_owned()),
                )))),
                _ => None,
            })
            .collect();
        is_freed(&answers, answers.len() / 2 + 1)
    }

    #[test]
    fn a_release_is_decided_by_as_many_as_a_grant() {
        for decided in
            ["h", "g", "hh.", "gg.", "hgh", ".gg", "hhh..", "hghgg", "ehh", "hhh.", "ggg."]
        {
            assert!(told(decided), "{decided}");
        }
        for open in [".", "h..", "hg.", "eh.", "hhgg.", "hh..", "gg..", "g..", "hgg.."] {
            assert!(!told(open), "{open}");
        }
    }
}
