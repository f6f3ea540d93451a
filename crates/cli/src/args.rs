use clap::{Parser, Subcommand};

use crate::{compare, doctor, init, lab, run, status, unlock};

/// Distributed locks on Redis or Valkey, on one node or on a quorum of independent nodes.
#[derive(Debug, Parser)]
#[command(version, after_help = EXIT_CODES)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Run(run::Args),
    Status(status::Args),
    Unlock(unlock::Args),
    Doctor(doctor::Args),
    Init(init::Args),
    Compare(compare::Args),
    Lab(lab::Args),
}

const EXIT_CODES: &str = "\
Exit codes:
   1  lab, compare: something is not as theory says
  64  bad usage: fix the command line
  69  no majority of the nodes answers: look at the nodes (quorumlock doctor)
  75  busy: somebody else holds the lock, try again later
  78  doctor: at least one problem
  79  run: the lock was lost and the command was stopped";
