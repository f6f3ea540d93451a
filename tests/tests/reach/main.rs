//! How lockers reach nodes, and what they report when they cannot.

mod credentials;
mod far;
mod forks;
mod renewed;
mod sentinel_tls;

use std::collections::HashMap;
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use quorumlock::{
    Admission, Builder, Error, Layout, Locker, NodeProblem, NodeReport, Replicas, TlsProblem,
};
use quorumlock_testbed::servers::{self, ServerOptions, Servers, Source, StartError, TlsFiles};
use quorumlock_tests::{
    DeadNode, Plain, Stopwatch, eventually, granted, missed, second_server, within,
};

const LONG_LEASE: Duration = Duration::from_secs(60);

/// Locks, checks, and unlocks through `locker`.
async fn works(locker: &Locker) {
    let guard = within("a free lock", locker.lock("x").lease(LONG_LEASE)).await.expect("free");
    assert!(locker.mutex("x").is_locked().await.expect("an answer"));
    guard.unlock().await.expect("unlocked");
    assert!(!locker.mutex("x").is_locked().await.expect("an answer"));
}

fn what_each_did(error: &Error) -> &[NodeReport] {
    let (Error::Unreachable(none) | Error::Refused(none)) = error else { panic!("{error:?}") };
    &none.nodes
}

#[tokio::test]
async fn a_password_with_odd_characters_opens_the_door() {
    let options = ServerOptions { password: Some("p@ss/w:rd%".into()), ..Default::default() };
    let Some(servers) = servers::for_test(1, &options) else { return };
    works(&Locker::single(servers[0].url()).expect("a good URL")).await;

    let address = servers[0].addr().expect("ours");
    for refused in [format!("redis://{address}"), format!("redis://:wrong@{address}")] {
        let locker = Locker::single(&refused).expect("a good URL");
        let error = within("an answer", locker.lock("x")).await.expect_err("not let in");
        let said = &what_each_did(&error)[0];
        assert_eq!(said.node, format!("redis://{address}"));
        assert!(matches!(error, Error::Refused(_)), "{error:?}");
        assert!(matches!(said.problem, NodeProblem::Authentication(_)), "{error:?}");
    }
}

#[tokio::test]
async fn a_user_with_the_rights_of_a_locker_and_no_others_can_lock() {
    let Some(servers) = servers::for_test(1, &ServerOptions::default()) else { return };
    let plain = Plain::to(servers[0].url()).await;
    // The commands outside the scripts, and those inside them.
    let outside = "+info +client|setname +script|load +evalsha +subscribe +unsubscribe";
    let inside = "+del +exists +get +hexists +hget +hkeys +hlen +hset +pexpire +pttl +publish \
                  +set +time +type +zadd +zcard +zrange +zrank +zrem +zscore";
    let user = ["ACL", "SETUSER", "locker", "reset", "on", ">secret", "-@all"];
    let whereon =
        ["~x", "~redisson_lock_*", "~quorumlock:*", "&redisson_lock__channel:*", "&quorumlock:*"];
    let rights = outside.split(' ').chain(inside.split(' '));
    let rights = user.into_iter().chain(whereon).chain(rights).collect::<Vec<_>>();
    plain.ask::<String>(&rights).await;
    let address = servers[0].addr().expect("ours");
    let url = format!("redis://locker:secret@{address}");
    let waits = || {
        Builder::without_servers()
            .replicas(Replicas::AtLeast(1))
            .on(quorumlock::Servers::single(&url))
            .expect("a good URL")
    };
    let refused =
        within("an answer", waits().try_lock("x")).await.expect_err("WAIT is not among them");
    let problem = &what_each_did(&refused)[0].problem;
    assert!(matches!(problem, NodeProblem::NoReplicas(_)), "{refused}");
    plain.ask::<String>(&["ACL", "SETUSER", "locker", "+wait"]).await;
    // The rights suffice now; only the replica is missing.
    let refused = within("an answer", waits().try_lock("x")).await.expect_err("no replica");
    let problem = &what_each_did(&refused)[0].problem;
    assert!(matches!(problem, NodeProblem::NoReplicas(_)), "{refused}");

    plain.ask::<String>(&["ACL", "LOG", "RESET"]).await;
    for layout in [Layout::Redisson, Layout::Redlock] {
        let locker = Builder::without_servers()
            .layout(layout)
            .on(quorumlock::Servers::single(&url))
            .expect("a good URL");
        works(&locker).await;
        let guard = locker.lock("x").lease(LONG_LEASE).await.expect("free");
        let other = Builder::without_servers()
            .layout(layout)
            .on(quorumlock::Servers::single(&url))
            .expect("a good URL");
        let waiter = tokio::spawn(async move { other.lock("x").await });
        eventually("it waits", async || plain.exists("quorumlock:waiters:{x}").await.then_some(()))
            .await;
        drop(guard);
        let guard = within("woken", waiter).await.expect("no panic").expect("free");
        guard.unlock().await.expect("unlocked");
    }
    // A command that is refused inside a script usually gives no error of the script. (Outside, the
    // `redis` crate sends CLIENT SETINFO, and continues without it.)
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
    let by_script = Builder::without_servers().scripts_only(true);
    let locker = by_script.on(quorumlock::Servers::single(&url)).expect("a good URL");
    let error = within("an answer", locker.lock("x")).await.expect_err("not allowed");
    let problem = &what_each_did(&error)[0].problem;
    let NodeProblem::Permission(said) = problem else { panic!("{error:?}") };
    assert!(said.contains("evalsha"), "{error}");
}

/// The work is done, but the lock is not released: `run` must return an error.
#[tokio::test]
async fn a_release_that_is_refused_is_told_by_run() {
    let Some(servers) = servers::for_test(1, &ServerOptions::default()) else { return };
    let plain = Plain::to(servers[0].url()).await;
    let allow = ["ACL", "SETUSER", "locker", "reset", "on", ">secret", "~*", "&*", "+@all"];
    plain.ask::<String>(&allow).await;
    let url = format!("redis://locker:secret@{}", servers[0].addr().expect("ours"));
    let locker = Locker::single(&url).expect("a good URL");
    let forbid = async |_| {
        plain.ask::<String>(&["ACL", "SETUSER", "locker", "-@all"]).await;
    };
    let error = within("an answer", locker.run("x", forbid)).await.expect_err("not given back");
    let Error::Refused(none) = &error else { panic!("{error:?}") };
    assert!(matches!(none.nodes[0].problem, NodeProblem::Permission(_)), "{error:?}");
    assert!(!error.is_retryable() && plain.exists("x").await, "{error}");

    plain.ask::<String>(&allow).await;
    let guard = eventually("room", async || locker.lock("y").await.ok()).await;
    let pause = || servers[0].pause().expect("ours");
    drop(guard);
    // A missing answer is not a refusal: the lease ends by itself.
    let out = within("an answer", locker.run("z", async |_| pause())).await;
    servers[0].resume().expect("ours");
    out.expect("the work is done");
}

/// A release of which no message could reach the waiter: before it subscribed, and while its
/// subscription was cut (SAFETY.md H22; PROTOCOL.md W1). The lease is far longer than any wait
/// here.
#[tokio::test]
async fn a_release_that_is_not_heard_is_not_missed() {
    let Some(servers) = servers::for_test(1, &ServerOptions::default()) else { return };
    let plain = Plain::to(servers[0].url()).await;
    let locker = || Locker::single(servers[0].url()).expect("a good URL");
    let (holder, other) = (locker(), locker());
    let wait = || tokio::spawn(other.lock("x").lease(LONG_LEASE).into_future());

    let guard = holder.lock("x").lease(LONG_LEASE).await.expect("free");
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
    let guard = locker.lock("x").lease(LONG_LEASE).await.expect("free");
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
    let guard = locker.lock("x").lease(LONG_LEASE).await.expect("free");
    let other = Locker::single(servers[0].url()).expect("a good URL");
    assert!(other.try_lock("x").await.expect("an answer").is_none(), "the same server");
    drop(guard);
    drop(within("a free lock", other.lock("x")).await.expect("free"));
}

#[tokio::test]
async fn tls_is_spoken_and_the_server_is_verified() {
    let dir = tempfile::tempdir().expect("a directory");
    let Some(tls) = certificates(dir.path()) else { return };
    // Prints that the test is skipped if there is no server program at all.
    let Some(_) = servers::for_test(0, &ServerOptions::default()) else { return };
    let ca = std::fs::read(&tls.ca).expect("read");
    let options = ServerOptions { tls: Some(tls), ..Default::default() };
    let Some(servers) = with_tls(&options) else { return };
    let url = servers[0].url();
    assert!(url.starts_with("rediss://"), "{url}");
    works(
        &Builder::without_servers()
            .tls_ca(ca.clone())
            .on(quorumlock::Servers::single(url))
            .expect("a good URL"),
    )
    .await;

    // Without the test's certificate authority the server cannot be verified.
    let distrustful = Locker::single(url).expect("a good URL");
    let error = within("an answer", distrustful.lock("x")).await.expect_err("not verified");
    let said = &what_each_did(&error)[0];
    assert_eq!(said.node, url);
    assert_eq!(said.problem, NodeProblem::Tls(TlsProblem::UnknownIssuer), "{error}");
}

/// Starts servers with the program that all tests use, or with the second one if that was built
/// without TLS.
fn with_tls(options: &ServerOptions) -> Option<Servers> {
    let sources = [Source::discover().ok(), second_server()];
    for source in sources.into_iter().flatten() {
        match Servers::start_with(&source, 1, options) {
            Ok(servers) => return Some(servers),
            // The program does not know the TLS options, or reports that it was built without TLS.
            Err(StartError::NotReady { log, .. }) if log.to_lowercase().contains("tls") => {}
            // The servers were started elsewhere.
            Err(StartError::OptionsForUrls) => {}
            Err(error) => panic!("{error}"),
        }
    }
    missed("no server program with TLS here; scripts/get-redis fetches one");
    None
}

/// The server runs with `tls-auth-clients yes`.
#[tokio::test]
async fn a_client_certificate_is_shown_to_a_server_that_wants_one() {
    let dir = tempfile::tempdir().expect("a directory");
    let Some(tls) = certificates(dir.path()) else { return };
    let Some(_) = servers::for_test(0, &ServerOptions::default()) else { return };
    let read = |file: &Path| std::fs::read(file).expect("read");
    let (ca, cert, key) = (read(&tls.ca), read(&tls.cert), read(&tls.key));
    let tls = TlsFiles { wants_clients: true, ..tls };
    let options = ServerOptions { tls: Some(tls), ..Default::default() };
    let Some(servers) = with_tls(&options) else { return };
    let builder = || Builder::without_servers().tls_ca(ca.clone());
    let refused = builder().on(quorumlock::Servers::single(servers[0].url())).expect("a good URL");
    let error = within("an answer", refused.lock("x")).await.expect_err("no certificate");
    let problem = &what_each_did(&error)[0].problem;
    // The server may have closed the connection before the client has read the reason.
    let told =
        matches!(problem, NodeProblem::Tls(TlsProblem::ClientCertificate) | NodeProblem::Broken(_));
    assert!(told, "{error:?}");
    works(
        &builder()
            .tls_client(cert, key.clone())
            .on(quorumlock::Servers::single(servers[0].url()))
            .expect("good PEM"),
    )
    .await;

    let nonsense = builder()
        .tls_client("no certificate", key)
        .on(quorumlock::Servers::single(servers[0].url()));
    let Err(Error::Config(error)) = nonsense else { panic!("{nonsense:?}") };
    assert!(error.to_string().contains("client"), "{error}");
}

/// The server announces its TLS port to the sentinel, which dials it there.
#[tokio::test]
async fn sentinels_and_the_servers_that_they_tell_speak_tls() {
    let dir = tempfile::tempdir().expect("a directory");
    let Some(tls) = certificates(dir.path()) else { return };
    let Some(_) = servers::for_test(0, &ServerOptions::default()) else { return };
    let ca = std::fs::read(&tls.ca).expect("read");
    let tls = Some(TlsFiles { wants_clients: false, ..tls });
    let options = ServerOptions { tls: tls.clone(), ..Default::default() };
    let args = vec!["--tls-replication".to_owned(), "yes".to_owned()];
    let Some(servers) = with_tls(&options) else { return };
    let Some(sentinels) = with_tls(&ServerOptions { sentinel: true, tls, args, ..options }) else {
        return;
    };
    let host = |url: &str| url.strip_prefix("rediss://").expect("TLS").to_owned();
    let (server, sentinel) = (host(servers[0].url()), host(sentinels[0].url()));
    let port = server.rsplit_once(':').expect("a port").1;
    let plain = Plain::to(&format!("redis://{}", sentinels[0].addr().expect("ours"))).await;
    plain.ask::<String>(&["SENTINEL", "MONITOR", "m", "127.0.0.1", port, "1"]).await;
    let builder = || Builder::without_servers().tls_ca(ca.clone());
    let url = format!("rediss-sentinel://{sentinel}/m");
    works(&builder().on(quorumlock::Servers::single(&url)).expect("a good URL")).await;
    // Each side has a scheme of its own.
    let mixed = builder()
        .on(quorumlock::Servers::sentinel([format!("rediss://{sentinel}")], "m"))
        .expect("good URLs");
    let error = within("an answer", mixed.try_lock("x")).await.expect_err("the wrong port");
    assert!(error.to_string().contains("its URL begins with rediss://"), "{error}");
    let distrustful = Locker::single(&url).expect("a good URL");
    let error = within("an answer", distrustful.try_lock("x")).await.expect_err("not verified");
    assert!(error.to_string().contains("authority"), "{error}");
}

/// A member tells no host of its own, which no other member has told it, and its TLS port.
#[tokio::test]
async fn the_members_of_a_redis_cluster_speak_tls() {
    let dir = tempfile::tempdir().expect("a directory");
    let Some(tls) = certificates(dir.path()) else { return };
    let Some(_) = servers::for_test(0, &ServerOptions::default()) else { return };
    let ca = std::fs::read(&tls.ca).expect("read");
    let args = vec!["--tls-cluster".to_owned(), "yes".to_owned()];
    let options = ServerOptions { tls: Some(tls), cluster: true, args, ..Default::default() };
    let Some(servers) = with_tls(&options) else { return };
    let plain = Plain::to(&format!("redis://{}", servers[0].addr().expect("ours"))).await;
    plain.ask::<String>(&["CLUSTER", "ADDSLOTSRANGE", "0", "16383"]).await;
    let locker = Builder::without_servers()
        .tls_ca(ca.clone())
        .on(quorumlock::Servers::cluster([servers[0].url()]))
        .expect("a good URL");
    drop(granted(&locker, "before").await);
    works(&locker).await;
}

/// The URL has the wrong scheme: the error names the right one.
#[tokio::test]
async fn the_wrong_scheme_is_hinted_at() {
    let dir = tempfile::tempdir().expect("a directory");
    let Some(tls) = certificates(dir.path()) else { return };
    let Some(_) = servers::for_test(0, &ServerOptions::default()) else { return };
    let options = ServerOptions { tls: Some(tls), ..Default::default() };
    let Some(servers) = with_tls(&options) else { return };
    let plain_to_tls = servers[0].url().replace("rediss://", "redis://");
    let tls_to_plain = format!("rediss://{}", servers[0].addr().expect("ours"));
    for (url, right) in [(plain_to_tls, "rediss://"), (tls_to_plain, "redis://")] {
        let locker = Locker::single(&url).expect("a good URL");
        let error = within("an answer", locker.try_lock("x")).await.expect_err("the wrong port");
        let hint = format!("its URL begins with {right}");
        assert!(error.to_string().contains(&hint), "{error}");
    }
}

/// Makes a certificate authority and a server certificate that it signed.
fn certificates(dir: &Path) -> Option<TlsFiles> {
    certificates_for(dir, "IP:127.0.0.1,DNS:localhost")
}

/// As [`certificates`], for these names.
fn certificates_for(dir: &Path, names: &str) -> Option<TlsFiles> {
    let openssl = |line: &str| {
        let output = Command::new("openssl").current_dir(dir).args(line.split(' ')).output();
        output.is_ok_and(|output| output.status.success())
    };
    let key = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2";
    let authority = format!("req -x509 {key} -subj /CN=authority -keyout ca.key -out ca.pem");
    let server = format!(
        "req -x509 {key} -subj /CN=server -addext basicConstraints=critical,CA:FALSE \
         -addext subjectAltName={names} -CA ca.pem -CAkey ca.key \
         -keyout server.key -out server.pem"
    );
    if !openssl(&authority) || !openssl(&server) {
        missed("no openssl (3.0 or later) to make certificates with");
        return None;
    }
    let at = |file| dir.join(file);
    let (ca, cert, key) = (at("ca.pem"), at("server.pem"), at("server.key"));
    Some(TlsFiles { ca, cert, key, wants_clients: false })
}

/// A server's idle limit, a load balancer or an operator cuts connections. The server itself works.
#[tokio::test]
async fn connections_that_are_cut_while_idle_fail_no_call() {
    let Some(servers) = servers::for_test(1, &ServerOptions::default()) else { return };
    let plain = Plain::to(servers[0].url()).await;
    let lockers: Vec<_> =
        (0..10).map(|_| Locker::single(servers[0].url()).expect("good")).collect();
    let connected = async || {
        let clients: String = plain.ask(&["CLIENT", "LIST", "TYPE", "normal"]).await;
        (clients.matches("name=quorumlock").count() >= lockers.len()).then_some(())
    };
    let cut = async || plain.ask::<i64>(&["CLIENT", "KILL", "TYPE", "normal"]).await;
    for round in 0..4 {
        for (i, locker) in lockers.iter().enumerate() {
            works_for(locker, &format!("{round}/{i}")).await;
        }
        cut().await;
        // The connections come back by themselves, and are cut before they carry a request.
        eventually("connected again", connected).await;
        cut().await;
        for (i, locker) in lockers.iter().enumerate() {
            works_for(locker, &format!("{round}/{i}")).await;
        }
    }
}

async fn works_for(locker: &Locker, name: &str) {
    let guard = within("an answer", locker.try_lock(name)).await.expect("an answer");
    within("an answer", guard.expect("free").unlock()).await.expect("given back");
}

/// The time to connect does not count towards the answer timeout.
#[tokio::test]
async fn a_hundred_lockers_at_once_find_a_healthy_server() {
    for nodes in [1, 5] {
        let Some(servers) = servers::for_test(nodes, &ServerOptions::default()) else { return };
        let builder = || Builder::without_servers().admission(Admission::Redlock);
        let calls: Vec<_> = (0..100)
            .map(|i| {
                let locker = match nodes {
                    1 => Locker::single(servers[0].url()),
                    _ => builder().on(quorumlock::Servers::quorum(servers.urls())),
                };
                let locker = locker.expect("good URLs");
                tokio::spawn(async move { works_for(&locker, &i.to_string()).await })
            })
            .collect();
        for call in calls {
            call.await.expect("no locker was refused");
        }
    }
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
        let error =
            within("an answer", locker.lock("x").fail_fast()).await.expect_err("nobody there");
        // Refused connections need no timeout at all; the bound leaves time for a loaded machine.
        assert!(watch.elapsed() < Duration::from_secs(5), "{:?}", watch.elapsed());
        assert_reports(&error, &urls, nodes / 2 + 1);
        let refused = |node: &NodeReport| matches!(node.problem, NodeProblem::NotConnected(_));
        assert!(what_each_did(&error).iter().all(refused), "{error}");
        let tried = within("an answer", locker.try_lock("x")).await.expect_err("nobody there");
        assert_reports(&tried, &urls, nodes / 2 + 1);
        let asked =
            within("an answer", locker.mutex("x").is_locked()).await.expect_err("nobody there");
        assert_reports(&asked, &urls, nodes / 2 + 1);
    }
}

/// The nodes accept connections and never answer.
#[tokio::test]
async fn silent_nodes_are_reported_within_the_timeouts() {
    let ports = [(); 3].map(|()| TcpListener::bind("127.0.0.1:0").expect("a free port"));
    let urls =
        ports.each_ref().map(|port| format!("redis://{}", port.local_addr().expect("bound")));
    let timeout = Duration::from_millis(200);
    let builder = || Builder::without_servers().answer_timeout(timeout).connect_timeout(timeout);
    for (locker, nodes) in [
        (builder().on(quorumlock::Servers::single(&urls[0])), 1),
        (builder().on(quorumlock::Servers::quorum(&urls)), 3),
    ] {
        let locker = locker.expect("good URLs");
        let watch = Stopwatch::start();
        let error = within("an answer", locker.lock("x").fail_fast()).await.expect_err("silence");
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
    let plain = || {
        Builder::without_servers()
            .admission(Admission::Redlock)
            .on(quorumlock::Servers::quorum(&urls))
    };
    works(&plain().expect("good URLs")).await;

    servers[0].kill().expect("ours");
    let error = plain().expect("good URLs").try_lock("x").await.expect_err("two of five");
    let gone = [urls[0].clone(), urls[3].clone(), urls[4].clone()];
    assert_reports(&error, &gone, 3);
    for url in &gone {
        assert!(error.to_string().contains(url.as_str()), "{error}");
    }
    servers[0].restart_empty().expect("ours");
    works(&plain().expect("good URLs")).await;
}

/// A waiter also waits for a server to come back: with and without a limit, and also behind another
/// waiter of the same process (SAFETY.md G6).
#[tokio::test]
async fn a_wait_outlasts_a_restart() {
    let Some(servers) = servers::for_test(3, &ServerOptions::default()) else { return };
    let single = Locker::single(servers[0].url());
    let quorum = Builder::without_servers()
        .admission(Admission::Redlock)
        .on(quorumlock::Servers::quorum(servers.urls()));
    for locker in [single, quorum] {
        let locker = locker.expect("good URLs");
        works(&locker).await;
        servers.iter().take(2).for_each(|server| server.kill().expect("ours"));
        let waits = [LONG_LEASE, LONG_LEASE]
            .map(|wait| tokio::spawn(locker.lock("x").wait(wait).into_future()));
        let waits = waits.into_iter().chain([tokio::spawn(locker.lock("y").into_future())]);
        let waits = waits.collect::<Vec<_>>();
        // By then the other waiters have noticed the outage, too, or will do so.
        let now = within("an answer", locker.lock("z").fail_fast()).await;
        assert!(matches!(now, Err(Error::Unreachable(_))), "{now:?}");
        tokio::task::yield_now().await;
        assert!(waits.iter().all(|wait| !wait.is_finished()), "it may come back");
        servers.iter().take(2).for_each(|server| server.restart_empty().expect("ours"));
        for wait in waits {
            let guard = within("after the restart", wait).await.expect("no panic").expect("free");
            guard.unlock().await.expect("held");
        }
    }
}

/// At the end of a wait the last poll decides: the nodes did not answer. The same holds for a
/// waiter behind it in the same process. An attempt that does not wait ends at once.
#[tokio::test]
async fn a_wait_for_dead_nodes_ends_at_its_bound_and_says_why() {
    let dead = DeadNode::new();
    let locker = Locker::single(dead.url()).expect("a good URL");
    let watch = Stopwatch::start();
    let bound = Duration::from_millis(600);
    let waits = [(); 2].map(|()| locker.lock("x").wait(bound).into_future());
    for answer in within("the bound", futures::future::join_all(waits)).await {
        assert!(matches!(answer, Err(Error::Unreachable(_))), "{answer:?}");
    }
    assert!(watch.elapsed() >= bound, "{:?}", watch.elapsed());
}

/// Asserts that the error names enough of `urls` to rule out a majority, each once, and no other
/// node. The attempt ends with the answer that decides it, so a slower node may be missing.
fn assert_reports(error: &Error, urls: &[String], needed: usize) {
    let Error::Unreachable(unreachable) = error else { panic!("{error:?}") };
    assert_eq!(unreachable.needed, needed, "{error}");
    let named = |url: &String| unreachable.nodes.iter().filter(|node| node.node == *url).count();
    let once = urls.iter().filter(|url| named(url) == 1).count();
    assert_eq!(once, unreachable.nodes.len(), "{error}");
    assert!(once > urls.len() - needed, "{error}");
}
