//! The completions for shells and the manual pages of the command.

use std::fs;

use crate::command::process::{command, finish};

#[test]
fn shells_get_their_completions() {
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let script = finish(command("completions", &[shell])).expect(0).stdout;
        for word in ["quorumlock-lab", "replay", "repeat"] {
            assert!(script.contains(word), "{shell} knows no {word}");
        }
    }
}

#[test]
fn the_manual_has_a_page_for_each_subcommand() {
    let page = finish(command("man", &[])).expect(0).stdout;
    assert!(page.contains(".TH quorumlock-lab 1"), "{page}");
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("man1");
    finish(command("man", &["--out", out.to_str().unwrap()])).expect(0);
    assert_eq!(fs::read_to_string(out.join("quorumlock-lab.1")).unwrap(), page);
    for part in ["compare", "run", "report"] {
        assert!(out.join(format!("quorumlock-lab-{part}.1")).exists(), "{part}");
    }
    assert!(!out.join("quorumlock-lab-worker.1").exists(), "for no person");
    finish(command("man", &["--out", "/dev/null/x"])).expect(74).says(&["/dev/null/x"]);
}
