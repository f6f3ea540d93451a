//! The locks of one name in several layouts: waiters of one kind, and a release of another. A release hands
//! off to waiters of its own layout only; others are notified, each as what it waits for (PROTOCOL.md W5).

use std::future::IntoFuture as _;

use quorumlock::{Error, Locker, Servers};
use quorumlock_tests::{builder, eventually, within};

use crate::members::{self, Sign, nonce, offer};
use crate::{LAYOUTS, LONG_LEASE, Node};

const WAITERS: &str = "quorumlock:waiters:{x}";

/// What is released.
#[derive(Clone, Copy, Debug)]
enum Released {
    Lock,
    Writer,
    Reader,
}

impl Released {
    /// Takes the name, lets `waits` queue, and releases it.
    async fn after(self, locker: &Locker, waits: impl AsyncFnOnce()) -> Result<(), Error> {
        match self {
            Self::Lock => {
                let guard = within("free", locker.lock("x").lease(LONG_LEASE)).await?;
                waits().await;
                guard.unlock().await
            }
            Self::Writer => {
                let guard = within("free", locker.rw_lock("x").write().lease(LONG_LEASE)).await?;
                waits().await;
                guard.unlock().await
            }
            Self::Reader => {
                let guard = within("free", locker.rw_lock("x").read().lease(LONG_LEASE)).await?;
                waits().await;
                guard.unlock().await
            }
        }
    }
}

/// Each kind of waiter behind each release, in both layouts of locks: who gets the name, and what the waiter
/// hears.
#[tokio::test]
async fn a_release_hands_off_to_its_own_kind_and_tells_others_what_they_wait_for() {
    for layout in LAYOUTS {
        for released in [Released::Lock, Released::Writer, Released::Reader] {
            for kind in ["hash", "string", "read", "write"] {
                let Some(node) = Node::start(layout).await else { return };
                let hands_off = match released {
                    Released::Lock => kind == members::kind_of(layout),
                    Released::Writer | Released::Reader => ["read", "write"].contains(&kind),
                };
                let what = format!("{layout:?}: a {kind} waiter behind {released:?}");
                check(&node, released, (kind, hands_off), &what).await;
            }
        }
    }
}

async fn check(node: &Node, released: Released, (kind, hands_off): (&str, bool), what: &str) {
    let plain = &node.plain;
    let member = offer("waiter", kind, 7);
    // It listens to handoffs, too: only one that nobody hears is undone.
    let mut channels = None;
    let waits = async || {
        let waits = members::waiter_with_offer(plain, WAITERS, &member, 1, Sign::NOW).await;
        channels = Some(waits);
    };
    released.after(&node.locker, waits).await.unwrap_or_else(|error| panic!("{what}: {error}"));
    let (mut notified, mut handed) = channels.expect("it waits");
    let name = match kind {
        "read" | "write" => format!("quorumlock:{kind}:x"),
        _ => "x".to_owned(),
    };
    if hands_off {
        let token = plain.mark("x").await;
        let message = handed.next().await;
        assert!(message.starts_with(&nonce(kind, 7)) && message.ends_with(&name), "{what}");
        assert!(plain.exists("x").await && token.is_some(), "{what}: it holds the name");
        assert!(members::all(plain, WAITERS).await.is_empty(), "{what}");
    } else {
        assert_eq!(notified.next().await, name, "{what}");
        assert!(!plain.exists("x").await, "{what}: the name is free");
        assert_eq!(members::notified(plain, WAITERS).await, [member], "{what}");
    }
}

/// Of a read-write lock only the turn of a writer may be left, which keeps readers out. Nobody holds the
/// name: a lock's client waits until the turn is over (PROTOCOL.md RW3).
#[tokio::test]
async fn the_turn_of_a_writer_keeps_a_lock_waiting() {
    for layout in LAYOUTS {
        let Some(node) = Node::start(layout).await else { return };
        let (locker, plain) = node.clients();
        let turn = async |ms: u64| {
            let ends = members::server_time(&plain).await / 1_000 + ms;
            plain.ask::<i64>(&["ZADD", "x", &ends.to_string(), "turn"]).await;
            plain.ask::<i64>(&["PEXPIREAT", "x", &ends.to_string()]).await;
        };
        turn(60_000).await;
        assert_eq!(locker.mutex("x").holder().await.expect("an answer"), None, "{layout:?}");
        assert!(locker.try_lock("x").await.expect("no error").is_none(), "{layout:?}");
        assert!(
            !locker.mutex("x").force_unlock().await.expect("an answer"),
            "{layout:?}: it is no lock"
        );
        let waiting = tokio::spawn(locker.lock("x").lease(LONG_LEASE).into_future());
        eventually("queued", async || plain.exists(WAITERS).await.then_some(())).await;
        turn(100).await;
        let guard = within("the end of the turn", waiting).await.expect("no panic");
        guard.expect("granted").unlock().await.expect("held");
    }
}

/// A writer that holds the name is no turn: a lock of the same name is refused with an error.
#[tokio::test]
async fn a_lock_of_a_name_that_a_writer_holds_is_refused() {
    for layout in LAYOUTS {
        let Some(node) = Node::start(layout).await else { return };
        let writer = within("free", node.locker.rw_lock("x").write().lease(LONG_LEASE)).await;
        let other =
            builder().layout(layout).on(Servers::single(node.server[0].url())).expect("a good URL");
        let refused = within("an answer", other.lock("x")).await;
        assert!(matches!(refused, Err(Error::Refused(_))), "{layout:?}: {refused:?}");
        writer.expect("granted").unlock().await.expect("held");
    }
}
