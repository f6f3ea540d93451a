//! `quorumlock init` against real servers.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::thread;
use std::time::Duration;

use crate::common::{Finished, Running, blank_servers, finish, labels, quorumlock, run, servers};
use quorumlock::{Admission, Builder, Locker, Servers};
use quorumlock_testbed::servers::{ServerOptions, for_test};
use serde_json::json;

fn init(urls: &[String], options: &[&str]) -> Finished {
    let mut command = quorumlock(urls);
    command.arg("init").args(options);
    finish(command)
}

#[tokio::test]
async fn init_admits_new_nodes_at_once_and_says_the_list() {
    let Some(servers) = blank_servers(3) else { return };
    let urls = servers.urls();
    let locker = || Locker::quorum(&urls).unwrap();
    assert!(locker().try_lock("x").await.is_err(), "nobody vouched for the nodes");
    let admitted = init(&urls, &["--json"]).expect(0).json();
    let expected = json!({ "changed": true, "nodes": labels(&servers), "max_lease_ms": 60_000, "clock_bound_ms": 5_000 });
    assert_eq!(admitted, expected);
    assert!(locker().try_lock("x").await.unwrap().is_some());
    let again = init(&urls, &["--force", "--clock-bound", "2s"]).expect(0);
    assert!(again.stdout.contains(&labels(&servers).join(", ")), "{again:?}");
    // The longest lease with drift, and twice the clock bound.
    assert!(again.stdout.contains("votes again by itself within 1m"), "{again:?}");
    let refused = locker().try_lock("y").await.unwrap_err().to_string();
    assert!(refused.contains("clock bound is 2000 ms, expected 5000 ms"), "{refused}");
}

/// A deployment runs it each time. The holder goes on.
#[tokio::test]
async fn init_does_nothing_where_all_nodes_vote() {
    let Some(servers) = servers(3) else { return };
    let urls = servers.urls();
    let locker = Locker::quorum(&urls).unwrap();
    let guard = locker.lock("x").await.unwrap();
    let again = init(&urls, &[]).expect(0);
    assert!(again.stdout.contains("nothing to do, all nodes vote"), "{again:?}");
    assert_eq!(init(&urls, &["--json"]).expect(0).json()["changed"], json!(false));
    guard.renew().await.unwrap();
    init(&urls, &["--clock-bound", "2s"]).expect(78).says(&["--clock-bound", "--force"]);
}

/// ADM11: the third node has the record, votes, and holds the lock.
#[tokio::test]
async fn init_refuses_nodes_that_restarted_beside_one_that_has_the_record() {
    let Some(servers) = servers(3) else { return };
    let urls = servers.urls();
    let holder = Locker::quorum(&urls).unwrap();
    let guard = holder.lock("job").await.unwrap();
    for server in servers.iter().take(2) {
        server.restart_empty().unwrap();
    }
    let says = ["a cluster already", "within 1m", "init --force", "Nothing was changed"];
    let refused = init(&urls, &[]).expect(78).says(&says);
    assert!(!refused.stderr.contains(&urls[2]), "it votes: {refused:?}");
    let report = init(&urls, &["--json"]).expect(78).json();
    assert_eq!(report["error"]["nodes"].as_array().unwrap().len(), 2, "{report}");
    let second = finish(run(&urls, &["--name", "job", "--wait", "0s"], "true")).expect(78);
    for text in [&second.stderr, &doctor(&urls).stdout, &members(&urls).stdout] {
        assert!(!text.contains("init"), "{text}");
    }
    drop(guard);
    init(&urls, &["--force"]).expect(0);
    finish(run(&urls, &["--name", "job"], "true")).expect(0);
}

fn doctor(urls: &[String]) -> Finished {
    let mut command = quorumlock(urls);
    command.arg("doctor");
    finish(command)
}

fn members(urls: &[String]) -> Finished {
    let mut command = quorumlock(urls);
    command.arg("members");
    finish(command)
}

#[tokio::test]
async fn init_admits_one_server_if_its_programs_prove_its_memory() {
    let Some(servers) = blank_servers(1) else { return };
    let urls = servers.urls();
    init(&urls, &[]).expect(64).says(&["--admission strict"]);
    let strict = ["--admission", "strict"];
    assert!(
        Builder::without_servers()
            .admission(Admission::Strict)
            .on(Servers::single(&urls[0]))
            .unwrap()
            .try_lock("x")
            .await
            .is_err(),
        "nobody vouched"
    );
    let doctor = |code| {
        let mut command = quorumlock(&urls);
        command.arg("doctor").args(strict);
        finish(command).expect(code)
    };
    assert!(doctor(78).stdout.contains("votes within"));
    let admitted = init(&urls, &[&strict[..], &["--json"]].concat()).expect(0).json();
    assert_eq!(admitted["nodes"], json!(["master/0"]));
    assert!(
        Builder::without_servers()
            .admission(Admission::Strict)
            .on(Servers::single(&urls[0]))
            .unwrap()
            .try_lock("x")
            .await
            .unwrap()
            .is_some()
    );
    let name = [&strict[..], &["--name", "y"]].concat();
    finish(run(&urls, &name, "true")).expect(0);
    assert!(doctor(0).stdout.contains("a restart costs all locks"));
}

#[test]
fn init_takes_no_node_of_another_cluster_unless_it_is_told_to() {
    let (Some(ours), Some(more)) = (servers(3), blank_servers(2)) else { return };
    let urls = [&ours.urls()[..1], &more.urls()].concat();
    let refused = init(&urls, &[]).expect(78).says(&[&labels(&ours).join(", ")]);
    assert!(refused.stderr.contains(&labels(&more)[1]), "both lists: {refused:?}");
    let report = init(&urls, &["--json"]).expect(78).json();
    assert_eq!(report["error"]["kind"], "refused");
    assert_eq!(report["error"]["nodes"].as_array().unwrap().len(), 1, "{report}");
    // Nothing was written.
    finish(run(&ours.urls(), &["--name", "x"], "true")).expect(0);
    init(&urls, &["--force"]).expect(0);
    finish(run(&urls, &["--name", "x"], "true")).expect(0);
    finish(run(&ours.urls(), &["--name", "x"], "true"))
        .expect(78)
        .says(&["belongs to the cluster"]);
}

#[test]
fn init_begins_no_second_cluster_in_another_database_unless_it_is_told_to() {
    let Some(servers) = servers(3) else { return };
    let urls = servers.urls().iter().map(|url| format!("{url}/1")).collect::<Vec<_>>();
    init(&urls, &[]).expect(78).says(&["database 0", "--force"]);
    let admitted = init(&urls, &["--force", "--json"]).expect(0).json();
    assert!(admitted["nodes"][0].as_str().unwrap().ends_with("/1"), "{admitted}");
    finish(run(&urls, &["--name", "x"], "true")).expect(0);
}

#[test]
fn init_needs_a_quorum_and_all_of_its_nodes() {
    let Some(servers) = blank_servers(3) else { return };
    let urls = servers.urls();
    init(&urls[..1], &[]).expect(64);
    servers[1].kill().unwrap();
    let says = ["An operator must mend", "by themselves within 1m"];
    init(&urls, &[]).expect(69).says(&says);
    let doctor = || {
        let mut command = quorumlock(&urls);
        command.arg("doctor");
        finish(command)
    };
    let report = doctor().expect(78).stdout;
    for part in ["an operator must act: start it", "votes again by itself within 1m"] {
        assert!(report.contains(part), "{part}: {report}");
    }
    servers[1].restart().unwrap();
    init(&urls, &[]).expect(0);
    let report = doctor().expect(0).stdout;
    assert!(!report.contains("admission    an operator"), "{report}");
}

/// For longer than programs that lock wait for a connection and an answer.
#[test]
fn init_waits_for_a_server_that_is_slow_to_greet() {
    let Some(servers) = blank_servers(3) else { return };
    let urls = servers.urls();
    servers[1].pause().unwrap();
    let mut waits = quorumlock(&urls);
    waits.arg("init");
    let waits = Running::spawn(waits);
    thread::sleep(Duration::from_secs(2));
    servers[1].resume().unwrap();
    waits.finish().expect(0);
    servers[1].pause().unwrap();
    init(&urls, &["--timeout", "100ms"]).expect(69).says(&[&urls[1], "100ms"]);
}

/// The error names a replica as such, and nothing is written.
#[test]
fn init_names_a_replica_as_what_it_is() {
    let Some(servers) = blank_servers(2) else { return };
    let port = servers[0].addr().unwrap().port().to_string();
    let args = ["--replicaof", "127.0.0.1", &port].map(str::to_owned).to_vec();
    let Some(replica) = for_test(1, &ServerOptions { args, ..Default::default() }) else { return };
    let urls = [servers.urls(), replica.urls()].concat();
    let refused = init(&urls, &[]).expect(78);
    let line = |url: &str| refused.stderr.lines().find(|line| line.contains(url)).unwrap();
    assert!(line(&urls[2]).contains("role is slave, expected master"), "{refused:?}");
    assert!(line(&urls[0]).contains("connected replicas"), "{refused:?}");
    assert!(!refused.stderr.contains(&urls[1]), "{refused:?}");
    assert!(!refused.stderr.contains("NodeReport"), "{refused:?}");
}

/// The exit code, too, says who must act.
#[test]
fn a_wrong_password_is_not_silence() {
    let options = ServerOptions { password: Some("gue55".into()), ..Default::default() };
    let Some(servers) = for_test(1, &options) else { return };
    let url = format!("redis://{}", servers[0].addr().unwrap());
    let mut command = quorumlock(&[url]);
    command.args(["status", "job"]);
    let refused = finish(command).expect(77);
    assert!(refused.stderr.contains("check user and password"), "{refused:?}");
}

/// A port without TLS was reached: that is neither a missing answer nor a wrong password.
#[test]
fn a_port_without_tls_has_an_exit_code_of_its_own() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("rediss://{}", listener.local_addr().unwrap());
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let _ = stream.read(&mut [0]);
            let _ = stream.write_all(b"-ERR unknown command\r\n");
        }
    });
    let mut command = quorumlock(&[url]);
    command.args(["status", "job"]);
    let refused = finish(command).expect(76);
    assert!(refused.stderr.contains("redis://"), "{refused:?}");
}
