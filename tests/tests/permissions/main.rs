//! Servers that forbid a command: the table of quorumlock-redis says what a locker lacks without each,
//! these tests take each away, and OPERATIONS prints the table.

mod log;
mod page;

use std::time::Duration;

use quorumlock::{Admission, Builder, Error, Layout, Locker, NodeProblem, NodeReport};
use quorumlock_redis::permissions::{Call, PERMISSIONS, Without};
use quorumlock_testbed::servers::{self, ServerOptions, Servers};
use quorumlock_tests::{Plain, eventually, within};

/// Far longer than any wait here: a waiter gets the lock by a release, or not at all.
const LONG_LEASE: Duration = Duration::from_secs(60);

#[tokio::test]
async fn one_server_without_one_command_does_what_the_table_says() {
    let Some(bed) = Bed::start(1, Builder::default()).await else { return };
    for row in PERMISSIONS {
        bed.observe(&["&*", &format!("-{}", row.command)], row.single).await;
    }
}

#[tokio::test]
async fn a_quorum_without_one_command_does_what_the_table_says() {
    let Some(bed) = Bed::start(3, Builder::default()).await else { return };
    for row in PERMISSIONS {
        bed.observe(&["&*", &format!("-{}", row.command)], row.quorum).await;
    }
}

/// `resetchannels` is the default of new users since Redis 7.
#[tokio::test]
async fn a_user_without_channels_releases_and_its_waiters_poll() {
    for nodes in [1, 3] {
        for layout in [Layout::Redisson, Layout::Redlock] {
            let Some(bed) = Bed::start(nodes, Builder::without_servers().layout(layout)).await
            else {
                return;
            };
            bed.observe(&["resetchannels"], Without::Works("waiters poll")).await;
            bed.observe(&["&*", "-publish"], Without::Works("waiters poll")).await;
        }
    }
}

/// A handoff that the server does not let the release announce is undone: the key would keep all
/// others out for a whole lease.
#[tokio::test]
async fn a_release_that_may_not_publish_leaves_the_name_free() {
    for layout in [Layout::Redisson, Layout::Redlock] {
        let Some(bed) = Bed::start(1, Builder::without_servers().layout(layout)).await else {
            return;
        };
        let (holder, waiter) = (bed.locker(), bed.locker());
        bed.allow(&["&*"]).await;
        let guard = within("free", holder.lock("x").lease(LONG_LEASE)).await.expect("granted");
        let waiting = tokio::spawn(waiter.lock("x").lease(LONG_LEASE).into_future());
        bed.awaits_queue("x").await;
        bed.allow(&["&*", "-publish"]).await;
        // The release learns of the waiter, and hands the name off.
        assert!(holder.try_lock("x").await.expect("an answer").is_none());
        guard.unlock().await.expect("released");
        let guard = within("it polls", waiting).await.expect("no panic").expect("free");
        guard.unlock().await.expect("released");
    }
}

/// The commands of a script that fails are not undone: a hash without an expiry would keep the name
/// taken for ever if its client ended before it released it.
#[tokio::test]
async fn a_grant_that_fails_halfway_leaves_no_key() {
    let Some(bed) = Bed::start(1, Builder::without_servers().scripts_only(true)).await else {
        return;
    };
    bed.plain[0].log_all().await;
    let guard = within("free", bed.locker().lock("x").lease(LONG_LEASE)).await.expect("granted");
    let is_acquire = |words: &Vec<String>| words[0] == "EVALSHA" && words[2..4] == ["2", "x"];
    let mut acquire = bed.plain[0].slow_log().await.into_iter().find(is_acquire).expect("logged");
    guard.unlock().await.expect("released");
    bed.allow(&["&*", "-pexpire"]).await;
    let user = Plain::to(&bed.urls[0]).await;
    acquire[3] = "y".to_owned();
    let acquire: Vec<_> = acquire.iter().map(String::as_str).collect();
    let error = user.send::<i64>(&acquire).await.expect_err("refused");
    assert!(error.to_string().contains("script"), "{error}");
    assert!(!bed.plain[0].exists("y").await);
}

/// Without a transaction voting scripts are loaded by EVAL, and any run of a server may have them: here
/// two nodes are copies of others, with their records (PROTOCOL.md ADM6).
#[tokio::test]
async fn votes_that_no_script_cache_proves_compare_the_run() {
    for without in ["-multi", "-exec", "-script"] {
        let Some(bed) = Bed::start(3, Builder::default()).await else { return };
        bed.allow(&["&*", without]).await;
        let locker = bed.locker();
        let guard = within("free", locker.lock("x").lease(LONG_LEASE)).await.expect("granted");
        for node in &bed.plain[..2] {
            node.ask::<i64>(&["HSET", "quorumlock:node", "life", "another run"]).await;
        }
        let error = within("an answer", locker.lock("y").fail_fast()).await.expect_err("no votes");
        let problems: Vec<_> = reports(&error).iter().map(|report| &report.problem).collect();
        assert_eq!(problems, [&NodeProblem::NotAdmitted; 2], "{without}: {error}");
        drop(guard);
    }
}

/// `SCRIPT FLUSH` by somebody else, where the user may not use `SCRIPT LOAD`.
#[tokio::test]
async fn scripts_that_a_server_forgets_are_loaded_by_eval_again() {
    for nodes in [1, 3] {
        let by_script = Builder::without_servers().scripts_only(true);
        let Some(bed) = Bed::start(nodes, by_script).await else { return };
        bed.allow(&["&*", "-script"]).await;
        let locker = bed.locker();
        let guard = within("free", locker.lock("x").lease(LONG_LEASE)).await.expect("granted");
        for _ in 0..3 {
            for node in &bed.plain {
                node.ask::<String>(&["SCRIPT", "FLUSH"]).await;
            }
            within("an answer", guard.renew()).await.expect("renewed");
            let other = within("free", locker.lock("y").lease(LONG_LEASE)).await.expect("granted");
            within("an answer", other.unlock()).await.expect("released");
        }
        within("an answer", guard.unlock()).await.expect("released");
    }
}

/// By INFO a master is told from its replicas.
#[tokio::test]
async fn a_locker_with_several_addresses_says_that_it_needs_info() {
    let Some(bed) = Bed::start(2, Builder::without_servers().admission(Admission::Redlock)).await
    else {
        return;
    };
    bed.allow(&["&*", "-info"]).await;
    let locker = Locker::new(quorumlock::Servers::replicated(&bed.urls)).expect("good URLs");
    let error = within("an answer", locker.lock("x").fail_fast()).await.expect_err("refused");
    let NodeProblem::NoMaster(found) = &reports(&error)[0].problem else { panic!("{error}") };
    let about_info = |report: &NodeReport| matches!(&report.problem, NodeProblem::Permission(text) if text.starts_with("INFO"));
    assert!(found.iter().all(about_info), "{error}");
    // A quorum without admission does without.
    let quorum = bed.locker();
    let guard = within("free", quorum.lock("x").lease(LONG_LEASE)).await.expect("granted");
    within("an answer", guard.unlock()).await.expect("released");
}

/// A member of a Redis Cluster serves only the names of its own slots.
#[tokio::test]
async fn a_server_in_cluster_mode_is_refused_whatever_the_name() {
    let args = ["--cluster-enabled", "yes", "--cluster-require-full-coverage", "no"];
    let args = args.map(str::to_owned).to_vec();
    let options = ServerOptions { args, ..ServerOptions::default() };
    let Some(servers) = servers::for_test(1, &options) else { return };
    let plain = Plain::to(servers[0].url()).await;
    plain.ask::<String>(&["CLUSTER", "ADDSLOTSRANGE", "0", "8000"]).await;
    eventually("it serves its slots", async || {
        let info: String = plain.ask(&["CLUSTER", "INFO"]).await;
        info.contains("cluster_state:ok").then_some(())
    })
    .await;
    let user = ["ACL", "SETUSER", "u", "reset", "on", ">p", "~*", "&*", "+@all"];
    for without in ["+info", "-info"] {
        plain.ask::<String>(&[&user[..], &[without]].concat()).await;
        let url = format!("redis://u:p@{}", servers[0].addr().expect("ours"));
        for i in 0..16 {
            let locker = Locker::single(&url).expect("a good URL");
            let error = match within("an answer", locker.lock(format!("name/{i}"))).await {
                // Without INFO the mode shows by the first name of another slot.
                Ok(_) if without == "-info" => continue,
                granted => granted.expect_err("no lock of a cluster"),
            };
            assert_eq!(reports(&error)[0].problem, NodeProblem::ClusterMode, "{without}: {error}");
        }
    }
}

/// Servers on which the user `u` lacks something.
struct Bed {
    /// Stopped when this is dropped.
    _servers: Servers,
    plain: Vec<Plain>,
    urls: Vec<String>,
    builder: Builder,
}

impl Bed {
    async fn start(nodes: usize, builder: Builder) -> Option<Self> {
        Self::with(nodes, &ServerOptions::default(), builder).await
    }

    async fn with(nodes: usize, options: &ServerOptions, builder: Builder) -> Option<Self> {
        let servers = servers::for_test(nodes, options)?;
        let (mut plain, mut urls) = (Vec::new(), Vec::new());
        for server in servers.iter() {
            plain.push(Plain::to(server.url()).await);
            urls.push(format!("redis://u:p@{}", server.addr().expect("ours")));
        }
        let bed = Self { _servers: servers, plain, urls, builder };
        bed.admit().await;
        Some(bed)
    }

    fn locker(&self) -> Locker {
        let built = match &self.urls[..] {
            [url] => self.builder.clone().on(quorumlock::Servers::single(url)),
            urls => self.builder.clone().on(quorumlock::Servers::quorum(urls)),
        };
        built.expect("good URLs")
    }

    /// Gives the user all commands and keys, then what `rights` says.
    async fn allow(&self, rights: &[&str]) {
        for node in &self.plain {
            let user = ["ACL", "SETUSER", "u", "reset", "on", ">p", "~*", "+@all"];
            // A server refuses to take away a command that it does not know.
            if node.send::<String>(&[&user[..], rights].concat()).await.is_err() {
                node.ask::<String>(&[&user[..], &["&*"]].concat()).await;
            }
        }
    }

    /// Admits the nodes of a quorum with all rights.
    async fn admit(&self) {
        self.allow(&["&*"]).await;
        if self.urls.len() > 2 {
            within("admission", self.locker().force_admit_nodes()).await.expect("all nodes are up");
        }
    }

    async fn awaits_queue(&self, name: &str) {
        let key = format!("quorumlock:waiters:{{{name}}}");
        eventually("it waits", async || self.plain[0].exists(&key).await.then_some(())).await;
    }

    /// Makes every call with these rights, and compares what works with the table.
    async fn observe(&self, rights: &[&str], expected: Without) {
        self.allow(rights).await;
        let (holder, waiter) = (self.locker(), self.locker());
        let answer = &format!("an answer, {rights:?}");
        let locked = within(answer, holder.lock("x").lease(LONG_LEASE)).await;
        if expected == Without::Refused {
            let error = locked.expect_err("refused");
            assert!(is_permission(&error), "{rights:?}: {error}");
            assert!(!error.is_retryable(), "{rights:?}: {error}");
        } else {
            let guard = locked.unwrap_or_else(|error| panic!("{rights:?}: {error}"));
            let fails = match expected {
                Without::Fails(calls) => calls,
                _ => &[],
            };
            let check = |call, result: Result<(), Error>| match (fails.contains(&call), result) {
                (false, Ok(())) => {}
                (true, Err(error)) if is_permission(&error) => {}
                (_, result) => panic!("{rights:?}: {call:?}: {result:?}"),
            };
            within("an answer", guard.renew()).await.expect("what is granted is renewed");
            check(Call::Holder, within("an answer", holder.mutex("x").holder()).await.map(|_| ()));
            // A call that the server refuses ends by that, however long the answer takes.
            let wait = match fails.contains(&Call::Wait) {
                true => LONG_LEASE,
                false => Duration::from_millis(30),
            };
            let waits = waiter.lock("x").wait(wait);
            let busy = within("an answer", waits).await.map(|_| panic!("{rights:?}: it is held"));
            check(Call::Wait, busy.or_else(|e| if e.is_busy() { Ok(()) } else { Err(e) }));
            if fails.contains(&Call::Wait) {
                within("an answer", guard.unlock()).await.expect("released");
            } else {
                let guard = self.hand_over(guard, &waiter, rights).await;
                let forced = within("an answer", holder.mutex("x").force_unlock()).await;
                check(Call::ForceUnlock, forced.map(|_| ()));
                if !fails.contains(&Call::ForceUnlock) {
                    drop(guard);
                } else {
                    within("an answer", guard.unlock()).await.expect("released");
                }
            }
            if self.urls.len() > 1 {
                check(
                    Call::Admit,
                    within("an answer", holder.force_admit_nodes()).await.map(|_| ()),
                );
            }
        }
        holder.close().await;
        waiter.close().await;
        self.nothing_is_left(rights).await;
    }

    /// The waiter gets the lock that the guard releases.
    async fn hand_over(
        &self,
        guard: quorumlock::Guard,
        waiter: &Locker,
        rights: &[&str],
    ) -> quorumlock::Guard {
        let before = self.scripts_run().await;
        let waiting = tokio::spawn(waiter.lock("x").lease(LONG_LEASE).into_future());
        eventually("it asks", async || (self.scripts_run().await > before).then_some(())).await;
        within("an answer", guard.unlock()).await.expect("released");
        let next = within("the lock", waiting).await.expect("no panic");
        next.unwrap_or_else(|error| panic!("{rights:?}: {error}"))
    }

    /// How many scripts the first node ran by digest: the lockers here are connected already, so that
    /// each is a request about a lock.
    async fn scripts_run(&self) -> u64 {
        let stats: String = self.plain[0].ask(&["INFO", "commandstats"]).await;
        let line = stats.lines().find_map(|line| line.strip_prefix("cmdstat_evalsha:calls="));
        line.and_then(|line| line.split(',').next()?.parse().ok()).unwrap_or(0)
    }

    /// No key stays without an expiry but marks and admission records.
    async fn nothing_is_left(&self, rights: &[&str]) {
        for node in &self.plain {
            for key in node.ask::<Vec<String>>(&["KEYS", "*"]).await {
                let ours = key.starts_with("quorumlock:token:") || key == "quorumlock:node";
                assert!(ours || node.pttl(&key).await != -1, "{rights:?}: {key} stays for ever");
            }
        }
    }
}

fn is_permission(error: &Error) -> bool {
    let Error::Refused(none) = error else { return false };
    none.nodes.iter().all(|report| matches!(report.problem, NodeProblem::Permission(_)))
}

fn reports(error: &Error) -> &[NodeReport] {
    let (Error::Unreachable(none) | Error::Refused(none)) = error else { panic!("{error:?}") };
    &none.nodes
}
