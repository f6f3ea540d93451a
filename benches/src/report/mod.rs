//! What was measured, for people: one page, and a table and a plot for each workload. All of it is
//! made from the results, so that nothing of it goes stale.

mod etcd;
mod languages;
pub mod machine;
mod page;
mod svg;
mod table;

use std::fs;
use std::path::Path;

use anyhow::Result;
use quorumlock_lab::svg::Figure;

use crate::plan::{ALL, Workload};
use crate::results::Results;

/// Beside the page: tables, plots, and [`RESULTS`].
pub const DIR: &str = "benchmarks";
/// In [`DIR`].
pub const RESULTS: &str = "results.json";
/// In [`DIR`]: what the page leaves out.
const DETAILS: &str = "details.md";

/// Writes everything.
///
/// # Errors
/// If that is not possible.
pub fn write(results: &Results, out: &Path) -> Result<()> {
    let dir = out.join(DIR);
    fs::create_dir_all(&dir)?;
    results.write(&dir.join(RESULTS))?;
    fs::write(out.join("BENCHMARKS.md"), page::render(results))?;
    fs::write(dir.join(DETAILS), page::details(results))?;
    fs::write(dir.join("pairs.md"), table::ratios(results))?;
    for workload in ALL.iter().filter(|workload| results.rows(workload.id).next().is_some()) {
        let plots = plots(results, workload);
        let images = plots.iter().map(|Figure { id, .. }| format!("![{id}.svg]({id}.svg)\n\n"));
        let text = table::figures(results, workload, &images.collect::<String>());
        fs::write(dir.join(format!("{}.md", workload.id)), text)?;
        for plot in &plots {
            fs::write(dir.join(format!("{}.svg", plot.id)), plot.standalone())?;
        }
    }
    Ok(())
}

/// The id of each is the name of its file.
fn plots(results: &Results, workload: &Workload) -> Vec<Figure> {
    if workload.id == "growth" {
        return svg::growth(results, workload);
    }
    vec![svg::bars(results, workload)]
}
