//! Users and passwords that change while locks are held.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use quorumlock::{Builder, ConfigError, Credentials, Error, Locker, NodeProblem};
use quorumlock_testbed::servers::{self, ServerOptions, Servers};
use quorumlock_tests::{Plain, builder, eventually, within};

use crate::what_each_did;

/// The password that the program gives now, and how often it was asked.
#[derive(Clone)]
struct Vault(Arc<(Mutex<Result<String, String>>, AtomicUsize)>);

impl Vault {
    /// It gives the password `old`.
    fn new() -> Self {
        Self(Arc::new((Mutex::new(Ok("old".to_owned())), AtomicUsize::new(0))))
    }

    fn set(&self, password: Result<&str, &str>) {
        *self.0.0.lock().expect("no panic") = password.map(str::to_owned).map_err(str::to_owned);
    }

    fn asked(&self) -> usize {
        self.0.1.load(Ordering::SeqCst)
    }

    /// A builder whose lockers ask this vault.
    fn builder(&self, valid_for: Option<Duration>) -> Builder {
        let vault = self.clone();
        builder().credentials(move |_| {
            vault.0.1.fetch_add(1, Ordering::SeqCst);
            let password = vault.0.0.lock().expect("no panic").clone();
            let credentials = password.map(|password| Credentials::new("app", password));
            let credentials = credentials.map(|credentials| match valid_for {
                Some(time) => credentials.valid_for(time),
                None => credentials,
            });
            std::future::ready(credentials)
        })
    }
}

/// Servers with a user `app`, whose password is `old`.
async fn start(count: usize) -> Option<(Servers, Vec<Plain>)> {
    let servers = servers::for_test(count, &ServerOptions::default())?;
    let mut plain = Vec::new();
    for url in servers.urls() {
        let server = Plain::to(&url).await;
        let all = ["ACL", "SETUSER", "app", "reset", "on", ">old", "~*", "&*", "+@all"];
        server.ask::<String>(&all).await;
        plain.push(server);
    }
    Some((servers, plain))
}

/// As OPERATIONS says: another password for `app`, then the program gives it, then the old one goes and
/// the connections of `app` end.
async fn rotate(vault: &Vault, plain: &[Plain]) {
    for server in plain {
        server.ask::<String>(&["ACL", "SETUSER", "app", ">new"]).await;
    }
    vault.set(Ok("new"));
    for server in plain {
        server.ask::<String>(&["ACL", "SETUSER", "app", "<old"]).await;
        server.ask::<i64>(&["CLIENT", "KILL", "USER", "app"]).await;
    }
}

/// Rotates the password while a lock is held and another caller waits for it.
async fn keeps_its_lock(locker: &Locker, waiter: Locker, vault: &Vault, plain: &[Plain]) {
    let lease = Duration::from_secs(2);
    let guard = within("a free lock", locker.lock("x").lease(lease)).await.expect("free");
    let waiting = tokio::spawn(waiter.lock("x").into_future());
    rotate(vault, plain).await;
    tokio::time::sleep(lease + lease / 2).await;
    assert_eq!(guard.check(), Ok(()), "renewed with the new password");
    if waiting.is_finished() {
        panic!("it does not wait: {:?}", waiting.await);
    }
    guard.unlock().await.expect("held");
    drop(within("woken", waiting).await.expect("no panic").expect("free"));
}

#[tokio::test]
async fn a_password_rotated_under_a_held_lock_loses_nothing() {
    let Some((servers, plain)) = start(1).await else { return };
    let vault = Vault::new();
    let locker = || {
        vault.builder(None).on(quorumlock::Servers::single(servers[0].url())).expect("a good URL")
    };
    keeps_its_lock(&locker(), locker(), &vault, &plain).await;
}

#[tokio::test]
async fn a_password_rotated_under_a_lock_of_a_quorum_loses_nothing() {
    let Some((servers, plain)) = start(3).await else { return };
    let vault = Vault::new();
    let locker =
        || vault.builder(None).on(quorumlock::Servers::quorum(servers.urls())).expect("good URLs");
    let first = locker();
    within("admitted", first.admit_nodes()).await.expect("all nodes are up");
    keeps_its_lock(&first, locker(), &vault, &plain).await;
}

/// No call fails while connections are replaced, and a waiter hears of the release.
#[tokio::test]
async fn connections_are_replaced_before_their_credentials_end() {
    let Some((servers, _)) = start(1).await else { return };
    let vault = Vault::new();
    let short = || {
        vault
            .builder(Some(Duration::from_secs(1)))
            .on(quorumlock::Servers::single(servers[0].url()))
    };
    let (locker, other) = (short().expect("good"), short().expect("good"));
    let guard = within("a free lock", locker.lock("held")).await.expect("free");
    let waiting = tokio::spawn(other.lock("held").into_future());
    let before = vault.asked();
    eventually("replaced several times", async || {
        let guard = within("a free lock", locker.lock("x")).await.expect("free");
        guard.unlock().await.expect("held");
        (vault.asked() >= before + 8).then_some(())
    })
    .await;
    assert_eq!(guard.check(), Ok(()));
    assert!(!waiting.is_finished());
    guard.unlock().await.expect("held");
    drop(within("woken", waiting).await.expect("no panic").expect("free"));
}

#[tokio::test]
async fn a_program_that_gives_no_credentials_is_told_why_until_it_does() {
    let Some((servers, _)) = start(1).await else { return };
    let vault = Vault::new();
    vault.set(Err("the token service is down"));
    let locker =
        vault.builder(None).on(quorumlock::Servers::single(servers[0].url())).expect("a good URL");
    let error = within("an answer", locker.try_lock("x")).await.expect_err("not let in");
    let NodeProblem::Authentication(text) = &what_each_did(&error)[0].problem else {
        panic!("{error:?}")
    };
    assert!(text.contains("the token service is down"), "{text}");
    vault.set(Ok("old"));
    let granted = eventually("let in", async || locker.try_lock("x").await.ok().flatten()).await;
    granted.unlock().await.expect("held");

    let brief = vault
        .builder(Some(Duration::from_millis(3)))
        .on(quorumlock::Servers::single(servers[0].url()));
    let error =
        within("an answer", brief.expect("good").try_lock("x")).await.expect_err("too brief");
    assert!(error.to_string().contains("3ms, which is less than 1s"), "{error}");
}

#[test]
fn a_url_with_a_password_and_a_program_that_gives_one_do_not_go_together() {
    let builder = || Vault::new().builder(None);
    let urls = ["redis://:p@a", "redis://b", "redis://c"];
    for made in [
        builder().on(quorumlock::Servers::single(urls[0])),
        builder().on(quorumlock::Servers::single("unix:///s?user=u&pass=p")),
        builder().on(quorumlock::Servers::replicated(urls)),
        builder().on(quorumlock::Servers::quorum(urls)),
        builder().on(quorumlock::Servers::sentinel(["redis://s"], "redis://:p@m")),
    ] {
        let Err(Error::Config(ConfigError::DoesNotApply { option, .. })) = made else {
            panic!("{made:?}");
        };
        assert_eq!(option, "credentials");
    }
    // The sentinels' own password is another one.
    builder().on(quorumlock::Servers::sentinel(["redis://:p@s"], "m")).expect("good");
}
