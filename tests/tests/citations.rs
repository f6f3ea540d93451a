//! The numbered rules of docs/SAFETY.md are cited where they are kept and where they are checked.
//!
//! An assumption, a guarantee or any other numbered rule needs a comment in the library's code and
//! one in a test; a hazard does unless the page calls it open and nothing more, for then nobody
//! does anything about it. A citation is a comment that has the number as a word (`(H17)`); of the
//! small-lettered rules only together with `SAFETY.md` or `flaw`, since `a1` may be anything.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

#[test]
fn every_numbered_rule_is_cited_by_code_and_by_a_test() {
    let rules = rules();
    let comments = comments();
    let mut missing = Vec::new();
    for rule in rules.iter().filter(|rule| !rule.open) {
        for (place, called) in [(Place::Code, "code"), (Place::Test, "test")] {
            let cited = |comment: &&Comment| comment.place == place && comment.cites(&rule.id);
            if !comments.iter().any(|comment| cited(&comment)) {
                missing.push(format!("{}: cited by no {called}", rule.id));
            }
        }
    }
    assert!(missing.is_empty(), "docs/SAFETY.md:\n{}", missing.join("\n"));
}

#[test]
fn no_citation_leads_nowhere() {
    let rules = rules().into_iter().map(|rule| rule.id).collect::<HashSet<_>>();
    let mut astray = Vec::new();
    for comment in comments() {
        let numbers = words(&comment.text).filter(|word| is_number(word));
        for number in numbers.filter(|number| number.starts_with(['A', 'G', 'H'])) {
            if !rules.contains(number) {
                astray.push(format!("{}: {}", comment.at, comment.text));
            }
        }
    }
    assert!(astray.is_empty(), "not in docs/SAFETY.md:\n{}", astray.join("\n"));
}

#[test]
fn the_page_is_read_as_it_is_meant() {
    let rules = rules();
    for id in ["A1", "A8", "G1", "G8", "H1", "H24", "a1", "a4", "b5", "e3", "e4", FORM_B] {
        assert_eq!(rules.iter().filter(|rule| rule.id == id).count(), 1, "{id}");
    }
    let open = |id: &str| rules.iter().find(|rule| rule.id == id).expect("just now").open;
    assert!(open("H1") && open("H24"));
    assert!(!open("G1") && !open("H3"));
}

struct Rule {
    id: String,
    open: bool,
}

/// The one rule whose name is no letter with a number.
const FORM_B: &str = "form b";

/// What the page defines: bold list items, and the rows of the table of hazards.
fn rules() -> Vec<Rule> {
    let page = fs::read_to_string(root().join("docs/SAFETY.md")).expect("the page");
    let mut rules = Vec::new();
    for bold in page.split("**").skip(1).step_by(2) {
        match words(bold).next() {
            Some(word) if is_number(word) => rules.push(Rule { id: word.into(), open: false }),
            _ if bold.to_lowercase().contains(FORM_B) => {
                rules.push(Rule { id: FORM_B.into(), open: false })
            }
            _ => {}
        }
    }
    for row in page.lines().filter_map(|line| line.strip_prefix("| ")) {
        let cells = row.trim_end_matches(" |").split(" | ").collect::<Vec<_>>();
        if let [id, _, today] = cells[..]
            && is_number(id)
        {
            let done = ["closed", "narrowed", "refused"].iter().any(|word| today.contains(word));
            rules.push(Rule { id: id.into(), open: !done });
        }
    }
    rules
}

fn is_number(word: &str) -> bool {
    let mut chars = word.chars();
    chars.next().is_some_and(|c| c.is_ascii_alphabetic())
        && (2..=3).contains(&word.len())
        && chars.all(|c| c.is_ascii_digit())
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty())
}

#[derive(Clone, Copy, PartialEq)]
enum Place {
    Code,
    Test,
}

struct Comment {
    place: Place,
    at: String,
    text: String,
}

impl Comment {
    fn cites(&self, id: &str) -> bool {
        if id == FORM_B {
            return self.text.contains(FORM_B);
        }
        let small = id.starts_with(|c: char| c.is_ascii_lowercase());
        let named = !small || ["SAFETY.md", "flaw"].iter().any(|word| self.text.contains(word));
        named && words(&self.text).any(|word| word == id)
    }
}

/// All lines that have a comment, of Rust and Lua.
fn comments() -> Vec<Comment> {
    let mut comments = Vec::new();
    for path in sources() {
        let Some(mut place) = place(&path) else { continue };
        let lua = path.extension().is_some_and(|extension| extension == "lua");
        let text = fs::read_to_string(root().join(&path)).expect("UTF-8");
        for (number, line) in text.lines().enumerate() {
            // Tests stand last in each file.
            if line.trim() == "#[cfg(test)]" {
                place = Place::Test;
            }
            if let Some((_, text)) = line.split_once(if lua { "--" } else { "//" }) {
                let at = format!("{}:{}", path.display(), number + 1);
                comments.push(Comment { place, at, text: text.trim().to_owned() });
            }
        }
    }
    comments
}

/// The lab and the model exist to check the library: what stands there is a test. This file cites
/// numbers as examples only.
fn place(path: &Path) -> Option<Place> {
    let mut parts = path.iter().filter_map(|part| part.to_str());
    let (room, crate_name) = (parts.next()?, parts.next()?);
    let tests = path.iter().any(|part| part == "tests" || part == "tests.rs");
    match room {
        _ if path.ends_with(file!()) => None,
        "crates" if !tests && crate_name != "lab" => Some(Place::Code),
        "crates" | "tests" | "model" => Some(Place::Test),
        _ => None,
    }
}

fn sources() -> Vec<PathBuf> {
    let mut sources = Vec::new();
    let mut dirs = ["crates", "tests", "model"].map(|room| root().join(room)).to_vec();
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(&dir).expect("a directory") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                dirs.push(path);
            } else if path.extension().is_some_and(|found| found == "rs" || found == "lua") {
                sources.push(path.strip_prefix(root()).expect("inside").to_owned());
            }
        }
    }
    assert!(sources.len() > 100, "this is not the workspace: {:?}", root());
    sources
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace")
}
