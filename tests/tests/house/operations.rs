//! The pages for operators say what each warning and each exit code means.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use super::{assert_none, root, with_extension};

/// The packages whose warnings operators see.
const ROOMS: [&str; 8] =
    ["protocol", "watchdog", "redis", "core", "quorum", "quorumlock", "cli", "command"];

#[test]
fn each_warning_has_a_line_that_says_what_to_do() {
    let page = page();
    let quoted: Vec<_> = rows(&page).filter(|cells| cells.len() == 4).collect();
    let mut missing = Vec::new();
    let mut seen = 0;
    for (path, text) in with_extension("rs") {
        if !ROOMS.iter().any(|room| path.starts_with(Path::new("crates").join(room).join("src"))) {
            continue;
        }
        for (level, message) in warnings(&text) {
            seen += 1;
            let event = format!("`{message}`");
            if !quoted.iter().any(|row| row[0] == level && row[1].contains(&event)) {
                missing.push(format!("{}: {level}: {message}", path.display()));
            }
        }
    }
    assert!(seen > 5, "the warnings are not found: {seen}");
    assert_none("events that the table of the log in docs/MONITORING.md lacks", &missing);
}

/// And the page quotes none that the library no longer emits.
#[test]
fn each_line_of_a_warning_is_of_one_that_is_emitted() {
    let sources: Vec<_> = with_extension("rs").into_iter().map(|(_, text)| text).collect();
    let emitted: BTreeSet<_> = sources.iter().flat_map(|text| warnings(text)).collect();
    let page = page();
    let stale: Vec<_> = rows(&page)
        .filter(|cells| cells.len() == 4 && ["warn", "error"].contains(&cells[0]))
        .filter(|cells| !emitted.contains(&(cells[0], cells[1].trim_matches('`').to_owned())))
        .map(|cells| cells.join(" | "))
        .collect();
    assert_none("lines of docs/MONITORING.md without an event", &stale);
}

#[test]
fn each_exit_code_has_a_line_that_says_what_to_do() {
    let source = fs::read_to_string(root().join("crates/command/src/exit.rs")).expect("a source");
    let constants = source.lines().filter_map(|line| {
        let (name, value) =
            line.strip_prefix("pub const ")?.strip_suffix(';')?.split_once(": u8 = ")?;
        Some((name, value))
    });
    let page = page();
    let codes: BTreeSet<_> =
        rows(&page).filter(|cells| cells.len() == 3).map(|cells| cells[0]).collect();
    let mut missing = Vec::new();
    let mut seen = 0;
    for (name, value) in constants {
        seen += 1;
        let of_signal = format!("{value} + a signal's number");
        // Ctrl-C is a signal like others.
        let is_signal = value.starts_with("SIGNAL");
        if !is_signal && !codes.contains(value) && !codes.contains(&*of_signal) {
            missing.push(format!("{value} ({name})"));
        }
    }
    assert!(seen > 10, "the codes are not found: {seen}");
    assert_none("exit codes that docs/COMMANDS.md lacks", &missing);
}

/// The pages for operators, one after the other.
fn page() -> String {
    let pages = ["OPERATIONS.md", "COMMANDS.md", "MONITORING.md"];
    let text = |page| fs::read_to_string(root().join("docs").join(page)).expect("the page");
    pages.map(text).join("\n")
}

/// The cells of each row of a table.
fn rows(page: &str) -> impl Iterator<Item = Vec<&str>> {
    let inside = page.lines().filter_map(|line| line.strip_prefix("| ")?.strip_suffix(" |"));
    inside.map(|line| line.split(" | ").collect())
}

/// The warnings and errors that a source emits: the level, and the text, which is the last literal.
fn warnings(source: &str) -> Vec<(&'static str, String)> {
    let mut found = Vec::new();
    for level in ["warn", "error"] {
        for call in source.split(&format!("tracing::{level}!(")).skip(1) {
            found.extend(literals(call).pop().map(|message| (level, message)));
        }
    }
    found
}

/// The string literals up to the bracket that closes the macro.
fn literals(call: &str) -> Vec<String> {
    let (mut literals, mut depth, mut inside) = (Vec::new(), 1, None::<String>);
    let mut chars = call.chars();
    while let Some(c) = chars.next() {
        match (&mut inside, c) {
            (Some(_), '"') => literals.extend(inside.take()),
            // A line that goes on: the literal has no break there.
            (Some(text), '\\') => match chars.next() {
                Some('\n') => {
                    let rest = chars.as_str().trim_start();
                    chars = rest.chars();
                }
                escaped => text.extend(escaped),
            },
            (Some(text), c) => text.push(c),
            (None, '"') => inside = Some(String::new()),
            (None, '(') => depth += 1,
            (None, ')') if depth == 1 => break,
            (None, ')') => depth -= 1,
            (None, _) => {}
        }
    }
    literals
}

#[test]
fn warnings_are_read_as_they_are_meant() {
    let source = "tracing::warn!(%node, by = f(\"x\"), \"it \\\n    fell (again)\"); g(\"no\"); tracing::\
                  error!(\"worse\")";
    let expected = [("warn", "it fell (again)".to_owned()), ("error", "worse".to_owned())];
    assert_eq!(warnings(source), expected);
}

/// A text that advises to found a cluster anew, or to delete, is in OPERATIONS with the states in which it is
/// printed.
#[test]
fn each_place_of_advice_that_can_end_locks_is_listed() {
    const ADVICE: [&str; 4] = ["quorumlock init", "DEL quorumlock:node", "(DEL)", "finish --force"];
    let page = page();
    let (_, section) = page.split_once("## Advice that can end locks").expect("the section");
    let (section, _) = section.split_once("\n## ").expect("the next one");
    let places: Vec<_> = section.split('`').filter(|place| place.ends_with(".rs")).collect();
    let mut unlisted = Vec::new();
    for (path, text) in with_extension("rs") {
        let shipped = ROOMS.iter().any(|room| path.starts_with(format!("crates/{room}/src")));
        if !shipped || path.ends_with("tests.rs") {
            continue;
        }
        let code = text.split("#[cfg(test)]").next().unwrap_or_default();
        let mut told = code.lines().filter(|line| !line.trim_start().starts_with("//"));
        if told.any(|line| ADVICE.iter().any(|advice| line.contains(advice)))
            && !places.iter().any(|place| path == Path::new(place))
        {
            unlisted.push(path.display().to_string());
        }
    }
    assert_none("advice that the section lacks", &unlisted);
    let alerts = fs::read_to_string(root().join("docs/monitoring/alerts.yaml")).expect("alerts");
    assert!(!alerts.contains("init"), "an alert fires where nodes restart");
}
