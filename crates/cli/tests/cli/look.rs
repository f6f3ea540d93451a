//! `quorumlock status`, `unlock` and `doctor` against real servers: exit codes and JSON.

use std::process::Command;

use crate::common::{
    Finished, await_on_all, blank_servers, finish, of, quorumlock, run, servers, start,
};
use futures::StreamExt as _;
use quorumlock::{Error, Leadership, Locker};
use quorumlock_testbed::servers::{ServerOptions, ask as ask_server, for_test};
use serde_json::{Value, json};

fn ask(urls: &[String], arguments: &[&str]) -> Finished {
    let mut command = quorumlock(urls);
    command.args(arguments);
    finish(command)
}

#[test]
fn status_and_unlock_tell_of_the_holder() {
    for (count, layout) in [(1, "redisson"), (1, "redlock"), (3, "redisson"), (3, "redlock")] {
        let Some(servers) = servers(count) else { return };
        let urls = servers.urls();
        let layout_args = ["--layout", layout];
        let status = || ask(&urls, &[&["status", "job"], &layout_args[..], &["--json"]].concat());
        let free = json!({ "name": "job", "held": false, "holder": null, "waiters": null });
        assert_eq!(status().expect(0).json(), free);

        let options = [&["--name", "job", "--lease", "2s"], &layout_args[..]].concat();
        let holder = start(run(&urls, &options, "echo ready; cat"));
        let held = status().expect(0).json();
        assert_eq!(held["held"], true);
        assert_eq!(held["holder"]["holds"], 1);
        assert!(!held["holder"]["id"].as_str().unwrap().is_empty());
        assert!((1..=2_000).contains(&held["holder"]["remaining_ms"].as_u64().unwrap()));
        let text = ask(&urls, &[&["status", "job", "--exit-code"], &layout_args[..]].concat());
        assert!(text.expect(1).stdout.starts_with("job: held by "));

        assert_eq!(held["waiters"], 0);
        assert!(held["holder"]["since"].as_str().unwrap().starts_with("20"), "{held}");
        let token = held["holder"]["last_token"].as_u64().unwrap();

        let unlock = |more: &[&str]| {
            let force = ["unlock", "--force", "job", "--json"];
            ask(&urls, &[&force[..], &layout_args, more].concat())
        };
        let kept = unlock(&["--holder", "0123"]).expect(75);
        assert!(kept.json()["error"]["message"].as_str().unwrap().contains("it keeps the lock"));
        let id = held["holder"]["id"].as_str().unwrap();
        let taken = unlock(&["--holder", id]).expect(0).json();
        assert_eq!((&taken["released"], &taken["holder"]["id"]), (&json!(true), &json!(id)));
        assert_eq!(taken["holder"]["last_token"], token);
        assert_eq!(status().expect(0).json(), free);
        let none = json!({ "name": "job", "released": false, "holder": null });
        assert_eq!(unlock(&[]).expect(81).json(), none);
        assert_eq!(unlock(&["--holder", id]).expect(81).json(), none);
        holder.finish().expect(79);
    }
}

/// One node names the holder, one is down, and one restarted empty: it may not vote, and does not say that
/// the name is free.
#[tokio::test]
async fn nobody_says_free_where_too_few_nodes_tell() {
    let Some(servers) = servers(3) else { return };
    let urls = servers.urls();
    let locker = Locker::quorum(&urls).unwrap();
    let lock = locker.lock("job").await.unwrap();
    let permit = locker.semaphore("seats", 2).acquire().await.unwrap();
    let reader = locker.rw_lock("catalog").read().await.unwrap();
    let slots = ["quorumlock:permit:{seats}:0", "quorumlock:permit:{seats}:1"];
    for keys in [&["job"][..], &["catalog"], &slots] {
        await_on_all(&servers, keys);
    }
    servers[1].kill().unwrap();
    servers[2].restart_empty().unwrap();
    for what in [&["job"][..], &["seats", "--permits", "2"], &["catalog", "--read-write"]] {
        let status = [&["status"][..], what].concat();
        let names = "it is unknown whether it is held: 1 of 3 nodes names the holder ";
        ask(&urls, &status).expect(80).says(&[names, "2 have to"]);
        let error = ask(&urls, &[&status[..], &["--json"]].concat()).expect(80).json();
        let error = &error["error"];
        assert_eq!((&error["exit_code"], &error["holder"]["named_by"]), (&json!(80), &json!(1)));
        assert_eq!(error["nodes"].as_array().unwrap().len(), 2, "{error}");
    }
    // One vote, and no holder.
    let unknown = ask(&urls, &["status", "idle"]).expect(80);
    unknown.says(&[
        "unknown whether it is held",
        "too few nodes can vote: 2 of 3 needed; 1 cannot, 1 did not answer",
    ]);
    let top = ask(&urls, &["top", "job", "--json"]).expect(78).json();
    assert_eq!(top["locks"][0]["held"], Value::Null, "{top}");

    let observed = Locker::quorum(&urls).unwrap();
    let error = observed.mutex("job").is_locked().await.unwrap_err();
    assert!(matches!(&error, Error::Refused(none) if none.named_by == 1), "{error}");
    let leadership = observed.election("job").observe().next().await.unwrap().unwrap();
    assert!(matches!(leadership, Leadership::Unknown(_)), "{leadership:?}");
    assert!(observed.try_lock("job").await.is_err());
    drop((lock, permit, reader));
}

#[test]
fn status_tells_the_label_of_the_holder() {
    let mut uname = Command::new("uname");
    uname.arg("-n");
    let host = finish(uname).expect(0).stdout.trim().to_owned();
    for (count, layout) in [(1, "redisson"), (1, "redlock"), (3, "redisson"), (3, "redlock")] {
        let Some(servers) = servers(count) else { return };
        let urls = servers.urls();
        let layout_args = ["--layout", layout];
        let options = [&["--name", "job"], &layout_args[..]].concat();
        let mut holder = start(run(&urls, &options, "echo ready; cat"));
        let status =
            |more: &[&str]| ask(&urls, &[&["status", "job"], &layout_args[..], more].concat());
        let label = format!("{host}:{}", holder.id());
        let told = status(&["--json"]).expect(0).json();
        assert_eq!(told["holder"]["label"], label, "{told}");
        let id = told["holder"]["id"].as_str().unwrap();
        let text = status(&[]).expect(0).stdout;
        let who = format!("job: held by {label} ({id}), for another ");
        assert!(text.starts_with(&who), "{text} instead of {who}");
        holder.close_stdin();
        holder.finish().expect(0);
    }
}

#[test]
fn a_holder_of_another_library_has_no_label() {
    let Some(servers) = servers(1) else { return };
    let urls = servers.urls();
    // As redsync and node-redlock name their holders, and as Redisson does.
    let hexadecimal = "0123456789abcdef0123456789abcdef";
    let redisson = "8b2e2a0c-40c4-4dd1-8b0e-d0a64b4e2c26:1";
    for (layout, id, command) in [
        ("redlock", "bm9uY2U=", &["SET", "job", "bm9uY2U=", "PX", "60000"][..]),
        ("redlock", hexadecimal, &["SET", "job", hexadecimal, "PX", "60000"]),
        ("redisson", redisson, &["HSET", "job", redisson, "1"]),
    ] {
        let on_server = |command: &[&str]| ask_server(servers[0].addr().unwrap(), command).unwrap();
        on_server(command);
        on_server(&["PEXPIRE", "job", "60000"]);
        let status =
            |more: &[&str]| ask(&urls, &[&["status", "job", "--layout", layout], more].concat());
        let told = status(&["--json"]).expect(0).json();
        assert_eq!((&told["holder"]["id"], &told["holder"]["label"]), (&json!(id), &Value::Null));
        let text = status(&[]).expect(0).stdout;
        assert!(text.starts_with(&format!("job: held by {id}, for another ")), "{text}");
        on_server(&["DEL", "job"]);
    }
}

#[test]
fn unlock_says_if_there_was_nothing_to_take_away() {
    for count in [1, 3] {
        let Some(servers) = servers(count) else { return };
        let nothing = ask(&servers.urls(), &["unlock", "--force", "job", "--json"]).expect(81);
        let none = json!({ "name": "job", "released": false, "holder": null });
        assert_eq!(nothing.json(), none);
    }
}

#[test]
fn a_master_is_found_among_its_replicas() {
    let Some(master) = blank_servers(1) else { return };
    let port = master[0].addr().unwrap().port().to_string();
    let args = ["--replicaof", "127.0.0.1", &port].map(str::to_owned).to_vec();
    let Some(replica) = for_test(1, &ServerOptions { args, ..Default::default() }) else { return };
    let urls = of("replicated:", &[replica.urls(), master.urls()].concat());
    let status = |options: &[&str]| ask(&urls, &[&["status", "job", "--json"], options].concat());
    assert_eq!(status(&[]).expect(0).json()["held"], false);
    // As a single node the replica names its master.
    let alone = ask(&replica.urls(), &["status", "job"]).expect(78);
    assert!(alone.stderr.contains(&format!("is a replica of 127.0.0.1:{port}")), "{alone:?}");
    let too_many = status(&["--replicas", "2"]).expect(64);
    assert!(too_many.stderr.contains("0 to 1"), "{too_many:?}");
}

#[test]
fn unlock_needs_force() {
    let Some(servers) = servers(1) else { return };
    let urls = servers.urls();
    let mut holder = start(run(&urls, &["--name", "job"], "echo ready; cat"));
    ask(&urls, &["unlock", "job"]).expect(64).says(&["--force"]);
    ask(&urls, &["status", "job", "--exit-code"]).expect(1);
    holder.close_stdin();
    holder.finish().expect(0);
}

#[test]
fn what_is_no_lock_of_this_kind_is_not_taken_away() {
    let Some(servers) = servers(1) else { return };
    let urls = servers.urls();
    let mut holder =
        start(run(&urls, &["--name", "job", "--layout", "redlock"], "echo ready; cat"));
    for command in [&["unlock", "--force", "job"][..], &["status", "job"]] {
        let refused = ask(&urls, &[command, &["--layout", "redisson"]].concat()).expect(78);
        refused.says(&["is a lock of Redlock's layout", "use another name, or the kind of lock"]);
        let reserved = [&command[..command.len() - 1], &["quorumlock:node"]].concat();
        ask(&urls, &reserved).expect(64).says(&["quorumlock:node", "must not begin with"]);
    }
    holder.close_stdin();
    holder.finish().expect(0);
}

#[test]
fn without_a_majority_status_and_unlock_say_so() {
    let Some(servers) = servers(3) else { return };
    servers.iter().take(2).for_each(|server| server.kill().unwrap());
    ask(&servers.urls(), &["status", "job"]).expect(80).says(&["unknown", "2 did not"]);
    ask(&servers.urls(), &["unlock", "--force", "job"]).expect(69);
    servers[2].kill().unwrap();
    ask(&servers.urls(), &["status", "job"]).expect(69);
}

/// The nodes answer and are admitted: only a lock finds out.
#[test]
fn every_health_check_sees_a_majority_that_takes_no_lock() {
    let Some(servers) = servers(3) else { return };
    let urls = servers.urls();
    let all = |arguments: &[&str]| ask(&urls, arguments);
    for (set, back, says) in [
        (["maxmemory", "1"], ["maxmemory", "0"], "out of memory"),
        (["min-replicas-to-write", "1"], ["min-replicas-to-write", "0"], "NOREPLICAS"),
    ] {
        let config = |[name, value]: [&str; 2]| {
            for server in servers.iter().take(2) {
                ask_server(server.addr().unwrap(), &["CONFIG", "SET", name, value]).unwrap();
            }
        };
        config(set);
        let doctor = all(&["doctor", "--json"]).expect(78).json();
        assert_eq!(findings(&doctor, "lock")[0].1.len(), 2, "{doctor}");
        assert!(!doctor.to_string().contains("may be restarted"), "{doctor}");
        let top = all(&["top", "--json"]).expect(78).json();
        assert_eq!((&top["votes"], &top["nodes"][0]["takes_locks"]), (&json!(1), &json!(false)));
        let members = all(&["members", "--json"]).expect(78).json();
        assert_eq!(
            (&members["votes"], &members["nodes"][1]["state"]),
            (&json!(1), &json!("refuses"))
        );
        for command in ["doctor", "top", "members"] {
            let text = all(&[command]).expect(78).stdout;
            assert!(text.contains(says), "{command}: {text}");
        }
        config(back);
        for command in ["doctor", "top", "members"] {
            all(&[command]).expect(0);
        }
    }
}

/// A user who may only read.
#[test]
fn a_health_check_without_the_right_to_write_says_that_it_did_not_try() {
    let Some(servers) = servers(1) else { return };
    let read = ["ACL", "SETUSER", "default", "-set", "-del"];
    ask_server(servers[0].addr().unwrap(), &read).unwrap();
    let report = ask(&servers.urls(), &["doctor", "--json"]);
    assert_eq!(findings(&report.json(), "lock")[0].0, "warn", "{report:?}");
    let top = ask(&servers.urls(), &["top", "--json"]).expect(0).json();
    assert_eq!(top["nodes"][0]["takes_locks"], Value::Null, "{top}");
}

/// The severity and nodes of each finding of one check.
fn findings(report: &Value, check: &str) -> Vec<(String, Vec<String>)> {
    let found = report["findings"].as_array().unwrap().iter();
    let found = found.filter(|finding| finding["check"] == check);
    found
        .map(|finding| serde_json::from_value(json!([finding["severity"], finding["nodes"]])))
        .collect::<Result<_, _>>()
        .unwrap()
}

fn only(severity: &str, nodes: &[&str]) -> Vec<(String, Vec<String>)> {
    vec![(severity.to_owned(), nodes.iter().map(ToString::to_string).collect())]
}

#[test]
fn doctor_describes_good_nodes() {
    let options = ServerOptions { appendonly: true, ..ServerOptions::default() };
    let Some(servers) = for_test(3, &options) else { return };
    ask(&servers.urls(), &["init"]).expect(0);
    let report = ask(&servers.urls(), &["doctor", "--json"]).expect(0).json();
    assert_eq!((&report["reachable"], &report["needed"]), (&json!(3), &json!(2)));
    for (server, node) in servers.iter().zip(report["nodes"].as_array().unwrap()) {
        let version = server.version().unwrap();
        assert_eq!(node["node"], server.addr().unwrap().to_string());
        assert!(node["round_trip_us"].as_u64().unwrap() > 0);
        assert!(node["clock_ahead_us"].as_u64().unwrap() < 100_000);
        assert_eq!(node["info"]["server"], version.product);
        assert_eq!(node["info"]["version"], version.number);
        assert_eq!(node["info"]["role"], "master");
        assert_eq!(node["info"]["mode"], "standalone");
        assert_eq!(node["info"]["appendfsync"], "always");
    }
    for finding in report["findings"].as_array().unwrap() {
        assert_eq!(finding["severity"], "ok", "{finding}");
    }
    assert!(ask(&servers.urls(), &["doctor"]).expect(0).stdout.contains("a lock needs 2"));
}

#[test]
fn doctor_counts_those_who_do_not_answer() {
    let Some(servers) = servers(3) else { return };
    let gone = servers.iter().map(|server| server.addr().unwrap().to_string()).collect::<Vec<_>>();
    servers[0].kill().unwrap();
    let report = ask(&servers.urls(), &["doctor", "--json"]).expect(78).json();
    assert_eq!(findings(&report, "reach"), only("problem", &[&gone[0]]));
    assert!(report["nodes"][0]["error"].as_str().unwrap().contains("refused"));
    servers[1].pause().unwrap();
    let report = ask(&servers.urls(), &["doctor", "--json", "--timeout", "300ms"]).expect(69);
    let silent = findings(&report.json(), "reach");
    assert_eq!(silent, [only("problem", &[&gone[0]]), only("problem", &[&gone[1]])].concat());
}

#[test]
fn doctor_says_which_nodes_may_vote_and_whether_the_next_may_be_restarted() {
    let Some(servers) = blank_servers(3) else { return };
    let doctor = |code| ask(&servers.urls(), &["doctor", "--json"]).expect(code).json();
    let last = |report: &Value| report["findings"].as_array().unwrap().last().unwrap().clone();
    let fresh = doctor(78);
    let found = |check| findings(&fresh, check).len();
    assert_eq!((found("admission"), found("restart")), (3, 1), "each node, and all: {fresh}");
    ask(&servers.urls(), &["init"]).expect(0);
    let report = doctor(0);
    let good = last(&report);
    assert_eq!(good["severity"], "ok");
    // These servers have no append-only file: admission takes its place.
    assert_eq!(findings(&report, "persistence").len(), 1);
    assert_eq!(findings(&report, "persistence")[0].0, "ok", "{report}");
    assert!(good["what"].as_str().unwrap().contains("may be restarted"), "{good}");
    servers[1].restart_empty().unwrap();
    let warned = doctor(82);
    assert_eq!(last(&warned)["severity"], "warn");
    assert!(last(&warned)["what"].as_str().unwrap().contains("restart none"), "{warned}");
    // With plain Redlock the admission check is left out, and these servers grant nothing.
    let plain = ask(&servers.urls(), &["doctor", "--json", "--admission", "redlock"]).expect(78);
    assert!(findings(&plain.json(), "admission").is_empty());
    assert_eq!(findings(&plain.json(), "members")[0].0, "problem");
}

#[test]
fn doctor_finds_a_server_that_is_listed_twice() {
    let Some(servers) = servers(2) else { return };
    let [one, two] = [0, 1].map(|index| servers[index].addr().unwrap());
    let again = format!("localhost:{}", one.port());
    let urls = [one.to_string(), two.to_string(), again.clone()].map(|at| format!("redis://{at}"));
    let report = ask(&urls, &["doctor", "--json"]).expect(78).json();
    assert_eq!(findings(&report, "distinct"), only("problem", &[&one.to_string(), &again]));
}

#[test]
fn doctor_finds_eviction_and_replicas() {
    let Some(master) = servers(1) else { return };
    let port = master[0].addr().unwrap().port().to_string();
    let with = |args: &[&str]| {
        let args = args.iter().map(ToString::to_string).collect();
        for_test(1, &ServerOptions { args, ..ServerOptions::default() }).unwrap()
    };
    let evicts = with(&["--maxmemory", "10mb", "--maxmemory-policy", "allkeys-lru"]);
    let report = ask(&evicts.urls(), &["doctor", "--json"]).expect(78).json();
    let node = evicts[0].addr().unwrap().to_string();
    assert_eq!(findings(&report, "eviction"), only("problem", &[&node]));

    let replica = with(&["--replicaof", "127.0.0.1", &port]);
    let report = ask(&replica.urls(), &["doctor", "--json"]).expect(78).json();
    let node = replica[0].addr().unwrap().to_string();
    assert_eq!(findings(&report, "role"), only("problem", &[&node]));
}

#[test]
fn doctor_goes_on_without_what_an_acl_forbids_and_tells_no_password() {
    let rules = ["--user", "eve", "on", ">s3cret", "~*", "&*", "+@all", "-info", "-config"];
    let args = rules.map(str::to_owned).to_vec();
    let Some(servers) = for_test(1, &ServerOptions { args, ..ServerOptions::default() }) else {
        return;
    };
    let node = servers[0].addr().unwrap().to_string();
    let report = |password: &str| {
        let url = format!("redis://eve:{password}@{node}");
        ask(&[url], &["doctor", "--json"])
    };
    let refused = report("s3cret").expect(0);
    assert!(!refused.stdout.contains("s3cret"));
    assert_eq!(findings(&refused.json(), "info"), only("warn", &[&node]));
    assert_eq!(refused.json()["nodes"][0]["info"]["role"], Value::Null);
    let wrong = report("gue55").expect(69);
    assert!(!wrong.stdout.contains("gue55"));
    assert!(wrong.stdout.contains("authentication failed"), "{wrong:?}");
}
