//! Runs one subject alone, with fresh names, for a profiler: `valgrind --tool=callgrind
//! target/release/examples/profile default 1 2000 1`.

use std::io::Write as _;

use anyhow::{Context as _, Result, anyhow};
use clap::ValueEnum as _;
use futures::future::try_join_all;
use quorumlock_benches::subject::{Kind, Work};
use quorumlock_benches::testbed::Testbed;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let mut words = std::env::args().skip(1);
    let mut word = |what| words.next().context(what);
    let kind = Kind::from_str(&word("which subject")?, true).map_err(|error| anyhow!(error))?;
    let nodes = word("how many servers")?.parse()?;
    let pairs: usize = word("how many pairs")?.parse()?;
    let tasks: usize = word("how many tasks")?.parse()?;

    let group = Testbed::of(None, false).await?.fresh(nodes).await?;
    let subject = kind.connect(group.urls()).await?;
    let names: Vec<_> = (0..pairs).map(|name| format!("invoice:{name}")).collect();
    subject.hold("bench:warm", Work(None)).await?;
    let before = group.usage().await?;
    try_join_all(names.chunks(pairs.div_ceil(tasks)).map(async |names| {
        for name in names {
            subject.hold(name, Work(None)).await?;
        }
        anyhow::Ok(())
    }))
    .await?;
    let after = group.usage().await?;
    let per_pair = |from: f64, to: f64| (to - from) / pairs as f64;
    let requests = per_pair(before.requests, after.requests);
    let cpu = per_pair(before.cpu, after.cpu);
    writeln!(std::io::stdout(), "{requests:.2} requests, {cpu:.2} us of servers per pair")?;
    for url in group.urls() {
        let client = redis::Client::open(url.as_str())?;
        let mut watch = client.get_multiplexed_async_connection().await?;
        let info = redis::cmd("INFO").arg("commandstats").query_async::<String>(&mut watch).await?;
        let calls = info.lines().filter(|line| line.starts_with("cmdstat_"));
        calls.for_each(|line| drop(writeln!(std::io::stdout(), "{line}")));
    }
    Ok(())
}
