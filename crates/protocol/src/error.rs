use std::fmt;
use std::time::Duration;

use crate::LossReason;

use crate::problem::write_groups;
use crate::{ConfigError, Holder, Name, NodeProblem, NodeReport};

/// What can go wrong; each variant says who must act.
///
/// `{:?}`, which a `main` that returns it prints, is its text. `{:#?}` shows the fields.
#[derive(Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Another client holds the lock: wait, or try again later.
    #[error(transparent)]
    Busy(#[from] Busy),
    /// The call or the configuration is wrong: fix it.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The lock was lost: stop the work that it guarded.
    #[error(transparent)]
    Lost(#[from] Lost),
    /// Enough nodes answered, but too few of them can vote. The problem of each other node tells
    /// who must act.
    #[error(transparent)]
    Refused(NoMajority),
    /// Too few nodes answered: check the nodes, and the network to them.
    #[error(transparent)]
    Unreachable(NoMajority),
    /// The locker was closed: make a new one.
    #[error("the locker is closed")]
    Closed,
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !f.alternate() {
            return fmt::Display::fmt(self, f);
        }
        match self {
            Self::Busy(busy) => f.debug_tuple("Busy").field(busy).finish(),
            Self::Config(error) => f.debug_tuple("Config").field(error).finish(),
            Self::Lost(lost) => f.debug_tuple("Lost").field(lost).finish(),
            Self::Refused(none) => f.debug_tuple("Refused").field(none).finish(),
            Self::Unreachable(none) => f.debug_tuple("Unreachable").field(none).finish(),
            Self::Closed => f.write_str("Closed"),
        }
    }
}

/// Another client holds the lock.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Busy {
    /// Which lock.
    pub name: Name,
    /// How long its lease lasts unless it is renewed, as far as the nodes told.
    pub remaining: Option<Duration>,
}

impl std::error::Error for Busy {}

impl fmt::Display for Busy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "lock {:?} is held by somebody else", self.name)?;
        match self.remaining {
            Some(left) => write!(f, " (its lease ends in {left:?} unless renewed)"),
            None => Ok(()),
        }
    }
}

impl Busy {
    /// Lock `name` is held, with a lease that lasts for `remaining` if that is known.
    #[doc(hidden)]
    pub fn new(name: Name, remaining: Option<Duration>) -> Self {
        Self { name, remaining }
    }
}

/// The lock is no longer held: it was lost, or released (a `HoldView` reports [`LossReason::Released`]
/// after an unlock). Final: the lock never comes back to this guard.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Lost {
    /// Which lock.
    pub name: Name,
    /// Why.
    pub why: LossReason,
}

impl std::error::Error for Lost {}

impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, why } = self;
        match why {
            // The holder itself released it: no work has to stop.
            LossReason::Released => write!(f, "lock {name:?} is no longer held: {why}"),
            _ => write!(f, "lock {name:?} was lost: {why}; stop the work that it guarded"),
        }
    }
}

impl Lost {
    /// The lock `name`, and why it was lost.
    #[doc(hidden)]
    pub fn new(name: Name, why: LossReason) -> Self {
        Self { name, why }
    }
}

impl Error {
    /// Whether another client holds the lock.
    pub fn is_busy(&self) -> bool {
        matches!(self, Self::Busy(_))
    }

    /// Whether the same call may succeed later without intervention: [`Error::Busy`],
    /// [`Error::Unreachable`] and [`Error::Refused`], unless so many nodes have a problem that only
    /// a person can fix (password, permission, setup, ...) that too few others are left.
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Busy(_) => true,
            Self::Refused(none) | Self::Unreachable(none) => none.may_pass(),
            Self::Config(_) | Self::Lost(_) | Self::Closed => false,
        }
    }

    /// Whether it is the error of a question who holds a lock, and says which holder a node names
    /// ([`NoMajority::holder`]).
    #[doc(hidden)]
    pub fn names_holder(&self) -> bool {
        match self {
            Self::Refused(none) | Self::Unreachable(none) => none.holder.is_some(),
            _ => false,
        }
    }

    /// Whether the same call may succeed once passwords or certificates have changed.
    #[doc(hidden)]
    pub fn may_pass_with_secrets(&self) -> bool {
        match self {
            Self::Refused(none) | Self::Unreachable(none) => {
                none.passes(|problem| problem.may_pass() || problem.is_of_secrets())
            }
            _ => self.is_retryable(),
        }
    }

    /// A stable word for the variant: `busy`, `config`, `lost`, `refused`, `unreachable`, `closed`.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Busy(_) => "busy",
            Self::Config(_) => "config",
            Self::Lost(_) => "lost",
            Self::Refused(_) => "refused",
            Self::Unreachable(_) => "unreachable",
            Self::Closed => "closed",
        }
    }
}

/// No majority of the nodes could decide.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NoMajority {
    /// Which lock, if the call was about one.
    pub name: Option<Name>,
    /// How many nodes there are.
    pub of: usize,
    /// How many had to vote.
    pub needed: usize,
    /// How many answered before the call ended: it ends once too many are out.
    pub answered: usize,
    /// How many of those voted.
    pub voted: usize,
    /// What is wrong with each node that gave no vote. A node that was not waited for is not here.
    pub nodes: Vec<NodeReport>,
    /// Of a question who holds the lock: the holder that most nodes name, fewer than have to. The lock may be
    /// held by it, or free. `None`: no node names a holder, or the call was no such question.
    pub holder: Option<Box<Holder>>,
    /// How many nodes name that holder.
    pub named_by: usize,
}

impl NoMajority {
    /// `voted` of the `of` nodes gave a vote, `needed` had to; `nodes` say why others gave none.
    #[doc(hidden)]
    pub fn new(
        name: Option<Name>,
        (of, needed): (usize, usize),
        voted: usize,
        nodes: Vec<NodeReport>,
    ) -> Self {
        let answered = voted + nodes.iter().filter(|node| node.problem.answered()).count();
        Self { name, of, needed, answered, voted, nodes, holder: None, named_by: 0 }
    }

    /// Whether enough nodes may be able to vote later without intervention.
    fn may_pass(&self) -> bool {
        self.passes(NodeProblem::may_pass)
    }

    /// Whether few enough nodes have a problem that does not pass.
    fn passes(&self, may_pass: impl Fn(&NodeProblem) -> bool) -> bool {
        if self.nodes.iter().any(|node| node.problem.bars()) {
            return false;
        }
        let stay = self.nodes.iter().filter(|node| !may_pass(&node.problem)).count();
        stay <= self.of.saturating_sub(self.needed)
    }

    /// The nodes as people are told of them: beside nodes that vote, or did, one without a record is not new,
    /// but has lost the record.
    fn told_nodes(&self) -> Vec<NodeReport> {
        let mut nodes = self.nodes.clone();
        if self.voted > 0 || nodes.iter().any(|node| node.problem == NodeProblem::NotAdmitted) {
            for node in nodes.iter_mut().filter(|node| node.problem == NodeProblem::New) {
                node.problem = NodeProblem::NotAdmitted;
            }
        }
        nodes
    }

    /// Whether too few nodes answered, as opposed to too few that can vote.
    fn is_no_answer(&self) -> bool {
        if self.nodes.iter().any(|node| node.problem.bars()) {
            return false;
        }
        let silent = self.nodes.iter().filter(|node| !node.problem.answered()).count();
        silent > self.of.saturating_sub(self.needed) || silent == self.nodes.len()
    }
}

impl std::error::Error for NoMajority {}

impl From<NoMajority> for Error {
    fn from(none: NoMajority) -> Self {
        if none.is_no_answer() { Self::Unreachable(none) } else { Self::Refused(none) }
    }
}

/// A headline with counts, then the nodes, grouped by problem, with a hint who must do what: in one
/// line, or with `{:#}` one line per group.
impl fmt::Display for NoMajority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, of, needed, nodes, holder, named_by, .. } = self;
        if let Some(name) = name {
            write!(f, "lock {name:?}: ")?;
        }
        if let Some(holder) = holder {
            write!(
                f,
                "it is unknown whether it is held: {named_by} of {of} nodes name{} the holder {}, {needed} \
                 have to; ",
                if *named_by == 1 { "s" } else { "" },
                holder.label.as_ref().unwrap_or(&holder.id),
            )?;
        }
        match (self.is_no_answer(), of) {
            (false, _) if nodes.iter().any(|node| node.problem.bars()) => {
                f.write_str(
                    "a node belongs to a cluster that bars this program, so nothing is locked",
                )?;
            }
            (true, 1) => f.write_str("the server did not answer")?,
            (false, 1) => f.write_str("the server refused")?,
            (true, _) => {
                let silent = nodes.iter().filter(|node| !node.problem.answered()).count();
                write!(f, "too few nodes answered: {needed} of {of} needed; {silent} did not")?;
            }
            // The call ends once enough are out: of the others it may not know.
            (false, _) => {
                let out = nodes.iter().filter(|node| node.problem.answered()).count();
                write!(f, "too few nodes can vote: {needed} of {of} needed; {out} cannot")?;
                if nodes.len() > out {
                    write!(f, ", {} did not answer", nodes.len() - out)?;
                }
            }
        }
        write_groups(f, &self.told_nodes(), if f.alternate() { "\n  " } else { "; " })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::NodeProblem;

    fn five(voted: usize, problems: &[(&str, NodeProblem)]) -> Error {
        let report =
            |(node, problem): &(&str, NodeProblem)| NodeReport::new(*node, problem.clone());
        let nodes = problems.iter().map(report).collect();
        NoMajority::new(Some(Name::new("x").unwrap()), (5, 3), voted, nodes).into()
    }

    #[test]
    fn nodes_are_grouped_by_what_is_wrong_with_them_and_each_group_has_one_hint() {
        let new = |node| (node, NodeProblem::New);
        let error = five(0, &[new("a"), new("b"), new("c"), new("d"), new("e")]);
        assert!(matches!(error, Error::Refused(_)) && error.is_retryable(), "{error:?}");
        let text = error.to_string();
        let head = "lock \"x\": too few nodes can vote: 3 of 5 needed; 5 cannot";
        assert!(text.starts_with(head), "{text}");
        assert!(text.contains("a, b, c, d, e: is new"), "{text}");
        assert_eq!(text.matches("quorumlock init").count(), 1, "{text}");
        assert!(!text.contains("restarted"), "{text}");
    }

    /// `init` is for servers that are all new.
    #[test]
    fn no_text_names_init_beside_a_node_that_votes_or_did() {
        let (new, unproven) = (NodeProblem::New, NodeProblem::NotAdmitted);
        for error in [
            five(2, &[("a", new.clone()), ("b", new.clone()), ("c", new.clone())]),
            five(0, &[("a", new.clone()), ("b", unproven), ("c", new)]),
        ] {
            let text = error.to_string();
            assert!(!text.contains("init") && text.contains("members"), "{text}");
        }
    }

    /// It is what `fn main() -> Result<(), Error>` prints.
    #[test]
    fn the_debug_form_is_the_text_and_the_long_one_has_the_fields() {
        let error = five(0, &[("a", NodeProblem::New)]);
        assert_eq!(format!("{error:?}"), error.to_string());
        assert!(format!("{error:#?}").starts_with("Refused(\n    NoMajority {"), "{error:#?}");
    }

    #[test]
    fn whether_too_few_answer_or_too_few_can_vote_is_told_by_those_that_are_out() {
        let dead = |node| (node, NodeProblem::NotConnected("connection refused".into()));
        let barred = |node| (node, NodeProblem::Permission("NOPERM".into()));
        let gone = five(0, &[dead("a"), dead("b"), dead("c")]);
        assert!(matches!(gone, Error::Unreachable(_)) && gone.is_retryable(), "{gone:?}");
        assert!(gone.to_string().contains("3 of 5 needed; 3 did not"), "{gone}");
        let mixed = five(2, &[dead("a"), dead("b"), barred("c")]);
        assert!(matches!(mixed, Error::Refused(_)) && mixed.is_retryable(), "{mixed:?}");
        let barred = five(2, &[barred("a"), barred("b"), barred("c")]);
        assert!(matches!(barred, Error::Refused(_)) && !barred.is_retryable(), "{barred:?}");
        assert!(barred.to_string().contains("ACL SETUSER"), "{barred}");
    }
}
