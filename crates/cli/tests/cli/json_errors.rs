//! With `--json` every failure is one JSON object on stdout, and the exit code stays the same.

use crate::common::{Finished, finish, quorumlock, servers};
use serde_json::{Value, json};

const NOWHERE: &str = "redis://127.0.0.1:1";

fn ask(urls: &[&str], arguments: &[&str]) -> Finished {
    let urls = urls.iter().map(ToString::to_string).collect::<Vec<_>>();
    let mut command = quorumlock(&urls);
    command.args(arguments);
    finish(command)
}

/// Returns the error. Its exit code is that of the process, and stderr has the same message.
#[track_caller]
fn error(done: &Finished) -> Value {
    let mut object = done.json();
    let error = object["error"].take();
    assert_eq!(object, json!({ "error": null }), "nothing else is there");
    assert_eq!(error["exit_code"], done.code.unwrap(), "{done:?}");
    let message = error["message"].as_str().unwrap();
    assert!(!message.is_empty());
    assert!(done.stderr.contains(message), "{done:?}");
    error
}

#[test]
fn nodes_that_do_not_answer_are_listed() {
    for command in
        [vec!["status", "x"], vec!["unlock", "--force", "x"], vec!["init"], vec!["members"]]
    {
        let nodes = [NOWHERE, "redis://127.0.0.1:2"];
        let done = ask(&nodes, &[&command[..], &["--json"]].concat()).expect(69);
        let error = error(&done);
        assert_eq!((&error["kind"], &error["needed"]), (&json!("unreachable"), &json!(2)));
        let listed = error["nodes"].as_array().unwrap();
        assert_eq!(listed.len(), 2, "{error}");
        assert_eq!(listed[0]["node"], NOWHERE);
        assert!(listed[0]["what"].as_str().unwrap().contains("refused"), "{error}");
        let without = ask(&nodes, &command).expect(69);
        assert_eq!(without.stdout, "", "only with --json");
    }
}

#[test]
fn bad_usage_is_told_as_json_too() {
    let bad_url = ["http://x"];
    let by_us: [(&[&str], &[&str]); 14] = [
        (&bad_url, &["status", "x", "--json"]),
        (&bad_url, &["unlock", "--force", "x", "--json"]),
        (&bad_url, &["doctor", "--json"]),
        (&bad_url, &["top", "--json"]),
        (&[NOWHERE], &["top", "", "--json"]),
        (&["http://x", NOWHERE], &["init", "--json"]),
        (&["redis://a", ""], &["status", "x", "--json"]),
        (&[NOWHERE], &["status", "", "--json"]),
        (&[NOWHERE], &["status", "x", "--json", "--tls-ca", "/no/such/file"]),
        (&[NOWHERE], &["unlock", "x", "--json"]),
        (&[NOWHERE], &["init", "--json"]),
        (&[NOWHERE], &["members", "--json"]),
        (&["redis://a", "redis://b"], &["members", "remove", "a:6379/0", "--json"]),
        (&["redis://a", "redis://b"], &["members", "add", "http://c", "--json"]),
    ];
    for (urls, arguments) in by_us {
        assert_eq!(error(&ask(urls, arguments).expect(64))["kind"], "config", "{arguments:?}");
    }
    let by_the_parser: [&[&str]; 5] = [
        &["fly", "--json"],
        &["status", "--json"],
        &["--json"],
        &["doctor", "--json", "--fly"],
        &["unlock", "--force", "x", "--slot", "256", "--json"],
    ];
    for arguments in by_the_parser {
        assert_eq!(
            error(&ask(&[NOWHERE], arguments).expect(64))["kind"],
            "config",
            "{arguments:?}"
        );
    }
    // A `--json` that belongs to the command under the lock does not count.
    let run = ask(&[NOWHERE], &["run", "--name", "", "--", "true", "--json"]).expect(64);
    assert_eq!(run.stdout, "");
}

#[test]
fn an_error_never_shows_a_password() {
    for command in [&["status", "x", "--json"][..], &["doctor", "--json"]] {
        let done = ask(&["redis://me:s3cret@127.0.0.1:1"], command).expect(69);
        assert!(!format!("{done:?}").contains("s3cret"), "{done:?}");
        let done = ask(&["http://me:s3cret@host"], command).expect(64);
        assert!(!format!("{done:?}").contains("s3cret"), "{done:?}");
    }
}

#[test]
fn a_result_stays_a_result() {
    let Some(servers) = servers(1) else { return };
    let urls = servers.urls();
    let status = ask(&[&urls[0]], &["status", "x", "--json"]).expect(0).json();
    assert_eq!(status["error"], Value::Null);
    assert_eq!(status["held"], false);
    // The report of `doctor` itself lists the nodes that do not answer.
    let report = ask(&[NOWHERE], &["doctor", "--json"]).expect(69).json();
    assert_eq!(report["reachable"], 0);
}
