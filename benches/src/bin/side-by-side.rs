//! quorumlock beside the bare `redis` crate and other lock crates: see `make bench`.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::{Parser, Subcommand};
use quorumlock_benches::bed::Bed;
use quorumlock_benches::book::{Book, Row};
use quorumlock_benches::plan::{ALL, GROWTH, Plan};
use quorumlock_benches::report::{document, machine, svg, table};
use quorumlock_benches::target;
use quorumlock_benches::work::contended::HANDOVER;
use quorumlock_benches::work::held::{CALLS, CPU, Holder};
use quorumlock_benches::work::pairs::{P50, RATE};
use quorumlock_benches::work::{self, processes::Worker};

/// quorumlock beside the bare redis crate and other lock crates, in one run, on the same servers.
#[derive(Parser)]
struct Arguments {
    #[command(subcommand)]
    role: Option<Role>,
    /// Which workloads: P1 to P10, growth; separated by commas.
    #[arg(long, env = "ONLY", default_value = "")]
    only: String,
    /// How many rounds. Default 5, quick 3.
    #[arg(long, env = "ROUNDS")]
    rounds: Option<usize>,
    /// Short laps: for a look, not for figures.
    #[arg(long, env = "QUICK", value_parser = clap::builder::FalseyValueParser::new())]
    quick: bool,
    /// Let clients and servers run where they like. Latencies are then those of waking processors up.
    #[arg(long)]
    all_cores: bool,
    /// Where BENCHMARKS.md, benchmarks.json and the plots go; nowhere without it.
    #[arg(long)]
    out: Option<PathBuf>,
}

/// What this program is when it runs itself.
#[derive(Subcommand)]
enum Role {
    /// One of several processes that want the same lock.
    #[command(hide = true)]
    Worker(Worker),
    /// The process that holds many locks.
    #[command(hide = true)]
    Holder(Holder),
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let text = match &arguments.role {
        Some(Role::Worker(worker)) => worker.run().await?,
        Some(Role::Holder(holder)) => holder.run().await?,
        None => measure(&arguments).await?,
    };
    Ok(writeln!(std::io::stdout(), "{text}")?)
}

async fn measure(arguments: &Arguments) -> Result<String> {
    let plan = Plan::new(Some(&arguments.only), arguments.rounds, arguments.quick);
    let mut plan = plan.map_err(anyhow::Error::msg)?;
    let pinned = !arguments.all_cores;
    let (mut bed, mut book) = (Bed::new(pinned), Book::default());
    let mut failed = None;
    for id in plan.ids.clone() {
        if let Err(error) = work::run(id, &mut bed, &plan, &mut book).await {
            // What the others measured is not lost, nor what was written of this one before.
            plan.ids.retain(|other| *other != id);
            failed = Some(error.context(id));
            writeln!(std::io::stderr(), "{id} failed, and is left out")?;
        }
    }
    let record = machine::record(bed.version().as_deref(), plan.rounds, plan.quick, pinned);
    let rows = book.rows();
    let targets = table::verdicts(&target::judge(&book));
    let figures = table::rows(&rows);
    if let Some(out) = &arguments.out {
        for &id in &plan.ids {
            let of_it: Vec<_> = rows.iter().filter(|row| row.id == id).cloned().collect();
            plot(out, id, &of_it)?;
        }
        write_json(&out.join("benchmarks.json"), &plan, rows)?;
        write_document(&out.join("BENCHMARKS.md"), &plan, &record, &book)?;
    }
    let text = format!("{figures}\n{targets}\n{record}");
    match failed {
        None => Ok(text),
        Some(error) => {
            writeln!(std::io::stdout(), "{text}")?;
            Err(error)
        }
    }
}

/// What this run did not measure stays as it was.
fn write_json(path: &Path, plan: &Plan, rows: Vec<Row>) -> Result<()> {
    let old = fs::read_to_string(path).unwrap_or_else(|_| "[]".to_owned());
    let old: Vec<Row> = serde_json::from_str(&old).unwrap_or_default();
    let kept = old.into_iter().filter(|row| !plan.ids.contains(&row.id.as_str()));
    let mut all: Vec<_> = kept.chain(rows).collect();
    let known: Vec<_> = ALL.into_iter().chain([GROWTH]).collect();
    all.sort_by_key(|row| known.iter().position(|id| *id == row.id));
    let lines: Vec<_> = all.iter().map(serde_json::to_string).collect::<Result<_, _>>()?;
    Ok(fs::write(path, format!("[\n{}\n]\n", lines.join(",\n")))?)
}

/// One part for each workload, so that a run of some leaves the others alone.
fn write_document(path: &Path, plan: &Plan, record: &str, book: &Book) -> Result<()> {
    let mut text = fs::read_to_string(path).unwrap_or_else(|_| "# Benchmarks\n".to_owned());
    let (rows, verdicts) = (book.rows(), target::judge(book));
    for &id in &plan.ids {
        let rows: Vec<_> = rows.iter().filter(|row| row.id == id).cloned().collect();
        let mut part = format!("{record}\n");
        if id == GROWTH {
            for (name, (title, ..)) in growth(&rows) {
                part += &format!("![{title}](benchmarks/{name})\n\n");
            }
        }
        let verdicts: Vec<_> =
            verdicts.iter().filter(|verdict| verdict.target.key.id == id).cloned().collect();
        if !verdicts.is_empty() {
            part += &format!("{}\n", table::verdicts(&verdicts));
        }
        part += &format!(
            "<details><summary>All figures</summary>\n\n{}\n</details>\n",
            table::rows(&rows)
        );
        text = document::replace(&text, id, &part);
    }
    Ok(fs::write(path, text)?)
}

fn plot(out: &Path, id: &str, rows: &[Row]) -> Result<()> {
    let dir = out.join("benchmarks");
    fs::create_dir_all(&dir)?;
    if id != GROWTH {
        let rows: Vec<_> = rows.iter().collect();
        let title = format!("{id}: median, with the least and the largest of all rounds");
        return Ok(fs::write(dir.join(format!("{id}.svg")), svg::bars(&title, &rows))?);
    }
    for (name, (title, over, rows)) in growth(rows) {
        fs::write(dir.join(name), svg::curves(&title, &over, &rows))?;
    }
    Ok(())
}

/// The figures of which a curve is drawn.
const CURVES: [&str; 5] = [P50, RATE, HANDOVER, CALLS, CPU];

type Curve<'a> = (String, String, Vec<(f64, &'a Row)>);

/// One plot per figure, by the name of its file: against servers where one task asks, else against
/// tasks, waiters or locks.
fn growth(rows: &[Row]) -> BTreeMap<String, Curve<'_>> {
    let mut curves = BTreeMap::<_, Curve<'_>>::new();
    for row in rows.iter().filter(|row| CURVES.contains(&row.metric.as_str())) {
        let (over, x) = match (row.tasks, row.metric.as_str()) {
            (1, _) => ("nodes".to_owned(), row.nodes),
            (tasks, CALLS | CPU) => ("held locks".to_owned(), tasks),
            (tasks, HANDOVER) => ("waiters".to_owned(), tasks),
            (tasks, _) => (format!("tasks, nodes {}", row.nodes), tasks),
        };
        let words = format!("growth {} {over}", row.metric);
        let words = words.split(|c: char| !c.is_ascii_alphanumeric());
        let words: Vec<_> = words.filter(|word| !word.is_empty()).collect();
        let title = format!("{} ({}) against {over}", row.metric, row.unit);
        let curve = curves.entry(words.join("-") + ".svg");
        curve.or_insert((title, over, Vec::new())).2.push((x as f64, row));
    }
    curves
}
