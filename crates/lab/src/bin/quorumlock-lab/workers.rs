//! Workers of other libraries, as the command line names them.

use quorumlock_command::{Failure, exit, say};
use quorumlock_lab::runner::Library;
use quorumlock_lab::worker::NoWorker;
use quorumlock_testbed::servers::cache;

/// A worker: `NAME=COMMAND`, or the name of one that `scripts/get-interop` has prepared.
#[derive(Debug, Clone)]
pub(crate) struct Named {
    name: String,
    command: String,
}

impl std::str::FromStr for Named {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let Some((name, command)) = text.split_once('=') else { return prepared(text) };
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

/// The worker of this name that the script has prepared in the user's cache.
fn prepared(name: &str) -> Result<Named, String> {
    let program = cache().map(|cache| cache.join("interop").join(format!("worker-{name}")));
    match program.filter(|program| !name.contains('/') && program.is_file()) {
        Some(program) => {
            Ok(Named { name: name.replace('-', "_"), command: program.display().to_string() })
        }
        None => Err(format!(
            "no worker {name:?} is prepared: write NAME=COMMAND, or prepare those of the project \
             with scripts/get-interop"
        )),
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
