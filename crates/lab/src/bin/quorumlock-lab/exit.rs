//! Exit codes, and which failure leads to which code.

use std::fmt;

use quorumlock::Error;
use serde::{Serialize, Serializer};

/// Bad usage: the caller must change the command line. This and the following codes are those of
/// sysexits.h.
pub(crate) const USAGE: u8 = 64;
/// No server program is found, or a server does not answer.
pub(crate) const UNREACHABLE: u8 = 69;
/// An internal error: the fault of neither the caller nor the servers.
pub(crate) const SOFTWARE: u8 = 70;
/// A result could not be written.
pub(crate) const OUTPUT: u8 = 74;
/// Ended by a signal: 128 plus the signal's number.
pub(crate) const SIGNAL: u8 = 128;

/// The result of a subcommand: an exit code, or a [`Failure`] with its code.
pub(crate) type Outcome = Result<u8, Failure>;

#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) code: u8,
    pub(crate) message: String,
}

impl Failure {
    pub(crate) fn new(code: u8, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }

    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::new(USAGE, message)
    }
}

/// Lockers here use servers that the lab started, so an error means an unreachable server or an
/// internal error.
impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let code = match error {
            Error::Config(_) => USAGE,
            Error::Unreachable(_) => UNREACHABLE,
            _ => SOFTWARE,
        };
        Self::new(code, format!("{error:#}"))
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

/// `{"error": {...}}`: printed with `--json` instead of a result.
impl Serialize for Failure {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Object<'a> {
            error: Fields<'a>,
        }
        #[derive(Serialize)]
        struct Fields<'a> {
            kind: &'a str,
            exit_code: u8,
            message: &'a str,
        }
        let Self { code, message } = self;
        let error = Fields { kind: kind_of(*code), exit_code: *code, message };
        Object { error }.serialize(serializer)
    }
}

fn kind_of(code: u8) -> &'static str {
    match code {
        USAGE => "config",
        UNREACHABLE => "unreachable",
        OUTPUT => "output",
        code if code > SIGNAL => "interrupted",
        _ => "internal",
    }
}
