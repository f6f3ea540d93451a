//! A user who lacks a command: one exit code wherever the server refuses it, and `doctor` names it.

use quorumlock_testbed::servers::{ServerOptions, Servers, ask, for_test};
use serde_json::json;

use crate::common::{finish, quorumlock, run};

/// A server whose user `u` has these rights in place of `nopass ~* &* +@all`.
fn server(rights: &[&str]) -> Option<(Servers, String)> {
    let user = ["--user", "u", "on", ">p"].iter().chain(rights).map(ToString::to_string);
    let args = user.collect();
    let servers = for_test(1, &ServerOptions { args, ..ServerOptions::default() })?;
    let url = format!("redis://u:p@{}", servers[0].addr()?);
    Some((servers, url))
}

#[test]
fn a_command_that_is_refused_inside_a_script_is_a_lack_of_permission_too() {
    for lacking in ["-time", "-pttl", "-evalsha"] {
        let Some((_servers, url)) = server(&["~*", "&*", "+@all", lacking]) else { return };
        let urls = [url];
        let refused = finish(run(&urls, &["--name", "job"], "echo never")).expect(77);
        assert!(refused.stdout.is_empty(), "{lacking}: the command ran: {refused:?}");
        refused.says(&["no permission", "ACL SETUSER"]);
        let mut doctor = quorumlock(&urls);
        doctor.args(["doctor", "--json"]);
        let report = finish(doctor).expect(78).json();
        let right = lacking.replace('-', "+");
        assert_eq!(report["nodes"][0]["missing_rights"], json!([right]));
        let found = report["findings"].as_array().unwrap();
        let found = found.iter().find(|finding| finding["check"] == "permissions").unwrap();
        assert_eq!(found["severity"], "problem");
        assert_eq!(found["what"], format!("the user lacks {right}: no lock is granted"));
    }
}

#[test]
fn doctor_names_keys_and_channels_that_the_user_may_not_use() {
    let Some((_servers, url)) = server(&["~job", "&other", "+@all"]) else { return };
    let urls = [url];
    let mut doctor = quorumlock(&urls);
    doctor.args(["doctor", "--json"]);
    let report = finish(doctor).expect(78).json();
    assert_eq!(report["nodes"][0]["missing_rights"], json!(["~quorumlock:*", "&quorumlock:*"]));
}

#[test]
fn doctor_shows_what_the_server_can_do() {
    let Some((_servers, url)) = server(&["~*", "&*", "+@all", "-wait", "-multi"]) else { return };
    let doctor = |more: &[&str]| {
        let mut doctor = quorumlock(std::slice::from_ref(&url));
        doctor.arg("doctor").args(more);
        finish(doctor).expect(0)
    };
    let capabilities = &doctor(&["--json"]).json()["nodes"][0]["capabilities"];
    for (name, has) in [("wait", false), ("transactions", false), ("scripts", true)] {
        assert_eq!(capabilities[name], json!(has), "{name} in {capabilities}");
    }
    let shown = doctor(&[]).stdout;
    assert!(shown.contains("transactions, wait"), "{shown}");
}

#[test]
fn doctor_finds_nothing_missing_where_nothing_is_and_leaves_no_key() {
    let Some((servers, url)) = server(&["~*", "&*", "+@all"]) else { return };
    let mut doctor = quorumlock(&[url]);
    doctor.args(["doctor", "--json"]);
    let report = finish(doctor).expect(0).json();
    assert_eq!(report["nodes"][0]["missing_rights"], json!([]));
    assert_eq!(ask(servers[0].addr().unwrap(), &["DBSIZE"]).unwrap(), "0");
}
