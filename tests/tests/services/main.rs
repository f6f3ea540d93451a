//! Servers that lack a command, as managed services do: what works, and what an error says. OPERATIONS
//! prints the table, which `make tables` writes from these tests.

use std::path::Path;
use std::time::Duration;
use std::{env, fs};

use futures::future::join_all;
use quorumlock::{Admission, Builder, Error, Locker, NodeProblem, Replicas};
use quorumlock_testbed::servers::{ServerOptions, Servers, for_test};
use quorumlock_tests::{Plain, builder, eventually, within};

/// What services forbid, by their documentation and issue trackers.
struct Restriction {
    what: &'static str,
    found_at: &'static str,
    /// The server refuses these commands.
    lacks: &'static [&'static str],
}

const RESTRICTIONS: [Restriction; 6] = [
    Restriction {
        what: "`INFO` refused, inside scripts or everywhere",
        found_at: "Redis Software, Redis Cloud, Azure Managed Redis",
        lacks: &["info"],
    },
    Restriction {
        what: "no `WAIT`",
        found_at: "Redis Cloud, ElastiCache Serverless, Alibaba Cloud's proxy",
        lacks: &["wait"],
    },
    Restriction {
        what: "`CONFIG`, `ACL`, `MIGRATE`, `SAVE`, `SHUTDOWN` refused",
        found_at: "ElastiCache, Azure Cache, most others",
        lacks: &["config", "acl", "migrate", "save", "bgsave", "shutdown", "debug"],
    },
    Restriction {
        what: "`SELECT`, `ROLE`, `RESTORE` refused",
        found_at: "Redis Software, its Active-Active databases",
        lacks: &["select", "role", "restore"],
    },
    Restriction {
        what: "no transactions, `CLIENT` refused",
        found_at: "some proxies",
        lacks: &["multi", "exec", "client"],
    },
    Restriction {
        what: "no scripts",
        found_at: "Oracle OCI Cache, sharded",
        lacks: &["eval", "evalsha", "script"],
    },
];

/// How locks are used, as the columns of the table.
const USES: [&str; 4] =
    ["one server", "`replicas(1)`", "a quorum, strict admission", "a quorum, plain Redlock"];

const BEGIN: &str = "<!-- The table of services is printed by `make tables`. -->\n";
const END: &str = "<!-- End of the table of services. -->\n";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn operations_prints_what_works_without_the_commands_of_each_service() {
    let mut table = format!("\n| property | found at | {} |\n|---|---|", USES.join(" | "));
    table += &"---|".repeat(USES.len());
    let rows = join_all(RESTRICTIONS.iter().map(row)).await.into_iter();
    let Some(rows) = rows.collect::<Option<String>>() else { return };
    table += &rows;
    table += "\n\n";
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/OPERATIONS.md");
    let page = fs::read_to_string(&file).expect("the page");
    let (before, rest) = page.split_once(BEGIN).expect("the begin of the table");
    let (printed, after) = rest.split_once(END).expect("the end of the table");
    if env::var_os("QUORUMLOCK_UPDATE_TABLES").is_some() {
        return fs::write(file, [before, BEGIN, &table, END, after].concat()).expect("written");
    }
    assert_eq!(printed, table, "docs/OPERATIONS.md differs: `make tables` writes it");
}

/// A row of the table; `None` if this machine has no server program.
async fn row(restriction: &Restriction) -> Option<String> {
    let Restriction { what, found_at, lacks } = restriction;
    let (servers, urls) = without(lacks).await?;
    let answers = observe(&servers, &urls).await.map(|answer| match answer {
        Ok(()) => "works".to_owned(),
        Err(problem) => format!("no: `{}`", name_of(&problem)),
    });
    Some(format!("\n| {what} | {found_at} | {} |", answers.join(" | ")))
}

/// Four servers, and the URLs of a user who lacks the commands.
async fn without(lacks: &[&str]) -> Option<(Servers, Vec<String>)> {
    let servers = for_test(4, &ServerOptions::default())?;
    let mut urls = Vec::new();
    for server in &servers {
        let lacks: Vec<_> = lacks.iter().map(|command| format!("-{command}")).collect();
        let mut user = vec!["acl", "SETUSER", "locker", "on", ">p", "~*", "&*", "+@all"];
        user.extend(lacks.iter().map(String::as_str));
        Plain::to(server.url()).await.ask::<String>(&user).await;
        urls.push(format!("redis://locker:p@{}", server.addr().expect("ours")));
    }
    Some((servers, urls))
}

/// A builder whose timeouts a loaded machine does not exceed.
fn patient() -> Builder {
    let timeout = Duration::from_secs(10);
    builder().connect_timeout(timeout).answer_timeout(timeout)
}

/// What each use of locks comes to, in the order of [`USES`]. The fourth server is a replica of the third
/// at first.
async fn observe(servers: &Servers, urls: &[String]) -> [Result<(), NodeProblem>; 4] {
    let port = servers[2].addr().expect("ours").port().to_string();
    let copy = Plain::to(servers[3].url()).await;
    copy.ask::<String>(&["REPLICAOF", "127.0.0.1", &port]).await;
    let master = Plain::to(servers[2].url()).await;
    // A replica that has the data is not yet one that the master counts.
    eventually("synchronised", async || {
        master.ask::<String>(&["SET", "seen", "yes"]).await;
        (master.ask::<i64>(&["WAIT", "1", "100"]).await == 1).then_some(())
    })
    .await;
    let single = use_lock(patient().on(quorumlock::Servers::single(&urls[0]))).await;
    let copied = use_lock(
        patient().replicas(Replicas::AtLeast(1)).on(quorumlock::Servers::single(&urls[2])),
    )
    .await;
    copy.ask::<String>(&["REPLICAOF", "NO", "ONE"]).await;
    // Before the servers have the record of a cluster, which keeps plain Redlock out (PROTOCOL.md ADM9).
    let plain = use_lock(
        patient().admission(Admission::Redlock).on(quorumlock::Servers::quorum(&urls[..3])),
    )
    .await;
    let strict = patient()
        .on(quorumlock::Servers::quorum([&urls[0], &urls[1], &urls[3]]))
        .expect("good URLs");
    let admitted = within("an answer", strict.admit_nodes()).await.map_err(problem_of);
    let strict = match admitted {
        Ok(()) => use_lock(Ok(strict)).await,
        Err(problem) => Err(problem),
    };
    [single, copied, strict, plain]
}

/// Takes a lock that another task waits for, and releases it.
async fn use_lock(locker: Result<Locker, Error>) -> Result<(), NodeProblem> {
    let locker = locker.expect("good URLs");
    let guard = within("an answer", locker.try_lock("x")).await.map_err(problem_of)?;
    let guard = guard.expect("free");
    let other = tokio::spawn(locker.lock("x").lease(Duration::from_secs(60)).into_future());
    guard.unlock().await.map_err(problem_of)?;
    let guard = within("granted", other).await.expect("no panic").map_err(problem_of)?;
    assert!(locker.mutex("x").holder().await.map_err(problem_of)?.is_some());
    guard.unlock().await.map_err(problem_of)
}

fn problem_of(error: Error) -> NodeProblem {
    match error {
        Error::Refused(none) | Error::Unreachable(none) => none.nodes[0].problem.clone(),
        error => panic!("{error}"),
    }
}

/// The problem as `NodeProblem::Permission`.
fn name_of(problem: &NodeProblem) -> String {
    let text = format!("{problem:?}");
    let name = text.split(['(', ' ']).next().unwrap_or_default();
    format!("NodeProblem::{name}")
}
