//! On a single node one request gives a lock back and stands in line for it again (decision 26).

use std::future::IntoFuture as _;
use std::pin::Pin;
use std::time::Duration;

use quorumlock::{Error, Guard, Locker, Wire};
use quorumlock_tests::{Plain, builder, eventually, within};

use crate::{LONG, Node, WIRES, last_of, slow_log};

const WAITERS: &str = "quorumlock:waiters:{x}";

/// Of which a tenth is longer than a test waits.
const HOUR: Duration = Duration::from_secs(3_600);

/// A lock on its way.
type Coming = Pin<Box<dyn Future<Output = Result<Guard, Error>> + Send>>;

async fn queue(plain: &Plain) -> Vec<String> {
    plain.ask(&["ZRANGE", WAITERS, "0", "-1"]).await
}

/// The nonce with which somebody stands in the queue.
fn nonce(stands: &str) -> &str {
    stands.split(' ').nth(1).unwrap_or_else(|| panic!("{stands} offers nothing"))
}

/// What another process would have.
fn another(node: &Node, wire: Wire) -> Locker {
    builder().wire(wire).single(node.server[0].url()).expect("a good URL")
}

/// A guard of a locker that hears of its turns already.
async fn heard(locker: &Locker, plain: &Plain) -> Guard {
    let guard = within("free", locker.lock("x").lease(LONG)).await.expect("granted");
    let guard = within("free", guard.bump().lease(LONG)).await.expect("granted");
    eventually("it hears", async || {
        let channels: Vec<String> =
            plain.ask(&["PUBSUB", "CHANNELS", "quorumlock:granted:*"]).await;
        (!channels.is_empty()).then_some(())
    })
    .await;
    guard
}

/// Somebody else who waits, and as what it stands in line.
async fn waiter(other: &Locker, plain: &Plain) -> (Coming, String) {
    let mut waiting: Coming = Box::pin(other.lock("x").lease(LONG).into_future());
    let stands = tokio::select! {
        biased;
        answer = &mut waiting => panic!("it is held: {answer:?}"),
        stands = eventually("in line", async || queue(plain).await.pop()) => stands,
    };
    (waiting, stands)
}

/// Polls a bump until the server has done what it asks, and no longer: it has heard nothing then.
async fn until<T>(bump: &mut Coming, what: &str, found: impl AsyncFnMut() -> Option<T>) -> T {
    tokio::select! {
        biased;
        found = eventually(what, found) => found,
        _ = async {
            // Once: it is queued then.
            let _ = futures::poll!(&mut *bump);
            std::future::pending::<()>().await
        } => unreachable!("it waits for ever"),
    }
}

#[tokio::test]
async fn who_bumps_stands_behind_all_who_wait() {
    for wire in WIRES {
        let Some(node) = Node::start(wire).await else { return };
        let (locker, plain) = node.clients();
        let guard = heard(&locker, &plain).await;
        let other = another(&node, wire);
        let (waiting, first) = waiter(&other, &plain).await;
        let ours = guard.nonce();
        let mut bump: Coming = Box::pin(guard.bump().lease(LONG).into_future());
        let stands = until(&mut bump, "behind", async || {
            queue(&plain).await.pop().filter(|stands| *stands != first)
        })
        .await;
        let holder = locker.holder("x").await.expect("an answer").expect("held");
        assert_eq!(holder.id, nonce(&first), "it was handed to the first in line");
        assert_eq!(queue(&plain).await, [&*stands]);

        let between = within("heard", waiting).await.expect("granted");
        let fence = between.fence();
        between.unlock().await.expect("held");
        let holder = locker.holder("x").await.expect("an answer").expect("held");
        assert_eq!(holder.id, nonce(&stands), "without another word");
        let again = within("heard", bump).await.expect("granted");
        assert!(holder.has(again.nonce()) && again.nonce() != ours);
        assert!(again.fence() > fence);
        again.unlock().await.expect("held");
        assert!(!plain.exists("x").await && !plain.exists(WAITERS).await);
    }
}

/// Two processes in turn: each hold is one script, and nothing is asked beside it.
#[tokio::test]
async fn a_hold_costs_one_request() {
    for wire in WIRES {
        let Some(node) = Node::start(wire).await else { return };
        let (locker, plain) = node.clients();
        let other = another(&node, wire);
        plain.ask::<String>(&["CONFIG", "SET", "slowlog-log-slower-than", "0"]).await;
        // A stall of this machine makes waiters look: sooner or later there is none.
        eventually("a hold for each script", async || {
            let mut guard = heard(&locker, &plain).await;
            let (mut waiting, _) = waiter(&other, &plain).await;
            plain.ask::<String>(&["SLOWLOG", "RESET"]).await;
            for _ in 0..8 {
                let mut bump: Coming = Box::pin(guard.bump().lease(LONG).into_future());
                guard = tokio::select! {
                    biased;
                    answer = &mut bump => panic!("before the other one: {answer:?}"),
                    next = &mut waiting => next.expect("granted"),
                };
                waiting = bump;
            }
            let sent = slow_log(&plain).await;
            drop((waiting, guard));
            let scripts = sent.iter().filter(|sent| sent[0].eq_ignore_ascii_case("EVALSHA"));
            (scripts.count() == 8).then_some(())
        })
        .await;
    }
}

/// What it was handed, and did not look at, is given back.
#[tokio::test]
async fn who_bumps_and_gives_up_leaves_the_lock_free() {
    for wire in WIRES {
        let Some(node) = Node::start(wire).await else { return };
        let plain = &node.plain;
        let locker = builder().wire(wire).max_lease(HOUR);
        let locker = locker.single(node.server[0].url()).expect("a good URL");
        let guard = heard(&locker, plain).await;
        let ours = guard.nonce();
        let mut bump: Coming = Box::pin(guard.bump().lease(HOUR).into_future());
        until(&mut bump, "handed to itself", async || {
            let holder = locker.holder("x").await.expect("an answer")?;
            (!holder.has(ours)).then_some(())
        })
        .await;
        drop(bump);
        eventually("given back", async || (!plain.exists("x").await).then_some(())).await;
        assert!(!plain.exists(WAITERS).await);
    }
}

/// Nor does it stand in line any more when it has waited for as long as it may.
#[tokio::test]
async fn a_bump_that_waited_for_long_enough_stands_nowhere() {
    for wire in WIRES {
        let Some(node) = Node::start(wire).await else { return };
        let (locker, plain) = node.clients();
        let guard = heard(&locker, &plain).await;
        let other = another(&node, wire);
        let (waiting, _) = waiter(&other, &plain).await;
        let bump = guard.bump().lease(LONG).wait(Duration::from_millis(300)).into_future();
        let (answer, next) = within("both", futures::future::join(bump, waiting)).await;
        assert!(matches!(answer, Err(Error::Busy(_))), "{answer:?}");
        eventually("left", async || (!plain.exists(WAITERS).await).then_some(())).await;
        next.expect("its turn").unlock().await.expect("held");
        assert!(!plain.exists("x").await);
    }
}

/// It was lost: whoever holds it now keeps it, and nobody stands in line.
#[tokio::test]
async fn a_bump_of_what_another_holds_stands_nowhere() {
    for wire in WIRES {
        let Some(node) = Node::start(wire).await else { return };
        let (locker, plain) = node.clients();
        let guard = heard(&locker, &plain).await;
        let other = another(&node, wire);
        assert!(other.force_unlock("x").await.expect("an answer"), "it was held");
        let next = within("free", other.lock("x").lease(LONG)).await.expect("granted");
        let answer = within("told", guard.bump()).await;
        assert!(matches!(answer, Err(Error::Lost(_))), "{answer:?}");
        assert!(!plain.exists(WAITERS).await);
        next.unlock().await.expect("held");
    }
}

/// Alone in line it is handed the name itself, with the next block of tokens.
#[tokio::test]
async fn who_bumps_alone_has_the_next_block() {
    for wire in WIRES {
        let Some(node) = Node::start(wire).await else { return };
        let (locker, plain) = node.clients();
        let guard = heard(&locker, &plain).await;
        let mark = plain.mark("x").await.expect("a mark");
        let guard = within("free", guard.bump().lease(LONG)).await.expect("granted");
        assert!(guard.fence().get() > mark);
        assert_eq!(plain.mark("x").await, Some(last_of(guard.fence())));
        guard.unlock().await.expect("held");
    }
}
