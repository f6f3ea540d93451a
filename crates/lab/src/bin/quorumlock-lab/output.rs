//! All output of the command: results to stdout, messages for people to stderr.

use std::fmt::Display;
use std::io::{self, ErrorKind, Write as _};

use serde::Serialize;

use crate::exit::{self, Failure};

/// Prints a result, as text for people or as one JSON document.
pub(crate) fn print(json: bool, result: &(impl Display + Serialize)) -> Result<(), Failure> {
    let written = if json {
        serde_json::to_string_pretty(result).map_err(io::Error::from).and_then(write_line)
    } else {
        write_line(result)
    };
    checked(written)
}

/// Prints a result made elsewhere, byte by byte.
pub(crate) fn print_bytes(bytes: &[u8]) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    checked(out.write_all(bytes).and_then(|()| out.flush()))
}

/// Reports a failure as a message on stderr, and with `--json` as one JSON object on stdout.
pub(crate) fn fail(json: bool, failure: &Failure) {
    say(&failure.message);
    if json {
        // A failure to report the failure cannot be reported.
        let _ = print(true, failure);
    }
}

/// Prints a message for people on stderr. `eprintln!` would panic if stderr is closed.
pub(crate) fn say(message: impl Display) {
    let _ = writeln!(io::stderr().lock(), "quorumlock-lab: {message}");
}

fn checked(written: io::Result<()>) -> Result<(), Failure> {
    match written {
        // The reader has closed the pipe, as in `quorumlock-lab lab list | head`.
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        Err(error) => Err(Failure::new(exit::OUTPUT, format!("cannot write the result: {error}"))),
        Ok(()) => Ok(()),
    }
}

fn write_line(text: impl Display) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{text}")?;
    out.flush()
}
