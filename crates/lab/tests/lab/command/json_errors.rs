//! With `--json`, every failure is one JSON object on stdout.

use crate::command::process::{command, finish};

#[test]
fn bad_usage_is_told_as_json_too() {
    let cases: [(&str, &[&str]); 4] = [
        ("compare", &["--nodes", "0", "--json"]),
        ("run", &["L00", "--json"]),
        ("report", &["/no/such/directory", "--json"]),
        ("lab", &["--json"]),
    ];
    for (subcommand, arguments) in cases {
        let done = finish(command(subcommand, arguments)).expect(64);
        let error = &done.json()["error"];
        assert_eq!((&error["kind"], &error["exit_code"]), (&"config".into(), &64.into()));
        let message = error["message"].as_str().unwrap();
        assert!(!message.is_empty() && done.stderr.contains(message), "{done:?}");
    }
}
