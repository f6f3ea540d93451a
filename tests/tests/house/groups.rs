//! `make test` runs every program of tests, real servers get a fair share of the processors, and
//! `.ci/run` runs what the README has.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use super::{assert_none, root, with_extension};

#[test]
fn make_runs_every_program_of_tests() {
    let named = [group("COMPUTE"), group("WAIT")].concat();
    let once: BTreeSet<_> = named.iter().cloned().collect();
    assert_eq!(once.len(), named.len(), "a program is in two groups");
    let missing: Vec<_> = programs().difference(&once).cloned().collect();
    assert_none("programs in no group of the Makefile", &missing);
}

/// Beside others, a server of a lower priority answers too late, and a violation that must be seen is
/// not seen.
#[test]
fn what_has_a_lower_priority_starts_no_server() {
    // Put together here, or this file would break its own rule.
    let starts = ["quorumlock_", "Driver::"].into_iter().zip(["testbed", "Process"]);
    let starts: Vec<_> = starts.map(|(begin, end)| format!("{begin}{end}")).collect();
    let computes = group("COMPUTE");
    let (mut files, mut breaches) = (0, Vec::new());
    for (path, text) in with_extension("rs") {
        let parts: Vec<_> = path.iter().map(|part| part.to_string_lossy()).collect();
        let program =
            parts.iter().rposition(|part| *part == "tests").and_then(|at| parts.get(at + 1));
        let name = program.map(|part| part.trim_end_matches(".rs").to_owned());
        if !name.is_some_and(|name| computes.contains(&name)) {
            continue;
        }
        files += 1;
        if starts.iter().any(|start| text.contains(start)) {
            breaches.push(path.display().to_string());
        }
    }
    assert!(files > computes.len(), "the programs are elsewhere");
    assert_none("their programs belong to the group that waits", &breaches);
}

/// A command that only users type is green by chance.
#[test]
fn ci_runs_the_commands_of_the_readme_to_the_letter() {
    let read = |file| fs::read_to_string(root().join(file)).expect("a file");
    let (readme, run) = (read("README.md"), read(".ci/run"));
    let (_, section) = readme.split_once("## Two commands to try it").expect("the commands");
    let section = section.split("\n## ").next().unwrap_or_default();
    let begins = section.lines().filter_map(|line| line.strip_prefix("- `"));
    let commands: Vec<_> = begins.filter_map(|line| line.split('`').next()).collect();
    assert_eq!(commands.len(), 2, "{section}");
    let steps: Vec<_> = run.lines().filter_map(|line| line.strip_prefix("step ")).collect();
    let missing = commands.iter().filter(|command| !steps.contains(command));
    assert_none(
        "not in .ci/run",
        &missing.map(|command| (*command).to_owned()).collect::<Vec<_>>(),
    );
}

/// The programs of a group in the Makefile.
fn group(name: &str) -> Vec<String> {
    let makefile = fs::read_to_string(root().join("Makefile")).expect("a Makefile");
    let makefile = makefile.replace("\\\n", " ");
    let begin = format!("{name} = ");
    let named = makefile.lines().find_map(|line| line.strip_prefix(&begin)).expect("a group");
    named.split_whitespace().map(str::to_owned).collect()
}

/// The names of all programs that cargo makes of the directories `tests`.
fn programs() -> BTreeSet<String> {
    let crates = fs::read_dir(root().join("crates")).expect("crates");
    let mut packages: Vec<_> = crates.map(|entry| entry.expect("an entry").path()).collect();
    packages.extend(["tests", "model", "benches"].map(|name| root().join(name)));
    let programs =
        packages.into_iter().filter_map(|package| fs::read_dir(package.join("tests")).ok());
    let paths = programs.flatten().map(|entry| entry.expect("an entry").path());
    let is_program = |path: &PathBuf| {
        path.extension().is_some_and(|end| end == "rs") || path.join("main.rs").exists()
    };
    let name = |path: PathBuf| path.file_stem().expect("a name").to_string_lossy().into_owned();
    paths.filter(is_program).map(name).collect()
}
