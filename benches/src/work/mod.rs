//! The workloads.

pub mod contended;
pub mod crowd;
pub mod faults;
pub mod growth;
pub mod held;
pub mod layers;
pub mod pairs;
pub mod processes;
mod reel;

use anyhow::{Result, bail};

use crate::bed::Bed;
use crate::book::{Book, Key};
use crate::cpu::Core;
use crate::plan::{GROWTH, Plan};
use crate::subject::Kind;

/// Runs one workload of the plan.
///
/// # Errors
/// If the servers fail; a subject that fails has no figures, and stderr says why.
pub async fn run(id: &'static str, bed: &mut Bed, plan: &Plan, book: &mut Book) -> Result<()> {
    // Who waits for each answer before it asks again leaves the processor to the servers meanwhile.
    // Many tasks work while the servers do.
    bed.clients_on(if matches!(id, "P2" | "P4") { Core::Clients } else { Core::Servers });
    match id {
        "P1" => pairs::alone("P1", 1, bed, plan, book).await,
        "P2" => pairs::many("P2", 1, bed, plan, book).await,
        "P3" => pairs::alone("P3", 5, bed, plan, book).await,
        "P4" => pairs::many("P4", 5, bed, plan, book).await,
        "P5" => contended::run(bed, plan, book).await,
        "P6" => processes::run(bed, plan, book).await,
        "P7" => crowd::run(bed, plan, book).await,
        "P8" => faults::run(bed, plan, book).await,
        "P9" => held::run(bed, plan, book).await,
        "P10" => layers::run(bed, plan, book).await,
        GROWTH => growth::run(bed, plan, book).await,
        _ => bail!("{id} is no workload"),
    }
}

/// Where the figures of one lap go.
struct Page<'a> {
    book: &'a mut Book,
    round: usize,
    id: &'static str,
    kind: Kind,
    nodes: usize,
    tasks: usize,
}

impl Page<'_> {
    fn enter(&mut self, metric: &str, unit: &str, value: f64) {
        if value.is_nan() {
            return;
        }
        let key = Key {
            id: self.id.to_owned(),
            subject: self.kind.name().to_owned(),
            nodes: self.nodes,
            tasks: self.tasks,
            metric: metric.to_owned(),
            unit: unit.to_owned(),
        };
        self.book.enter(self.round, key, value);
    }
}

/// Says on stderr what goes on.
fn progress(id: &str, round: usize, what: &str) {
    eprintln!("{id} round {}: {what}", round + 1);
}
