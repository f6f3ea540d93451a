//! The numbered rules of docs/SAFETY.md and docs/PROTOCOL.md are cited where they are kept and where
//! they are checked.
//!
//! A page defines a rule by an anchor that its id follows: `<a id="h17"></a>H17`. Each rule needs a
//! comment in the library's code and one in a test, except a hazard that the page calls open and
//! nothing more: nothing is done about it. A citation is a comment that has the id as a word
//! (`(H17)`).

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

const PAGES: [&str; 2] = ["docs/SAFETY.md", "docs/PROTOCOL.md"];

/// Each is numbered from 1 without gaps.
const FAMILIES: [&str; 15] = [
    "A", "G", "H", "WIN", "T", "MARK", "ADM", "MEM", "REP", "SLOT", "REL", "SET", "PER", "RW", "W",
];

/// The family of model checks, which have gaps and suffixes (`M8e`). A citation must lead somewhere.
const CHECKS: &str = "M";

#[test]
fn every_family_is_numbered_without_gaps() {
    let rules = rules();
    for family in FAMILIES {
        let of_family = rules.iter().filter(|rule| rule.family() == family);
        let mut ids = of_family.map(|rule| rule.id.as_str()).collect::<Vec<_>>();
        ids.sort_unstable_by_key(|id| (id.len(), *id));
        let expected = (1..=ids.len()).map(|n| format!("{family}{n}")).collect::<Vec<_>>();
        assert!(!ids.is_empty(), "{family}: defined nowhere");
        assert_eq!(ids, expected);
    }
}

#[test]
fn every_rule_is_cited_by_code_and_by_a_test() {
    let cited = |place: Place| {
        let texts = texts().into_iter().filter(move |text| text.place == place);
        let ids = |text: Text| citations(&text.line).map(str::to_owned).collect::<Vec<_>>();
        texts.flat_map(ids).collect::<HashSet<_>>()
    };
    let (code, tests) = (cited(Place::Code), cited(Place::Test));
    let mut missing = Vec::new();
    for rule in rules().iter().filter(|rule| !rule.open && rule.family() != CHECKS) {
        for (ids, place) in [(&code, "code"), (&tests, "test")] {
            if !ids.contains(&rule.id) {
                missing.push(format!("{}: cited by no {place}", rule.id));
            }
        }
    }
    assert!(missing.is_empty(), "{}", missing.join("\n"));
}

#[test]
fn no_citation_leads_nowhere() {
    let defined = rules().into_iter().map(|rule| rule.id).collect::<HashSet<_>>();
    let mut astray = Vec::new();
    for text in texts() {
        for id in citations(&text.line).filter(|id| !defined.contains(*id)) {
            astray.push(format!("{}: {id}: {}", text.at, text.line));
        }
    }
    assert!(astray.is_empty(), "defined in neither page:\n{}", astray.join("\n"));
}

/// An id that is a link leads to the page that defines it.
#[test]
fn links_to_rules_lead_to_their_definitions() {
    let rules = rules();
    let mut astray = Vec::new();
    for page in PAGES {
        for link in read(page.as_ref()).split("](").skip(1) {
            let Some((file, anchor)) = link.split_once(')').and_then(|(to, _)| to.split_once('#'))
            else {
                continue;
            };
            let to = if file.is_empty() { page.to_owned() } else { format!("docs/{file}") };
            if let Some(id) = id_of(anchor)
                && !rules.iter().any(|rule| rule.id == id && rule.page == to)
            {
                astray.push(format!("{page}: {file}#{anchor}"));
            }
        }
    }
    assert!(astray.is_empty(), "{}", astray.join("\n"));
}

#[test]
fn the_pages_are_read_as_they_are_meant() {
    let rules = rules();
    let find = |id: &str| rules.iter().find(|rule| rule.id == id).expect("in one of the pages");
    assert!(find("H1").open && find("H24").open);
    assert!(!find("G1").open && !find("H3").open && !find("T1").open);
    assert_eq!((find("A1").page, find("W1").page), (PAGES[0], PAGES[1]));
    assert_eq!((id_of("m8e").as_deref(), id_of("theorem-f")), (Some("M8e"), None));
    let line = "(SAFETY.md H17; PROTOCOL.md ADM3, M8e), not L16, P1, Q5 or a1";
    assert_eq!(citations(line).collect::<Vec<_>>(), ["H17", "ADM3", "M8e"]);
}

struct Rule {
    id: String,
    page: &'static str,
    open: bool,
}

impl Rule {
    fn family(&self) -> &str {
        parts(&self.id).0
    }
}

/// What the pages define.
fn rules() -> Vec<Rule> {
    let mut rules = Vec::new();
    for page in PAGES {
        for line in read(page.as_ref()).lines() {
            for anchor in line.split("<a id=\"").skip(1) {
                let (anchor, defined) = anchor.split_once("\"></a>").expect("the end of an anchor");
                let Some(id) = id_of(anchor) else { continue };
                assert_eq!(words(defined).next(), Some(id.as_str()), "{page}: its id follows it");
                rules.push(Rule { open: id.starts_with('H') && is_open(line), id, page });
            }
        }
    }
    rules
}

/// Whether the last cell of a row of the table of hazards says that nothing is done.
fn is_open(row: &str) -> bool {
    let today = row.trim_end_matches(" |").rsplit(" | ").next().unwrap_or_default();
    !["closed", "narrowed", "refused"].iter().any(|word| today.contains(word))
}

/// The id that an anchor stands for, if it is one: `M8e` for `m8e`.
fn id_of(anchor: &str) -> Option<String> {
    let (family, number) = parts(anchor);
    Some(format!("{}{number}", family.to_uppercase())).filter(|id| is_id(id))
}

/// The ids that a text names.
fn citations(text: &str) -> impl Iterator<Item = &str> {
    words(text).filter(|word| is_id(word))
}

fn is_id(word: &str) -> bool {
    let (family, number) = parts(word);
    let digits = number.trim_end_matches(|c: char| c.is_ascii_lowercase());
    let numbered = (1..=2).contains(&digits.len()) && digits.bytes().all(|b| b.is_ascii_digit());
    let check = family == CHECKS && number.len() <= digits.len() + 1;
    numbered && (check || number == digits && FAMILIES.contains(&family))
}

/// What stands before the first digit, and from there on.
fn parts(word: &str) -> (&str, &str) {
    word.split_at(word.find(|c: char| c.is_ascii_digit()).unwrap_or(word.len()))
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty())
}

#[derive(Clone, Copy, PartialEq)]
enum Place {
    Code,
    Test,
    Page,
}

/// A comment, or a line of a page.
struct Text {
    place: Place,
    at: String,
    line: String,
}

/// All comments of Rust and Lua, and all lines of the pages in docs.
fn texts() -> Vec<Text> {
    let mut texts = Vec::new();
    for path in sources() {
        let Some(mut place) = place(&path) else { continue };
        let mark = match kind(&path) {
            "rs" => "//",
            "lua" => "--",
            _ => "",
        };
        for (number, line) in read(&path).lines().enumerate() {
            // Tests stand last in each file.
            if place == Place::Code && line.trim() == "#[cfg(test)]" {
                place = Place::Test;
            }
            if let Some((_, line)) = line.split_once(mark) {
                let at = format!("{}:{}", path.display(), number + 1);
                texts.push(Text { place, at, line: line.trim().to_owned() });
            }
        }
    }
    texts
}

/// Simulation, lab, testbed and model exist to check the library: what stands there is a test. This
/// file names ids as examples only, and tables of results name none.
fn place(path: &Path) -> Option<Place> {
    let parts = path.iter().filter_map(|part| part.to_str()).collect::<Vec<_>>();
    let tests = parts.iter().any(|part| ["tests", "tests.rs"].contains(part));
    match parts[..] {
        _ if path.ends_with(file!()) => None,
        ["docs", "benchmarks" | "lab", ..] => None,
        ["docs", ..] => Some(Place::Page),
        ["crates", name, ..] if !tests && !["lab", "sim", "testbed"].contains(&name) => {
            Some(Place::Code)
        }
        _ => Some(Place::Test),
    }
}

fn sources() -> Vec<PathBuf> {
    let mut sources = Vec::new();
    let mut dirs = ["crates", "tests", "model", "docs"].map(|room| root().join(room)).to_vec();
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(&dir).expect("a directory") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                dirs.push(path);
            } else if ["rs", "lua", "md"].contains(&kind(&path)) {
                sources.push(path.strip_prefix(root()).expect("inside").to_owned());
            }
        }
    }
    assert!(sources.len() > 100, "this is not the workspace: {:?}", root());
    sources
}

fn kind(path: &Path) -> &str {
    path.extension().and_then(|kind| kind.to_str()).unwrap_or_default()
}

fn read(path: &Path) -> String {
    fs::read_to_string(root().join(path)).expect("a text")
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace")
}
