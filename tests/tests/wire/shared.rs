//! Acquisitions without a script that are sent at once share a transaction, and each gets the
//! result for its own name (decision 008).

use std::future::IntoFuture as _;

use futures::future::{join_all, join3};
use quorumlock::{Error, FencingToken, Guard, Layout, Locker, Servers};
use quorumlock_tests::{builder, eventually, scripts_only, within};

use crate::plain::Fleet;
use crate::{LAYOUTS, LONG_LEASE, Node, last_of};

fn names(count: usize) -> Vec<String> {
    (0..count).map(|i| format!("name/{i}")).collect()
}

/// Tries all names before anything is sent.
async fn at_once(locker: &Locker, names: &[String]) -> Vec<Result<Option<Guard>, Error>> {
    within("answers", join_all(names.iter().map(|name| locker.try_lock(name).into_future()))).await
}

impl Node {
    /// Also `None` where lockers send no transactions.
    async fn sharing(layout: Layout) -> Option<Self> {
        if scripts_only() { None } else { Self::start(layout).await }
    }

    /// Acquires and releases all names. Returns their tokens.
    async fn take_all(&self, names: &[String]) -> Vec<FencingToken> {
        let guards = at_once(&self.locker, names).await;
        let mut fences = Vec::new();
        for guard in guards {
            let guard = guard.expect("an answer").expect("free");
            fences.push(guard.token());
            guard.unlock().await.expect("held");
        }
        fences
    }
}

#[tokio::test]
async fn each_hears_of_its_own_name() {
    for layout in LAYOUTS {
        let Some(node) = Node::sharing(layout).await else { return };
        let names = names(8);
        let fences = node.take_all(&names).await;
        let other =
            builder().layout(layout).on(Servers::single(node.server[0].url())).expect("a good URL");
        let theirs = other.lock(&names[3]).lease(LONG_LEASE).await.expect("free");
        // The mark of this name is ahead of the clock, so the token is raised.
        let ahead = fences[5].get() + 3_600_000_000;
        node.plain.set_mark(&names[5], ahead).await;

        let before = node.calls("exec").await;
        let guards = at_once(&node.locker, &names).await;
        assert_eq!(node.calls("exec").await, before + 1, "{layout:?}: one for all");
        for (i, guard) in guards.into_iter().enumerate() {
            let guard = guard.expect("an answer");
            assert_eq!(guard.is_some(), i != 3, "{layout:?}: name/{i}");
            let Some(guard) = guard else { continue };
            assert!(guard.token() > fences[i], "{layout:?}: name/{i}");
            assert_eq!(guard.token().get() > ahead, i == 5, "{layout:?}: name/{i}");
            assert_eq!(node.plain.mark(&names[i]).await, Some(last_of(guard.token())));
            let holder =
                node.locker.mutex(&names[i]).holder().await.expect("an answer").expect("held");
            assert!(holder.has(guard.nonce()), "{layout:?}: name/{i}: {holder:?}");
            guard.unlock().await.expect("held");
        }
        assert_eq!(theirs.check(), Ok(()));
        let holder = other.mutex(&names[3]).holder().await.expect("an answer").expect("held");
        assert!(holder.has(theirs.nonce()), "{holder:?}");
    }
}

/// A transaction is limited so that it does not block the server for long.
#[tokio::test]
async fn not_more_than_some_share_one() {
    let Some(node) = Node::sharing(Layout::Redisson).await else { return };
    let names = names(100);
    // The client connects first, so that all names are sent at once.
    node.take_all(&names[..1]).await;
    let before = node.calls("exec").await;
    for guard in at_once(&node.locker, &names).await {
        guard.expect("an answer").expect("free").unlock().await.expect("held");
    }
    assert_eq!(node.calls("exec").await, before + 4);
}

/// One command that a server refuses aborts a whole transaction.
#[tokio::test]
async fn a_release_does_not_share_what_is_aborted() {
    for layout in LAYOUTS {
        let Some(node) = Node::sharing(layout).await else { return };
        let names = names(4);
        node.take_all(&names).await;
        let held = node.locker.lock(&names[1]).lease(LONG_LEASE).await.expect("free");
        node.plain.ask::<String>(&["CONFIG", "SET", "maxmemory", "1"]).await;
        let before = node.calls("multi").await;
        // The order matters: the release is sent between the acquisitions.
        let (first, freed, rest) = within(
            "answers",
            join3(
                node.locker.try_lock(&names[0]).into_future(),
                held.unlock().into_future(),
                at_once(&node.locker, &names[2..]),
            ),
        )
        .await;
        assert!(
            node.calls("multi").await > before,
            "{layout:?}: nothing was asked in a transaction"
        );
        for refused in rest.into_iter().chain([first]) {
            assert!(matches!(refused, Err(Error::Refused(_))), "{layout:?}: {refused:?}");
        }
        freed.expect("held");
        assert!(!node.plain.exists(&names[1]).await, "{layout:?}");
    }
}

/// From then on all names are acquired by script.
#[tokio::test]
async fn a_right_that_is_missing_is_missing_for_all() {
    for layout in LAYOUTS {
        let Some(node) = Node::sharing(layout).await else { return };
        let names = names(4);
        let mut last = vec![FencingToken::NONE; 4];
        let right = if layout == Layout::Redisson { "-restore" } else { "-multi" };
        node.plain.ask::<String>(&["ACL", "SETUSER", "default", right]).await;
        for _ in 0..2 {
            let next = node.take_all(&names).await;
            assert!(next.iter().zip(&last).all(|(next, last)| next > last), "{layout:?}");
            last = next;
        }
        // `MULTI` is counted whether it is refused or carried out.
        let stats: String = node.plain.ask(&["INFO", "commandstats"]).await;
        let multi = stats.lines().find(|line| line.starts_with("cmdstat_multi:")).expect("asked");
        let once = multi.contains(":calls=1,") != multi.contains("rejected_calls=1,");
        assert!(once, "{layout:?}: asked again for what is forbidden: {multi}");
        for name in &names {
            assert!(!node.plain.exists(name).await, "{layout:?}: {name} stays");
        }
    }
}

#[tokio::test]
async fn without_tokens_each_hears_of_its_own_name_too() {
    let Some(fleet) = Fleet::start().await else { return };
    let (one, other, names) = (fleet.unfenced(), fleet.unfenced(), names(5));
    for held in 0..names.len() {
        let theirs = other.lock(&names[held]).lease(LONG_LEASE).await.expect("free");
        for (i, guard) in at_once(&one, &names).await.into_iter().enumerate() {
            let guard = guard.expect("an answer");
            assert_eq!(guard.is_some(), i != held, "name/{i}, while name/{held} is held");
            if let Some(guard) = guard {
                guard.unlock().await.expect("held");
            }
        }
        theirs.unlock().await.expect("held");
    }
}

/// The proof of memory in a transaction holds for all acquisitions that share it.
#[tokio::test]
async fn on_a_node_that_is_not_believed_none_of_them_is() {
    let Some(fleet) = Fleet::start().await else { return };
    let names = names(6);
    // Once all nodes have carried out the last request, no earlier request is counted below.
    let last = within("free", fleet.locker.lock(&names[5])).await.expect("granted");
    let at = last_of(last.token());
    for node in &fleet.plain {
        let mark = async || node.mark(&names[5]).await == Some(at);
        eventually("accepted", async || mark().await.then_some(())).await;
    }
    last.unlock().await.expect("held");
    let before = fleet.transactions().await;
    let mut fences = Vec::new();
    for guard in at_once(&fleet.locker, &names).await {
        let guard = guard.expect("an answer").expect("free");
        fences.push(last_of(guard.token()));
        guard.unlock().await.expect("held");
    }
    eventually("one for all on each of three", async || {
        (fleet.transactions().await >= before + 3).then_some(())
    })
    .await;
    assert_eq!(fleet.transactions().await, before + 3);

    // The state after a restart that kept all data, but on the same connections.
    fleet.on_all(&["SCRIPT", "FLUSH"]).await;
    for (guard, fence) in at_once(&fleet.locker, &names).await.into_iter().zip(fences) {
        let guard = guard.expect("an answer").expect("free");
        assert!(guard.token().get() > fence, "{} after {fence}", guard.token());
        guard.unlock().await.expect("held");
    }

    fleet.on_all(&["FLUSHALL"]).await;
    for refused in at_once(&fleet.locker, &names).await {
        assert!(matches!(refused, Err(Error::Refused(_))), "{refused:?}");
    }
    for node in &fleet.plain {
        let none =
            async || (node.ask::<Vec<String>>(&["KEYS", "name/*"]).await == [""; 0]).then_some(());
        eventually("nothing stays", none).await;
    }
}
