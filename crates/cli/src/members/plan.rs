//! Whether a change begins, goes on, or is done already. Does no I/O.

use std::sync::Arc;

use quorumlock::admission::{MemberList, Terms, Until};
use quorumlock_command::{Failure, exit};

/// What the operator asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Intent {
    /// Add the node with this label.
    Add(Arc<str>),
    /// Remove the node with this label.
    Remove(Arc<str>),
    /// End the change; `force`: also while programs with another list are connected.
    Finish { force: bool },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Plan {
    /// For this reason.
    Nothing(String),
    Begin,
    GoOn,
}

impl Intent {
    pub(super) fn until(&self) -> Until {
        match self {
            Self::Add(_) | Self::Remove(_) => Until::BothVote,
            Self::Finish { .. } => Until::OnlyTarget,
        }
    }
}

/// `newest` are the newest terms that a node shows. `given_target`: whether `--node` is the list to
/// which the change leads.
pub(super) fn plan(
    intent: &Intent,
    newest: Option<&Terms>,
    target: &MemberList,
    given_target: bool,
) -> Result<Plan, Failure> {
    // The first step says what to do about a cluster without any record.
    let Some(newest) = newest else { return Ok(Plan::Begin) };
    let done = newest.admit_only(target);
    let under_way = newest.next.is_some();
    match intent {
        Intent::Add(label) if done => Ok(Plan::Nothing(format!("{label} is a member"))),
        Intent::Remove(label) if done => Ok(Plan::Nothing(format!("{label} is no member"))),
        // Nodes that were away when the change ended are told.
        Intent::Finish { .. } if done || under_way => Ok(Plan::GoOn),
        Intent::Finish { .. } => Err(Failure::new(
            exit::CONFIG,
            format!(
                "no change is under way, and the members are [{}]: begin one with `quorumlock \
                 members add URL` or `quorumlock members remove LABEL`",
                newest.list
            ),
        )),
        _ if under_way => Ok(Plan::GoOn),
        Intent::Add(label) if given_target => Err(Failure::usage(format!(
            "{label} is in --node and no member yet: give the present members in --node ([{}]), and \
             the new server only as URL",
            newest.list
        ))),
        Intent::Remove(label) if given_target => Err(Failure::usage(format!(
            "{label} is not in --node: give all present members there ([{}])",
            newest.list
        ))),
        _ => Ok(Plan::Begin),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(labels: &str) -> MemberList {
        MemberList::new(labels.split(' '))
    }

    fn terms(lists: &[&str]) -> Terms {
        Terms { phase: 1, list: list(lists[0]), next: lists.get(1).map(|next| list(next)) }
    }

    /// `Err`: the exit code.
    fn planned(
        intent: &Intent,
        newest: &[&str],
        target: &str,
        given_target: bool,
    ) -> Result<Plan, u8> {
        let newest = (!newest.is_empty()).then(|| terms(newest));
        plan(intent, newest.as_ref(), &list(target), given_target).map_err(|failure| failure.code)
    }

    #[test]
    fn a_change_begins_goes_on_or_is_done() {
        let add = Intent::Add("d".into());
        let (before, both, after) = (["a b c"], ["a b c", "a b c d"], ["a b c d"]);
        let done = Ok(Plan::Nothing("d is a member".into()));
        for (newest, given_target, expected) in [
            (&[][..], false, Ok(Plan::Begin)),
            (&before, false, Ok(Plan::Begin)),
            (&before, true, Err(exit::USAGE)),
            (&both, false, Ok(Plan::GoOn)),
            (&both, true, Ok(Plan::GoOn)),
            (&after, false, done.clone()),
            (&after, true, done),
        ] {
            assert_eq!(planned(&add, newest, "a b c d", given_target), expected, "{newest:?}");
        }
        let remove = Intent::Remove("d".into());
        let done = Ok(Plan::Nothing("d is no member".into()));
        assert_eq!(planned(&remove, &after, "a b c", false), Ok(Plan::Begin));
        assert_eq!(planned(&remove, &["a b c d", "a b c"], "a b c", true), Ok(Plan::GoOn));
        assert_eq!(planned(&remove, &before, "a b c", false), done);
        assert_eq!(planned(&remove, &["x y z"], "a b c", true), Err(exit::USAGE));
    }

    /// To finish must never begin a change: its programs would be refused without a warning.
    #[test]
    fn only_a_change_that_is_under_way_is_finished() {
        let finish =
            |newest: &[&str]| planned(&Intent::Finish { force: false }, newest, "a b c d", true);
        assert_eq!(finish(&["a b c"]), Err(exit::CONFIG));
        assert_eq!(finish(&["a b c", "a b c d"]), Ok(Plan::GoOn));
        assert_eq!(finish(&["a b c d", "a b c"]), Ok(Plan::GoOn));
        assert_eq!(finish(&["a b c d"]), Ok(Plan::GoOn));
    }
}
