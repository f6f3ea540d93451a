//! Workers of other libraries, as the command line names them.

use quorumlock_command::{Failure, exit, say};
use quorumlock_lab::runner::Library;
use quorumlock_lab::worker::NoWorker;

/// A worker: `NAME=COMMAND`.
#[derive(Debug, Clone)]
pub(crate) struct Named {
    name: String,
    command: String,
}

impl std::str::FromStr for Named {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, command) = text.split_once('=').ok_or("it must be NAME=COMMAND")?;
        // The name is part of the names of directories.
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '.';
        if name.is_empty() || name.len() > 24 || !name.chars().all(plain) {
            return Err("NAME must have 1 to 24 letters, digits, `_` or `.`".to_owned());
        }
        if command.trim().is_empty() {
            return Err("COMMAND is empty".to_owned());
        }
        Ok(Self { name: name.to_owned(), command: command.to_owned() })
    }
}

/// Asks the workers who they are. A worker whose library is absent is left out, with a line.
pub(crate) async fn libraries(named: &[Named]) -> Result<Vec<&'static Library>, Failure> {
    let mut libraries = Vec::new();
    for Named { name, command } in named {
        if let Some(library) = library(name, command).await? {
            libraries.push(library);
        }
    }
    if libraries.is_empty() && !named.is_empty() {
        return Err(Failure::new(exit::UNREACHABLE, "no worker has its library on this machine"));
    }
    Ok(libraries)
}

/// `None`, and a line: its library is absent.
pub(crate) async fn library(
    name: &str,
    command: &str,
) -> Result<Option<&'static Library>, Failure> {
    match Library::of(name, command).await {
        // Runs refer to it until the program ends, as they do to scenarios.
        Ok(library) => Ok(Some(Box::leak(Box::new(library)))),
        Err(NoWorker::Absent(why)) => {
            say(format_args!("worker {name}: skipped: {why}"));
            Ok(None)
        }
        Err(error) => Err(Failure::usage(format!("worker {name}: {error}"))),
    }
}
