//! The subcommands `completions` and `man`: made from the options themselves.

use std::path::PathBuf;

use clap::Command;
use clap_complete::Shell;
use clap_mangen::Man;

use crate::exit::{self, Failure, Outcome};
use crate::output::print_bytes;

/// Print a completion script for a shell.
///
/// For bash: COMMAND completions bash > ~/.local/share/bash-completion/completions/COMMAND
#[derive(Debug, clap::Args)]
pub struct CompletionsArgs {
    /// The shell.
    shell: Shell,
}

/// Print the manual page, or write the pages of all subcommands.
///
/// To read it: COMMAND man | man -l -
#[derive(Debug, clap::Args)]
pub struct ManArgs {
    /// Write a page for the command and one for each subcommand into this directory.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

/// Prints the completion script of a command.
///
/// # Errors
/// As [`print_bytes`].
pub fn completions(args: &CompletionsArgs, mut command: Command) -> Outcome {
    let mut script = Vec::new();
    let name = command.get_name().to_owned();
    clap_complete::generate(args.shell, &mut command, name, &mut script);
    print_bytes(&script)?;
    Ok(0)
}

/// Prints the manual page of a command, or writes the pages of all its subcommands.
///
/// # Errors
/// [`OUTPUT`](exit::OUTPUT) if a page cannot be written.
pub fn man(args: &ManArgs, command: Command) -> Outcome {
    let cannot_write = |error| Failure::new(exit::OUTPUT, format!("cannot write it: {error}"));
    // The pages say what `help SUBCOMMAND` would.
    let command = command.disable_help_subcommand(true);
    let Some(dir) = &args.out else {
        let mut page = Vec::new();
        Man::new(command).render(&mut page).map_err(cannot_write)?;
        print_bytes(&page)?;
        return Ok(0);
    };
    std::fs::create_dir_all(dir).and_then(|()| clap_mangen::generate_to(command, dir)).map_err(
        |error| Failure::new(exit::OUTPUT, format!("cannot write to {}: {error}", dir.display())),
    )?;
    Ok(0)
}
