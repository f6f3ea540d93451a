//! What both layouts share: the mark of a slot, the channel, the rule for braces, and equal data on
//! all nodes.

use std::collections::HashSet;
use std::future::IntoFuture as _;

use quorumlock::{Admission, FencingToken, Layout, Servers};
use quorumlock_testbed::servers::{self, ServerOptions};
use quorumlock_tests::{Plain, Proxy, Way, builder, eventually, mark_key, within};

use crate::{LAYOUTS, LONG_LEASE, Node, Quorum, last_of, slow_log};

/// Names and their form in keys: a name that contains a brace gets no braces around it.
const NAMES: [(&str, &str); 5] = [
    ("invoice/7", "{invoice/7}"),
    ("{invoice}/7", "{invoice}/7"),
    ("invoice/{7}", "invoice/{7}"),
    ("invoice{7", "invoice{7"),
    ("invoice}7", "{invoice}7}"),
];

/// A cluster then keeps the mark on the same node as the names.
#[tokio::test]
async fn a_mark_lies_in_the_slot_of_its_names() {
    let cluster = ["--cluster-enabled", "yes"].map(str::to_owned).to_vec();
    let options = ServerOptions { args: cluster, ..Default::default() };
    let Some(servers) = servers::for_test(1, &options) else { return };
    let plain = Plain::to(servers[0].url()).await;
    let slot = async |key: &str| plain.ask::<usize>(&["CLUSTER", "KEYSLOT", key]).await;
    let odd = ["{}", "{}x", "a{}b{c}", "{{x}}", "größer/鎖", "x}{", "\0"];
    for name in NAMES.iter().map(|(name, _)| *name).chain(odd) {
        let mark = mark_key(name);
        assert!(mark.starts_with("quorumlock:token:{") && mark.ends_with('}'), "{mark}");
        assert_eq!(slot(mark).await, slot(name).await, "{mark} of {name:?}");
    }
}

#[tokio::test]
async fn the_mark_is_the_last_token_of_its_slot_and_does_not_expire() {
    for layout in LAYOUTS {
        let Some(node) = Node::start(layout).await else { return };
        let (locker, plain) = node.clients();
        for (name, _) in NAMES {
            let guard = locker.lock(name).lease(LONG_LEASE).await.expect("free");
            let stored = plain.mark(name).await.expect("a mark");
            assert_eq!(
                stored,
                guard.token().get() + FencingToken::BLOCK - 1,
                "a block, for {name}"
            );
            guard.unlock().await.expect("unlocked");
            assert_eq!(plain.mark(name).await, Some(stored), "the mark outlives the lock");
            assert_eq!(plain.pttl(mark_key(name)).await, -1);
            let next = locker.lock(name).lease(LONG_LEASE).await.expect("free");
            assert!(next.token().get() > stored);
            next.unlock().await.expect("unlocked");
        }
        let slots: HashSet<_> = NAMES.iter().map(|(name, _)| mark_key(name)).collect();
        let keys = plain.ask::<usize>(&["DBSIZE"]).await;
        assert_eq!(keys, slots.len(), "the marks and nothing else, the locks are released");
    }
}

/// The old holder's token is then below the mark even before the next holder has its own.
#[tokio::test]
async fn a_forced_unlock_raises_the_mark() {
    for layout in LAYOUTS {
        let Some(node) = Node::start(layout).await else { return };
        let (locker, plain) = node.clients();
        let guard = locker.lock("x").lease(LONG_LEASE).await.expect("free");
        assert!(locker.mutex("x").force_unlock().await.expect("an answer"));
        let stored = plain.mark("x").await;
        assert!(stored > Some(guard.token().get()), "{stored:?} after {}", guard.token());
    }
}

/// The network, a proxy or a driver may send any command twice (SAFETY.md H18).
#[tokio::test]
async fn a_command_that_arrives_twice_does_nothing_more() {
    for layout in LAYOUTS {
        let Some(node) = Node::start(layout).await else { return };
        let (locker, plain) = node.by_script(layout);
        plain.ask::<String>(&["CONFIG", "SET", "slowlog-log-slower-than", "0"]).await;
        let guard = locker.lock("x").lease(LONG_LEASE).await.expect("free");
        let acquire = commands(&plain, "EVALSHA").await.pop().expect("an acquisition");
        let kept = plain.mark("x").await;
        assert_eq!(kept, Some(last_of(guard.token())));
        let holder = locker.mutex("x").holder().await.expect("an answer").expect("held");
        let said = send::<Option<u64>>(&plain, &acquire).await;
        assert_eq!(said, kept, "it is held already, and a token is not accepted twice");
        let again = locker.mutex("x").holder().await.expect("an answer").expect("held");
        assert_eq!((again.id, again.holds), (holder.id, 1));
        assert_eq!(plain.mark("x").await, kept);

        plain.ask::<String>(&["SLOWLOG", "RESET"]).await;
        guard.unlock().await.expect("held once, released once");
        let release = commands(&plain, node.releases_by(layout).await).await;
        let release = release.last().expect("a release").clone();
        assert!(!plain.exists("x").await);
        let next = locker.lock("x").lease(LONG_LEASE).await.expect("free");
        assert_eq!(send::<u64>(&plain, &release).await, 0, "the hold of another nonce");
        let refused: Vec<i64> = send(&plain, &acquire).await;
        assert_eq!(refused[1..], [0], "busy, and in no queue");
        next.unlock().await.expect("still held");
    }
}

/// A lock was lost, others held it, and a copy of the first request takes it again: the others'
/// token is not confirmed for it (SAFETY.md H18, PROTOCOL.md T5), even if it is the token that our
/// client proposes next.
#[tokio::test]
async fn a_token_that_others_were_given_is_not_confirmed() {
    for layout in LAYOUTS {
        for theirs_above in [FencingToken::BLOCK, 1_000 * FencingToken::BLOCK] {
            let Some(quorum) = Quorum::start(3, layout).await else { return };
            let (_, plain) = quorum.clients();
            let way = |node: usize| Proxy::to(quorum.servers[node].addr().expect("ours"));
            let (late, dead) = (way(0), way(1));
            dead.cut();
            let urls = [late.url(), dead.url(), quorum.servers[2].url().to_owned()];
            let by_script =
                builder().label("").layout(layout).admission(Admission::Redlock).scripts_only(true);
            let locker = by_script.on(Servers::quorum(urls)).expect("good URLs");
            let before = locker.lock("connected").await.expect("free");
            // The last token of a block, an hour ahead of all clocks: the next proposal is the next
            // token above it.
            let mark = (before.token().get() + 3_600_000_000) | (FencingToken::BLOCK - 1);
            let theirs = mark + theirs_above;
            before.unlock().await.expect("held");

            plain[0].set_mark("x", mark).await;
            plain[2].ask::<String>(&["CONFIG", "SET", "slowlog-log-slower-than", "0"]).await;
            late.hold(Way::Replies);
            let asking = tokio::spawn(locker.lock("x").lease(LONG_LEASE).into_future());
            for node in [0, 2] {
                eventually("it has it", async || plain[node].exists("x").await.then_some(())).await;
            }
            let acquire = commands(&plain[2], "EVALSHA").await.pop().expect("an acquisition");
            plain[2].ask::<u32>(&["DEL", "x"]).await;
            plain[2].set_mark("x", theirs).await;
            assert_eq!(send::<u64>(&plain[2], &acquire).await, theirs, "it has it again");
            late.heal();
            let guard = within("its turn", asking).await.expect("no panic").expect("free");
            assert!(guard.token().get() > theirs, "{} may be another's", guard.token());
            guard.unlock().await.expect("held");
        }
    }
}

/// All commands with this verb so far, in the order in which they were sent.
async fn commands(node: &Plain, verb: &str) -> Vec<Vec<String>> {
    let mut sent = slow_log(node).await;
    sent.retain(|command| command[0].eq_ignore_ascii_case(verb));
    sent
}

async fn send<T: redis::FromRedisValue>(node: &Plain, command: &[String]) -> T {
    node.ask(&command.iter().map(String::as_str).collect::<Vec<_>>()).await
}

/// No other program of Redlock's layout subscribes, and our waiters are notified on their own
/// channels (decision 5).
#[tokio::test]
async fn the_release_of_a_redlock_lock_is_not_published() {
    let Some(node) = Node::start(Layout::Redlock).await else { return };
    let (locker, plain) = node.clients();
    let channel = "redisson_lock__channel:{invoice/7}";
    let mut messages = plain.listen(channel).await;
    locker.lock("invoice/7").await.expect("free").unlock().await.expect("unlocked");
    let _forced = locker.lock("invoice/7").await.expect("free");
    assert!(locker.mutex("invoice/7").force_unlock().await.expect("an answer"));
    plain.ask::<i64>(&["PUBLISH", channel, "the end"]).await;
    assert_eq!(messages.next().await, "the end");
}

#[tokio::test]
async fn the_release_of_a_redisson_lock_is_published_once_as_0() {
    let Some(node) = Node::start(Layout::Redisson).await else { return };
    let (locker, plain) = node.clients();
    for (name, tagged) in NAMES {
        let channel = format!("redisson_lock__channel:{tagged}");
        let mut messages = plain.listen(&channel).await;
        locker.lock(name).lease(LONG_LEASE).await.expect("free").unlock().await.expect("unlocked");
        assert_eq!(messages.next().await, "0", "on {channel}");

        let forced = locker.lock(name).lease(LONG_LEASE).await.expect("free");
        assert!(locker.mutex(name).force_unlock().await.expect("an answer"));
        assert_eq!(messages.next().await, "0", "forced, on {channel}");
        // Acquisitions publish nothing either.
        drop(forced);
        assert_eq!(messages.next().await, "0", "lost, on {channel}");
        drop(locker.lock(name).lease(LONG_LEASE).await.expect("free"));
        assert_eq!(messages.next().await, "0", "dropped, on {channel}");
        plain.ask::<i64>(&["PUBLISH", &channel, "the end"]).await;
        assert_eq!(messages.next().await, "the end");
    }
}

#[tokio::test]
async fn renewal_and_expiry_publish_nothing() {
    let Some(node) = Node::start(Layout::Redisson).await else { return };
    let (locker, plain) = node.clients();
    let channel = "redisson_lock__channel:{invoice/7}";
    let mut messages = plain.listen(channel).await;
    let limit = std::time::Duration::from_millis(600);
    let guard = locker.lock("invoice/7").lease(limit / 3).hold_at_most(limit).await.expect("free");
    within("its end", guard.lost()).await;
    eventually("expired", async || (!plain.exists("invoice/7").await).then_some(())).await;
    plain.ask::<i64>(&["PUBLISH", channel, "the end"]).await;
    // The clean-up of an expired lease may publish that the name is free. This is true, but late.
    let said = messages.next().await;
    assert!(said == "the end" || said == "0", "{said}");
}

#[tokio::test]
async fn a_quorum_writes_the_same_to_every_node() {
    for layout in LAYOUTS {
        let Some(quorum) = Quorum::start(3, layout).await else { return };
        let (locker, plain) = quorum.clients();
        let guard = locker.lock("invoice/7").lease(LONG_LEASE).await.expect("free");
        let holder = locker.mutex("invoice/7").holder().await.expect("an answer").expect("held");
        for node in &plain {
            // The acquisition does not wait for the slowest node's grant.
            let id = eventually("granted", async || id_on(node).await).await;
            assert_eq!(id, holder.id);
            assert_eq!(node.mark("invoice/7").await, Some(last_of(guard.token())), "on {node:?}");
        }
        guard.unlock().await.expect("unlocked");
    }
}

async fn id_on(node: &Plain) -> Option<String> {
    match node.ask::<String>(&["TYPE", "invoice/7"]).await.as_str() {
        "hash" => node.ask::<Vec<String>>(&["HKEYS", "invoice/7"]).await.into_iter().next(),
        "string" => node.ask(&["GET", "invoice/7"]).await,
        _ => None,
    }
}

#[tokio::test]
async fn single_mode_speaks_redisson_and_quorum_mode_redlock_unless_told_otherwise() {
    let Some(quorum) = Quorum::start(3, Layout::Redlock).await else { return };
    let (_, plain) = quorum.clients();
    let single = builder().on(Servers::single(quorum.servers[0].url())).expect("a good URL");
    let _one = single.lock("one").lease(LONG_LEASE).await.expect("free");
    assert_eq!(plain[0].ask::<String>(&["TYPE", "one"]).await, "hash");
    let quorum = builder().on(Servers::quorum(quorum.servers.urls())).expect("good URLs");
    quorum.admit_nodes().await.expect("all answer");
    let _many = quorum.lock("many").lease(LONG_LEASE).await.expect("free");
    for node in &plain {
        let string =
            async || (node.ask::<String>(&["TYPE", "many"]).await == "string").then_some(());
        eventually("granted", string).await;
    }
}
