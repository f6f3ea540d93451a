//! `quorumlock list` against real servers: each kind of lock, those of other libraries, and nodes that fail.

use std::collections::BTreeMap;

use futures::StreamExt as _;

use crate::common::{
    Finished, Running, await_on_all, finish, quorumlock, run, servers, start, start_waiting,
};
use quorumlock::{Builder, Locker, Servers};
use quorumlock_testbed::servers::{ServerOptions, ask as ask_server, for_test};
use serde_json::{Value, json};

fn ask(urls: &[String], arguments: &[&str]) -> Finished {
    let mut command = quorumlock(urls);
    command.args(arguments);
    finish(command)
}

fn hold(urls: &[String], options: &[&str]) -> Running {
    start(run(urls, options, "echo ready; cat"))
}

/// The rows of the list, by name.
fn listed(urls: &[String], options: &[&str]) -> BTreeMap<String, Value> {
    let list = ask(urls, &[&["list", "--json"], options].concat()).expect(0).json();
    let rows = list["locks"].as_array().unwrap().iter();
    rows.map(|row| (row["name"].as_str().unwrap().to_owned(), row.clone())).collect()
}

#[test]
fn all_kinds_are_listed_with_their_holders() {
    for count in [1, 3] {
        let Some(servers) = servers(count) else { return };
        let urls = servers.urls();
        assert_eq!(ask(&urls, &["list"]).expect(0).stdout, "");
        assert_eq!(ask(&urls, &["list", "--json"]).expect(0).json(), json!({ "locks": [] }));
        let holders = [
            hold(&urls, &["--name", "job"]),
            hold(&urls, &["--name", "seats", "--permits", "3"]),
            hold(&urls, &["--name", "odd}", "--permits", "1"]),
            hold(&urls, &["--name", "catalog", "--read"]),
            hold(&urls, &["--name", "catalog", "--read"]),
            hold(&urls, &["--name", "book", "--write"]),
            hold(&urls, &["--name", "a", "--name", "b"]),
        ];
        let waiter = start_waiting(run(&urls, &["--name", "job"], "true"));
        let rows = listed(&urls, &[]);
        let kinds: Vec<_> =
            rows.iter().map(|(name, row)| (&**name, row["kind"].as_str().unwrap())).collect();
        let expected = [
            ("a", "lock"),
            ("b", "lock"),
            ("book", "write"),
            ("catalog", "read"),
            ("job", "lock"),
            ("odd}", "permit"),
            ("seats", "permit"),
        ];
        assert_eq!(kinds, expected);
        assert!(rows["seats"]["slot"].as_u64().unwrap() < 3, "{}", rows["seats"]);
        assert_eq!(rows["catalog"]["holder"]["holds"], 2);
        assert_eq!(rows["a"]["waiters"], 0);
        for name in ["a", "book", "job", "odd}", "seats"] {
            let holder = &rows[name]["holder"];
            assert!(holder["label"].is_string() && holder["since"].is_string(), "{name}: {holder}");
        }
        // The home node has the queue. On a loaded machine it may answer much later than the others.
        let text = || ask(&urls, &["list"]).expect(0).stdout;
        let text = std::iter::repeat_with(text).find(|text| text.contains("; 1 waits")).unwrap();
        assert!(text.contains("seats, slot "), "{text}");
        assert!(text.contains("catalog, read: held by 2 readers, for another "), "{text}");

        let id = rows["job"]["holder"]["id"].as_str().unwrap();
        let of_job = listed(&urls, &["--holder", &id[..8]]);
        assert_eq!(of_job.keys().collect::<Vec<_>>(), ["job"]);
        let label = rows["book"]["holder"]["label"].as_str().unwrap();
        let of_book = listed(&urls, &["--holder", label]);
        assert_eq!(of_book.keys().collect::<Vec<_>>(), ["book"]);
        // Of readers it is not known since when they read.
        let old = listed(&urls, &["--older-than", "1h"]);
        assert_eq!(old.keys().collect::<Vec<_>>(), ["catalog"]);
        assert_eq!(listed(&urls, &["--older-than", "0s"]).len(), rows.len());
        for mut holder in holders {
            holder.close_stdin();
            holder.finish().expect(0);
        }
        waiter.finish().expect(0);
        assert_eq!(ask(&urls, &["list"]).expect(0).stdout, "");
    }
}

/// One server may have locks of both layouts, of other libraries, and anything else.
#[test]
fn locks_of_others_are_listed_and_other_keys_are_not() {
    let Some(servers) = servers(1) else { return };
    let urls = servers.urls();
    let on_server = |command: &[&str]| ask_server(servers[0].addr().unwrap(), command).unwrap();
    let ours = hold(&urls, &["--name", "ours", "--layout", "redisson"]);
    let hexadecimal = "0123456789abcdef0123456789abcdef";
    let redisson = "8b2e2a0c-40c4-4dd1-8b0e-d0a64b4e2c26:1";
    for command in [
        &["SET", "node-redlock", hexadecimal, "PX", "60000"][..],
        &["SET", "redsync", "3q2+7wAAAAAAAAAAAAAA/w==", "PX", "60000"],
        &["HSET", "redisson", redisson, "1"],
        // No locks.
        &["SET", "digest", hexadecimal],
        &["SET", "page", "<html>", "PX", "60000"],
        &["SET", "session", "a session of 32 characters......", "PX", "60000"],
        &["HSET", "user", "name", "Ada"],
        &["ZADD", "scores", "1", "Ada"],
        &["RPUSH", "list", "x"],
    ] {
        on_server(command);
    }
    for at in 0..2_000 {
        on_server(&["SET", &format!("cached:{at}"), "x"]);
    }
    let rows = listed(&urls, &[]);
    assert_eq!(rows.keys().collect::<Vec<_>>(), ["node-redlock", "ours", "redisson", "redsync"]);
    for (name, row) in rows.iter().filter(|(name, _)| *name != "ours") {
        let holder = &row["holder"];
        assert_eq!((&holder["label"], &holder["since"]), (&Value::Null, &Value::Null), "{name}");
    }
    let mut ours = ours;
    ours.close_stdin();
    ours.finish().expect(0);
}

/// A majority has each lock, so two of three nodes know all.
#[test]
fn a_node_that_is_down_hides_no_lock() {
    let Some(servers) = servers(3) else { return };
    let urls = servers.urls();
    let mut holder = hold(&urls, &["--name", "job"]);
    for down in 0..2 {
        servers[down].kill().unwrap();
        if down == 0 {
            assert_eq!(listed(&urls, &[]).keys().collect::<Vec<_>>(), ["job"]);
        }
    }
    let error = ask(&urls, &["list", "--json"]).expect(69).json();
    assert_eq!(error["error"]["nodes"].as_array().unwrap().len(), 2, "{error}");
    holder.close_stdin();
    let _ = holder.finish();
}

/// One node names the holder, one is down, and one restarted empty: it may not vote.
#[test]
fn a_list_never_lacks_a_lock_because_too_few_nodes_tell() {
    let Some(servers) = servers(3) else { return };
    let urls = servers.urls();
    let mut holder = hold(&urls, &["--name", "job"]);
    await_on_all(&servers, &["job"]);
    servers[1].kill().unwrap();
    servers[2].restart_empty().unwrap();
    let error = ask(&urls, &["list", "--json"]).expect(78).json();
    assert_eq!(error["error"]["nodes"].as_array().unwrap().len(), 2, "{error}");
    holder.close_stdin();
    let _ = holder.finish();
}

#[tokio::test]
async fn a_locker_lists_the_names_with_its_prefix_only_and_frees_what_it_lists() {
    let Some(servers) = servers(1) else { return };
    let url = &servers.urls()[0];
    let web = Builder::without_servers().prefix("web/").on(Servers::single(url)).unwrap();
    let all = Locker::single(url).unwrap();
    let _held = (web.lock("job").await.unwrap(), all.lock("job").await.unwrap());
    let permit = web.semaphore("seats", 2).acquire().await.unwrap();
    let mut names = Vec::new();
    let mut list = web.list();
    while let Some(lock) = list.next().await {
        names.push(lock.unwrap());
    }
    names.sort_by_key(|lock| lock.name.clone());
    let told: Vec<_> = names.iter().map(|lock| (lock.name.as_str(), lock.slot)).collect();
    assert_eq!(told, [("web/job", None), ("web/seats", Some(permit.slot()))]);
    for lock in &names {
        assert!(web.force_unlock_from(lock).await.unwrap());
        assert!(!web.force_unlock_from(lock).await.unwrap());
    }
    // The next holder keeps it.
    let next = web.lock("job").await.unwrap();
    assert!(!web.force_unlock_from(&names[0]).await.unwrap());
    next.unlock().await.unwrap();
    assert!(all.mutex("job").is_locked().await.unwrap());
}

/// The line of OPERATIONS for a user who only looks.
#[test]
fn a_user_who_only_looks_needs_what_operations_says() {
    let page = include_str!("../../../../docs/OPERATIONS.md");
    let line = page.lines().find(|line| line.starts_with("ACL SETUSER watcher ")).unwrap();
    let rights = line.split_once(">SECRET ").unwrap().1;
    for count in [1, 3] {
        let user = ["--user", "watcher", "on", ">SECRET"].into_iter().chain(rights.split(' '));
        let args = user.map(str::to_owned).collect();
        let options = ServerOptions { args, ..ServerOptions::default() };
        let Some(servers) = for_test(count, &options) else { return };
        if count > 1 {
            ask(&servers.urls(), &["init"]).expect(0);
        }
        let mut holder = hold(&servers.urls(), &["--name", "job"]);
        let reader = hold(&servers.urls(), &["--name", "catalog", "--read"]);
        let url = |server: &quorumlock_testbed::servers::Server| {
            format!("redis://watcher:SECRET@{}", server.addr().unwrap())
        };
        let urls: Vec<_> = servers.iter().map(url).collect();
        assert_eq!(listed(&urls, &[]).keys().collect::<Vec<_>>(), ["catalog", "job"]);
        ask(&urls, &["status", "job"]).expect(0);
        ask(&urls, &["status", "catalog", "--read-write"]).expect(0);
        ask(&urls, &["status", "job", "--permits", "2"]).expect(0);
        let top = ask(&urls, &["top", "job", "--json"]).expect(0).json();
        assert_eq!(
            (&top["locks"][0]["held"], &top["locks"][0]["waiters"]),
            (&json!(true), &json!(0))
        );
        if count > 1 {
            ask(&urls, &["members"]).expect(0);
        }
        ask(&urls, &["unlock", "--force", "job"]).expect(77);
        let mut reader = reader;
        for holder in [&mut holder, &mut reader] {
            holder.close_stdin();
        }
        holder.finish().expect(0);
        reader.finish().expect(0);
    }
}

#[test]
fn a_user_who_may_not_scan_is_told_so() {
    let user = ["--user", "u", "on", ">p", "~*", "&*", "+@all", "-scan"].map(str::to_owned);
    let options = ServerOptions { args: user.to_vec(), ..ServerOptions::default() };
    let Some(servers) = for_test(1, &options) else { return };
    let urls = [format!("redis://u:p@{}", servers[0].addr().unwrap())];
    ask(&urls, &["list"]).expect(77).says(&["no permission"]);
}
