//! How nodes are reached, and what is said when they are not.

use std::collections::HashMap;
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use quorumlock::{Admission, Error, Locker, NodeReport, Wire};
use quorumlock_lab::servers::{self, ServerOptions, Servers, Source, StartError, TlsFiles};
use quorumlock_tests::{DeadNode, Plain, Stopwatch, eventually, second_server, skipped, within};

const LONG: Duration = Duration::from_secs(60);

/// Locks, looks, and unlocks, as `url` says.
async fn works(locker: &Locker) {
    let guard = within("a free lock", locker.lock("x").lease(LONG)).await.expect("free");
    assert!(locker.is_locked("x").await.expect("an answer"));
    guard.unlock().await.expect("unlocked");
    assert!(!locker.is_locked("x").await.expect("an answer"));
}

fn what_each_did(error: &Error) -> &[NodeReport] {
    let Error::Unreachable(unreachable) = error else { panic!("{error:?}") };
    &unreachable.nodes
}

#[tokio::test]
async fn a_password_with_odd_characters_opens_the_door() {
    let options = ServerOptions { password: Some("p@ss/w:rd%".into()), ..Default::default() };
    let Some(servers) = servers::for_test(1, &options) else { return };
    works(&Locker::single(servers[0].url()).expect("a good URL")).await;

    let address = servers[0].addr().expect("ours");
    for stranger in [format!("redis://{address}"), format!("redis://:wrong@{address}")] {
        let locker = Locker::single(&stranger).expect("a good URL");
        let error = within("an answer", locker.lock("x")).await.expect_err("not let in");
        let said = &what_each_did(&error)[0];
        assert_eq!(said.node, format!("redis://{address}"));
        let reason = ["NOAUTH", "WRONGPASS"].iter().any(|word| said.what.contains(word));
        assert!(reason, "the server's own reason: {error}");
    }
}

#[tokio::test]
async fn a_user_with_the_rights_of_a_locker_and_no_others_can_lock() {
    let Some(servers) = servers::for_test(1, &ServerOptions::default()) else { return };
    let plain = Plain::to(servers[0].url()).await;
    // Round the scripts, and inside them.
    let outside = "+info +client|setname +script|load +evalsha +subscribe +unsubscribe";
    let inside = "+del +exists +get +hexists +hget +hgetall +hset +incr +incrby +pexpire +pttl +publish \
                  +set +time +type +zadd +zcard +zpopmin +zrem";
    let user = ["ACL", "SETUSER", "locker", "reset", "on", ">secret", "-@all"];
    let whereon = ["~x", "~redisson_lock_*", "&redisson_lock__channel:*"];
    let rights = outside.split(' ').chain(inside.split(' '));
    let rights = user.into_iter().chain(whereon).chain(rights).collect::<Vec<_>>();
    plain.ask::<String>(&rights).await;
    let address = servers[0].addr().expect("ours");
    let url = format!("redis://locker:secret@{address}");
    let waits = || Locker::builder().replicas(1).single(&url).expect("a good URL");
    let refused = within("an answer", waits().lock("x")).await.expect_err("WAIT is not among them");
    assert!(refused.to_string().contains("NOPERM"), "{refused}");
    plain.ask::<String>(&["ACL", "SETUSER", "locker", "+wait"]).await;
    // Now only the replica is missing.
    let refused = within("an answer", waits().lock("x")).await.expect_err("no replica");
    assert!(refused.to_string().contains("0 of 1 replicas"), "{refused}");

    plain.ask::<String>(&["ACL", "LOG", "RESET"]).await;
    for wire in [Wire::Redisson, Wire::Redlock] {
        let locker = Locker::builder().wire(wire).single(&url).expect("a good URL");
        works(&locker).await;
        let guard = locker.lock("x").lease(LONG).await.expect("free");
        let other = Locker::builder().wire(wire).single(&url).expect("a good URL");
        let waiter = tokio::spawn(async move { other.lock("x").await });
        eventually("it waits", async || {
            plain.exists("redisson_lock_waiters:{x}").await.then_some(())
        })
        .await;
        drop(guard);
        let guard = within("woken", waiter).await.expect("no panic").expect("free");
        guard.unlock().await.expect("unlocked");
    }
    // What is refused inside a script is most often no error of the script. (Outside, the redis crate
    // introduces itself by CLIENT SETINFO, and goes on without.)
    let log = plain.ask::<Vec<HashMap<String, redis::Value>>>(&["ACL", "LOG"]).await;
    let inside = log.iter().filter(|entry| format!("{:?}", entry["context"]).contains("lua"));
    assert_eq!(inside.count(), 0, "{log:?}");
}

#[tokio::test]
async fn a_user_without_rights_is_told_which_command_was_refused() {
    let Some(servers) = servers::for_test(1, &ServerOptions::default()) else { return };
    let plain = Plain::to(servers[0].url()).await;
    let rights =
        ["ACL", "SETUSER", "reader", "reset", "on", ">secret", "~*", "&*", "+@all", "-evalsha"];
    plain.ask::<String>(&rights).await;
    let url = format!("redis://reader:secret@{}", servers[0].addr().expect("ours"));
    let locker = Locker::single(&url).expect("a good URL");
    let error = within("an answer", locker.lock("x")).await.expect_err("not allowed");
    let said = &what_each_did(&error)[0].what;
    assert!(said.contains("NOPERM") && said.contains("evalsha"), "{error}");
}

/// A release that nobody could tell the waiter of: before it could subscribe, and while its
/// subscription was cut (SAFETY.md e3, H22). The lease is far longer than anybody waits here.
#[tokio::test]
async fn a_release_that_is_not_heard_is_not_missed() {
    let Some(servers) = servers::for_test(1, &ServerOptions::default()) else { return };
    let plain = Plain::to(servers[0].url()).await;
    let locker = || Locker::single(servers[0].url()).expect("a good URL");
    let (holder, other) = (locker(), locker());
    let wait = || tokio::spawn(other.lock("x").lease(LONG).into_future());

    let guard = holder.lock("x").lease(LONG).await.expect("free");
    plain.ask::<String>(&["ACL", "SETUSER", "default", "-subscribe"]).await;
    let waiter = wait();
    eventually("it may not listen", async || {
        let stats: String = plain.ask(&["INFO", "stats"]).await;
        (!stats.contains("acl_access_denied_cmd:0")).then_some(())
    })
    .await;
    guard.unlock().await.expect("held");
    plain.ask::<String>(&["ACL", "SETUSER", "default", "+subscribe"]).await;
    let guard = within("it looks again", waiter).await.expect("no panic").expect("free");

    let waiter = tokio::spawn(holder.lock("x").into_future());
    eventually("it listens", async || {
        let clients: String = plain.ask(&["CLIENT", "LIST", "TYPE", "pubsub"]).await;
        (!clients.is_empty()).then_some(())
    })
    .await;
    plain.ask::<String>(&["ACL", "SETUSER", "default", "-subscribe"]).await;
    plain.ask::<i64>(&["CLIENT", "KILL", "TYPE", "pubsub"]).await;
    guard.unlock().await.expect("held");
    plain.ask::<String>(&["ACL", "SETUSER", "default", "+subscribe"]).await;
    drop(within("it looks again", waiter).await.expect("no panic").expect("free"));
}

#[tokio::test]
async fn the_database_of_the_url_has_the_keys() {
    let Some(servers) = servers::for_test(1, &ServerOptions::default()) else { return };
    let url = format!("{}/3", servers[0].url());
    let locker = Locker::single(&url).expect("a good URL");
    let guard = locker.lock("x").lease(LONG).await.expect("free");
    assert!(Plain::to(&url).await.exists("x").await);
    assert!(!Plain::to(servers[0].url()).await.exists("x").await);
    let elsewhere = Locker::single(servers[0].url()).expect("a good URL");
    assert!(elsewhere.try_lock("x").await.expect("an answer").is_some(), "another database");
    guard.unlock().await.expect("unlocked");
    works(&locker).await;
}

#[tokio::test]
async fn a_unix_socket_works_as_well() {
    let options = ServerOptions { unix_socket: true, ..Default::default() };
    let Some(servers) = servers::for_test(1, &options) else { return };
    let socket = servers[0].socket().expect("asked for");
    let locker = Locker::single(format!("unix://{}", socket.display())).expect("a good URL");
    works(&locker).await;
    let guard = locker.lock("x").lease(LONG).await.expect("free");
    let other = Locker::single(servers[0].url()).expect("a good URL");
    assert!(other.try_lock("x").await.expect("an answer").is_none(), "the same server");
    drop(guard);
    drop(within("a free lock", other.lock("x")).await.expect("free"));
}

#[tokio::test]
async fn tls_is_spoken_and_the_server_is_verified() {
    let dir = tempfile::tempdir().expect("a directory");
    let Some(tls) = certificates(dir.path()) else { return };
    // Says so if there is no server at all.
    let Some(_) = servers::for_test(0, &ServerOptions::default()) else { return };
    let ca = std::fs::read(&tls.ca).expect("read");
    let options = ServerOptions { tls: Some(tls), ..Default::default() };
    let Some(servers) = with_tls(&options) else { return };
    let url = servers[0].url();
    assert!(url.starts_with("rediss://"), "{url}");
    works(&Locker::builder().tls_ca(&ca).single(url).expect("a good URL")).await;

    // Without our authority the server is a stranger.
    let distrustful = Locker::single(url).expect("a good URL");
    let error = within("an answer", distrustful.lock("x")).await.expect_err("not verified");
    let said = &what_each_did(&error)[0];
    assert_eq!(said.node, url);
    assert!(said.what.contains("certificate"), "{error}");
}

/// On the server program that all tests use, or on the second one if that was built without TLS.
fn with_tls(options: &ServerOptions) -> Option<Servers> {
    let sources = [Source::discover().ok(), second_server()];
    for source in sources.into_iter().flatten() {
        match Servers::start_with(&source, 1, options) {
            Ok(servers) => return Some(servers),
            // It does not know the options, or says what it lacks.
            Err(StartError::NotReady { log, .. }) if log.to_lowercase().contains("tls") => {}
            // Servers that somebody else started.
            Err(StartError::OptionsForUrls) => {}
            Err(error) => panic!("{error}"),
        }
    }
    skipped("no server program with TLS here; scripts/get-redis fetches one");
    None
}

/// An authority and a server certificate that it signed.
fn certificates(dir: &Path) -> Option<TlsFiles> {
    let openssl = |line: &str| {
        let output = Command::new("openssl").current_dir(dir).args(line.split(' ')).output();
        output.is_ok_and(|output| output.status.success())
    };
    let key = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2";
    let authority = format!("req -x509 {key} -subj /CN=authority -keyout ca.key -out ca.pem");
    let server = format!(
        "req -x509 {key} -subj /CN=server -addext basicConstraints=critical,CA:FALSE \
         -addext subjectAltName=IP:127.0.0.1,DNS:localhost -CA ca.pem -CAkey ca.key \
         -keyout server.key -out server.pem"
    );
    if !openssl(&authority) || !openssl(&server) {
        skipped("no openssl (3.0 or later) to make certificates with");
        return None;
    }
    let at = |file| dir.join(file);
    Some(TlsFiles { ca: at("ca.pem"), cert: at("server.pem"), key: at("server.key") })
}

fn dead<const N: usize>() -> [DeadNode; N] {
    [(); N].map(|()| DeadNode::new())
}

#[tokio::test]
async fn dead_nodes_are_reported_each_by_name() {
    let dead = dead::<5>();
    let dead = dead.each_ref().map(DeadNode::url);
    for nodes in [1, 3, 5] {
        let urls = dead[..nodes].to_vec();
        let locker = match urls.as_slice() {
            [url] => Locker::single(url),
            urls => Locker::quorum(urls),
        };
        let locker = locker.expect("good URLs");
        let watch = Stopwatch::start();
        let error = within("an answer", locker.lock("x")).await.expect_err("nobody there");
        // Refused connections need no timeout at all; this leaves time for a loaded machine.
        assert!(watch.elapsed() < Duration::from_secs(5), "{:?}", watch.elapsed());
        assert_reports(&error, &urls, nodes / 2 + 1);
        assert!(what_each_did(&error).iter().all(|node| node.what.contains("refused")), "{error}");
        let tried = within("an answer", locker.try_lock("x")).await.expect_err("nobody there");
        assert_reports(&tried, &urls, nodes / 2 + 1);
        let asked = within("an answer", locker.is_locked("x")).await.expect_err("nobody there");
        assert_reports(&asked, &urls, nodes / 2 + 1);
    }
}

/// Connections are taken, and nothing is ever said.
#[tokio::test]
async fn silent_nodes_are_reported_within_the_timeouts() {
    let ports = [(); 3].map(|()| TcpListener::bind("127.0.0.1:0").expect("a free port"));
    let urls =
        ports.each_ref().map(|port| format!("redis://{}", port.local_addr().expect("bound")));
    let timeout = Duration::from_millis(200);
    let builder = || Locker::builder().answer_timeout(timeout).connect_timeout(timeout);
    for (locker, nodes) in [(builder().single(&urls[0]), 1), (builder().quorum(&urls), 3)] {
        let locker = locker.expect("good URLs");
        let watch = Stopwatch::start();
        let error = within("an answer", locker.lock("x")).await.expect_err("silence");
        assert!(watch.elapsed() < Duration::from_secs(5), "{:?}", watch.elapsed());
        assert_reports(&error, &urls[..nodes], nodes / 2 + 1);
    }
}

#[tokio::test]
async fn a_minority_of_dead_nodes_is_no_obstacle_and_a_majority_is_named() {
    let Some(servers) = servers::for_test(3, &ServerOptions::default()) else { return };
    let mut urls = servers.urls();
    let dead = dead::<2>();
    urls.extend(dead.iter().map(DeadNode::url));
    let plain = || Locker::builder().admission(Admission::Redlock).quorum(&urls);
    works(&plain().expect("good URLs")).await;

    servers[0].kill().expect("ours");
    let error = plain().expect("good URLs").lock("x").await.expect_err("two of five");
    let gone = [urls[0].clone(), urls[3].clone(), urls[4].clone()];
    assert_reports(&error, &gone, 3);
    for url in &gone {
        assert!(error.to_string().contains(url.as_str()), "{error}");
    }
    servers[0].restart_empty().expect("ours");
    works(&plain().expect("good URLs")).await;
}

/// Each of `urls` is named, and nobody else but who had no time to answer.
fn assert_reports(error: &Error, urls: &[String], needed: usize) {
    let Error::Unreachable(unreachable) = error else { panic!("{error:?}") };
    assert_eq!(unreachable.needed, needed, "{error}");
    let named = |url: &String| unreachable.nodes.iter().filter(|node| node.node == *url).count();
    assert!(urls.iter().all(|url| named(url) == 1), "{error}");
    for other in unreachable.nodes.iter().filter(|node| !urls.contains(&node.node)) {
        assert!(other.what.contains("had not answered"), "{error}");
    }
}
