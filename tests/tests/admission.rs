//! Which nodes may vote: a node that forgot does not vote (docs/SAFETY.md A3, docs/PROTOCOL.md
//! ADM1).
//!
//! Plain Redlock is the negative control: the tests must see there what strict admission prevents.

use std::net::SocketAddr;
use std::time::Duration;

use quorumlock::{Admission, Builder, Error, FencingToken, Locker, NodeProblem, NodeReport};
use quorumlock_protocol::PROTOCOL;
use quorumlock_testbed::proxy::{Proxy, Way};
use quorumlock_testbed::servers::{ServerOptions, Servers, for_test};
use quorumlock_tests::{Plain, Stopwatch, eventually, within};

/// L, short enough that tests can wait until a node is admitted again.
const MAX_LEASE: Duration = Duration::from_millis(2_500);
const CLOCK_BOUND: Duration = Duration::from_millis(100);
const LEASE: Duration = Duration::from_millis(2_000);
/// Longer than a replica takes to follow its master.
const PATIENCE: Duration = Duration::from_secs(20);

fn builder(admission: Admission) -> Builder {
    let builder = quorumlock_tests::builder().admission(admission);
    match admission {
        Admission::Strict => builder.max_lease(MAX_LEASE).lease(LEASE).clock_bound(CLOCK_BOUND),
        // The default lease is long enough that no renewal happens during the test.
        _ => builder,
    }
}

fn locker(servers: &Servers, admission: Admission) -> Locker {
    builder(admission)
        .on(quorumlock::Servers::quorum(servers.urls()))
        .expect("a good configuration")
}

/// A guard on two nodes of three: a bare majority.
async fn bare_majority(admission: Admission) -> Option<(Servers, Locker, quorumlock::Guard)> {
    let servers = for_test(3, &ServerOptions::default())?;
    let holder = locker(&servers, admission);
    if admission == Admission::Strict {
        holder.admit_nodes().await.expect("all nodes answer");
    }
    servers[2].kill().expect("ours");
    let guard = holder.lock("x").await.expect("two of three");
    Some((servers, holder, guard))
}

#[tokio::test]
async fn without_admission_a_node_that_restarts_empty_gives_the_lock_to_a_second_holder() {
    let Some((servers, _holder, guard)) = bare_majority(Admission::Redlock).await else { return };
    servers[2].restart_empty().expect("ours");
    servers[1].restart_empty().expect("ours");
    // The first holder does not renew before a third of its 30 s, and until then believes that it
    // holds the lock.
    let second = locker(&servers, Admission::Redlock);
    let other = second.try_lock("x").await.expect("all answer").expect("granted a second time");
    assert_eq!(guard.check(), Ok(()), "both believe: the classic violation of plain Redlock");
    drop(other);
}

/// Connecting is bounded by the connect timeout, and the answer timeout begins after it.
#[tokio::test]
async fn a_node_that_is_slow_to_connect_is_admitted() {
    let Some(servers) = for_test(3, &ServerOptions::default()) else { return };
    let builder = Builder::without_servers().connect_timeout(PATIENCE);
    let locker =
        builder.on(quorumlock::Servers::quorum(servers.urls())).expect("a good configuration");
    servers[2].pause().expect("ours");
    let admits = tokio::spawn({
        let locker = locker.clone();
        async move { locker.admit_nodes().await }
    });
    // Longer than the answer timeout.
    tokio::time::sleep(Duration::from_secs(1)).await;
    servers[2].resume().expect("ours");
    admits.await.expect("no panic").expect("all nodes answer");
}

/// A lock on three nodes of five, of which one has restarted empty. Two never held it.
async fn bare_majority_of_which_one_forgot() -> Option<(Servers, Locker, quorumlock::Guard)> {
    let servers = for_test(5, &ServerOptions::default())?;
    let holder = builder(Admission::Strict)
        .max_lease(LONG)
        .lease(LONG)
        .on(quorumlock::Servers::quorum(servers.urls()));
    let holder = holder.expect("a good configuration");
    holder.admit_nodes().await.expect("all nodes answer");
    for server in servers.iter().skip(3) {
        Plain::to(server.url())
            .await
            .ask::<String>(&["SET", "x", "a foreign client", "PX", "60000"])
            .await;
    }
    let guard = holder.lock("x").await.expect("three of five");
    for server in servers.iter().skip(3) {
        Plain::to(server.url()).await.ask::<i64>(&["DEL", "x"]).await;
    }
    servers[0].restart_empty().expect("ours");
    Some((servers, holder, guard))
}

/// Long enough that no renewal comes in a test.
const LONG: Duration = Duration::from_secs(60);

/// A node that forgot cannot deny that it held the lock (decision 7).
#[tokio::test]
async fn an_unlock_believes_no_node_that_forgot() {
    let Some((_servers, _holder, guard)) = bare_majority_of_which_one_forgot().await else {
        return;
    };
    assert_eq!(guard.check(), Ok(()));
    guard.unlock().await.expect("nobody else held it");
}

#[tokio::test]
async fn an_unlock_tells_of_a_lock_that_was_taken_away_though_a_node_forgot() {
    let Some((servers, _holder, guard)) = bare_majority_of_which_one_forgot().await else { return };
    // A barrier gives healthy nodes another incarnation: they have forgotten nothing.
    for (node, server) in servers.iter().enumerate().skip(1) {
        let stamp = format!("{node:032}");
        let barrier = ["HSET", "quorumlock:node", "stamp", &stamp];
        Plain::to(server.url()).await.ask::<i64>(&barrier).await;
        Plain::to(server.url()).await.ask::<i64>(&["DEL", "x"]).await;
    }
    let told = guard.unlock().await;
    assert!(matches!(told, Err(Error::Lost(_))), "{told:?}");
}

#[tokio::test]
async fn with_admission_nodes_that_restart_empty_count_for_nothing_until_the_longest_lease_has_passed()
 {
    let Some((servers, _holder, guard)) = bare_majority(Admission::Strict).await else { return };
    let since = Stopwatch::start();
    servers[2].restart_empty().expect("ours");
    servers[1].restart_empty().expect("ours");
    let second = locker(&servers, Admission::Strict);
    let refused = second.try_lock("x").await;
    let Err(Error::Refused(why)) = refused else { panic!("not refused: {refused:?}") };
    assert!(why.nodes.iter().all(|node| node.problem == NodeProblem::New), "{why:?}");

    let first = guard.token();
    let next = eventually("the nodes are admitted again", async || {
        second.try_lock("x").await.ok().flatten()
    })
    .await;
    assert!(since.elapsed() >= MAX_LEASE, "admitted after {:?}", since.elapsed());
    assert!(guard.check().is_err(), "the first holder knows that it has lost");
    assert!(next.token() > first, "{} after {first}: by the clock", next.token());
}

#[tokio::test]
async fn a_flush_on_a_live_connection_is_noticed_by_the_very_next_request() {
    let Some((servers, holder, guard)) = bare_majority(Admission::Strict).await else { return };
    servers[2].restart().expect("ours");
    for node in 0..2 {
        let plain = Plain::to(servers[node].url()).await;
        let _: String = plain.ask(&["FLUSHALL"]).await;
    }
    // The same locker is used: its connections live on, and the run id is the same.
    let again = holder.try_lock("y").await;
    assert!(matches!(again, Err(Error::Refused(_))), "{again:?}");
    let second = locker(&servers, Admission::Strict);
    let other = second.try_lock("x").await;
    assert!(matches!(other, Err(Error::Refused(_))), "{other:?}");
    drop(guard);
}

#[tokio::test]
async fn a_minority_may_restart_again_and_again_and_nothing_stops() {
    let Some(servers) = for_test(3, &ServerOptions::default()) else { return };
    let locker = locker(&servers, Admission::Strict);
    locker.admit_nodes().await.expect("all nodes answer");
    let guard = locker.lock("held").await.expect("free");
    let mut last = guard.token();
    for _ in 0..3 {
        servers[0].restart_empty().expect("ours");
        let other = locker.lock("other").await.expect("two of three are admitted");
        assert!(other.token() > last || last == guard.token());
        last = other.token();
        other.unlock().await.expect("held");
    }
    assert_eq!(guard.check(), Ok(()));
    guard.unlock().await.expect("still held by a majority");
}

#[tokio::test]
async fn a_node_that_is_admitted_again_holds_the_lease_too_and_the_next_failure_does_not_end_it() {
    let Some((servers, _holder, guard)) = bare_majority(Admission::Strict).await else { return };
    servers[2].restart_empty().expect("ours");
    let plain = Plain::to(servers[2].url()).await;
    eventually("the lease is on the third node", async || {
        (plain.ask::<u64>(&["EXISTS", "x"]).await == 1).then_some(())
    })
    .await;
    servers[0].kill().expect("ours");
    let lost = tokio::time::timeout(LEASE * 3 / 2, guard.lost()).await;
    assert!(lost.is_err(), "a majority holds it all the time: {lost:?}");
    guard.unlock().await.expect("still held");
    eventually("nothing is left behind", async || {
        (plain.ask::<u64>(&["EXISTS", "x"]).await == 0).then_some(())
    })
    .await;
}

/// Each slot gets the largest mark of the nodes that show theirs, and no slot gets the mark of
/// another slot, so one bad mark does not spread.
#[tokio::test]
async fn a_node_that_is_admitted_again_has_the_marks_of_the_others() {
    let Some(servers) = for_test(3, &ServerOptions::default()) else { return };
    let locker = locker(&servers, Admission::Strict);
    locker.admit_nodes().await.expect("all nodes answer");
    // A majority has the mark of a grant; the third node may lack it. The test therefore writes all
    // other marks itself.
    let granted = locker.lock("ours").await.expect("free");
    let mark = granted.token().get();
    granted.unlock().await.expect("held");
    let mut nodes = Vec::new();
    for server in [&servers[0], &servers[1]] {
        nodes.push(Plain::to(server.url()).await);
    }
    let names = ["x", "y", "ahead", "ours"];
    for (node, name) in nodes.iter().flat_map(|node| names.map(|name| (node, name))) {
        node.set_mark(name, mark).await;
    }
    let hour = 3_600_000_000;
    let (x, ahead, ours) = (mark, mark + hour, mark + hour);
    nodes[0].set_mark("x", x - 320).await;
    nodes[1].set_mark("x", x).await;
    nodes[1].set_mark("ahead", ahead).await;
    servers[2].restart_empty().expect("ours");
    let third = Plain::to(servers[2].url()).await;
    // Marks only rise: the third node keeps this mark of its own.
    third.set_mark("ours", ours).await;

    let record = ["HGET", "quorumlock:node", "stamp"];
    eventually("admitted again", async || {
        let admitted: Option<String> = third.ask(&record).await;
        admitted.map(drop)
    })
    .await;
    assert_eq!(third.mark("x").await, Some(x), "the largest of those that vouch");
    assert_eq!(third.mark("ahead").await, Some(ahead));
    assert_eq!(third.mark("ours").await, Some(ours));
    assert_eq!(third.mark("y").await, Some(mark));
    let marks: Vec<String> = third.ask(&["KEYS", "quorumlock:token:*"]).await;
    assert_eq!(marks.len(), names.len(), "and no other: {marks:?}");
    for name in ["x", "y", "ahead"] {
        let before = third.mark(name).await;
        let guard = locker.lock(name).await.expect("free");
        assert!(Some(guard.token().get()) > before, "{name}: {} at {before:?}", guard.token());
        guard.unlock().await.expect("held");
    }
}

/// PROTOCOL.md MARK1: the marks of a majority are copied, or the node waits.
#[tokio::test]
async fn a_node_whose_helpers_do_not_show_their_marks_waits() {
    let Some(servers) = for_test(3, &ServerOptions::default()) else { return };
    let locker = locker(&servers, Admission::Strict);
    locker.admit_nodes().await.expect("all nodes answer");
    let helper = Plain::to(servers[0].url()).await;
    helper.set_mark("spoilt", FencingToken::MAX.get()).await;
    servers[2].restart_empty().expect("ours");
    let third = Plain::to(servers[2].url()).await;
    let since = Stopwatch::start();
    while since.elapsed() < 2 * (MAX_LEASE + 2 * CLOCK_BOUND) {
        assert_eq!(third.ask::<i64>(&["HEXISTS", "quorumlock:node", "stamp"]).await, 0);
        drop(locker.try_lock("x").await.expect("two of three vote"));
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert!(third.exists("quorumlock:node").await, "it has a note");
    helper.set_mark("spoilt", 31).await;
    eventually("admitted", async || {
        (third.ask::<i64>(&["HEXISTS", "quorumlock:node", "stamp"]).await == 1).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_forced_unlock_is_not_undone_by_a_top_up() {
    let Some((servers, holder, guard)) = bare_majority(Admission::Strict).await else { return };
    servers[2].restart().expect("ours");
    assert!(holder.mutex("x").force_unlock().await.expect("all answer"));
    guard.lost().await;
    let next = eventually("free again", async || holder.try_lock("x").await.ok().flatten()).await;
    assert!(next.token() > guard.token());
}

#[tokio::test]
async fn new_nodes_wait_for_the_operators_word_or_for_the_longest_lease() {
    let Some(servers) = for_test(3, &ServerOptions::default()) else { return };
    let locker = locker(&servers, Admission::Strict);
    let fresh = locker.try_lock("x").await;
    let Err(Error::Refused(why)) = fresh else { panic!("granted on new nodes: {fresh:?}") };
    assert!(why.nodes.iter().all(|node| node.problem == NodeProblem::New), "{why:?}");
    // The same holds once a client watches the nodes.
    let plain = Plain::to(servers[0].url()).await;
    eventually("a note", async || plain.exists("quorumlock:node").await.then_some(())).await;
    let again = quorumlock_tests::builder()
        .on(quorumlock::Servers::quorum(servers.urls()))
        .expect("good URLs")
        .try_lock("x")
        .await;
    let Err(Error::Refused(why)) = again else { panic!("granted on new nodes: {again:?}") };
    let forgot = |node: &NodeReport| node.problem == NodeProblem::NotAdmitted;
    assert!(!why.nodes.iter().any(forgot), "{why:?}");
    // Without an operator the nodes are admitted in the end.
    let guard = eventually("admitted after a quarantine", async || {
        locker.try_lock("x").await.ok().flatten()
    })
    .await;
    drop(guard);
}

/// The keys of all marks, 500 KB, take 0.7 s: longer than the answer timeout. A note is not judged if
/// the request was under way for longer than the clock bound (PROTOCOL.md MEM3).
#[tokio::test]
async fn nodes_behind_thin_lines_are_admitted() {
    let Some(servers) = for_test(3, &ServerOptions::default()) else { return };
    let lines: Vec<_> =
        servers.iter().map(|server| Proxy::thin(server.addr().expect("a port"), 800_000)).collect();
    let urls = lines.iter().map(Proxy::url);
    let builder = builder(Admission::Strict).clock_bound(Duration::from_secs(1));
    let locker = builder.on(quorumlock::Servers::quorum(urls)).expect("a good configuration");
    let granted = async || locker.try_lock("x").await.ok().flatten();
    drop(eventually("the nodes are admitted", granted).await);
}

/// A proxy puts another server with a copy of the record behind a client's connection, between its
/// identification and the load of its scripts (PROTOCOL.md ADM6): a server on its own, or a replica
/// that is promoted later.
#[tokio::test]
async fn scripts_that_another_server_loads_do_not_vote_there() {
    for replica in [false, true] {
        let Some(servers) = for_test(2, &ServerOptions::default()) else { return };
        let [first, second] = [0, 1].map(|node| servers[node].addr().expect("running"));
        let ways = [(); 2].map(|()| Proxy::to(first));
        let through = |way: &Proxy| {
            let url = format!("{}?label=node", way.url());
            let patient =
                builder(Admission::Strict).connect_timeout(PATIENCE).answer_timeout(PATIENCE);
            patient.on(quorumlock::Servers::quorum([url])).expect("a good configuration")
        };
        let [connecting, connected] = [through(&ways[0]), through(&ways[1])];
        connected.admit_nodes().await.expect("it answers");
        drop(connected.lock("y").await.expect("admitted"));

        ways[0].hold(Way::Replies);
        let attempt = tokio::spawn(async move { connecting.try_lock("x").await.map(|_| ()) });
        eventually("identified", async || ways[0].holds().then_some(())).await;
        let copy = Plain::to(servers[1].url()).await;
        copy_record(first, &copy, replica).await;
        ways[0].switch_to(second).expect("it listens");
        ways[0].heal();
        let refused = attempt.await.expect("no panic");
        let Err(Error::Refused(_)) = refused else { panic!("replica {replica}: {refused:?}") };

        let _: String = copy.ask(&["REPLICAOF", "NO", "ONE"]).await;
        ways[1].switch_to(second).expect("it listens");
        let refused = connected.try_lock("x").await;
        let Err(Error::Refused(_)) = refused else { panic!("replica {replica}: {refused:?}") };
    }
}

/// Gives the server a copy of the admission record of the first one.
async fn copy_record(first: SocketAddr, copy: &Plain, replica: bool) {
    let (host, port) = (first.ip().to_string(), first.port().to_string());
    let _: String = copy.ask(&["REPLICAOF", &host, &port]).await;
    eventually("a copy", async || copy.exists("quorumlock:node").await.then_some(())).await;
    if !replica {
        let _: String = copy.ask(&["REPLICAOF", "NO", "ONE"]).await;
    }
}

/// PROTOCOL.md ADM8.
#[tokio::test]
async fn a_client_of_an_older_protocol_is_refused_and_writes_nothing() {
    let Some(servers) = for_test(3, &ServerOptions::default()) else { return };
    let connected = locker(&servers, Admission::Strict);
    connected.admit_nodes().await.expect("all nodes answer");
    let guard = connected.lock("held").await.expect("a majority votes");
    let (newer, stamp) = (PROTOCOL + 1, "f".repeat(32));
    for server in &servers {
        let plain = Plain::to(server.url()).await;
        let of = ["HSET", "quorumlock:node", "protocol", &newer.to_string(), "stamp", &stamp];
        assert_eq!(plain.ask::<i64>(&of).await, 0, "no new field: this client has written one");
    }
    // The newer programs have another incarnation: this one's votes end, as after any admission.
    within("the loss", guard.lost()).await;
    let empty = Plain::to(servers[2].url()).await;
    let _: String = empty.ask(&["FLUSHALL"]).await;

    let fresh = locker(&servers, Admission::Strict);
    let refusals = [
        connected.try_lock("x").await.map(|_| ()),
        fresh.try_lock("x").await.map(|_| ()),
        fresh.admit_nodes().await,
    ];
    let expected = NodeProblem::NewerProtocol { found: newer, ours: PROTOCOL };
    for refused in refusals {
        let Err(Error::Refused(why)) = refused else { panic!("{refused:?}") };
        let of = why.nodes.iter().filter(|node| node.problem == expected);
        assert!(of.count() == 2 && why.to_string().contains("upgrade this program"), "{why}");
        assert!(!Error::Refused(why).is_retryable());
    }
    assert!(!empty.exists("quorumlock:node").await, "no note on the empty node");

    fresh.force_admit_nodes().await.expect("the operator's word");
    let again = fresh.lock("x").await.expect("of protocol 1 again");
    again.unlock().await.expect("held");
}

/// SAFETY.md A4, H19.
#[tokio::test]
async fn clients_that_disagree_and_unfit_nodes_are_refused_by_name() {
    let Some(servers) = for_test(3, &ServerOptions::default()) else { return };
    locker(&servers, Admission::Strict).admit_nodes().await.expect("all nodes answer");
    let urls = servers.urls();
    let strict = || builder(Admission::Strict);
    let cases = [
        (strict().max_lease(MAX_LEASE * 2).on(quorumlock::Servers::quorum(&urls)), "longest lease"),
        (
            strict().clock_bound(CLOCK_BOUND * 2).on(quorumlock::Servers::quorum(&urls)),
            "clock bound",
        ),
    ];
    for (locker, what) in cases {
        let refused = locker.expect("well-formed").try_lock("x").await;
        let Err(Error::Refused(why)) = refused else { panic!("{what}: {refused:?}") };
        for node in &why.nodes {
            let NodeProblem::ConfigMismatch(mismatch) = &node.problem else { panic!("{why:?}") };
            assert_eq!(mismatch.what, what);
        }
    }

    for node in 0..2 {
        let plain = Plain::to(servers[node].url()).await;
        let _: String = plain.ask(&["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"]).await;
    }
    // `admit_nodes` does not make unfit nodes fit.
    let vouched = locker(&servers, Admission::Strict).admit_nodes().await;
    let refused = locker(&servers, Admission::Strict).try_lock("x").await.map(|_| ());
    for refused in [vouched, refused] {
        let Err(Error::Refused(why)) = refused else { panic!("evicting nodes: {refused:?}") };
        assert_eq!(why.nodes.len(), 2, "{why:?}");
        for node in &why.nodes {
            let NodeProblem::Unfit(unfit) = &node.problem else { panic!("{why:?}") };
            assert_eq!(unfit.what, "maxmemory-policy");
        }
    }
}
