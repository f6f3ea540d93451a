//! The examples of examples/interop, run beside our client: the two lines that a program writes
//! under the lock follow each other directly.

use std::io::Write as _;
use std::path::Path;
use std::time::Duration;

use quorumlock::{Layout, Locker, Servers};
use quorumlock_tests::{builder, within};
use tokio::process::Command;

use crate::client::program;
use crate::testbed::{LONG_LEASE, Testbed};

const NAME: &str = "invoice:7";
const ROUNDS: usize = 3;

#[tokio::test]
async fn java_shares_a_lock_with_us() {
    shares_a_lock("example-java", "redisson", 1).await;
}

#[tokio::test]
async fn go_shares_a_lock_with_us() {
    shares_a_lock("example-go", "redlock", 5).await;
}

#[tokio::test]
async fn node_shares_a_lock_with_us() {
    shares_a_lock("example-node", "redlock", 5).await;
}

#[tokio::test]
async fn python_shares_a_lock_with_us() {
    shares_a_lock("example-python", "redlock", 1).await;
}

async fn shares_a_lock(example: &str, layout: &'static str, servers: usize) {
    let Some(program) = program(example) else { return };
    let Some(bed) = Testbed::start(example, layout, servers, LONG_LEASE).await else { return };
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("invoices");
    std::fs::write(&file, "").expect("written");
    let theirs = async {
        for _ in 0..ROUNDS {
            let mut command = Command::new(&program);
            command.args([&bed.addresses(), NAME]).arg(&file).kill_on_drop(true);
            let status = within("the example", command.status()).await.expect("started");
            assert!(status.success(), "{status}");
        }
    };
    let locker = locker(&bed, layout);
    futures::future::join(theirs, writes(&locker, &file)).await;
    let text = std::fs::read_to_string(&file).expect("read");
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(lines.len(), 4 * ROUNDS, "{text}");
    for pair in lines.chunks(2) {
        let ours = |line: &str| line.starts_with("ours");
        assert_eq!(ours(pair[0]), ours(pair[1]), "{text}");
    }
}

fn locker(bed: &Testbed, layout: &str) -> Locker {
    let layout = if layout == "redisson" { Layout::Redisson } else { Layout::Redlock };
    let builder = builder().layout(layout);
    let urls = bed.servers.urls();
    let locker = match urls.as_slice() {
        [url] => builder.on(Servers::single(url)),
        urls => builder.admission(quorumlock::Admission::Redlock).on(Servers::quorum(urls)),
    };
    locker.expect("good URLs")
}

async fn writes(locker: &Locker, file: &Path) {
    for _ in 0..ROUNDS {
        let guard = locker.lock(NAME).await.expect("granted");
        for line in ["ours begins", "ours ends"] {
            let mut file = std::fs::OpenOptions::new().append(true).open(file).expect("opened");
            writeln!(file, "{line}").expect("written");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        guard.unlock().await.expect("held");
    }
}
