//! A memory that goes back to an earlier one within one run of the server (docs/PROTOCOL.md ADM10).

use std::time::Duration;

use quorumlock::{Admission, Builder, Error, Locker, NodeProblem};
use quorumlock_testbed::servers::{ServerOptions, Servers, for_test};
use quorumlock_tests::{Plain, eventually, within};

use super::{CLOCK_BOUND, RECORD, problems};

/// Longer than what a test does before it asserts that nobody is granted a lock.
const MAX_LEASE: Duration = Duration::from_secs(6);

fn builder() -> Builder {
    let builder = quorumlock_tests::builder().admission(Admission::Strict).max_lease(MAX_LEASE);
    builder.lease(MAX_LEASE).clock_bound(CLOCK_BOUND * 4)
}

/// One server that proves its memory.
struct Bed {
    servers: Servers,
    plain: Plain,
    /// It lives through all that happens.
    witness: Locker,
}

impl Bed {
    async fn start() -> Option<Self> {
        let servers = for_test(1, &ServerOptions::default())?;
        let plain = Plain::to(servers[0].url()).await;
        let witness =
            builder().on(quorumlock::Servers::single(servers[0].url())).expect("a good URL");
        witness.admit_nodes().await.expect("it answers");
        let bed = Self { servers, plain, witness };
        assert_eq!(bed.refused("first").await, None, "it votes");
        Some(bed)
    }

    fn locker(&self) -> Locker {
        builder().on(quorumlock::Servers::single(self.servers[0].url())).expect("a good URL")
    }

    /// Why the witness is not granted a free name; `None` if it is.
    async fn refused(&self, name: &str) -> Option<NodeProblem> {
        match within("an answer", self.witness.lock(name).fail_fast()).await {
            Ok(guard) => {
                within("an answer", guard.unlock()).await.expect("held");
                None
            }
            refused => problems(refused).pop(),
        }
    }

    async fn stamp(&self) -> Option<String> {
        self.plain.ask(&["HGET", RECORD, "stamp"]).await
    }

    /// The witness has refused the memory that came back: a new process is granted nothing, neither, until
    /// the server has proven its memory.
    async fn is_revoked(&self) {
        eventually("the witness has met it", async || {
            let why = self.refused("second").await.expect("it has seen that memory superseded");
            (why == NodeProblem::NotAdmitted).then_some(())
        })
        .await;
        assert_eq!(self.stamp().await, None, "it is revoked");
        let newcomer = within("an answer", self.locker().lock("x").fail_fast()).await;
        let found = problems(newcomer);
        assert_eq!(found, [NodeProblem::NotAdmitted], "what it forgot may be held");
        eventually("it is admitted again", async || {
            self.refused("second").await.is_none().then_some(())
        })
        .await;
    }
}

/// A record of an earlier incarnation, with the locks of that time, comes back.
#[tokio::test]
async fn two_databases_are_swapped_there_and_back() {
    let Some(bed) = Bed::start().await else { return };
    bed.plain.ask::<String>(&["SWAPDB", "0", "1"]).await;
    assert_eq!(bed.refused("second").await, Some(NodeProblem::New));
    let holder = bed.locker();
    holder.force_admit_nodes().await.expect("it answers");
    let guard = within("free", holder.lock("x")).await.expect("granted");
    eventually("the witness is granted", async || {
        bed.refused("second").await.is_none().then_some(())
    })
    .await;
    bed.plain.ask::<String>(&["SWAPDB", "0", "1"]).await;
    assert_eq!(guard.check(), Ok(()), "it was not told yet");
    bed.is_revoked().await;
}

/// An accident, and a backup that is brought back key by key.
#[tokio::test]
async fn a_flushed_server_gets_its_keys_back() {
    let Some(bed) = Bed::start().await else { return };
    let client = redis::Client::open(bed.servers[0].url()).expect("a good URL");
    let mut raw = client.get_multiplexed_async_connection().await.expect("it answers");
    let dump =
        redis::cmd("DUMP").arg(RECORD).query_async::<Vec<u8>>(&mut raw).await.expect("there");
    let holder = bed.locker();
    let _guard = within("free", holder.lock("x")).await.expect("granted after the backup");
    bed.plain.ask::<String>(&["FLUSHALL"]).await;
    assert_eq!(bed.refused("second").await, Some(NodeProblem::New));
    let mut restore = redis::cmd("RESTORE");
    restore.arg(RECORD).arg(0).arg(dump).arg("REPLACE");
    restore.query_async::<String>(&mut raw).await.expect("restored");
    bed.is_revoked().await;
}

#[tokio::test]
async fn a_copy_of_the_record_is_put_back() {
    let Some(bed) = Bed::start().await else { return };
    bed.plain.ask::<i64>(&["COPY", RECORD, "kept", "DB", "1"]).await;
    bed.plain.ask::<String>(&["FLUSHDB"]).await;
    assert_eq!(bed.refused("second").await, Some(NodeProblem::New));
    let other = Plain::to(&format!("{}/1", bed.servers[0].url())).await;
    other.ask::<i64>(&["COPY", "kept", RECORD, "DB", "0", "REPLACE"]).await;
    bed.is_revoked().await;
}

/// A note of the time before the server was admitted would be mature at once.
#[tokio::test]
async fn a_note_from_before_the_admission_is_put_back() {
    let Some(servers) = for_test(1, &ServerOptions::default()) else { return };
    let (plain, url) = (Plain::to(servers[0].url()).await, servers[0].url());
    let builder = builder().max_lease(Duration::from_secs(60));
    let witness = builder.on(quorumlock::Servers::single(url)).expect("a good URL");
    let refused = async || {
        let refused = within("an answer", witness.lock("x").fail_fast()).await;
        assert!(matches!(refused, Err(Error::Refused(_))), "{refused:?}");
    };
    let note = async || plain.ask::<Option<String>>(&["HGET", RECORD, "pending"]).await;
    let noted = eventually("a note", async || {
        refused().await;
        note().await
    })
    .await;
    // The witness reads it when it connects anew, as it does while the node is not proven.
    let connections = async || {
        let text: String = plain.ask(&["INFO", "stats"]).await;
        let line = text.lines().find_map(|line| line.strip_prefix("total_connections_received:"));
        line.and_then(|number| number.trim().parse::<u64>().ok()).expect("a number")
    };
    let first = connections().await;
    eventually("it connects anew", async || (connections().await >= first + 4).then_some(())).await;
    let other = Plain::to(&format!("{url}/1")).await;
    plain.ask::<i64>(&["COPY", RECORD, "kept", "DB", "1"]).await;
    // An hour passes.
    other.ask::<i64>(&["HSET", "kept", "note_since", "1"]).await;
    witness.admit_nodes().await.expect("it answers");
    let granted = eventually("it votes", async || witness.lock("x").fail_fast().await.ok()).await;
    granted.unlock().await.expect("held");
    other.ask::<i64>(&["COPY", "kept", RECORD, "DB", "0", "REPLACE"]).await;
    refused().await;
    eventually("another note", async || {
        refused().await;
        note().await.filter(|new| *new != noted)
    })
    .await;
    refused().await;
}

/// The other connection of the locker has read a later record meanwhile, of a node that is healthy.
#[tokio::test]
async fn the_script_revokes_only_what_the_record_has_at_that_moment() {
    const SCRIPT: &str = concat!(
        include_str!("../../../crates/redis/src/lua/run_identity.lua"),
        include_str!("../../../crates/redis/src/lua/revoke.lua")
    );
    let Some(bed) = Bed::start().await else { return };
    let stamp = bed.stamp().await.expect("admitted");
    let superseded = "00000000000000000000000000000001";
    let revoke = async |id: &str| bed.plain.ask::<i64>(&["EVAL", SCRIPT, "1", RECORD, id]).await;
    assert_eq!(revoke(superseded).await, 0);
    assert_eq!(bed.stamp().await.as_ref(), Some(&stamp));
    assert_eq!(bed.refused("second").await, None, "it votes on");
    assert_ne!(revoke(&stamp).await, 0);
    assert_eq!(bed.stamp().await, None);
}

/// What no client can notice, as SAFETY.md A3 says: the incarnation is the same, and nobody looked.
#[tokio::test]
async fn the_memory_of_the_same_incarnation_is_believed() {
    let Some(bed) = Bed::start().await else { return };
    bed.plain.ask::<i64>(&["COPY", RECORD, "kept", "DB", "1"]).await;
    let guard = within("free", bed.locker().lock("x")).await.expect("granted");
    let mut pipe = redis::pipe();
    pipe.atomic().cmd("FLUSHDB").ignore().cmd("SELECT").arg(1).ignore();
    pipe.cmd("COPY").arg("kept").arg(RECORD).arg("DB").arg(0).ignore();
    let client = redis::Client::open(bed.servers[0].url()).expect("a good URL");
    let mut raw = client.get_multiplexed_async_connection().await.expect("it answers");
    pipe.query_async::<()>(&mut raw).await.expect("carried out");
    let second = within("an answer", bed.witness.try_lock("x")).await.expect("it votes");
    assert!(second.is_some() && guard.check().is_ok(), "two holders");
}
