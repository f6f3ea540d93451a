use std::collections::BTreeMap;

use super::super::libraries::{LIBRARIES_LEGEND, reasons, rows};
use super::super::results::{Placed, scenarios};
use super::results::{invocation, item};
use super::text::{escaped, plain_spaces, table, wrapped};
use crate::promise::Promise;
use crate::record::{Lab, LibraryFacts};

const HEAD: &str = "\
<!--
Generated from the lab.json of the run; do not edit. To write it:
quorumlock-lab report --markdown DIR > docs/lab/LIBRARIES.md
-->
# Lock libraries under the same faults
";

const MEANING: &str = "
[SCENARIOS.md](SCENARIOS.md) says what each scenario does, [WORKERS.md](WORKERS.md) how a library takes
part. S is one server, RS a master with a replica behind sentinels, Q5 a quorum of five; WS (a grant
waits for the replicas) and QQ (a node proves its memory before it votes) are of quorumlock alone. What
was not seen in these runs may still happen.

## Where exclusion fell

";

/// The page `docs/lab/LIBRARIES.md`: the locks of several libraries in the same scenarios.
#[must_use]
pub fn libraries_page(labs: &[Lab]) -> String {
    let runs = labs.iter().flat_map(|lab| &lab.runs).map(|run| Placed { source: 0, run });
    let scenarios = scenarios(runs);
    let mut page = HEAD.to_owned();
    page.extend(labs.iter().map(invocation));
    let rows = rows(&scenarios);
    let rows = rows.iter().map(|row| row.iter().map(|cell| escaped(&plain_spaces(cell))).collect());
    page += MEANING;
    page += &format!("{}\n\n", wrapped("", LIBRARIES_LEGEND));
    page += &table(&rows.collect::<Vec<_>>());
    page += "\n| scenario | what happens |\n| --- | --- |\n";
    page.extend(
        scenarios.iter().map(|scenario| {
            format!("| {} | {} |\n", escaped(scenario.id), escaped(scenario.title))
        }),
    );
    page + &promises(labs) + &left_out(labs)
}

/// The libraries, and what their own pages say.
fn promises(labs: &[Lab]) -> String {
    let facts = labs.iter().flat_map(|lab| &lab.runs).filter_map(|run| run.library.as_ref());
    let facts = facts.map(|facts| (&facts.name, facts)).collect::<BTreeMap<_, _>>();
    let about = |(name, facts): (&String, &LibraryFacts)| {
        let LibraryFacts { library, version, options, .. } = facts;
        let says = Promise::of(library).map_or_else(
            || "its pages were not read, so no promise is known".to_owned(),
            |Promise { source, says, .. }| format!("{says} ({source})"),
        );
        let options = match options.is_empty() {
            true => String::new(),
            false => format!(
                " Options: {}.",
                escaped(&serde_json::Value::from(options.clone()).to_string())
            ),
        };
        let who = escaped(&format!("{name}: {library} {version}"));
        wrapped("- ", &format!("{who}. {says}{options}")) + "\n"
    };
    format!("\n## What their own pages say\n\n{}", facts.into_iter().map(about).collect::<String>())
}

fn left_out(labs: &[Lab]) -> String {
    let skipped = labs.iter().flat_map(|lab| lab.skipped.clone()).collect::<Vec<_>>();
    let reasons = reasons(&skipped).into_iter().map(|(why, scenarios)| {
        item(&format!("{}: {why}.", scenarios.into_iter().collect::<Vec<_>>().join(", ")))
    });
    let reasons = reasons.collect::<String>();
    let reasons = if reasons.is_empty() { "None.\n".to_owned() } else { reasons };
    format!("\n## What could not be carried out\n\n{reasons}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::sample::{library, run};
    use crate::record::{Environment, Expected, Skipped};

    #[test]
    fn the_page_has_the_matrix_the_promises_and_what_was_left_out() {
        let words = ["quorumlock-lab", "compare", "--workers", "set-nx-px"].map(str::to_owned);
        let mut lab = Lab::new(42, words.to_vec(), Environment::default());
        let mut other = run("L10", "S:nx", Expected::Any);
        other.library = Some(library(Some(false)));
        (other.observed.grants, other.observed.violations) = (2, 1);
        lab.add(run("L02", "S", Expected::Ok));
        lab.add(other);
        let (scenario, mode) = ("L03".to_owned(), "S:nx".to_owned());
        lab.skip(Skipped { scenario, mode, why: "nx: it renews no lease".to_owned() });
        let page = libraries_page(&[lab]);
        for part in [
            "| nx         | S    | -                     | FELL in 1 of 1; 0 ms |\n",
            "- nx: SET NX PX 1. A key with an expiry on one server is a simple lock;",
            "- L03: nx: it renews no lease.\n",
        ] {
            assert!(page.contains(part), "{part:?} in\n{page}");
        }
    }
}
