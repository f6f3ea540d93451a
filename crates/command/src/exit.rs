//! The exit codes, and which failure leads to which.

use std::fmt;

use quorumlock::{Error, NoMajority, NodeProblem};
use serde::{Serialize, Serializer};

/// Bad usage: the caller must change the command line. This code and the following are those of
/// sysexits.h.
pub const USAGE: u8 = 64;
/// No majority of the nodes answers.
pub const UNREACHABLE: u8 = 69;
/// An internal failure: neither the caller's nor the nodes'.
pub const SOFTWARE: u8 = 70;
/// A result could not be written.
pub const OUTPUT: u8 = 74;
/// Another client holds the lock.
pub const BUSY: u8 = 75;
/// The TLS handshake with a node failed.
pub const TLS: u8 = 76;
/// A node did not accept user or password, or does not permit the commands of a lock.
pub const PERMISSION: u8 = 77;
/// The configuration of a node does not fit, the node is not admitted, or it refuses for another
/// reason.
pub const CONFIG: u8 = 78;
/// The lock was lost while the command ran. The first number after those of sysexits.h.
pub const LOST: u8 = 79;
/// Some nodes tell of the lock, and too few: it may be held, or free.
pub const UNKNOWN: u8 = 80;
/// The lock that was to be taken away was free.
pub const FREE: u8 = 81;
/// Not every node votes.
pub const NOT_ALL: u8 = 82;
/// The command was found and could not be executed. This code and the following are those of
/// shells.
pub const CANNOT_EXECUTE: u8 = 126;
/// The command was not found.
pub const NOT_FOUND: u8 = 127;
/// Ended by a signal: this plus its number.
pub const SIGNAL: u8 = 128;

/// Ended by Ctrl-C.
pub const INTERRUPTED: u8 = SIGNAL + 2;

/// The result of a subcommand: an exit code, or a failure with its exit code.
pub type Outcome = Result<u8, Failure>;

/// Why a subcommand did not do what it was asked for.
#[derive(Debug)]
pub struct Failure {
    /// The exit code.
    pub code: u8,
    /// For people.
    pub message: String,
    /// The library's error, if the message comes from one.
    error: Option<Box<Error>>,
}

impl Failure {
    /// A failure with a message.
    pub fn new(code: u8, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), error: None }
    }

    /// The failure of a question who holds a lock: with [`UNKNOWN`] where some nodes answered it.
    pub fn of_question(error: Error) -> Self {
        let named = error.names_holder();
        let told = match &error {
            Error::Refused(none) | Error::Unreachable(none) => none.voted > 0,
            _ => false,
        };
        let mut failure = Self::from(error);
        if told || named {
            failure.code = UNKNOWN;
        }
        if told && !named {
            failure.message.insert_str(0, "it is unknown whether it is held: ");
        }
        failure
    }

    /// The caller must change the command line.
    pub fn usage(message: impl Into<String>) -> Self {
        Self::new(USAGE, message)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let code = match error {
            Error::Busy(_) => BUSY,
            Error::Config(_) => USAGE,
            Error::Lost(_) => LOST,
            Error::Unreachable(_) => UNREACHABLE,
            Error::Refused(ref none) => code_of(none),
            _ => SOFTWARE,
        };
        Self { code, message: format!("{error:#}"), error: Some(Box::new(error)) }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

/// `{"error": {...}}`: what `--json` prints instead of a result.
impl Serialize for Failure {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { code, message, error } = self;
        let error = error.as_deref();
        let kind = error.map_or_else(|| kind_of(*code), Error::kind);
        let mut fields = Fields { kind, exit_code: *code, message, ..Fields::default() };
        if let Some(Error::Refused(none) | Error::Unreachable(none)) = error {
            fields.needed = Some(none.needed);
            fields.holder = none.holder.as_ref().map(|holder| Named {
                id: &holder.id,
                label: holder.label.as_deref(),
                named_by: none.named_by,
            });
            fields.nodes = none
                .nodes
                .iter()
                .map(|report| Node { node: &report.node, what: report.problem.to_string() })
                .collect();
        }
        Object { error: fields }.serialize(serializer)
    }
}

#[derive(Serialize)]
struct Object<'a> {
    error: Fields<'a>,
}

#[derive(Default, Serialize)]
struct Fields<'a> {
    kind: &'a str,
    exit_code: u8,
    message: &'a str,
    /// How many nodes had to vote.
    #[serde(skip_serializing_if = "Option::is_none")]
    needed: Option<usize>,
    /// The holder that most nodes name, of a question who holds the lock.
    #[serde(skip_serializing_if = "Option::is_none")]
    holder: Option<Named<'a>>,
    /// The nodes that did not vote, and why.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    nodes: Vec<Node<'a>>,
}

#[derive(Serialize)]
struct Named<'a> {
    id: &'a str,
    label: Option<&'a str>,
    /// How many nodes name it.
    named_by: usize,
}

#[derive(Serialize)]
struct Node<'a> {
    node: &'a str,
    what: String,
}

/// The exit code when enough nodes answered and too few of them can vote. It says who must act; one
/// node's reason decides.
fn code_of(none: &NoMajority) -> u8 {
    let any = |code: &u8| none.nodes.iter().any(|node| code_of_problem(&node.problem) == *code);
    [PERMISSION, TLS].into_iter().find(any).unwrap_or(CONFIG)
}

/// The exit code if this problem of one node ends the command.
pub fn code_of_problem(problem: &NodeProblem) -> u8 {
    match problem {
        NodeProblem::Authentication(_) | NodeProblem::Permission(_) => PERMISSION,
        NodeProblem::Tls(_) => TLS,
        problem if problem.answered() => CONFIG,
        _ => UNREACHABLE,
    }
}

/// The kind of a failure of this command, named as the library names its errors.
fn kind_of(code: u8) -> &'static str {
    match code {
        USAGE => "config",
        UNREACHABLE => "unreachable",
        OUTPUT => "output",
        BUSY => "busy",
        TLS | PERMISSION | CONFIG => "refused",
        LOST => "lost",
        code if code > SIGNAL => "interrupted",
        _ => "internal",
    }
}
