//! One subject alone, for a profiler:
//! `valgrind --tool=callgrind target/release/examples/profile default 1 2000`.

use std::io::Write as _;

use anyhow::{Context as _, Result, anyhow};
use clap::ValueEnum as _;
use futures::future::try_join_all;
use quorumlock_benches::bed::Bed;
use quorumlock_benches::subject::{Kind, Work};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let mut words = std::env::args().skip(1);
    let mut word = |what| words.next().context(what);
    let kind = Kind::from_str(&word("which subject")?, true).map_err(|error| anyhow!(error))?;
    let nodes = word("how many servers")?.parse()?;
    let pairs: usize = word("how many pairs")?.parse()?;
    let tasks: usize = word("how many tasks")?.parse()?;

    let mut bed = Bed::new(false);
    let group = bed.group(nodes).await?;
    let subject = kind.connect(&group.urls()).await?;
    let names: Vec<_> = (0..tasks).map(|task| format!("bench:{task}")).collect();
    try_join_all(names.iter().map(|name| subject.hold(name, Work(None)))).await?;
    let before = group.tally(kind.sends_set(nodes)).await?;
    try_join_all(names.iter().map(async |name| {
        for _ in 0..pairs / tasks {
            subject.hold(name, Work(None)).await?;
        }
        anyhow::Ok(())
    }))
    .await?;
    let after = group.tally(kind.sends_set(nodes)).await?;
    let (commands, cpu) = (after.commands - before.commands, after.cpu - before.cpu);
    let mut out = std::io::stdout();
    writeln!(out, "{commands} commands, {:.2} us of servers per pair", cpu / pairs as f64)?;
    for url in group.urls() {
        let mut watch = redis::Client::open(url)?.get_multiplexed_async_connection().await?;
        let info = redis::cmd("INFO").arg("commandstats").query_async::<String>(&mut watch).await?;
        let calls = info.lines().filter(|line| line.starts_with("cmdstat_"));
        calls.for_each(|line| drop(writeln!(out, "{line}")));
    }
    Ok(())
}
