//! `Builder::durable`: a grant counts once it is on disk.

use quorumlock::{ConfigError, Error, NodeProblem, Servers};
use quorumlock_testbed::servers::{ServerOptions, for_test};
use quorumlock_tests::{Plain, builder, eventually, granted, within};

use crate::{NAME, long_timeouts, refusal};

/// Whether the server has `WAITAOF`: Redis 7.2, Valkey.
async fn has_waitaof(server: &Plain) -> bool {
    server.send::<Vec<i64>>(&["WAITAOF", "0", "0", "0"]).await.is_ok()
}

#[tokio::test]
async fn a_durable_lock_is_there_after_a_crash() {
    let options = ServerOptions { appendonly: true, ..Default::default() };
    let Some(servers) = for_test(1, &options) else { return };
    let plain = Plain::to(servers[0].url()).await;
    let locker =
        long_timeouts().durable(true).on(Servers::single(servers[0].url())).expect("a good URL");
    if !has_waitaof(&plain).await {
        let problem = refusal(&locker).await;
        assert!(matches!(problem, NodeProblem::NotDurable(_)), "{problem}");
        return;
    }
    for policy in ["always", "everysec"] {
        let plain = Plain::to(servers[0].url()).await;
        plain.ask::<String>(&["CONFIG", "SET", "appendfsync", policy]).await;
        let guard = granted(&locker, NAME).await;
        servers[0].kill().expect("ours");
        servers[0].restart().expect("it starts");
        assert!(Plain::to(servers[0].url()).await.exists(NAME).await, "{policy}");
        eventually("it is there", async || locker.mutex(NAME).is_locked().await.ok()).await;
        assert_eq!(guard.check(), Ok(()));
        guard.unlock().await.expect("held");
    }
}

#[tokio::test]
async fn a_server_without_a_disk_is_told_and_what_it_granted_is_given_back() {
    let Some(servers) = for_test(1, &ServerOptions::default()) else { return };
    let plain = Plain::to(servers[0].url()).await;
    let locker =
        long_timeouts().durable(true).on(Servers::single(servers[0].url())).expect("a good URL");
    let error = within("an answer", locker.try_lock(NAME)).await.expect_err("refused");
    assert!(error.to_string().contains("appendonly yes"), "{error}");
    let problem = refusal(&locker).await;
    assert!(matches!(problem, NodeProblem::NotDurable(_)), "{problem}");
    eventually("given back", async || (!plain.exists(NAME).await).then_some(())).await;
}

#[test]
fn a_quorum_is_not_durable_by_an_option() {
    let made = builder().durable(true).on(Servers::quorum(["redis://a", "redis://b", "redis://c"]));
    assert!(matches!(
        made,
        Err(Error::Config(ConfigError::DoesNotApply { option: "durable", .. }))
    ));
}
