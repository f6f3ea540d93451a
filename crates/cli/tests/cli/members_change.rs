//! `quorumlock members add`, `remove` and `finish` against real servers.

use std::process::Command;
use std::time::Duration;

use quorumlock::{Builder, Guard, Locker};
use quorumlock_testbed::servers::{ServerOptions, Servers, Shift, for_test};
use quorumlock_watchdog::Clock;
use rustix::process::Signal;
use serde_json::json;

use crate::common::{Finished, Running, blank_servers, finish, labels, start};
use crate::members::{faketime, quick, quick_command, quick_servers};

/// As [`quick_command`], with leases that a loaded machine renews in time.
fn patient_command(urls: &[String], arguments: &[&str]) -> Command {
    let mut command = quick_command(urls, arguments);
    command.env("QUORUMLOCK_MAX_LEASE", "6s");
    command
}

fn patient(urls: &[String], arguments: &[&str]) -> Finished {
    finish(patient_command(urls, arguments))
}

fn patient_servers(count: usize) -> Option<Servers> {
    let servers = blank_servers(count)?;
    patient(&servers.urls(), &["init"]).expect(0);
    Some(servers)
}

/// A program of such a cluster.
fn locker(urls: &[String]) -> Locker {
    let lease = Duration::from_secs(6);
    let builder = Builder::without_servers().max_lease(lease).lease(lease);
    builder.clock_bound(Duration::from_millis(250)).on(quorumlock::Servers::quorum(urls)).unwrap()
}

/// A lock that a running command holds until its standard input is closed. A change of members makes
/// each node known anew twice; with the usual grace time, the command is stopped before a loaded
/// machine gets so far.
fn hold(urls: &[String], name: &str) -> Running {
    let options = ["run", "--name", name, "--lease", "6s", "--grace", "100ms"];
    let command = ["--", "sh", "-c", "echo ready; cat"];
    start(patient_command(urls, &[&options[..], &command].concat()))
}

/// Takes the lock for a moment, if it is free.
fn patient_job(urls: &[String], name: &str) -> Finished {
    patient(urls, &["run", "--name", name, "--lease", "6s", "--wait", "0s", "--", "true"])
}

fn job(urls: &[String], name: &str) -> Finished {
    quick(urls, &["run", "--name", name, "--lease", "500ms", "--wait", "0s", "--", "true"])
}

/// A server takes a while to see that a connection has ended.
fn await_no_program_with_another_list(urls: &[String]) {
    let clock = Clock::system();
    let begun = clock.now();
    while patient(urls, &["members"]).expect(0).stdout.contains(") has the list [") {
        assert!(clock.now().since(begun) < Duration::from_secs(20), "a program is still connected");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_is_added_while_locks_are_held() {
    let (Some(servers), Some(more)) = (patient_servers(3), blank_servers(1)) else { return };
    let (old, url) = (servers.urls(), &more.urls()[0]);
    let new = [old.clone(), more.urls()].concat();
    let holder = hold(&old, "held");
    let begun = locker(&old);
    let guard: Guard = begun.lock("guarded").await.unwrap();

    let added = patient(&old, &["members", "add", url]).expect(0);
    let added = added.says(&["phase 1: waits", "phase 2: the nodes vote for", "is new"]);
    assert!(
        added.stdout.contains(&format!("members finish --node {}", new.join(","))),
        "{added:?}"
    );
    for held in ["held", "guarded"] {
        patient_job(&new, held).expect(75);
    }
    guard.check().unwrap();
    guard.unlock().await.unwrap();
    let guard = locker(&new).lock("guarded").await.unwrap();
    patient_job(&old, "guarded").expect(75);

    let members = patient(&new, &["members", "--json"]).expect(0).json();
    assert_eq!(members["phase"], 2, "{members:#}");
    assert_eq!(members["lists"].as_array().unwrap().len(), 2, "{members:#}");
    let what = members["operator"][0]["what"].as_str().unwrap();
    assert!(what.contains("is under way"), "{members:#}");
    let doctor = patient(&new, &["doctor"]).expect(0).stdout;
    assert!(doctor.contains("is under way"), "{doctor}");

    // Both programs with the old list are named.
    let by_holder = format!(":{} (127.0.0.1:", holder.id());
    let by_test = format!(":{} (127.0.0.1:", std::process::id());
    let refused = patient(&new, &["members", "finish"]).expect(78);
    refused.says(&["would lose their locks", &by_holder, &by_test, "members finish --force"]);
    let shown = patient(&new, &["members"]).expect(0).stdout;
    assert!(shown.contains(&by_holder) && shown.contains(&by_test), "{shown}");
    patient_job(&old, "held").expect(75);
    begun.close().await;
    drop((begun, holder));
    // What an operator looks at with the old list is no program.
    patient(&old, &["status", "held"]).expect(0);
    await_no_program_with_another_list(&new);
    let finished = patient(&new, &["members", "finish", "--json"]).expect(0).json();
    assert_eq!((&finished["changed"], &finished["phase"]), (&json!(true), &json!(3)), "{finished}");
    guard.check().unwrap();
    let refused = patient_job(&old, "other").expect(78);
    for label in labels(&servers).iter().chain(&labels(&more)) {
        assert!(refused.stderr.contains(label), "{refused:?}");
    }
    patient_job(&new, "other").expect(0);
    // Once more: there is nothing to do.
    for arguments in [&["members", "finish"][..], &["members", "add", url]] {
        let again = patient(&new, arguments).expect(0);
        assert!(again.stdout.starts_with("nothing to do"), "{again:?}");
    }
    let again = patient(&old, &["members", "add", url, "--json"]).expect(0).json();
    assert_eq!(again["changed"], false, "{again}");
}

#[test]
fn a_dead_server_is_removed_and_the_old_list_is_the_way_back() {
    let Some(servers) = patient_servers(4) else { return };
    let (old, new) = (servers.urls(), servers.urls()[..3].to_vec());
    let gone = format!("{}/0", servers[3].addr().unwrap());
    let removed = patient(&old, &["members", "remove", &gone, "--json"]).expect(0).json();
    assert_eq!((&removed["changed"], &removed["phase"]), (&json!(true), &json!(2)), "{removed}");
    assert_eq!(removed["lists"][0], json!(labels(&servers)), "{removed}");
    // Back, and then in earnest.
    let back = patient(&old, &["members", "finish"]).expect(0);
    assert!(back.stdout.contains(&gone), "{back:?}");
    patient_job(&new, "x").expect(78);
    servers[3].kill().unwrap();
    patient(&old, &["members", "remove", &old[3]]).expect(0);
    let mut holder = hold(&new, "held");
    patient_job(&old, "held").expect(75);
    let finished = patient(&new, &["members", "finish"]).expect(0);
    assert!(finished.stdout.contains(&format!("{gone} may be stopped")), "{finished:?}");
    holder.close_stdin();
    holder.finish().expect(0);
    patient_job(&old, "x").expect(78).says(&["belongs to the cluster"]);
    patient_job(&new, "x").expect(0);
    let again = patient(&new, &["members", "remove", &gone]).expect(0);
    assert!(again.stdout.starts_with("nothing to do"), "{again:?}");
}

/// Killed at each of its messages, and with the new list in `--node` the second time.
#[test]
fn a_change_that_is_killed_goes_on_when_it_is_run_again() {
    let (Some(servers), Some(more)) = (quick_servers(3), blank_servers(1)) else { return };
    let (old, url) = (servers.urls(), &more.urls()[0]);
    let new = [old.clone(), more.urls()].concat();
    let add = ["members", "add", url];
    let kill_after = |messages: &[&str]| {
        let mut running = Running::spawn(quick_command(&old, &add));
        messages.iter().for_each(|message| running.await_message(message));
        running.signal(Signal::KILL);
        assert_eq!(running.finish().code, None);
    };
    kill_after(&["phase 1: waits"]);
    kill_after(&["phase 1: waits", "phase 2: the nodes vote for"]);
    quick(&old, &["members", "finish"]).expect(0);
    kill_after(&["waits", "the nodes vote for"]);
    let done = quick(&new, &add).expect(0);
    assert!(done.stdout.contains("members finish"), "{done:?}");
    job(&old, "x").expect(0);
    job(&new, "x").expect(0);
}

#[test]
fn a_change_that_cannot_begin_says_why() {
    let (Some(servers), Some(other)) = (quick_servers(3), quick_servers(2)) else { return };
    let urls = servers.urls();
    let add = |urls: &[String], url: &str| quick(urls, &["members", "add", url]);
    // Of another cluster, silent, unfit.
    add(&urls, &other.urls()[0]).expect(78).says(&["cannot be added", "belongs to the cluster"]);
    add(&urls, "redis://127.0.0.1:1")
        .expect(69)
        .says(&["127.0.0.1:1/0", "does not answer: not connected"]);
    let args = ["--maxmemory-policy", "allkeys-lru"].map(str::to_owned).to_vec();
    let Some(evicts) = for_test(1, &ServerOptions { args, ..Default::default() }) else { return };
    add(&urls, &evicts.urls()[0]).expect(78).says(&["maxmemory-policy"]);
    // The new list instead of the present one, and another longest lease.
    let Some(blank) = blank_servers(1) else { return };
    let new = [urls.clone(), blank.urls()].concat();
    add(&new, &blank.urls()[0]).expect(64).says(&["in --node and no member yet"]);
    let mut command = quick_command(&urls, &["members", "add", &blank.urls()[0]]);
    command.env("QUORUMLOCK_MAX_LEASE", "1s");
    finish(command).expect(78).says(&["longest lease is 500 ms"]);
    // Another list than that of the nodes, and no change to finish.
    add(&urls[..2], &blank.urls()[0]).expect(78).says(&["one server at a time"]);
    quick(&urls[..2], &["members", "finish"]).expect(78).says(&["no change is under way"]);
    quick(&urls, &["members", "remove", "x:1/0", "--json"]).expect(0);
    quick(&blank_servers(2).unwrap().urls(), &["members", "finish"])
        .expect(78)
        .says(&["quorumlock init"]);
    quick(&["redis://127.0.0.1:1".into(), "redis://127.0.0.1:2".into()], &["members", "finish"])
        .expect(69);
    // Nothing was written.
    let members = quick(&urls, &["members", "--json"]).expect(0).json();
    assert_eq!((&members["phase"], &members["votes"]), (&json!(1), &json!(3)), "{members:#}");
}

#[test]
fn a_server_whose_clock_differs_is_not_added_before_it_is_set() {
    let Some((faketime, source)) = faketime() else { return };
    let options = ServerOptions { faketime: Some(faketime), ..ServerOptions::default() };
    let servers = Servers::start_with(&source, 4, &options).unwrap();
    let (urls, url) = (&servers.urls()[..3], &servers.urls()[3]);
    quick(urls, &["init"]).expect(0);
    let label = format!("{}/0", servers[3].addr().unwrap());
    for (shift, side) in [(60_500, "ahead of"), (-60_500, "behind")] {
        servers[3].set_clock(Shift::ByMs(shift)).unwrap();
        servers[3].restart_empty().unwrap();
        let refused = quick(urls, &["members", "add", url]).expect(78);
        refused.says(&[&label, "cannot be added", "its clock is 60.", side, "the server's"]);
    }
    let members = quick(urls, &["members", "--json"]).expect(0).json();
    assert_eq!(members["phase"], 1, "nothing was written: {members:#}");
    servers[3].set_clock(Shift::ByMs(0)).unwrap();
    servers[3].restart_empty().unwrap();
    quick(urls, &["members", "add", url]).expect(0);
}

#[test]
fn members_shows_who_still_comes_with_the_old_list() {
    let (Some(servers), Some(more)) = (quick_servers(3), blank_servers(1)) else { return };
    let (old, url) = (servers.urls(), &more.urls()[0]);
    let new = [old.clone(), more.urls()].concat();
    quick(&old, &["members", "add", url]).expect(0);
    job(&old, "x").expect(0);
    let members = quick(&new, &["members", "--json"]).expect(0).json();
    let outdated = &members["nodes"][0]["outdated"];
    assert_eq!(outdated["list"], json!(labels(&servers)), "{members:#}");
    let text = quick(&new, &["members"]).expect(0).stdout;
    assert!(text.contains("a program came"), "{text}");
    let text = quick(&old, &["members"]).expect(0).stdout;
    assert!(text.contains("the list in --node is the old one"), "{text}");
    quick(&new, &["members", "finish"]).expect(0).says(&["is refused from now on"]);
}
