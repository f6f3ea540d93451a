//! Passwords and certificates in files, which are renewed while a program runs.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use quorumlock::{Builder, NodeProblem, Servers, TlsProblem};
use quorumlock_testbed::servers::{self, ServerOptions, TlsFiles};
use quorumlock_tests::{Plain, builder, eventually, within};

use crate::{certificates, what_each_did, with_tls, works};

const LET_IN: [&str; 8] = ["ACL", "SETUSER", "app", "reset", "on", "~*", "&*", "+@all"];

async fn set_password(server: &Plain, password: &str) {
    let added = format!(">{password}");
    server.ask::<String>(&[&LET_IN[..], &[&added]].concat()).await;
    server.ask::<i64>(&["CLIENT", "KILL", "USER", "app"]).await;
}

/// A file that is gone or empty when the connection is dialled changes nothing, and the password that
/// it has later counts.
#[tokio::test]
async fn a_password_file_is_read_at_each_dial() {
    let Some(servers) = servers::for_test(1, &ServerOptions::default()) else { return };
    let plain = Plain::to(servers[0].url()).await;
    set_password(&plain, "old").await;
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("password");
    // The user is that of the URL.
    let url = servers[0].url().replace("redis://", "redis://app@");
    let locker = builder().password_file(&file).on(Servers::single(&url)).expect("a good URL");
    let error = within("an answer", locker.try_lock("x")).await.expect_err("no file");
    let NodeProblem::Authentication(why) = &what_each_did(&error)[0].problem else {
        panic!("{error:?}")
    };
    assert!(why.contains("password") && why.contains("No such file"), "{why}");

    fs::write(&file, "old\n").expect("written");
    let guard = eventually("let in", async || locker.try_lock("x").await.ok().flatten()).await;
    fs::write(&file, "").expect("written");
    plain.ask::<i64>(&["CLIENT", "KILL", "USER", "app"]).await;
    eventually("with the last password", async || guard.renew().await.ok()).await;
    fs::write(&file, "new\n").expect("written");
    set_password(&plain, "new").await;
    eventually("with the new password", async || guard.renew().await.ok()).await;
}

/// A program that hangs has the time of a dial; the last credentials count, as they do after one that
/// fails.
#[tokio::test]
async fn a_program_for_credentials_that_hangs_or_fails_changes_nothing() {
    let Some(servers) = servers::for_test(1, &ServerOptions::default()) else { return };
    let plain = Plain::to(servers[0].url()).await;
    set_password(&plain, "old").await;
    let dir = tempfile::tempdir().expect("a directory");
    let script = dir.path().join("credentials");
    let write = |text: &str| fs::write(&script, text).expect("written");
    write("test -n \"$QUORUMLOCK_SERVER\" && echo app && echo old");
    let builder = builder().connect_timeout(Duration::from_secs(4)).lease(Duration::from_secs(20));
    let builder = builder.credentials_command(format!("sh {}", script.display()));
    let locker = builder.on(Servers::single(servers[0].url())).expect("a good URL");
    let guard = eventually("let in", async || locker.try_lock("x").await.ok().flatten()).await;
    for fault in ["exit 3", "echo", "exec sleep 60"] {
        write(fault);
        plain.ask::<i64>(&["CLIENT", "KILL", "USER", "app"]).await;
        eventually(fault, async || guard.renew().await.ok()).await;
    }
    write("echo app; echo new");
    set_password(&plain, "new").await;
    eventually("the new password", async || guard.renew().await.ok()).await;
}

/// The authority, and the pairs of the server and of the client, are replaced on disk. A half-written
/// file changes nothing.
#[tokio::test]
async fn certificates_are_read_at_each_dial() {
    let dir = tempfile::tempdir().expect("a directory");
    let Some(tls) = certificates(dir.path()) else { return };
    let Some(_) = servers::for_test(0, &ServerOptions::default()) else { return };
    let tls = TlsFiles { wants_clients: true, ..tls };
    let options = ServerOptions { tls: Some(tls.clone()), ..Default::default() };
    let Some(servers) = with_tls(&options) else { return };
    let ca = dir.path().join("trusted.pem");
    fs::copy(&tls.ca, &ca).expect("copied");
    let builder = builder().tls_ca(&*ca).tls_client(&*tls.cert, &*tls.key);
    let locker = builder.on(Servers::single(servers[0].url())).expect("good files");
    works(&locker).await;

    fs::write(&ca, "-----BEGIN CERTIFICATE-----\nMIIB").expect("written");
    servers[0].restart().expect("ours");
    let same = eventually("the last good file", async || locker.try_lock("y").await.ok().flatten());
    drop(same.await);

    let Some(_) = certificates(dir.path()) else { return };
    fs::copy(&tls.ca, &ca).expect("copied");
    servers[0].restart().expect("ours");
    let new = eventually("the new authority", async || locker.try_lock("z").await.ok().flatten());
    drop(new.await);
}

/// What the server says of a client's certificate that it does not trust.
#[tokio::test]
async fn a_client_certificate_that_the_server_refuses_is_told_apart() {
    let dir = tempfile::tempdir().expect("a directory");
    let elsewhere = tempfile::tempdir().expect("a directory");
    let Some(tls) = certificates(dir.path()) else { return };
    let Some(other) = certificates(elsewhere.path()) else { return };
    let Some(_) = servers::for_test(0, &ServerOptions::default()) else { return };
    let tls = TlsFiles { wants_clients: true, ..tls };
    let options = ServerOptions { tls: Some(tls.clone()), ..Default::default() };
    let Some(servers) = with_tls(&options) else { return };
    let builder = builder().tls_ca(&*tls.ca).tls_client(&*other.cert, &*other.key);
    let locker = builder.on(Servers::single(servers[0].url())).expect("good files");
    // The server closes the connection, sometimes before the client has read the reason.
    eventually("told", async || {
        let error = within("an answer", locker.try_lock("x")).await.expect_err("not let in");
        let refused = |problem: &NodeProblem| {
            matches!(problem, NodeProblem::Tls(TlsProblem::ClientCertificateRefused(_)))
        };
        what_each_did(&error).iter().any(|node| refused(&node.problem)).then_some(())
    })
    .await;
}

const URL: &str = "QUORUMLOCK_TEST_URL";

/// Runs in a process of its own, because a test cannot set its own environment.
#[tokio::test]
#[ignore = "the next test runs it"]
async fn child() {
    let url = std::env::var(URL).expect("the next test sets it");
    works(&builder().on(Servers::single(url)).expect("a good URL")).await;
}

/// `SSL_CERT_FILE` names the authorities that the system trusts.
#[test]
fn the_authorities_that_the_system_trusts_are_trusted() {
    let dir = tempfile::tempdir().expect("a directory");
    let Some(tls) = certificates(dir.path()) else { return };
    let Some(_) = servers::for_test(0, &ServerOptions::default()) else { return };
    let options = ServerOptions { tls: Some(tls.clone()), ..Default::default() };
    let Some(servers) = with_tls(&options) else { return };
    let connects = |authorities: &Path| {
        let mut child = Command::new(std::env::current_exe().expect("this test"));
        child.args(["--exact", "renewed::child", "--ignored"]);
        child.env("SSL_CERT_FILE", authorities).env(URL, servers[0].url());
        child.output().expect("it runs").status.success()
    };
    assert!(connects(&tls.ca));
    let other = tempfile::tempdir().expect("a directory");
    let Some(elsewhere) = certificates(other.path()) else { return };
    assert!(!connects(&elsewhere.ca));
}

#[test]
fn a_file_that_is_missing_at_first_is_named() {
    let missing = Builder::without_servers()
        .tls_ca(Path::new("no/such/file"))
        .on(Servers::single("rediss://127.0.0.1:1"));
    let error = missing.expect_err("no file").to_string();
    assert!(error.contains("no/such/file: No such file"), "{error}");
}
