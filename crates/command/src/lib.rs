//! What the commands `quorumlock` and `quorumlock-lab` have in common: how a command line is read,
//! how results and failures are told, exit codes, and the pages made from the options.

#![cfg_attr(docsrs, feature(doc_cfg))]

pub mod exit;
mod output;
mod pages;
mod parse;

pub use self::exit::{Failure, Outcome};
pub use self::output::{print, print_bytes, say};
pub use self::pages::{CompletionsArgs, ManArgs, completions, man};
pub use self::parse::{exit_code, parse};
