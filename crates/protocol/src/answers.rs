//! Pure: what the answers of all nodes to one question mean together.

use std::collections::HashMap;
use std::time::Duration;

use crate::{
    Answer, Denial, Error, Holder, Instant, Name, NoMajority, NodeReport, OnDropped, ReleaseOutcome,
};

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
    none_misconfigured(&answers)?;
    if definite(&answers) >= quorum {
        let yes = |answer| match answer {
            Some(Answer::Yes(value)) => Some(value),
            _ => None,
        };
        return Ok(answers.into_iter().filter_map(yes).collect());
    }
    Err(no_majority(name, quorum, answers, late).into())
}

/// Who holds `name`, by the answers to an inspection; `None`: nobody. A majority has to tell. It is free
/// only if no majority may hold it: for each holder that a node names, the nodes that name it and those that
/// do not tell are fewer than `quorum`.
///
/// # Errors
/// As [`decide`]; with the holder that most nodes name, if a majority may hold it and is not known to.
pub fn decide_holder(
    name: Option<Name>,
    quorum: usize,
    answers: Vec<Option<Answer<Option<Holder>>>>,
    late: impl Fn(usize) -> NodeReport,
) -> Result<Option<Holder>, Error> {
    none_misconfigured(&answers)?;
    let named = most_named(&answers);
    if definite(&answers) >= quorum && is_holder_told(&named, &answers, quorum) {
        return Ok((named.len() >= quorum).then(|| holder_of(named, quorum)));
    }
    let by = named.len();
    let holder = (by > 0).then(|| holder_of(named, 1));
    let mut none = no_majority(name, quorum, answers, late);
    (none.holder, none.named_by) = (holder.map(Box::new), by);
    Err(none.into())
}

/// Whether no further answer to an inspection can change what [`decide_holder`] says.
pub fn is_holder_known(answers: &[Option<Answer<Option<Holder>>>], quorum: usize) -> bool {
    definite(answers) >= quorum && is_holder_told(&most_named(answers), answers, quorum)
}

/// The nodes that name the holder that most nodes name.
fn most_named(answers: &[Option<Answer<Option<Holder>>>]) -> Vec<&Holder> {
    majority(answers.iter().flatten().filter_map(held_by), 1).unwrap_or_default()
}

/// Whether a majority names this holder, or none can.
fn is_holder_told(
    named: &[&Holder],
    answers: &[Option<Answer<Option<Holder>>>],
    quorum: usize,
) -> bool {
    let silent = answers.len() - definite(answers);
    named.len() >= quorum || named.len() + silent < quorum
}

/// Fails if a node answered that the call is wrong.
fn none_misconfigured<T>(answers: &[Option<Answer<T>>]) -> Result<(), Error> {
    let misconfigured = answers.iter().flatten().find_map(|answer| match answer {
        Answer::No(Denial::Config(error)) => Some(error.clone()),
        _ => None,
    });
    misconfigured.map_or(Ok(()), |error| Err(error.into()))
}

fn no_majority<T>(
    name: Option<Name>,
    quorum: usize,
    answers: Vec<Option<Answer<T>>>,
    late: impl Fn(usize) -> NodeReport,
) -> NoMajority {
    let (of, voted) = (answers.len(), definite(&answers));
    let silent = |(node, answer)| match answer {
        Some(Answer::No(
            Denial::Refused(report) | Denial::NotAdmitted(report) | Denial::Stale(report),
        )) => Some(report),
        Some(Answer::NoAnswer(no_answer)) => Some(no_answer.report().clone()),
        Some(_) => None,
        None => Some(late(node)),
    };
    let silent = answers.into_iter().enumerate().filter_map(silent).collect();
    NoMajority::new(name, (of, quorum), voted, silent)
}

/// What one node's answers about several names mean together: yes, with what `make` makes of all, if
/// all are; otherwise the first that is not.
pub fn all_of<T>(answers: Vec<Answer<T>>, make: impl FnOnce(Vec<T>) -> T) -> Answer<T> {
    let mut all = Vec::with_capacity(answers.len());
    for answer in answers {
        match answer {
            Answer::Yes(value) => all.push(value),
            other => return other,
        }
    }
    Answer::Yes(make(all))
}

/// What one node's answers to the renewals of names mean for claims of so many names each, in order. A
/// claim is held until the first of its names is not (PROTOCOL.md SET3).
pub fn by_claim(
    counts: impl IntoIterator<Item = usize>,
    names: Vec<Answer<Instant>>,
) -> Vec<Answer<Instant>> {
    let mut names = names.into_iter();
    let of_claim = |count| {
        // A dropped request has no answers at all.
        let answer = |_| names.next().unwrap_or_else(Answer::missing);
        let answers = (0..count).map(answer).collect();
        all_of(answers, |ends: Vec<_>| ends.into_iter().min().unwrap_or(Instant::NEVER))
    };
    counts.into_iter().map(of_claim).collect()
}

/// The answers to requests that went in two parts, in the order of the requests: `second` says of each
/// whether it went in the second part.
pub fn of_two_parts<T>(second: &[bool], parts: Vec<Vec<Answer<T>>>) -> Vec<Answer<T>> {
    let mut parts = parts.into_iter().map(Vec::into_iter);
    let (mut first, mut last) = (parts.next(), parts.next());
    let next = |second: &bool| {
        let part = if *second { &mut last } else { &mut first };
        // A dropped request has no answers at all.
        part.as_mut().and_then(Iterator::next).unwrap_or_else(Answer::missing)
    };
    second.iter().map(next).collect()
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

/// Whether no further answer can change what becomes of a hold that another process left: a majority has
/// renewed it, or so many nodes deny it that no majority holds it.
pub fn is_resume_settled(answers: &[Option<Vec<Answer<Instant>>>], quorum: usize) -> bool {
    let yes = |said: &&Vec<Answer<Instant>>| matches!(said[..], [Answer::Yes(_)]);
    answers.iter().flatten().filter(yes).count() >= quorum || is_gone(answers, quorum)
}

/// Whether so many nodes deny a hold that another process left that no majority holds it. A node that may
/// not vote denies it, too.
pub fn is_gone(answers: &[Option<Vec<Answer<Instant>>>], quorum: usize) -> bool {
    let denies = |said: &&Vec<Answer<Instant>>| {
        matches!(said[..], [Answer::No(Denial::Gone | Denial::NotAdmitted(_))])
    };
    answers.iter().flatten().filter(denies).count() + quorum > answers.len()
}

/// The holder that a node named, if it named one.
pub fn held_by(answer: &Answer<Option<Holder>>) -> Option<&Holder> {
    match answer {
        Answer::Yes(holder) => holder.as_ref(),
        _ => None,
    }
}

/// The largest group of holders with the same id, if it has at least `least` members. The readers of a
/// read-write lock are one holder.
pub fn majority<'a>(
    holders: impl Iterator<Item = &'a Holder>,
    least: usize,
) -> Option<Vec<&'a Holder>> {
    let mut by_id: HashMap<&str, Vec<&Holder>> = HashMap::new();
    for holder in holders {
        let id = if holder.reads() { Holder::READERS } else { &holder.id };
        by_id.entry(id).or_default().push(holder);
    }
    by_id.into_values().max_by_key(Vec::len).filter(|same| same.len() >= least)
}

/// What the nodes of such a group, at least `quorum`, say together. Its lease lasts as long as the q-th
/// largest, as for any lease; a key without an expiry never ends. Of readers, the largest number.
pub fn holder_of(mut same: Vec<&Holder>, quorum: usize) -> Holder {
    same.sort_by_key(|holder| std::cmp::Reverse(holder.remaining.unwrap_or(Duration::MAX)));
    let mut holder = same[quorum - 1].clone();
    if same.iter().any(|other| other.id != holder.id) {
        holder.id = Holder::READERS.to_owned();
    }
    // Nodes that were restarted have lost it.
    holder.label = same.iter().find_map(|other| other.label.clone());
    // The holder's is accepted by all of them, or is below what they accepted before.
    holder.last_token = same.iter().filter_map(|other| other.last_token).min();
    // A waiter may be in the queues of several nodes.
    holder.waiters = same.iter().filter_map(|other| other.waiters).max();
    if holder.reads() {
        holder.holds = same.iter().map(|other| other.holds).max().unwrap_or(1);
    }
    holder
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use crate::{
        Answer, Denial, Error, Holder, Instant, NoAnswer, NodeProblem, NodeReport, ReleaseOutcome,
    };

    use super::{
        by_claim, decide_holder, holder_of, is_freed, is_holder_known, majority, of_two_parts,
    };

    #[test]
    fn a_claim_ends_with_the_first_of_its_names() {
        let until = |secs| Answer::Yes(Instant::NEVER + Duration::from_secs(secs));
        let gone = || Answer::No(Denial::Gone);
        let answers = vec![until(9), until(5), until(7), until(8), gone(), until(9)];
        assert_eq!(by_claim([3, 2, 1], answers), [until(5), gone(), until(9)]);
        let unknown = |answer: &Answer<_>| matches!(answer, Answer::NoAnswer(NoAnswer::Unknown(_)));
        assert!(by_claim([2, 1], vec![]).iter().all(unknown), "a dropped request");
    }

    #[test]
    fn readers_that_nodes_do_not_all_have_are_one_holder() {
        let holder = |id: &str, secs, holds| {
            Holder::new(id.to_owned(), Some(Duration::from_secs(secs)), holds)
        };
        let said = [holder("a:r", 9, 1), holder("readers", 7, 2), holder("b:r", 8, 1)];
        let same = majority(said.iter(), 2).expect("readers");
        assert_eq!(holder_of(same, 2), holder("readers", 8, 2));
        let said = [holder("a:r", 9, 1), holder("a:r", 7, 1), holder("c:w", 8, 1)];
        let same = majority(said.iter(), 2).expect("one reader");
        assert_eq!(holder_of(same, 2), holder("a:r", 7, 1));
        let said = [holder("a:w", 9, 1), holder("b:w", 7, 1), holder("c:w", 8, 1)];
        assert!(majority(said.iter(), 2).is_none(), "three writers");
    }

    #[test]
    fn answers_of_two_parts_are_in_the_order_of_the_requests() {
        let until = |secs| Answer::Yes(Instant::NEVER + Duration::from_secs(secs));
        let parts = vec![vec![until(1), until(3)], vec![until(2)]];
        let answers = of_two_parts(&[false, true, false, true], parts);
        assert_eq!(answers[..3], [until(1), until(2), until(3)]);
        assert!(matches!(answers[3], Answer::NoAnswer(NoAnswer::Unknown(_))), "none came");
    }

    /// `a`, `b`: the node names that holder; `f`: free, `n`: it may not vote, `.`: nothing.
    fn told(answers: &str) -> Vec<Option<Answer<Option<Holder>>>> {
        let not_admitted = || NodeReport::new("a", NodeProblem::NotAdmitted);
        let said = |said| match said {
            'f' => Some(Answer::Yes(None)),
            'n' => Some(Answer::No(Denial::NotAdmitted(not_admitted()))),
            '.' => None,
            id => Some(Answer::Yes(Some(Holder::new(id.into(), None, 1)))),
        };
        answers.chars().map(said).collect()
    }

    /// What people are told, for each count of nodes that name a holder, say free, or do not tell.
    #[test]
    fn free_is_said_only_where_no_majority_may_hold_the_name() {
        let late = |_| NodeReport::new("b", NodeProblem::NoAnswer(Duration::from_secs(1)));
        for (answers, expected) in [
            ("aan", "a"),
            ("aa.", "a"),
            ("ff.", "free"),
            ("ffn", "free"),
            ("aff", "free"),
            ("abf", "free"),
            ("a.n", "a by 1"),
            ("af.", "a by 1"),
            ("fn.", "none"),
            ("nnn", "none"),
            ("aabff", "free"),
            ("aabf.", "a by 2"),
            ("abff.", "free"),
            ("abf..", "by 1"),
            ("aaa..", "a"),
            ("aabb.", "by 2"),
            ("a", "a"),
            ("f", "free"),
            ("n", "none"),
        ] {
            let (said, quorum) = (told(answers), answers.len() / 2 + 1);
            let known = is_holder_known(&said, quorum);
            let told = match decide_holder(None, quorum, said, late) {
                Ok(None) => "free".to_owned(),
                Ok(Some(holder)) => holder.id,
                Err(Error::Refused(none) | Error::Unreachable(none)) => match &none.holder {
                    Some(holder) => format!("{} by {}", holder.id, none.named_by),
                    None => "none".to_owned(),
                },
                Err(other) => panic!("{answers}: {other}"),
            };
            assert!(
                told == expected || told.ends_with(&format!(" {expected}")),
                "{answers}: {told}"
            );
            let decided = matches!(expected, "free" | "a");
            assert_eq!(known, decided, "{answers}");
        }
    }

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
