//! `make test` runs every program of tests.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use super::{assert_none, root};

#[test]
fn make_runs_every_program_of_tests() {
    let makefile = fs::read_to_string(root().join("Makefile")).expect("a Makefile");
    let makefile = makefile.replace("\\\n", " ");
    let groups = ["COMPUTE = ", "WAIT = "];
    let named =
        groups.iter().filter_map(|group| makefile.lines().find_map(|l| l.strip_prefix(group)));
    let named: Vec<_> = named.flat_map(str::split_whitespace).map(str::to_owned).collect();
    let once: BTreeSet<_> = named.iter().cloned().collect();
    assert_eq!(once.len(), named.len(), "a program is in two groups");
    let missing: Vec<_> = programs().difference(&once).cloned().collect();
    assert_none("programs in no group of the Makefile", &missing);
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
