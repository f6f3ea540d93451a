use clap::{Parser, Subcommand};
use quorumlock_command::{CompletionsArgs, ManArgs};

use crate::{doctor, init, list, members, run, status, top, unlock};

/// Distributed locks on Redis or Valkey, on one node or on a quorum of independent nodes.
#[derive(Debug, Parser)]
#[command(name = "quorumlock", version, after_help = NOTES)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Run(run::Args),
    Lead(run::lead::Args),
    Status(status::Args),
    List(list::Args),
    Unlock(unlock::Args),
    Doctor(doctor::Args),
    Top(top::Args),
    Init(init::Args),
    Members(members::Args),
    Completions(CompletionsArgs),
    Man(ManArgs),
    #[command(hide = true)]
    Exec(run::exec::Args),
}

const NOTES: &str = "\
A TIME is a number of seconds, as 30 or 0.5, or has units, as 500ms or 1m30s.

Exit codes:
  64  bad usage: fix the command line
  69  too few nodes answer: look at the nodes (quorumlock doctor)
  75  busy: somebody else holds the lock, or all permits: try again later
  76  TLS: a certificate that is not trusted, or a client certificate that is wanted
  77  user or password is wrong, or a permission (ACL) is missing
  78  too few nodes can vote for another reason: not admitted, a replica, a key of another type, ...;
      doctor: at least one problem; members: a change is refused
  79  run: the lock was lost and the command was stopped (lead campaigns again)
  80  status: some nodes tell of the lock, and too few: it may be held, or free
  81  unlock: the lock was free
  82  members --wait: not every node votes, so none may be restarted";
