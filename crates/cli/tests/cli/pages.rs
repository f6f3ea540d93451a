//! The version, the completions for shells and the manual pages of the command.

use std::fs;

use crate::common::{Finished, finish, quorumlock};
use tempfile::tempdir;

fn ask(arguments: &[&str]) -> Finished {
    let mut command = quorumlock(&[]);
    command.args(arguments);
    finish(command)
}

#[test]
fn the_version_names_the_command() {
    let version = concat!("quorumlock ", env!("CARGO_PKG_VERSION"), "\n");
    assert_eq!(ask(&["--version"]).expect(0).stdout, version);
}

#[test]
fn shells_get_their_completions() {
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let script = ask(&["completions", shell]).expect(0).stdout;
        for word in ["doctor", "hold-at-most", "permits", "quorumlock"] {
            assert!(script.contains(word), "{shell} knows no {word}");
        }
        assert!(!script.contains("quorumlock-cli"), "{shell}");
    }
    ask(&["completions", "csh"]).expect(64).says(&["csh", "bash"]);
}

#[test]
fn the_manual_has_a_page_for_each_subcommand() {
    let page = ask(&["man"]).expect(0).stdout;
    assert!(page.contains(".TH quorumlock 1"), "{page}");
    assert!(page.contains("Exit codes"), "{page}");
    let dir = tempdir().unwrap();
    let out = dir.path().join("man1");
    ask(&["man", "--out", out.to_str().unwrap()]).expect(0);
    assert_eq!(fs::read_to_string(out.join("quorumlock.1")).unwrap(), page);
    let run = fs::read_to_string(out.join("quorumlock-run.1")).unwrap();
    for variable in ["QUORUMLOCK_TOKEN", "QUORUMLOCK_SLOT"] {
        assert!(run.contains(variable), "{run}");
    }
    let lead = fs::read_to_string(out.join("quorumlock-lead.1")).unwrap();
    assert!(lead.contains("QUORUMLOCK_TOKEN"), "{lead}");
    for part in
        ["status", "unlock", "doctor", "top", "init", "members", "members-add", "members-finish"]
    {
        assert!(out.join(format!("quorumlock-{part}.1")).exists(), "{part}");
    }
    ask(&["man", "--out", "/dev/null/x"]).expect(74).says(&["/dev/null/x"]);
}
