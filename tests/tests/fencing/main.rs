//! Resources that check tokens, with real locks: docs/FENCING.md.
//!
//! - here: what goes wrong, and how each of the three resources prevents it;
//! - [`account`]: the three resources: a gate, Redis, SQL;
//! - [`lua`], [`sql`]: the recipes by themselves; [`page`]: docs/FENCING.md shows the code that
//!   runs.

mod account;
mod lua;
mod page;
mod sql;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use quorumlock::fencing::{FenceGate, Stale};
use quorumlock::{FencingToken, Guard, Layout};
use quorumlock_tests::{Testbed, Topology, within};

use self::account::{Account, Gate, InRedis, InSql, Unclaimed};

/// The lease of a holder that will be paused; the tests wait until it has ended.
const SHORT: Duration = Duration::from_millis(200);
const NAME: &str = "account/7";

/// Each demonstration with each resource, the locks on a single node and on a quorum.
macro_rules! demonstrations {
    ($demonstration:ident: $($test:ident, $resource:ident;)*) => { $(
        #[tokio::test]
        async fn $test() {
            for (topology, layout) in
                [(Topology::Single, Layout::Redisson), (Topology::QuorumOf3, Layout::Redlock)]
            {
                let worker = env!("CARGO_BIN_EXE_quorumlock-tests-worker");
                let Some(bed) = Testbed::start(topology, layout, worker) else { return };
                demonstrations!(@ $resource, bed, $demonstration);
            }
        }
    )* };
    (@ gate, $bed:ident, $demonstration:ident) => {
        let gate = FenceGate::new(100);
        $demonstration(&$bed, Gate::of(&gate), Gate::of(&gate)).await;
    };
    (@ redis, $bed:ident, $demonstration:ident) => {
        let resource = InRedis::with(&$bed.plain(0).await, 100).await;
        $demonstration(&$bed, resource.clone(), resource).await;
    };
    (@ sql, $bed:ident, $demonstration:ident) => {
        let database = sql::Database::with(100);
        $demonstration(&$bed, InSql::to(&database), InSql::to(&database)).await;
    };
}

demonstrations! { a_paused_holders_late_write_is_refused:
    gate_refuses_a_paused_holders_late_write, gate;
    redis_refuses_a_paused_holders_late_write, redis;
    sql_refuses_a_paused_holders_late_write, sql;
}

/// SAFETY.md G4. A lease alone would let the write through: the holder does not check its lock
/// again before it writes, and if it did, it could be paused after the check.
async fn a_paused_holders_late_write_is_refused(
    bed: &Testbed,
    mut of_slow: impl Account,
    mut of_quick: impl Account,
) {
    let (slow, quick) = (bed.locker(), bed.locker());
    let slow = slow.lock(NAME).hold_at_most(SHORT).await.expect("free");
    let read = of_slow.claim(slow.token()).await.expect("the first token");

    // Here `slow` is paused until its lease has ended and another client holds the lock.
    let quick = next_holder(&slow, quick.lock(NAME)).await;
    let balance = of_quick.claim(quick.token()).await.expect("a larger token");
    of_quick.write(quick.token(), balance + 50).await.expect("the largest token");

    let late = of_slow.write(slow.token(), read + 1).await;
    assert_eq!(late, Err(Stale::new(quick.token(), slow.token())));
    let late = of_slow.claim(slow.token()).await;
    assert_eq!(late, Err(Stale::new(quick.token(), slow.token())));
    assert!(slow.check().is_err(), "its lock had been lost");
    assert_eq!(of_quick.claim(quick.token()).await, Ok(150));
}

demonstrations! { with_the_claim_no_update_is_lost:
    gate_loses_no_update_because_reading_needs_a_claim, gate;
    redis_loses_no_update_with_the_claim, redis;
    sql_loses_no_update_with_the_claim, sql;
}

/// The same steps as in `without_the_claim_an_update_is_lost`, but with the claim (SAFETY.md A8).
async fn with_the_claim_no_update_is_lost(
    bed: &Testbed,
    mut of_slow: impl Account,
    mut of_quick: impl Account,
) {
    let (slow_locker, quick) = (bed.locker(), bed.locker());
    let slow = slow_locker.lock(NAME).hold_at_most(SHORT).await.expect("free");
    let read = of_slow.claim(slow.token()).await.expect("the first token");
    let quick = next_holder(&slow, quick.lock(NAME)).await;

    let balance = of_quick.claim(quick.token()).await.expect("a larger token");
    let refused = of_slow.write(slow.token(), read + 1).await;
    assert_eq!(refused, Err(Stale::new(quick.token(), slow.token())));
    of_quick.write(quick.token(), balance + 50).await.expect("the largest token");
    quick.unlock().await.expect("held");

    // The holder got an error, so it starts again with a new lock and a new reading, and the sum is
    // right.
    let again = within("a free lock", slow_locker.lock(NAME)).await.expect("free");
    let read = of_slow.claim(again.token()).await.expect("the largest token");
    of_slow.write(again.token(), read + 1).await.expect("the largest token");
    assert_eq!(of_slow.claim(again.token()).await, Ok(100 + 50 + 1));
}

demonstrations! { without_the_claim_an_update_is_lost:
    redis_loses_an_update_without_the_claim, redis;
    sql_loses_an_update_without_the_claim, sql;
}

/// Every write carries its token and every token is checked, but an update is still lost: the claim
/// prevents this. (With a `FenceGate` this code cannot be written.)
async fn without_the_claim_an_update_is_lost(
    bed: &Testbed,
    mut of_slow: impl Unclaimed,
    mut of_quick: impl Unclaimed,
) {
    let (slow, quick) = (bed.locker(), bed.locker());
    let slow = slow.lock(NAME).hold_at_most(SHORT).await.expect("free");
    let read = of_slow.peek().await;
    let quick = next_holder(&slow, quick.lock(NAME)).await;

    let balance = of_quick.peek().await;
    let stale = of_slow.write_checked(slow.token(), read + 1).await;
    assert_eq!(stale, Ok(()), "the larger token has not been seen yet");
    let last = of_quick.write_checked(quick.token(), balance + 50).await;
    assert_eq!(last, Ok(()), "the largest token");
    assert_eq!(of_quick.peek().await, 100 + 50, "the 1 is lost, and nobody was told");
}

/// A reader after a paused writer, and a writer after a paused reader (SAFETY.md G4).
#[tokio::test]
async fn a_gate_refuses_a_paused_writer_after_a_reader_and_a_paused_reader_after_a_writer() {
    for (topology, layout) in
        [(Topology::Single, Layout::Redisson), (Topology::QuorumOf3, Layout::Redlock)]
    {
        let Some(bed) = Testbed::start(topology, layout, "") else { return };
        let (slow, quick, gate) = (bed.locker(), bed.locker(), FenceGate::new(100));
        let writer = slow.rw_lock(NAME).write().hold_at_most(SHORT).await.expect("free");
        let claimed = gate.claim(writer.token()).expect("the first token");
        let reader =
            within("the end of a short lease", quick.rw_lock(NAME).read()).await.expect("free");
        let read = gate.read(reader.token(), |balance| *balance);
        let late = claimed.with(|balance| *balance += 1);
        assert_eq!((read, late), (Ok(100), Err(Stale::new(reader.token(), writer.token()))));
        reader.unlock().await.expect("held");

        let reader = slow.rw_lock(NAME).read().hold_at_most(SHORT).await.expect("free");
        let writer =
            within("the end of a short lease", quick.rw_lock(NAME).write()).await.expect("free");
        gate.claim(writer.token()).expect("the largest token").with(|b| *b = 150).expect("claimed");
        let late = gate.read(reader.token(), |balance| *balance);
        assert_eq!(late, Err(Stale::new(writer.token(), reader.token())));
    }
}

/// Gets the lock when the lease of `paused` has ended.
async fn next_holder(paused: &Guard, lock: quorumlock::LockRequest) -> Guard {
    let next = within("the end of a short lease", lock).await.expect("free");
    assert!(next.token() > paused.token(), "{} after {}", next.token(), paused.token());
    next
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn redis_counts_every_update_of_many_tasks() {
    let Some(bed) = Testbed::start(Topology::Single, Layout::Redisson, "") else { return };
    let resource = InRedis::with(&bed.plain(0).await, 0).await;
    every_update_counts((0..8).map(|_| resource.clone()).collect()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn sql_counts_every_update_of_many_connections() {
    let database = sql::Database::with(0);
    every_update_counts((0..4).map(|_| InSql::to(&database)).collect()).await;
}

/// Holders use only tokens and no lock: each accepted holder counts exactly once.
async fn every_update_counts<A: Account + Send + 'static>(accounts: Vec<A>) {
    const ATTEMPTS: usize = 100;
    async fn add_one(account: &mut impl Account, token: FencingToken) -> Result<(), Stale> {
        let read = account.claim(token).await?;
        tokio::task::yield_now().await;
        account.write(token, read + 1).await
    }
    let next_token = Arc::new(AtomicU64::new(1));
    let tasks = accounts.into_iter().map(|mut account| {
        let next_token = next_token.clone();
        tokio::spawn(async move {
            let mut written = 0;
            for _ in 0..ATTEMPTS {
                let token = FencingToken::new(next_token.fetch_add(1, Ordering::SeqCst));
                written += i64::from(add_one(&mut account, token).await.is_ok());
            }
            (account, written)
        })
    });
    let done = within("all attempts", futures::future::join_all(tasks)).await;
    let (mut accounts, written): (Vec<_>, Vec<_>) =
        done.into_iter().map(|task| task.expect("no panic")).unzip();
    let sum = written.iter().sum::<i64>();
    assert!(sum > 0, "nobody got through");
    assert_eq!(accounts[0].claim(FencingToken::new(u64::from(u32::MAX))).await, Ok(sum));
}
