//! Read-write locks: one writer, or any number of readers (docs/PROTOCOL.md, Read-write locks).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use quorumlock::{ConfigError, Error, Locker, LossReason, NodeProblem, Owner};

use super::{LONG_LEASE, RENEWED_LEASE, SHORT_LEASE, is_taken_away};
use crate::{CountPolls, Drops, MAX_WAIT, Testbed, within};

const NAME: &str = "catalog";

fn config<T: std::fmt::Debug>(result: Result<T, Error>) -> ConfigError {
    match result {
        Err(Error::Config(error)) => error,
        other => panic!("{other:?}"),
    }
}

/// Readers do not exclude each other; a writer excludes all, and all exclude it (RW1).
pub async fn readers_share_what_a_writer_has_alone(bed: &Testbed) {
    let (ours, other) = (bed.locker(), bed.locker());
    let first = within("free", ours.rw_lock(NAME).read().lease(LONG_LEASE)).await.expect("free");
    let second =
        within("shared", other.rw_lock(NAME).read().lease(LONG_LEASE)).await.expect("shared");
    let third =
        ours.rw_lock(NAME).try_read().lease(LONG_LEASE).await.expect("an answer").expect("shared");
    assert!(first.nonce() != third.nonce() && first.token() != second.token());
    for locker in [&ours, &other] {
        assert!(
            locker.rw_lock(NAME).try_write().await.expect("an answer").is_none(),
            "beside readers"
        );
    }
    for reader in [first, second] {
        reader.unlock().await.expect("held");
        assert!(
            ours.rw_lock(NAME).try_write().await.expect("an answer").is_none(),
            "beside a reader"
        );
    }
    third.unlock().await.expect("held");
    let writer = within("free", other.rw_lock(NAME).write().lease(LONG_LEASE)).await.expect("free");
    assert_eq!(writer.name(), NAME);
    for locker in [&ours, &other] {
        assert!(
            locker.rw_lock(NAME).try_write().await.expect("an answer").is_none(),
            "two writers"
        );
        assert!(
            locker.rw_lock(NAME).try_read().await.expect("an answer").is_none(),
            "beside a writer"
        );
    }
    writer.unlock().await.expect("held");
    drop(within("free", ours.rw_lock(NAME).read()).await.expect("free"));
    bed.awaits_no_key(NAME).await;
}

/// Tasks of several processes read and write: a writer is alone, and a later writer has a larger token
/// than all before it.
pub async fn a_writer_is_alone_among_many(bed: &Testbed) {
    const ROUNDS: usize = 8;
    let inside: Arc<(AtomicUsize, AtomicUsize, AtomicUsize)> = Arc::default();
    let lockers: Vec<_> = (0..3).map(|_| bed.locker()).collect();
    let work = (0..9).map(|task| {
        let (locker, inside) = (lockers[task % 3].clone(), inside.clone());
        tokio::spawn(async move {
            let (readers, writers, written) = &*inside;
            for round in 0..ROUNDS {
                if (task + round) % 3 == 0 {
                    let writer = locker.rw_lock(NAME).write().await.expect("had");
                    assert_eq!(writers.fetch_add(1, Ordering::SeqCst), 0, "two writers");
                    assert_eq!(readers.load(Ordering::SeqCst), 0, "a writer beside a reader");
                    let token = usize::try_from(writer.token().get()).expect("64 bits");
                    assert!(written.swap(token, Ordering::SeqCst) < token, "an old token");
                    tokio::time::sleep(Duration::from_millis(1)).await;
                    writers.fetch_sub(1, Ordering::SeqCst);
                    writer.unlock().await.expect("held");
                } else {
                    let reader = locker.rw_lock(NAME).read().await.expect("had");
                    readers.fetch_add(1, Ordering::SeqCst);
                    assert_eq!(writers.load(Ordering::SeqCst), 0, "a reader beside a writer");
                    tokio::time::sleep(Duration::from_millis(1)).await;
                    readers.fetch_sub(1, Ordering::SeqCst);
                    reader.unlock().await.expect("held");
                }
            }
        })
    });
    let work: Vec<_> = work.collect();
    for task in work {
        within("all rounds", task).await.expect("no panic");
    }
    bed.awaits_no_key(NAME).await;
}

fn waits_to_read(locker: Locker) -> tokio::task::JoinHandle<Result<quorumlock::ReadGuard, Error>> {
    tokio::spawn(async move { locker.rw_lock(NAME).read().lease(LONG_LEASE).await })
}

/// A writer that leaves lets all readers in that wait, of all processes; the last reader that leaves lets
/// the writer in (RW3). The leases are longer than the test waits.
pub async fn a_writer_lets_all_readers_in_and_the_last_reader_a_writer(bed: &Testbed) {
    let holder = bed.locker();
    let writer =
        within("free", holder.rw_lock(NAME).write().lease(LONG_LEASE)).await.expect("free");
    let readers: Vec<_> = (0..3).map(|_| waits_to_read(bed.locker())).collect();
    bed.awaits_number_of_waiters(NAME, 3).await;
    writer.unlock().await.expect("held");
    let mut reading = Vec::new();
    for reader in readers {
        // All read at the same time: none has left yet.
        reading.push(within("to read", reader).await.expect("no panic").expect("granted"));
    }
    let next = bed.locker();
    let writer = tokio::spawn(async move { next.rw_lock(NAME).write().lease(LONG_LEASE).await });
    bed.awaits_waiters(NAME).await;
    for reader in reading {
        reader.unlock().await.expect("held");
    }
    let writer = within("to write", writer).await.expect("no panic").expect("granted");
    writer.unlock().await.expect("held");
    bed.awaits_no_waiter(NAME).await;
}

/// Readers that come and go, and overlap, do not keep a writer out (RW3). Readers go on after it.
pub async fn a_stream_of_readers_keeps_no_writer_out(bed: &Testbed) {
    let stop = Arc::new(AtomicBool::new(false));
    let reads = Arc::new(AtomicUsize::new(0));
    let stream = (0..6).map(|task| {
        let (locker, stop, reads) = (bed.locker(), stop.clone(), reads.clone());
        tokio::spawn(async move {
            while !stop.load(Ordering::SeqCst) {
                let reader = locker.rw_lock(NAME).read().await.expect("had");
                tokio::time::sleep(Duration::from_millis(5 + task)).await;
                reader.unlock().await.expect("held");
                reads.fetch_add(1, Ordering::SeqCst);
            }
        })
    });
    let stream: Vec<_> = stream.collect();
    let locker = bed.locker();
    for _ in 0..3 {
        let writer =
            within("to write", locker.rw_lock(NAME).write().lease(LONG_LEASE)).await.expect("had");
        writer.unlock().await.expect("held");
        let before = reads.load(Ordering::SeqCst);
        crate::eventually("reads after the write", async || {
            (reads.load(Ordering::SeqCst) > before + 6).then_some(())
        })
        .await;
    }
    stop.store(true, Ordering::SeqCst);
    for task in stream {
        within("its end", task).await.expect("no panic");
    }
}

/// A read inside a read passes a writer that waits for the outer one, with an owner and without: else both would
/// wait for ever (RW3, G8).
pub async fn a_read_inside_a_read_passes_a_waiting_writer(bed: &Testbed) {
    let (ours, other, owner) = (bed.locker(), bed.locker(), Owner::new());
    let read = || ours.rw_lock(NAME).read().lease(LONG_LEASE);
    let outer = within("free", read().owner(&owner)).await.expect("free");
    let rival = bed.locker();
    let waiting = tokio::spawn(async move { rival.rw_lock(NAME).write().lease(LONG_LEASE).await });
    crate::eventually("the writer's turn", async || {
        other.rw_lock(NAME).try_read().await.expect("an answer").is_none().then_some(())
    })
    .await;
    let own = within("its own", read().owner(&owner)).await.expect("its own");
    assert_eq!((own.nonce(), own.hold_count()), (outer.nonce(), 2));
    let inner = within("beside the outer", read()).await.expect("granted");
    let tried = ours.rw_lock(NAME).try_read().lease(LONG_LEASE).await.expect("an answer");
    let tried = tried.expect("beside the outer");
    assert!(!waiting.is_finished(), "a writer beside readers");
    for reader in [own, outer, inner, tried] {
        reader.unlock().await.expect("held");
    }
    let writer = within("to write", waiting).await.expect("no panic").expect("granted");
    writer.unlock().await.expect("held");
    bed.awaits_no_key(NAME).await;
}

/// The watchdog renews readers, each by itself, and writers, beside plain locks.
pub async fn readers_and_writers_are_renewed(bed: &Testbed) {
    let (ours, other) = (bed.locker(), bed.locker());
    let readers = [
        within("free", ours.rw_lock(NAME).read().lease(RENEWED_LEASE)).await.expect("free"),
        within("shared", ours.rw_lock(NAME).read().lease(RENEWED_LEASE)).await.expect("shared"),
    ];
    let writer =
        within("free", ours.rw_lock("another").write().lease(RENEWED_LEASE)).await.expect("free");
    let lock = within("free", ours.lock("a lock").lease(RENEWED_LEASE)).await.expect("free");
    tokio::time::sleep(RENEWED_LEASE * 3 / 2).await;
    assert!(other.rw_lock(NAME).try_write().await.expect("an answer").is_none(), "beside readers");
    assert!(
        other.rw_lock("another").try_read().await.expect("an answer").is_none(),
        "beside a writer"
    );
    for reader in readers {
        reader.renew().await.expect("renewed");
        reader.unlock().await.expect("held");
    }
    writer.renew().await.expect("renewed");
    writer.unlock().await.expect("held");
    lock.unlock().await.expect("held");
}

/// A downgrade leaves no gap: other readers join, and no writer comes in between. The token stays (RW4).
pub async fn a_downgraded_writer_reads_on(bed: &Testbed) {
    let (ours, other) = (bed.locker(), bed.locker());
    let writer = within("free", ours.rw_lock(NAME).write().lease(SHORT_LEASE)).await.expect("free");
    let (token, nonce) = (writer.token(), writer.nonce());
    let rival = bed.locker();
    let waiting = tokio::spawn(async move { rival.rw_lock(NAME).write().lease(LONG_LEASE).await });
    bed.awaits_waiters(NAME).await;
    let reader = within("downgraded", writer.downgrade()).await.expect("held");
    assert_eq!((reader.token(), reader.nonce()), (token, nonce));
    tokio::time::sleep(SHORT_LEASE * 2).await;
    reader.check().expect("renewed as a reader");
    reader.renew().await.expect("renewed");
    assert!(!waiting.is_finished(), "a writer beside the reader");
    reader.unlock().await.expect("held");
    let writer = within("to write", waiting).await.expect("no panic").expect("granted");
    assert!(writer.token() > token);
    let reader = within("downgraded", writer.downgrade()).await.expect("held");
    let joins =
        within("shared", other.rw_lock(NAME).read().lease(LONG_LEASE)).await.expect("shared");
    assert!(ours.rw_lock(NAME).try_write().await.expect("an answer").is_none(), "beside readers");
    drop(reader);
    joins.unlock().await.expect("held");
    let writer = within("free", ours.rw_lock(NAME).write()).await.expect("free");
    assert!(writer.token() > token);
    writer.unlock().await.expect("held");
    bed.awaits_no_key(NAME).await;
}

/// An owner enters again in the same mode. In the other mode it would wait for itself: a typed error (RW4).
pub async fn an_owner_enters_in_one_mode(bed: &Testbed) {
    let locker = bed.locker();
    let owner = Owner::new();
    let outer = within("free", locker.rw_lock(NAME).read().owner(&owner)).await.expect("free");
    let inner =
        within("its own", locker.rw_lock(NAME).read().owner(&owner)).await.expect("its own");
    assert_eq!((inner.token(), inner.hold_count()), (outer.token(), 2));
    let upgrade = locker.rw_lock(NAME).write().owner(&owner).await;
    assert_eq!(config(upgrade), ConfigError::Upgrade { name: NAME.into() });
    inner.unlock().await.expect("held");
    outer.unlock().await.expect("held");
    let outer = within("free", locker.rw_lock(NAME).write().owner(&owner)).await.expect("free");
    let inner =
        within("its own", locker.rw_lock(NAME).write().owner(&owner)).await.expect("its own");
    let read = locker.rw_lock(NAME).try_read().owner(&owner).await;
    assert_eq!(config(read), ConfigError::ReadWhileWriting { name: NAME.into() });
    let shared = config(inner.downgrade().await);
    assert_eq!(
        shared,
        ConfigError::SharedHold { name: NAME.into(), act: "the downgrade", holds: 2 }
    );
    crate::eventually("one hold", async || (outer.hold_count() == 1).then_some(())).await;
    let reader = within("downgraded", outer.downgrade()).await.expect("held");
    reader.unlock().await.expect("held");
}

/// A writer that reads on is still its owner's: it enters again to read, and would wait for itself to
/// write (RW4, G8).
pub async fn a_downgraded_writer_keeps_its_owner(bed: &Testbed) {
    let (locker, owner) = (bed.locker(), Owner::new());
    let writer = within("free", locker.rw_lock(NAME).write().lease(LONG_LEASE).owner(&owner)).await;
    let outer = within("downgraded", writer.expect("free").downgrade()).await.expect("held");
    let upgrade = within("an answer", locker.rw_lock(NAME).write().owner(&owner)).await;
    assert_eq!(config(upgrade), ConfigError::Upgrade { name: NAME.into() });
    let inner =
        within("its own", locker.rw_lock(NAME).read().owner(&owner)).await.expect("its own");
    assert_eq!((inner.nonce(), inner.hold_count()), (outer.nonce(), 2));
    outer.unlock().await.expect("held");
    let upgrade = within("an answer", locker.rw_lock(NAME).write().owner(&owner)).await;
    assert_eq!(config(upgrade), ConfigError::Upgrade { name: NAME.into() });
    inner.unlock().await.expect("held");
    let writer = within("free", locker.rw_lock(NAME).write().owner(&owner)).await.expect("free");
    writer.unlock().await.expect("held");
}

/// A name is a lock or a read-write lock: a request for the other one is refused, and takes nothing. The
/// error says what the name is, and advises nobody to delete what others hold.
pub async fn a_name_is_a_lock_or_a_read_write_lock(bed: &Testbed) {
    let (ours, other) = (bed.locker(), bed.locker());
    let refused_by = |result: Result<bool, Error>, what: &str| {
        let Err(Error::Refused(none)) = result else { panic!("{result:?}") };
        let says = |problem: &NodeProblem| matches!(problem, NodeProblem::WrongType { key, found } if key == NAME && found == what);
        assert!(none.nodes.iter().any(|node| says(&node.problem)), "{what}: {none:?}");
        assert!(!none.to_string().contains("delete"), "{none}");
    };
    let a_lock = format!("a lock of {:?}'s layout", bed.layout());
    let refused = |result| refused_by(result, &a_lock);
    let lock = within("free", ours.lock(NAME).lease(LONG_LEASE)).await.expect("free");
    refused(other.rw_lock(NAME).try_read().await.map(|guard| guard.is_some()));
    refused(other.rw_lock(NAME).try_write().await.map(|guard| guard.is_some()));
    refused(other.rw_lock(NAME).read().fail_fast().await.map(|_| true));
    lock.check().expect("still held");
    lock.unlock().await.expect("held");
    let reader = within("free", ours.rw_lock(NAME).read().lease(LONG_LEASE)).await.expect("free");
    refused_by(other.lock(NAME).fail_fast().await.map(|_| true), "a read-write lock, 1 reader");
    let holder = other.rw_lock(NAME).holder().await.expect("an answer").expect("held");
    assert!(holder.has(reader.nonce()) && holder.holds == 1, "{holder:?}");
    let second =
        within("shared", other.rw_lock(NAME).read().lease(LONG_LEASE)).await.expect("shared");
    refused_by(other.lock(NAME).fail_fast().await.map(|_| true), "a read-write lock, 2 readers");
    reader.unlock().await.expect("held");
    second.unlock().await.expect("held");
    let writer = within("free", ours.rw_lock(NAME).write().lease(LONG_LEASE)).await.expect("free");
    refused_by(other.lock(NAME).fail_fast().await.map(|_| true), "a read-write lock, 1 writer");
    writer.unlock().await.expect("held");
    bed.awaits_no_key(NAME).await;
    let bad = other.rw_lock("").write().await;
    assert_eq!(config(bad), ConfigError::EmptyName);
}

/// A wait ends at its bound, a hold at its limit; a handle and `run` do the same. Questions and a forced
/// release are answered.
pub async fn a_read_write_lock_takes_the_options_of_a_lock(bed: &Testbed) {
    let (ours, other) = (bed.locker(), bed.locker());
    let catalog = ours.rw_lock(NAME);
    assert_eq!(catalog.name(), NAME);
    assert_eq!(other.rw_lock(NAME).holder().await.expect("an answer"), None);
    let readers = [
        within("free", catalog.read().lease(LONG_LEASE)).await.expect("free"),
        catalog.try_read().lease(LONG_LEASE).await.expect("an answer").expect("shared"),
    ];
    let holder = other.rw_lock(NAME).holder().await.expect("an answer").expect("held");
    assert_eq!((&*holder.id, holder.holds), ("readers", 2));
    assert!(catalog.try_write().await.expect("an answer").is_none());
    let busy = other.rw_lock(NAME).write().wait(SHORT_LEASE / 4).await.expect_err("held");
    assert!(busy.is_busy(), "{busy}");
    assert!(other.rw_lock(NAME).force_unlock().await.expect("an answer"));
    assert!(!other.rw_lock(NAME).force_unlock().await.expect("an answer"), "it was free");
    for reader in readers {
        let _ = reader.renew().await;
        assert!(is_taken_away(within("the loss", reader.lost()).await.why));
        assert!(reader.unlock().await.is_err(), "it was lost");
    }
    let limited = catalog.write().hold_at_most(SHORT_LEASE);
    let limited = within("free", limited).await.expect("free");
    assert_eq!(within("its end", limited.lost()).await.why, LossReason::HoldLimit);
    let names = other.rw_lock(NAME).read().run(async |view| view.name().to_owned());
    assert_eq!(within("the work", names).await.expect("worked"), NAME);
    let work = catalog.write().run(async |view| view.is_valid());
    assert!(within("the work", work).await.expect("worked"));
}

/// A request may be dropped at any await, also while it waits, and leaves nothing behind: not even what
/// keeps readers out.
pub async fn a_reader_or_writer_dropped_anywhere_leaves_nothing_behind(bed: &Testbed) {
    let (ours, other) = (bed.locker(), bed.locker());
    for busy in [false, true] {
        for polls in 0..8 {
            let held = match busy {
                true => {
                    let held = other.rw_lock(NAME).write().lease(LONG_LEASE);
                    Some(within("free", held).await.expect("free"))
                }
                false => None,
            };
            let read =
                CountPolls::new(ours.rw_lock(NAME).read().lease(LONG_LEASE), polls, Drops::OnWake);
            drop(tokio::time::timeout(SHORT_LEASE / 4, read).await);
            let write =
                CountPolls::new(ours.rw_lock(NAME).write().lease(LONG_LEASE), polls, Drops::OnWake);
            drop(tokio::time::timeout(SHORT_LEASE / 4, write).await);
            if let Some(held) = held {
                held.unlock().await.expect("held");
            }
            bed.awaits_no_key(NAME).await;
        }
    }
    bed.awaits_no_waiter(NAME).await;
    let reader = within("free", ours.rw_lock(NAME).read()).await.expect("free");
    reader.unlock().await.expect("held");
}

/// The blocking API has them too.
pub fn blocking_readers_share_and_writers_do_not(bed: &Testbed) {
    let (ours, other) = (bed.blocking(), bed.blocking());
    let owner = Owner::new();
    let first = ours.rw_lock(NAME).read().owner(&owner).lease(LONG_LEASE).acquire().expect("free");
    let catalog = other.rw_lock(NAME);
    let second = catalog.read().wait(MAX_WAIT).acquire().expect("shared");
    assert!(catalog.try_read().acquire().expect("an answer").is_some());
    assert!(catalog.try_write().acquire().expect("an answer").is_none());
    assert!(ours.rw_lock(NAME).try_write().acquire().expect("an answer").is_none());
    assert!(ours.rw_lock(NAME).holder().expect("an answer").is_some());
    first.unlock().expect("held");
    second.unlock().expect("held");
    let writer = catalog.write().wait(MAX_WAIT).acquire().expect("free");
    assert!(ours.rw_lock(NAME).try_read().acquire().expect("an answer").is_none());
    let reader = writer.downgrade().expect("held");
    assert!(ours.rw_lock(NAME).try_read().acquire().expect("an answer").is_some());
    assert!(ours.rw_lock(NAME).force_unlock().expect("an answer"));
    assert!(reader.unlock().is_err(), "it was lost");
    ours.rw_lock(NAME)
        .write()
        .wait(MAX_WAIT)
        .run(|view| view.check())
        .expect("granted")
        .expect("held");
}
