use std::fmt;
use std::time::Duration;

use quorumlock_watchdog::Loss;

use crate::problem::write_groups;
use crate::{Name, NodeReport};

/// What can go wrong; each variant says who must act.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Somebody else holds the lock: wait, or come back later.
    #[error(transparent)]
    Busy(#[from] Busy),
    /// The call or the configuration is wrong: fix it.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The lock was lost: stop the work that it guarded.
    #[error(transparent)]
    Lost(#[from] Lost),
    /// Enough nodes answered, and too few of them can vote: what each of the others is or said
    /// tells who must act.
    #[error(transparent)]
    Refused(NoMajority),
    /// Too few nodes answered: look at the nodes, and at the way to them.
    #[error(transparent)]
    Unreachable(NoMajority),
    /// The locker was closed: make a new one.
    #[error("the locker is closed")]
    Closed,
}

/// Somebody else holds the lock.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Busy {
    /// Which lock.
    pub name: Name,
    /// How long its lease lasts if it is not renewed, as far as the nodes said.
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
    pub(crate) fn new(name: Name, remaining: Option<Duration>) -> Self {
        Self { name, remaining }
    }
}

/// The lock is no longer held: it was lost, or released ([`Loss::Released`] is what a
/// [`Watch`](crate::Watch) sees after an unlock). Final: it never comes back to this guard.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Lost {
    /// Which lock.
    pub name: Name,
    /// Why.
    pub why: Loss,
}

impl std::error::Error for Lost {}

impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, why } = self;
        match why {
            // Its own holder did that: nobody is told to stop.
            Loss::Released => write!(f, "lock {name:?} is no longer held: {why}"),
            _ => write!(f, "lock {name:?} was lost: {why}; stop the work that it guarded"),
        }
    }
}

impl Lost {
    pub(crate) fn new(name: Name, why: Loss) -> Self {
        Self { name, why }
    }
}

impl Error {
    /// Whether somebody else holds the lock.
    pub fn is_busy(&self) -> bool {
        matches!(self, Self::Busy(_))
    }

    /// Whether the same call may succeed later without anybody's doing: [`Error::Busy`],
    /// [`Error::Unreachable`] and [`Error::Refused`], unless a majority of nodes is out for what only a
    /// person mends (password, permission, setup, ...).
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Busy(_) => true,
            Self::Refused(none) | Self::Unreachable(none) => none.may_pass(),
            Self::Config(_) | Self::Lost(_) | Self::Closed => false,
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
    /// Which lock, if it was about one.
    pub name: Option<Name>,
    /// How many nodes there are.
    pub of: usize,
    /// How many had to vote.
    pub needed: usize,
    /// How many answered in time.
    pub answered: usize,
    /// How many of those could vote.
    pub voted: usize,
    /// What is wrong with each node that gave no vote. A node that was not waited for is not here.
    pub nodes: Vec<NodeReport>,
}

impl NoMajority {
    /// `voted` of the `of` nodes gave a vote, `needed` had to; `nodes` say why others gave none.
    pub fn new(
        name: Option<Name>,
        (of, needed): (usize, usize),
        voted: usize,
        nodes: Vec<NodeReport>,
    ) -> Self {
        let answered = voted + nodes.iter().filter(|node| node.problem.answered()).count();
        Self { name, of, needed, answered, voted, nodes }
    }

    /// Whether there may be a majority without anybody's doing.
    fn may_pass(&self) -> bool {
        let stay = self.nodes.iter().filter(|node| !node.problem.may_pass()).count();
        stay <= self.of.saturating_sub(self.needed)
    }

    /// Whether too few nodes answered, rather than too few that can vote.
    fn is_silence(&self) -> bool {
        let silent = self.nodes.iter().filter(|node| !node.problem.answered()).count();
        silent > self.of.saturating_sub(self.needed) || silent == self.nodes.len()
    }
}

impl std::error::Error for NoMajority {}

impl From<NoMajority> for Error {
    fn from(none: NoMajority) -> Self {
        if none.is_silence() { Self::Unreachable(none) } else { Self::Refused(none) }
    }
}

/// A headline that counts, then the nodes, grouped by what is wrong with them, with who must do what:
/// in one line, or in one for each group with `{:#}`.
impl fmt::Display for NoMajority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, of, needed, answered, voted, nodes } = self;
        if let Some(name) = name {
            write!(f, "lock {name:?}: ")?;
        }
        match (self.is_silence(), of) {
            (true, 1) => f.write_str("the server did not answer")?,
            (false, 1) => f.write_str("the server refused")?,
            (true, _) => {
                let silent = nodes.iter().filter(|node| !node.problem.answered()).count();
                write!(f, "too few nodes answered: {needed} of {of} needed; {silent} did not")?;
            }
            (false, _) => write!(
                f,
                "too few nodes can vote: {needed} of {of} needed; {answered} answered, {voted} can \
                 vote"
            )?,
        }
        write_groups(f, nodes, if f.alternate() { "\n  " } else { "; " })
    }
}

/// The call or the configuration is wrong.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// Not a URL of a Redis server.
    #[error(
        "{url:?} is no Redis URL: {why} (expected redis://, rediss:// or unix://, such as \
         redis://user:password@host:6379/0)"
    )]
    BadUrl {
        /// The text given, without password.
        url: String,
        /// What is wrong with it.
        why: String,
    },
    /// The certificates given for TLS cannot be used.
    #[error("the TLS certificates cannot be used: {0}")]
    BadCertificate(String),
    /// An empty list of nodes.
    #[error("no node was given")]
    NoNodes,
    /// Two addresses are one server: its vote would count twice.
    #[error("{a} and {b} are one server: give each server once, a quorum needs independent nodes")]
    SameServer {
        /// One address.
        a: String,
        /// The other.
        b: String,
    },
    /// A lock without a name.
    #[error("a lock's name must not be empty")]
    EmptyName,
    /// A name that is too long.
    #[error("a lock's name has at most {max} bytes, this one has {len}")]
    NameTooLong {
        /// Bytes of the name given.
        len: usize,
        /// Bytes at most.
        max: usize,
    },
    /// A name that a key of quorumlock or of Redisson could have.
    #[error(
        "a lock's name must not begin with {prefix:?}, as {name:?} does: quorumlock and Redisson keep their \
         own keys there; choose another name"
    )]
    ReservedName {
        /// The name given.
        name: String,
        /// What it begins with.
        prefix: &'static str,
    },
    /// A duration out of bounds.
    #[error("{what} of {value:?} is out of bounds: {min:?} to {max:?}")]
    BadDuration {
        /// Which setting.
        what: &'static str,
        /// The value given.
        value: Duration,
        /// The least.
        min: Duration,
        /// The most.
        max: Duration,
    },
    /// A clock-rate allowance out of bounds.
    #[error("rho of {value} is out of bounds: 0 to 0.5")]
    BadRho {
        /// The value given.
        value: f64,
    },
    /// More lost marks to survive than there are nodes to vouch for them.
    #[error("tokens cannot survive the lost marks of {losses} of these nodes: 0 to {most}")]
    TooManyLosses {
        /// The number given.
        losses: usize,
        /// The most.
        most: usize,
    },
    /// More replicas to wait for than there are. A quorum has none: its nodes are masters without
    /// replicas.
    #[error("{asked} replicas cannot acknowledge a lock here: 0 to {most} (0 on a quorum)")]
    TooManyReplicas {
        /// The number given.
        asked: usize,
        /// The most.
        most: usize,
    },
    /// A client name that Redis does not take.
    #[error(
        "client name {0:?} has characters that Redis does not take (spaces, control characters)"
    )]
    BadClientName(String),
    /// Provisioning without admission.
    #[error("this locker admits every node as it is: there is nothing to provision")]
    NoAdmission,
    /// No async runtime at the place of the call, or one without timers or I/O.
    #[error(
        "no tokio runtime with timers and I/O here: call from one (`enable_all`), or use \
         quorumlock::blocking"
    )]
    NoRuntime,
    /// An owner enters a lock again, and asks for another hold than it has.
    #[error(
        "{what} of {asked:?} at re-entry: {name:?} is held with {}, which stays; ask for the same, \
         or for none",
        .held.map_or_else(|| format!("no {what}"), |held| format!("{held:?}"))
    )]
    ReEntryDiffers {
        /// Which lock.
        name: Name,
        /// Which option: `lease` or `hold_at_most`.
        what: &'static str,
        /// The value given.
        asked: Duration,
        /// That of the outer hold, if it has one.
        held: Option<Duration>,
    },
    /// An option that means nothing for these servers.
    #[error("{option} does not apply to {servers}: leave it out")]
    DoesNotApply {
        /// Which option.
        option: &'static str,
        /// What the locker was made for.
        servers: &'static str,
    },
    /// The operating system gave no thread, event queue or random numbers.
    #[error("the operating system refused {what}: {why}")]
    System {
        /// What was asked for.
        what: &'static str,
        /// Its answer.
        why: String,
    },
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
        let head = "lock \"x\": too few nodes can vote: 3 of 5 needed; 5 answered, 0 can vote";
        assert!(text.starts_with(head), "{text}");
        assert!(text.contains("a, b, c, d, e: is new"), "{text}");
        assert_eq!(text.matches("quorumlock init").count(), 1, "{text}");
        assert!(!text.contains("restarted"), "{text}");
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
