//! No output shows a password, however wrong the URL is that holds it.

use std::process::Command;

use crate::common::{finish, quorumlock};

/// A slash, the scheme or a colon is missing, a character is not encoded, a parameter is unknown.
const MANGLED: [&str; 9] = [
    "redis:/:geheim@127.0.0.1",
    "redis//:geheim@127.0.0.1",
    "me:geheim@127.0.0.1",
    "geheim@127.0.0.1",
    "redis://:ge?heim@127.0.0.1",
    "redis://:geheim",
    "http://me:geheim@127.0.0.1",
    "redis://127.0.0.1?password=geheim",
    "unix:///run/redis.sock?passwd=geheim",
];

const SUBCOMMANDS: [&[&str]; 7] = [
    &["run", "--name", "job", "--", "true"],
    &["status", "job"],
    &["unlock", "--force", "job"],
    &["doctor"],
    &["top", "job"],
    &["init"],
    &["members"],
];

#[test]
fn a_url_that_is_none_is_named_without_its_password() {
    for url in MANGLED {
        // A quorum, so that all subcommands apply.
        let urls = [url, "redis://127.0.0.1:2", "redis://127.0.0.1:3"];
        for words in SUBCOMMANDS {
            for json in [false, true] {
                if json && ["run"].contains(&words[0]) {
                    continue;
                }
                let mut by_option = quorumlock(&[]);
                by_option.arg(words[0]);
                by_option.args(urls.iter().flat_map(|url| ["--node", url]));
                let mut by_variable = quorumlock(&[]);
                by_variable.env("QUORUMLOCK_NODES", urls.join(",")).arg(words[0]);
                for mut command in [by_option, by_variable] {
                    command.args(json.then_some("--json")).args(&words[1..]);
                    refused(command, &[url]);
                }
            }
        }
    }
}

#[test]
fn a_url_in_the_wrong_place_is_named_without_its_password() {
    let url = "redis://me:geheim@127.0.0.1";
    for words in [
        &["status", "job", url][..],
        &["status", "job", "--json", url],
        &["top", "job", url],
        &["top", "job", "--json", url],
        &["run", "--name", "job", url, "--", "true"],
        &["run", "job", "redis://:geheim", "--", "true"],
        &["status", "job", "--nodes", url],
        &["status", "job", "--max-lease", url],
        &["status", "job", "--admission", url],
        &[url],
    ] {
        refused(
            {
                let mut command = quorumlock(&["redis://127.0.0.1:1".to_owned()]);
                command.args(words);
                command
            },
            words,
        );
    }
    for variable in ["QUORUMLOCK_MAX_LEASE", "QUORUMLOCK_ADMISSION", "QUORUMLOCK_FENCING"] {
        let mut command = quorumlock(&["redis://127.0.0.1:1".to_owned()]);
        command.env(variable, url).args(["status", "job"]);
        refused(command, &[variable]);
    }
}

fn refused(command: Command, what: &[&str]) {
    let told = finish(command).expect(64);
    let shown = format!("{}{}", told.stdout, told.stderr);
    assert!(!shown.contains("geheim") && !shown.contains("heim"), "{what:?}: {shown}");
}
