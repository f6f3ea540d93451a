//! Programs without strict admission at servers of a cluster (docs/PROTOCOL.md ADM9).

use std::time::Duration;

use quorumlock::{Admission, Builder, Error, Layout, Locker, NodeProblem};
use quorumlock_testbed::servers::{ServerOptions, Servers, for_test};
use quorumlock_tests::{Plain, eventually, within};

use super::{RECORD, locker, problems};

/// Longer than the test.
const LONG_LEASE: Duration = Duration::from_secs(60);

/// A builder of lockers without admission, in the layout of a quorum.
fn lax() -> Builder {
    quorumlock_tests::builder().layout(Layout::Redlock).admission(Admission::Redlock)
}

fn lax_locker(urls: &[String]) -> Locker {
    match urls {
        [url] => {
            quorumlock_tests::builder().layout(Layout::Redlock).on(quorumlock::Servers::single(url))
        }
        urls => lax().on(quorumlock::Servers::quorum(urls)),
    }
    .expect("good URLs")
}

/// Three servers of a cluster, whose programs hold "x" on two of them.
async fn cluster() -> Option<(Servers, Locker, quorumlock::Guard)> {
    let servers = for_test(3, &ServerOptions::default())?;
    let strict = quorumlock_tests::builder().admission(Admission::Strict);
    let strict = strict
        .lease(LONG_LEASE)
        .on(quorumlock::Servers::quorum(servers.urls()))
        .expect("good URLs");
    strict.admit_nodes().await.expect("all nodes answer");
    let guard = within("free", strict.lock("x")).await.expect("granted");
    // Two votes are enough for the grant: the other node is topped up a second later.
    for server in servers.iter() {
        let plain = Plain::to(server.url()).await;
        eventually("each node voted", async || plain.exists("x").await.then_some(())).await;
    }
    let deleted = Plain::to(servers[2].url()).await.ask::<i64>(&["DEL", "x"]).await;
    assert_eq!(deleted, 1);
    Some((servers, strict, guard))
}

async fn is_refused(locker: &Locker, list: &[String], context: &str) {
    let refused = within("an answer", locker.lock("x")).await;
    let error = refused.as_ref().expect_err("others hold it");
    assert!(!error.is_retryable(), "{context}: {error}");
    assert!(error.to_string().contains("Builder::admission"), "{context}: {error}");
    assert!(error.to_string().contains("DEL quorumlock:node"), "{context}: {error}");
    for problem in problems(refused) {
        let NodeProblem::StrictCluster { list: found, database: 0 } = &problem else {
            panic!("{context}: {problem:?}");
        };
        let found: Vec<_> = found.labels().iter().map(ToString::to_string).collect();
        assert_eq!(found, list, "{context}");
    }
}

fn labels(servers: &Servers) -> Vec<String> {
    let label = |server: &_| {
        let server: &quorumlock_testbed::servers::Server = server;
        format!("{}/0", server.addr().expect("ours"))
    };
    let mut labels: Vec<_> = servers.iter().map(label).collect();
    labels.sort();
    labels
}

/// A list that was cut short, and programs of plain Redlock, would be granted what others hold.
#[tokio::test]
async fn a_program_without_admission_is_granted_nothing_by_a_cluster_and_may_look() {
    let Some((servers, _strict, guard)) = cluster().await else { return };
    let (urls, list) = (servers.urls(), labels(&servers));
    for (part, context) in [(&urls[2..], "one of three"), (&urls[..], "plain Redlock")] {
        let locker = lax_locker(part);
        is_refused(&locker, &list, context).await;
        // A node that would not grant it the name does not say that it is free.
        let holder = within("an answer", locker.mutex("x").holder()).await;
        match part.len() {
            1 => drop(holder.expect_err(context)),
            _ => assert!(holder.expect("a look is not refused").is_some(), "{context}"),
        }
    }
    assert_eq!(guard.check(), Ok(()));
}

/// All programs of a server prove its memory, or none does.
#[tokio::test]
async fn a_program_without_admission_is_granted_nothing_by_a_proven_server() {
    let Some(servers) = for_test(1, &ServerOptions::default()) else { return };
    let url = servers[0].url();
    Builder::without_servers()
        .admission(Admission::Strict)
        .on(quorumlock::Servers::single(url))
        .expect("a good URL")
        .admit_nodes()
        .await
        .expect("it answers");
    let locker =
        quorumlock_tests::builder().on(quorumlock::Servers::single(url)).expect("a good URL");
    is_refused(&locker, &["master/0".to_owned()], "one proven server").await;
}

/// A server that is used alone once its cluster is no more: the error says what to do.
#[tokio::test]
async fn a_server_whose_record_was_deleted_is_free_for_other_programs() {
    let Some((servers, strict, guard)) = cluster().await else { return };
    drop(guard);
    strict.close().await;
    let locker = lax_locker(&servers.urls()[2..]);
    is_refused(&locker, &labels(&servers), "with the record").await;
    Plain::to(servers[2].url()).await.ask::<i64>(&["DEL", RECORD]).await;
    drop(eventually("it is granted", async || locker.try_lock("x").await.ok().flatten()).await);
}

/// The look asks for no permission: who may not read the record locks as before.
#[tokio::test]
async fn a_user_who_may_not_read_the_record_locks_as_before() {
    let Some(servers) = for_test(1, &ServerOptions::default()) else { return };
    let plain = Plain::to(servers[0].url()).await;
    let keys = ["~x", "~quorumlock:token:*", "~quorumlock:probe:*", "~quorumlock:owner:*"];
    let user = ["ACL", "SETUSER", "u", "reset", "on", ">p", "&*", "+@all"];
    plain.ask::<String>(&[&user[..], &keys].concat()).await;
    let url = format!("redis://u:p@{}", servers[0].addr().expect("ours"));
    let granted = async |context: &str| {
        let guard = within("an answer", lax_locker(std::slice::from_ref(&url)).try_lock("x")).await;
        let guard = guard.unwrap_or_else(|error: Error| panic!("{context}: {error}"));
        guard.expect("free").unlock().await.expect("released");
    };
    granted("no permission").await;
    plain.ask::<String>(&["ACL", "SETUSER", "u", "~*"]).await;
    plain.ask::<String>(&["SET", RECORD, "a foreign key"]).await;
    granted("a key of another type").await;
}

/// A cluster that programs found beside others who lock without admission bars those from their next
/// connection on; what they hold goes on until then.
#[tokio::test]
async fn a_program_without_admission_is_barred_once_it_connects_again() {
    let Some(servers) = for_test(3, &ServerOptions::default()) else { return };
    let urls = servers.urls();
    let lax = lax_locker(&urls);
    let guard = within("free", lax.lock("x").lease(LONG_LEASE)).await.expect("granted");
    locker(&urls).admit_nodes().await.expect("all nodes answer");
    within("an answer", guard.renew()).await.expect("its connections do not look again");
    for server in &servers {
        let plain = Plain::to(server.url()).await;
        plain.ask::<i64>(&["CLIENT", "KILL", "TYPE", "normal"]).await;
    }
    eventually("it is barred", async || {
        let refused = lax.try_lock("y").await;
        matches!(&refused, Err(Error::Refused(why))
            if why.nodes.iter().any(|node| matches!(node.problem, NodeProblem::StrictCluster { .. })))
        .then_some(())
    })
    .await;
}
