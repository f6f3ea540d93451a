//! The code in docs/FENCING.md is exactly the code that the tests run.

const PAGE: &str = include_str!("../../../docs/FENCING.md");
const MODULE: &str = include_str!("../../../crates/quorumlock/src/fencing/mod.rs");

/// The text of the `n`th block of code in a language, from 0.
pub(crate) fn block(language: &str, n: usize) -> &'static str {
    let fence = format!("```{language}\n");
    let found = PAGE.split(fence.as_str()).nth(n + 1).expect("a block");
    found.split("```").next().unwrap_or_default()
}

/// The example runs as a doc test of the module; the page must have the same text.
#[test]
fn the_example_is_the_one_that_is_run() {
    let documentation: String = MODULE
        .lines()
        .map_while(|line| line.strip_prefix("//!"))
        .filter(|line| !line.starts_with(" # "))
        .map(|line| line.strip_prefix(' ').unwrap_or(line).to_owned() + "\n")
        .collect();
    let run = documentation.split("```\n").nth(1).expect("an example");
    assert_eq!(block("rust", 0), run);
}

#[test]
fn every_recipe_on_the_page_is_run() {
    let blocks = PAGE.matches("\n```").count() / 2;
    let run = 6 + 1; // sql and rust
    assert_eq!(blocks, run, "a block of code was added: run it");
}
