//! Exit codes, and what leads to which.

use quorumlock::Error;

/// Bad usage: the caller must change the command line. As in sysexits.h, like those below.
pub(crate) const USAGE: u8 = 64;
/// No majority of the nodes answers.
pub(crate) const UNREACHABLE: u8 = 69;
/// Not the caller's fault, nor the nodes'.
pub(crate) const SOFTWARE: u8 = 70;
/// A result could not be written.
pub(crate) const OUTPUT: u8 = 74;
/// Somebody else holds the lock.
pub(crate) const BUSY: u8 = 75;
/// A node is not set up as a lock needs it.
pub(crate) const CONFIG: u8 = 78;
/// The lock was lost while the command ran. The first number after those of sysexits.h.
pub(crate) const LOST: u8 = 79;
/// The command was found and could not be executed. As in shells, like those below.
pub(crate) const CANNOT_EXECUTE: u8 = 126;
/// The command was not found.
pub(crate) const NOT_FOUND: u8 = 127;
/// Ended by a signal: this plus its number.
pub(crate) const SIGNAL: u8 = 128;

/// Ended by Ctrl-C.
pub(crate) const INTERRUPTED: u8 = SIGNAL + 2;

/// What a subcommand ends with: an exit code, or one with a message for people.
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

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let code = match error {
            Error::Busy(_) => BUSY,
            Error::Config(_) => USAGE,
            Error::Lost(_) => LOST,
            Error::Unreachable(_) => UNREACHABLE,
            _ => SOFTWARE,
        };
        Self::new(code, error.to_string())
    }
}
