//! The only place that writes: results to stdout, messages for people to stderr.

use std::fmt::Display;
use std::io::{self, ErrorKind, Write as _};
use std::sync::OnceLock;

use serde::Serialize;

use crate::exit::{self, Failure};

/// The name of the command, for messages.
static NAME: OnceLock<String> = OnceLock::new();

pub(crate) fn set_name(name: &str) {
    let _ = NAME.set(name.to_owned());
}

/// Prints a result, as text for people or as one JSON document.
///
/// # Errors
/// [`OUTPUT`](exit::OUTPUT) if stdout takes no bytes. A reader that has closed the pipe is no error.
pub fn print(json: bool, result: &(impl Display + Serialize)) -> Result<(), Failure> {
    let written = if json {
        serde_json::to_string_pretty(result).map_err(io::Error::from).and_then(write_line)
    } else {
        write_line(result)
    };
    checked(written)
}

/// Prints a result made elsewhere, byte by byte.
///
/// # Errors
/// [`OUTPUT`](exit::OUTPUT) if stdout takes no bytes. A reader that has closed the pipe is no error.
pub fn print_bytes(bytes: &[u8]) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    checked(out.write_all(bytes).and_then(|()| out.flush()))
}

/// Writes a message for people to stderr. Not `eprintln!`, which panics when stderr is closed: a
/// command under a lock must not end because of that.
pub fn say(message: impl Display) {
    let name = NAME.get().map_or("quorumlock", String::as_str);
    let _ = writeln!(io::stderr().lock(), "{name}: {message}");
}

fn checked(written: io::Result<()>) -> Result<(), Failure> {
    match written {
        // The reader has closed the pipe, as in `quorumlock doctor | head`.
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
