use std::sync::Arc;
use std::time::Duration;

use super::list::MemberList;
use super::record::Terms;
use crate::Mismatch;

/// Why a change cannot begin or go on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ChangeRefused {
    /// The lists differ by more than one server that is added or removed. Two majorities might share
    /// no server.
    #[error(
        "[{present}] cannot become [{target}] in one change: add or remove one server at a time, so \
         that every two majorities share a server"
    )]
    NotByOne {
        /// The present list.
        present: MemberList,
        /// The list asked for.
        target: MemberList,
    },
    /// Another change is under way: finish it, or go back.
    #[error(
        "a change from [{present}] to [{next}] is under way: finish it with the nodes of the second \
         list, or go back with those of the first"
    )]
    UnderWay {
        /// The present list.
        present: MemberList,
        /// The list that the change leads to.
        next: MemberList,
    },
    /// The operator and the cluster disagree on the longest lease or the clock bound: the waits
    /// would be wrong.
    #[error("the cluster's {0}: give the command what all programs use")]
    ConfigMismatch(Mismatch),
    /// The cluster is of this [`PROTOCOL`](crate::PROTOCOL), which is newer than the operator's.
    #[error(
        "the cluster's protocol is {0}, newer than this program's: use the version of quorumlock that \
         the other programs use"
    )]
    NewerProtocol(u32),
}

/// What the operator's command does next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChangeStep {
    /// All nodes of the list have the record of the last phase.
    Done,
    /// These nodes must have the record of the present phase first.
    Unconfirmed(Vec<Arc<str>>),
    /// A lease, or an attempt, under the list that went may still have votes: wait for this time.
    Wait(Duration),
    /// Begin this phase.
    Begin(Terms),
}

/// How far a change goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    /// All nodes vote for the clients of both lists: programs may be given the target.
    BothVote,
    /// The nodes vote for the clients of the target only. Without a change under way this begins one
    /// and ends it: clients that were not given the target meanwhile are barred.
    OnlyTarget,
}

impl ChangeStep {
    /// This step after `current`, for a command that goes as far as `until`. At [`Until::BothVote`]
    /// the command ends in the phase that has both lists: the command that begins the next phase
    /// waits for the longest lease.
    #[doc(hidden)]
    pub fn limited_to(self, until: Until, current: &Terms) -> Self {
        match self {
            Self::Wait(_) | Self::Begin(_)
                if until == Until::BothVote && current.next.is_some() =>
            {
                Self::Done
            }
            step => step,
        }
    }
}

/// The terms that follow `current` on the way to the list `target`; nothing follows the last ones
/// (PROTOCOL.md MEM6). From the middle of a change the way back is open, too.
///
/// # Errors
/// The list is not one step away.
pub fn next_terms(current: &Terms, target: &MemberList) -> Result<Option<Terms>, ChangeRefused> {
    let phase = current.phase + 1;
    match &current.next {
        None if current.list == *target => Ok(None),
        None if current.list.differs_by_one(target) => {
            Ok(Some(Terms { phase, list: current.list.clone(), next: Some(target.clone()) }))
        }
        None => {
            Err(ChangeRefused::NotByOne { present: current.list.clone(), target: target.clone() })
        }
        Some(_) if current.admit(target) => {
            Ok(Some(Terms { phase, list: target.clone(), next: None }))
        }
        Some(next) => {
            Err(ChangeRefused::UnderWay { present: current.list.clone(), next: next.clone() })
        }
    }
}

/// The nodes that must have the record of `current` before the next phase begins: those of the list
/// that stays. A server that goes may be dead.
pub fn confirmers<'a>(
    current: &'a Terms,
    target: &'a MemberList,
) -> impl Iterator<Item = &'a Arc<str>> {
    let changing = current.next.is_some();
    let stays = move |label: &&Arc<str>| changing || current.list.contains(label);
    target.labels().iter().filter(stays)
}

/// What to do next on the way from `current`, the newest terms that were written, to `target`
/// (PROTOCOL.md MEM6). `confirmed`: whether the node with that label shows the record of `current`.
/// `waited`: for how long all [`confirmers`] have shown it with the same incarnations, zero at first.
/// `longest`: the longest lease, on any clock that leases were counted by.
///
/// # Errors
/// As [`next_terms`].
pub fn change_step(
    current: &Terms,
    target: &MemberList,
    confirmed: impl Fn(&str) -> bool,
    waited: Duration,
    longest: Duration,
) -> Result<ChangeStep, ChangeRefused> {
    let next = next_terms(current, target)?;
    let missing: Vec<_> =
        confirmers(current, target).filter(|label| !confirmed(label)).cloned().collect();
    if !missing.is_empty() {
        return Ok(ChangeStep::Unconfirmed(missing));
    }
    let Some(next) = next else { return Ok(ChangeStep::Done) };
    Ok(match longest.checked_sub(waited).filter(|left| !left.is_zero()) {
        Some(left) => ChangeStep::Wait(left),
        None => ChangeStep::Begin(next),
    })
}

/// Whether a node with the terms `found` takes the terms `new`: by one phase, and by one step of a
/// change of the list that it has. A node that missed a phase waits until it is admitted anew.
pub fn may_follow(found: &Terms, new: &Terms) -> bool {
    let grows = match (&found.next, &new.next) {
        (None, Some(next)) => found.list == new.list && new.list.differs_by_one(next),
        (Some(_), None) => found.admit(&new.list),
        _ => false,
    };
    grows && found.phase + 1 == new.phase
}
