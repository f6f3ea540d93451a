//! `quorumlock-lab completions` and `quorumlock-lab man`: made from the options themselves.

use std::path::PathBuf;

use clap::Command;
use clap_complete::Shell;
use clap_mangen::Man;

use crate::exit::{self, Failure, Outcome};
use crate::output::print_bytes;

/// Print a completion script for a shell.
///
/// For bash: quorumlock-lab completions bash > ~/.local/share/bash-completion/completions/quorumlock-lab
#[derive(Debug, clap::Args)]
pub(crate) struct CompletionsArgs {
    /// The shell.
    shell: Shell,
}

/// Print the manual page, or write the pages of all subcommands.
///
/// To read it: quorumlock-lab man | man -l -
#[derive(Debug, clap::Args)]
pub(crate) struct ManArgs {
    /// Write a page for quorumlock-lab and one for each subcommand into this directory.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

pub(crate) fn completions(args: &CompletionsArgs, mut command: Command) -> Outcome {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut command, "quorumlock-lab", &mut script);
    print_bytes(&script)?;
    Ok(0)
}

pub(crate) fn man(args: &ManArgs, command: Command) -> Outcome {
    let cannot_write = |error| Failure::new(exit::OUTPUT, format!("cannot write it: {error}"));
    // The pages say what `quorumlock-lab help SUBCOMMAND` would.
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
