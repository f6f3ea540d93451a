//! `quorumlock` in the command of `quorumlock`: it does not wait for itself, and is refused nothing that
//! it can have.

use std::process::Command;

use quorumlock_testbed::command::finish;

use crate::common::{QUORUMLOCK, program, servers};

/// `inner` in the command of `outer`, each with the words after `quorumlock`. Fails after a while.
fn nested(urls: &[String], outer: &str, inner: &str) -> Command {
    let mut limit = program("timeout", urls);
    let inner = format!("\"$0\" {inner}");
    let script = format!("exec \"$0\" {outer} -- sh -c '{inner}' \"$0\"");
    limit.args(["20", "sh", "-c", &script, QUORUMLOCK]);
    limit
}

#[test]
fn who_would_wait_for_itself_fails_at_once() {
    for count in [1, 3] {
        let Some(servers) = servers(count) else { return };
        for (outer, inner) in [
            ("run x", "run x"),
            ("run x", "lead x"),
            ("lead x", "run x --wait 1m"),
            ("run x y", "run y z"),
            ("run x --permits 1", "run x --permits 1"),
            ("run x --write", "run x --write"),
            ("run x --write", "run x --read"),
            ("run x --read", "run x --write"),
            ("run y", "run z -- \"$0\" run y"),
        ] {
            let done = finish(nested(&servers.urls(), outer, &format!("{inner} -- echo never")));
            let name = if inner.contains('y') { "y" } else { "x" };
            let says = format!("{name} is held by the quorumlock under which this one runs");
            assert_eq!(done.expect(64).says(&[&says]).stdout, "", "{outer}: {inner}");
        }
    }
}

#[test]
fn what_the_outer_hold_leaves_free_is_granted() {
    let Some(servers) = servers(1) else { return };
    let Some(others) = crate::common::servers(1) else { return };
    for (outer, inner) in [
        ("run x", "run y"),
        ("run x --permits 2", "run x --permits 2"),
        ("run x --read", "run x --read"),
        ("run x", "run x --permits 1"),
        ("run x", &format!("run x --node {}", others.urls()[0])),
    ] {
        let done = finish(nested(&servers.urls(), outer, &format!("{inner} -- echo mine")));
        assert_eq!(done.expect(0).stdout, "mine\n", "{outer}: {inner}");
    }
    // Nothing that is asked for only if it is free waits for itself.
    finish(nested(&servers.urls(), "run x", "run x --wait 0 -- echo never")).expect(75);
    // A command in the background, which its caller does not wait for, gets the lock after it.
    let later = "run y -- true; env -u QUORUMLOCK_HOLDS \"$0\" run x -- echo later & echo first";
    assert_eq!(finish(nested(&servers.urls(), "run x", later)).expect(0).stdout, "first\nlater\n");
}
