//! Pure: what the answers of all nodes to one question mean together.

use std::collections::HashMap;

use crate::{Answer, Denial, Error, Holder, Instant, Name, NoMajority, NodeReport, ReleaseOutcome};

/// The `Yes` values, if at least `quorum` nodes answered `Yes`; `late` describes a node that has
/// not answered.
///
/// # Errors
/// [`Error::Config`] if a node answered that the call is wrong; otherwise [`NoMajority`].
pub fn decide<T>(
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
        Some(Answer::NoAnswer(no_answer)) => Some(no_answer.report().clone()),
        Some(_) => None,
        None => Some(late(node)),
    };
    let silent = answers.into_iter().enumerate().filter_map(silent).collect();
    Err(NoMajority::new(name, (of, quorum), voted, silent).into())
}

/// How many nodes answered [`Answer::Yes`]. In an inspection or a release, "not held" is such an
/// answer too.
pub fn definite<T>(answers: &[Option<Answer<T>>]) -> usize {
    answers.iter().flatten().filter(|answer| matches!(answer, Answer::Yes(_))).count()
}

/// Whether no further answer can change the result of a release: a majority held the lock, or no
/// majority can have held it. A node that was topped up late may hold what the others have lost.
pub fn is_freed(answers: &[Option<Answer<ReleaseOutcome>>], quorum: usize) -> bool {
    let said: Vec<_> = answers
        .iter()
        .flatten()
        .filter_map(|answer| match answer {
            Answer::Yes(outcome) => Some(*outcome),
            _ => None,
        })
        .collect();
    let held = said.iter().filter(|outcome| outcome.held).count();
    said.len() >= quorum && (held >= quorum || denials(&said) > answers.len() - quorum)
}

/// How many nodes say that the nonce was not held, and would know.
pub fn denials(said: &[ReleaseOutcome]) -> usize {
    said.iter().filter(|outcome| !outcome.held && !outcome.forgot).count()
}

/// Whether no further answer can change the result for this lease of a batch: a majority has
/// renewed it, or no majority can.
pub fn is_settled(answers: &[Option<Vec<Answer<Instant>>>], lease: usize, quorum: usize) -> bool {
    let open = answers.iter().filter(|said| said.is_none()).count();
    let yes = |said: &&Vec<Answer<Instant>>| matches!(said.get(lease), Some(Answer::Yes(_)));
    let yes = answers.iter().flatten().filter(yes).count();
    yes >= quorum || yes + open < quorum
}

/// The holder that a node named, if it named one.
pub fn held_by(answer: &Answer<Option<Holder>>) -> Option<&Holder> {
    match answer {
        Answer::Yes(holder) => holder.as_ref(),
        _ => None,
    }
}

/// The largest group of holders with the same id, if it has at least `least` members.
pub fn majority<'a>(
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
    use crate::{Answer, Denial, NodeProblem, NodeReport, ReleaseOutcome};

    use super::is_freed;

    /// `h` held, `g` gone, `f` forgot, `e` an error, `.` nothing yet.
    fn settles(answers: &str) -> bool {
        let outcome = |held, forgot| ReleaseOutcome { held, forgot, notified: None };
        let freed = |held, forgot| Some(Answer::Yes(outcome(held, forgot)));
        let answers: Vec<_> = answers
            .chars()
            .map(|said| match said {
                'h' => freed(true, false),
                'g' => freed(false, false),
                'f' => freed(false, true),
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
            ["h", "g", "hh.", "gg.", "hgh", ".gg", "hhh..", "hghgg", "ehh", "hhh.", "ggg.", "fgggh"]
        {
            assert!(settles(decided), "{decided}");
        }
        for open in [
            ".", "h..", "hg.", "eh.", "hhgg.", "hh..", "gg..", "g..", "hgg..", "fgg..", "hhggf",
            "fff", "f",
        ] {
            assert!(!settles(open), "{open}");
        }
    }
}
