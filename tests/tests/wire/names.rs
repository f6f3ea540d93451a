//! Names that users may choose: no two names share a lock, and every byte of a name arrives.

use std::future::IntoFuture as _;
use std::pin::Pin;

use quorumlock::{Error, Guard, Layout, Locker, Servers};
use quorumlock_protocol::Name;
use quorumlock_tests::{Plain, builder, eventually, mark_key, within};

use crate::{LAYOUTS, LONG_LEASE, Node, Quorum};

type Waiting = Pin<Box<dyn Future<Output = Result<Guard, Error>> + Send>>;

/// Names with bytes that end a C string, a line, a word, a Lua pattern, a Lua string or a hash tag.
fn unusual_names() -> Vec<String> {
    let mut names: Vec<_> = [
        "a\0b",
        "\0",
        "line\r\nbreak\n",
        "two words ",
        "say \"x\" or 'y'",
        "%s%d%%",
        "back\\slash\\",
        "]]--",
        "größer/鎖/🔒",
        "{x",
        "x}",
        "{}",
        "}{",
    ]
    .map(str::to_owned)
    .into();
    names.push("n".repeat(Name::MAX_LEN));
    names
}

fn another(node: &Node, layout: Layout) -> Locker {
    builder().layout(layout).on(Servers::single(node.server[0].url())).expect("a good URL")
}

async fn queue(plain: &Plain, name: &str) -> Vec<String> {
    let key = Name::new(name).expect("a good name").waiters_key();
    plain.ask(&["ZRANGE", &key, "0", "-1"]).await
}

/// Returns a waiter that is in the queue and is no longer polled.
async fn waits(plain: &Plain, locker: &Locker, name: &str) -> Waiting {
    let before = queue(plain, name).await.len();
    let mut waiting: Waiting = Box::pin(locker.lock(name).lease(LONG_LEASE).into_future());
    tokio::select! {
        biased;
        answer = &mut waiting => panic!("it is held: {answer:?}"),
        () = eventually("in line", async || {
            (queue(plain, name).await.len() > before).then_some(())
        }) => {}
    }
    waiting
}

#[tokio::test]
async fn a_release_of_a_name_is_no_business_of_those_who_wait_for_one_that_looks_like_it() {
    for layout in LAYOUTS {
        for (name, like) in [("x", "{x}"), ("{x}", "x"), ("raw:{x}", "{x}")] {
            let Some(node) = Node::start(layout).await else { return };
            let (locker, plain) = node.clients();
            let held = locker.lock(like).lease(LONG_LEASE).await.expect("free");
            let others = [another(&node, layout), another(&node, layout)];
            let first = waits(&plain, &others[0], like).await;
            let second = waits(&plain, &others[1], like).await;
            let stood = queue(&plain, like).await;
            for _ in 0..10 {
                let guard =
                    within("free", locker.lock(name).lease(LONG_LEASE)).await.expect("free");
                guard.unlock().await.expect("held");
                let holder = locker.mutex(name).holder().await.expect("an answer");
                assert!(holder.is_none(), "{layout:?}: {name} was handed to who waits for {like}");
            }
            assert_eq!(queue(&plain, like).await, stood, "{layout:?}: nobody lost its place");
            held.unlock().await.expect("held");
            for waiting in [first, second] {
                let guard = within("its turn", waiting).await.expect("granted");
                guard.unlock().await.expect("held");
            }
        }
    }
}

/// `x` and `{x}` share Redisson's channel. A message there makes a waiter poll, and nothing else.
#[tokio::test]
async fn who_is_woken_by_a_release_of_a_name_like_its_own_keeps_its_place() {
    let Some(node) = Node::start(Layout::Redisson).await else { return };
    let (locker, plain) = node.clients();
    let held = locker.lock("x").lease(LONG_LEASE).await.expect("free");
    let other = another(&node, Layout::Redisson);
    let waiting = tokio::spawn(other.lock("x").lease(LONG_LEASE).into_future());
    listens(&plain, 1).await;
    locker.lock("{x}").lease(LONG_LEASE).await.expect("free").unlock().await.expect("held");
    for _ in 0..20 {
        let asked = node.calls("evalsha").await;
        let like = within("free", locker.lock("{x}").lease(LONG_LEASE)).await.expect("free");
        like.unlock().await.expect("held");
        assert_eq!(queue(&plain, "x").await.len(), 1, "it keeps its place");
        let looked = async || (node.calls("evalsha").await > asked).then_some(());
        eventually("it looked again", looked).await;
    }
    assert_eq!(queue(&plain, "x").await.len(), 1);
    held.unlock().await.expect("held");
    drop(within("its turn", waiting).await.expect("no panic").expect("granted"));
}

/// One process waits for both names. Neither wait ends the other's subscription to the shared
/// channel.
#[tokio::test]
async fn names_that_share_a_channel_are_both_heard_on_it() {
    let Some(node) = Node::start(Layout::Redisson).await else { return };
    let (locker, plain) = node.clients();
    let held = [
        locker.lock("x").lease(LONG_LEASE).await.expect("free"),
        locker.lock("{x}").lease(LONG_LEASE).await.expect("free"),
    ];
    let other = another(&node, Layout::Redisson);
    let waiting =
        ["x", "{x}"].map(|name| tokio::spawn(other.lock(name).lease(LONG_LEASE).into_future()));
    listens(&plain, 1).await;
    // Many polls of both, for longer than a waiter takes to notice that its subscription is gone.
    let asked = node.calls("evalsha").await;
    let looked = async || (node.calls("evalsha").await > asked + 8).then_some(());
    eventually("they look by themselves", looked).await;
    // Each process its own channels, the waiter that of both names, and the holder that of forced releases.
    assert!(node.calls("subscribe").await <= 4, "the waiter has subscribed again");
    for (held, waiting) in held.into_iter().zip(waiting) {
        held.unlock().await.expect("held");
        drop(within("its turn", waiting).await.expect("no panic").expect("granted"));
    }
}

/// Waits until `many` lockers subscribe to Redisson's channel of `x`.
async fn listens(plain: &Plain, many: i64) {
    eventually("it listens", async || {
        let (_, listeners) =
            plain.ask::<(String, i64)>(&["PUBSUB", "NUMSUB", "redisson_lock__channel:{x}"]).await;
        (listeners == many).then_some(())
    })
    .await;
}

#[tokio::test]
async fn every_byte_of_a_name_arrives_when_it_is_handed_over() {
    for layout in LAYOUTS {
        let Some(node) = Node::start(layout).await else { return };
        let (locker, plain) = node.clients();
        let other = another(&node, layout);
        for name in unusual_names() {
            let held = locker.lock(&name).lease(LONG_LEASE).await.expect("free");
            let mut waiting = waits(&plain, &other, &name).await;
            held.unlock().await.expect("held");
            let holder =
                locker.mutex(&name).holder().await.expect("an answer").expect("handed over");
            let guard = within("heard", &mut waiting).await.expect("granted");
            assert!(holder.has(guard.nonce()), "{layout:?}: {name:?} was asked for anew");
            guard.unlock().await.expect("held");
        }
    }
}

#[tokio::test]
async fn every_byte_of_a_name_arrives_when_a_waiter_is_woken() {
    for layout in LAYOUTS {
        let Some(node) = Node::start(layout).await else { return };
        let (locker, plain) = node.clients();
        let other =
            builder().layout(layout).on(Servers::single(node.server[0].url())).expect("a good URL");
        for name in unusual_names() {
            let held = locker.lock(&name).lease(LONG_LEASE).await.expect("free");
            let waiting = waits(&plain, &other, &name).await;
            let member = queue(&plain, &name).await.remove(0);
            let waiter = member.split(' ').next().expect("its id");
            // Without a mark the server knows no token, and does not hand the name off.
            plain.ask::<i64>(&["DEL", mark_key(&name)]).await;
            let mut told = plain.listen(&format!("quorumlock:wake:{waiter}")).await;
            held.unlock().await.expect("held");
            assert_eq!(told.next().await, name, "{layout:?}");
            within("woken", waiting).await.expect("granted").unlock().await.expect("held");
        }
    }
}

#[tokio::test]
async fn every_byte_of_a_name_is_locked_with_and_without_scripts() {
    for layout in LAYOUTS {
        let Some(node) = Node::start(layout).await else { return };
        let Some(quorum) = Quorum::start(3, layout).await else { return };
        for name in unusual_names() {
            let key = Name::new(&name).expect("a good name");
            for locker in [&node.locker, &quorum.locker] {
                let mut last = quorumlock::FencingToken::NONE;
                for _ in 0..3 {
                    let guard = locker.lock(&name).lease(LONG_LEASE).await.expect("free");
                    assert!(guard.token() > last, "{layout:?}: {name:?}");
                    last = guard.token();
                    let holder =
                        locker.mutex(&name).holder().await.expect("an answer").expect("held");
                    assert!(holder.has(guard.nonce()), "{layout:?}: {name:?}");
                    guard.unlock().await.expect("held");
                }
            }
            assert!(node.plain.exists(key.mark_key()).await, "{name:?}");
            let mut released = node.plain.listen(&key.channel()).await;
            node.locker.lock(&name).await.expect("free").unlock().await.expect("held");
            if layout == Layout::Redisson {
                assert_eq!(released.next().await, "0", "{name:?}");
            }
        }
    }
}
