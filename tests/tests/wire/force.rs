//! Keys that are not locks, or locks of another kind: `lock`, `holder` and `force_unlock` report
//! the same problem, and nothing is deleted.

use std::time::Duration;

use quorumlock::{ConfigError, Error, Layout, NodeProblem, Nonce, Servers};
use quorumlock_tests::{builder, eventually, mark_key, within};

use crate::{LAYOUTS, LONG_LEASE, Node, Quorum};

/// A field as Redisson writes it.
const FIELD: &str = "8743c9c0-0795-4907-87fd-6c719a6b4586:1";

fn problem(error: Error) -> NodeProblem {
    match error {
        Error::Refused(refused) => refused.nodes[0].problem.clone(),
        other => panic!("{other:?}"),
    }
}

/// Returns the problem that all three calls report, and asserts that the key stays as it was.
async fn all_say(node: &Node, name: &str) -> NodeProblem {
    let (locker, plain) = node.clients();
    let dump: Vec<u8> = plain.ask(&["DUMP", name]).await;
    let forced = problem(locker.mutex(name).force_unlock().await.expect_err("refused"));
    let inspected = problem(locker.mutex(name).holder().await.expect_err("refused"));
    let locked = within("an answer", locker.lock(name)).await.expect_err("refused");
    assert_eq!(forced, inspected);
    assert_eq!(forced, problem(locked));
    assert_eq!(plain.ask::<Vec<u8>>(&["DUMP", name]).await, dump, "left as it was");
    forced
}

#[tokio::test]
async fn a_key_of_another_type_is_not_deleted() {
    for layout in LAYOUTS {
        let Some(node) = Node::start(layout).await else { return };
        for (name, command) in [
            ("list", ["RPUSH", "list", "a", "b"]),
            ("set", ["SADD", "set", "a", "b"]),
            ("sorted", ["ZADD", "sorted", "1", "a"]),
            ("stream", ["XADD", "stream", "*", "a"]),
        ] {
            let mut command = command.to_vec();
            if name == "stream" {
                command.push("b");
            }
            node.plain.ask::<redis::Value>(&command).await;
            let said = all_say(&node, name).await;
            let NodeProblem::NotALock { key, found } = said else { panic!("{said:?}") };
            let kind = if name == "sorted" { "sorted set" } else { name };
            assert_eq!((&*key, found), (name, format!("a {kind}")));
        }
    }
}

#[tokio::test]
async fn a_lock_of_the_other_layout_is_not_deleted() {
    for (layout, other) in
        [(Layout::Redisson, Layout::Redlock), (Layout::Redlock, Layout::Redisson)]
    {
        let Some(node) = Node::start(layout).await else { return };
        let locker = builder().layout(other).on(Servers::single(node.server[0].url()));
        let guard = locker.expect("a good URL").lock("x").lease(LONG_LEASE).await.expect("free");
        let said = all_say(&node, "x").await;
        let NodeProblem::WrongType { key, found } = said else { panic!("{said:?}") };
        assert_eq!((&*key, found), ("x", format!("a lock of {other:?}'s layout")));
        guard.unlock().await.expect("still held");
    }
}

#[tokio::test]
async fn a_hash_whose_fields_are_no_holders_is_not_deleted() {
    let Some(node) = Node::start(Layout::Redisson).await else { return };
    let (locker, plain) = node.clients();
    for fields in [
        &["name", "Ada"][..],
        &["12:30", "lunch"],
        &["8743c9c0-0795-4907-87fd-6c719a6b4586", "1"],
        &["8743c9c0-0795-4907-87fd-6c719a6b4586:one", "1"],
        &[FIELD, "1", "name", "Ada"],
        &["stamp", "0123456789abcdef0123456789abcdef", "life", "0"],
    ] {
        for expires in [false, true] {
            plain.ask::<i64>(&[&["HSET", "x"], fields].concat()).await;
            if expires {
                plain.ask::<i64>(&["PEXPIRE", "x", "60000"]).await;
            }
            let said = all_say(&node, "x").await;
            let NodeProblem::NotALock { key, found } = said else { panic!("{said:?}") };
            assert!(key == "x" && found.contains("no holders"), "{found}");
            plain.ask::<i64>(&["DEL", "x"]).await;
        }
    }
    for (mode, holders) in [("read", "1 reader"), ("write", "1 writer")] {
        plain.ask::<i64>(&["HSET", "x", "mode", mode, FIELD, "1"]).await;
        let said = all_say(&node, "x").await;
        let NodeProblem::WrongType { key, found } = said else { panic!("{said:?}") };
        assert_eq!((&*key, found), ("x", format!("Redisson's read-write lock, {holders}")));
        plain.ask::<i64>(&["DEL", "x"]).await;
    }
    // A lock without its expiry still shows its holder.
    plain.ask::<i64>(&["HSET", "x", FIELD, "2"]).await;
    assert_eq!(locker.mutex("x").holder().await.expect("an answer").expect("held").holds, 2);
    assert!(locker.mutex("x").force_unlock().await.expect("a lock"));
    assert!(!plain.exists("x").await);
}

/// The string excludes our lock, because some libraries lock without an expiry. It is not deleted,
/// because it may be any data.
#[tokio::test]
async fn a_string_without_an_expiry_is_not_deleted() {
    let Some(node) = Node::start(Layout::Redlock).await else { return };
    let (locker, plain) = node.clients();
    plain.ask::<String>(&["SET", "x", "somebody's data"]).await;
    let said = problem(locker.mutex("x").force_unlock().await.expect_err("refused"));
    let NodeProblem::NotALock { key, found } = said else { panic!("{said:?}") };
    assert!(key == "x" && found.contains("without an expiry"), "{found}");
    let busy = locker.lock("x").wait(Duration::from_millis(50)).await;
    assert!(matches!(busy, Err(Error::Busy(_))), "{busy:?}");
    assert_eq!(plain.ask::<String>(&["GET", "x"]).await, "somebody's data");

    plain.ask::<i64>(&["PEXPIRE", "x", "60000"]).await;
    assert!(locker.mutex("x").force_unlock().await.expect("as any lock of that layout"));
    assert!(!plain.exists("x").await);
    assert!(!locker.mutex("x").force_unlock().await.expect("free"), "nothing to take");
}

#[tokio::test]
async fn a_key_of_ours_is_no_lock_by_its_name() {
    for layout in LAYOUTS {
        let Some(node) = Node::start(layout).await else { return };
        let (locker, plain) = node.clients();
        for name in
            ["quorumlock:node", mark_key("y"), "redisson_lock_token:{y}", "quorumlock:waiters:{y}"]
        {
            plain.ask::<String>(&["SET", name, "1", "PX", "60000"]).await;
            for answer in [
                locker.mutex(name).force_unlock().await.map(drop),
                locker.mutex(name).holder().await.map(drop),
                locker.lock(name).await.map(drop),
                locker.try_lock(name).await.map(drop),
            ] {
                let Err(Error::Config(ConfigError::ReservedName { name: told, prefix })) = answer
                else {
                    panic!("{answer:?}");
                };
                assert!(told == name && name.starts_with(prefix));
            }
            assert_eq!(plain.ask::<String>(&["GET", name]).await, "1");
        }
    }
}

/// A node with a foreign value at the name has no vote; the others free the lock.
#[tokio::test]
async fn on_a_quorum_what_is_no_lock_is_left_where_it_is() {
    for layout in LAYOUTS {
        let Some(quorum) = Quorum::start(3, layout).await else { return };
        let (locker, plain) = quorum.clients();
        let guard = locker.lock("x").lease(LONG_LEASE).await.expect("free");
        for node in &plain {
            // The acquisition does not wait for the slowest node's grant.
            eventually("granted", async || node.exists("x").await.then_some(())).await;
        }
        plain[0].ask::<i64>(&["DEL", "x"]).await;
        plain[0].ask::<i64>(&["RPUSH", "x", "a member"]).await;
        assert!(locker.mutex("x").force_unlock().await.expect("two of three have it"));
        for (node, there) in plain.iter().zip([true, false, false]) {
            assert_eq!(node.exists("x").await, there, "{layout:?}");
        }
        drop(guard);
        for node in &plain[1..] {
            node.ask::<i64>(&["RPUSH", "x", "a member"]).await;
        }
        let error = locker.mutex("x").force_unlock().await.expect_err("it is nowhere");
        let Error::Refused(refused) = error else { panic!("{error:?}") };
        assert_eq!(refused.nodes.len(), 3);
    }
}

/// REL3: each holder is told on a channel that ends as its nonces do, in the form that the node stores.
#[tokio::test]
async fn each_holder_is_told_of_a_forced_release() {
    for layout in LAYOUTS {
        let Some(node) = Node::start(layout).await else { return };
        let (locker, plain) = node.clients();
        let other = builder()
            .label("")
            .layout(layout)
            .on(Servers::single(node.server[0].url()))
            .expect("good");
        let guard = locker.lock("x").lease(LONG_LEASE).await.expect("free");
        let mut told = plain.listen(&channel(guard.nonce())).await;
        assert!(other.mutex("x").force_unlock().await.expect("an answer"));
        let stored = match layout {
            Layout::Redlock => guard.nonce().to_string(),
            _ => format!("{}:1", guard.nonce().hyphenated()),
        };
        assert_eq!(told.next().await, stored);

        let mut readers = Vec::new();
        for locker in [&locker, &other] {
            let reader = locker.rw_lock("catalog").read().lease(LONG_LEASE).await.expect("free");
            let told = plain.listen(&channel(reader.nonce())).await;
            readers.push((reader, told));
        }
        assert!(other.rw_lock("catalog").force_unlock().await.expect("an answer"));
        for (reader, told) in &mut readers {
            assert_eq!(told.next().await, format!("{}:r", reader.nonce()));
        }

        // A name that is free has no holder.
        assert!(!other.mutex("x").force_unlock().await.expect("an answer"));
    }
}

fn channel(nonce: Nonce) -> String {
    let nonce = nonce.to_string();
    format!("quorumlock:forced:{}", &nonce[nonce.len() - 12..])
}
