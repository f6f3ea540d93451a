use super::text::{table, wrapped};

const HEAD: &str = "\
<!--
Generated from crates/lab/src/scenario/step.rs and fault.rs; do not edit. To write it:
cargo run -p quorumlock-lab --bin quorumlock-lab -- list --plans > docs/lab/PLANS.md
-->
# The moments and faults of a plan

A step of a plan ([LAB.md](../LAB.md#a-plan-of-your-own)) has a moment (`when`) and a fault. This page lists
all of them, each with an example that a plan may have. Times are whole milliseconds. Nodes are numbered from
0: the voters first, or the master and then its replicas, then the spares. Clients have the `id` that the
plan gives them. A plan that names a node or a client that a mode does not have is refused.

[crates/lab/plans](../../crates/lab/plans) has whole plans: a server that is killed and restarts empty, a
partition, a clock that jumps, a holder that is paused, a replica that is promoted.

This page is the output of `quorumlock-lab list --plans`.
";

/// An enum whose variants are words of a plan: its name, what it is, and its source.
const ENUMS: [(&str, &str, &str); 4] = [
    ("When", "Moments", STEP),
    ("Fault", "Faults", FAULT),
    ("WayState", "States of a way", FAULT),
    ("Until", "How far a change of members goes", FAULT),
];

const STEP: &str = include_str!("../../scenario/step.rs");
const FAULT: &str = include_str!("../../scenario/fault.rs");

/// The page `docs/lab/PLANS.md`: each moment and each fault, its fields, its meaning, an example.
#[must_use]
pub fn plans_page() -> String {
    let sections = ENUMS.iter().map(|(name, title, source)| {
        let heading = ["word", "example", "meaning"].map(str::to_owned).to_vec();
        let rows = variants(source, name).into_iter().map(|variant| variant.row());
        let rows = std::iter::once(heading).chain(rows).collect::<Vec<_>>();
        format!("\n## {title}\n\n{}", table(&rows))
    });
    HEAD.to_owned() + &sections.collect::<String>() + "\n" + &wrapped("", LAST) + "\n"
}

const LAST: &str = "A step without `when` comes at once. A step with `after_ms` = `[shortest, longest]` \
                    instead of `when` comes so long after the step before; each repetition draws the time.";

/// One variant of an enum, as its source has it.
#[derive(Debug, Default)]
struct Variant {
    name: String,
    /// The type of its only value, if that has no name.
    value: Option<String>,
    /// Name, type and meaning of each field.
    fields: Vec<(String, String, String)>,
    meaning: String,
}

impl Variant {
    fn row(&self) -> Vec<String> {
        let fields = self.fields.iter().map(|(name, _, meaning)| format!(" `{name}`: {meaning}"));
        let meaning = format!("{}{}", self.meaning, fields.collect::<String>());
        vec![format!("`{}`", self.name), format!("`{}`", self.example()), meaning]
    }

    /// The variant in a plan.
    fn example(&self) -> String {
        let Self { name, value, fields, .. } = self;
        match value {
            Some(of) => format!("{{ {name} = {} }}", example(of)),
            None if fields.is_empty() => format!("\"{name}\""),
            None => {
                let fields = fields.iter().map(|(name, of, _)| format!("{name} = {}", example(of)));
                format!("{{ {name} = {{ {} }} }}", fields.collect::<Vec<_>>().join(", "))
            }
        }
    }
}

/// A value of a type.
fn example(of: &str) -> &'static str {
    match of {
        "usize" => "0",
        "u64" => "100",
        "i64" => "-100",
        "String" => "\"a\"",
        "Vec<usize>" => "[0, 1, 2]",
        "Vec<String>" => "[\"DEL\", \"x\"]",
        "WayState" => "\"cut\"",
        "Until" => "\"both-vote\"",
        _ => "?",
    }
}

/// The variants of an enum, from its source as rustfmt writes it.
fn variants(source: &str, name: &str) -> Vec<Variant> {
    let (mut variants, mut open) = (Vec::<Variant>::new(), None::<Variant>);
    let mut said = String::new();
    let lines = source.lines().skip_while(|line| *line != format!("pub enum {name} {{"));
    for line in lines.skip(1).map(str::trim_end).take_while(|line| *line != "}") {
        let line = line.trim_start();
        if let Some(doc) = line.strip_prefix("///") {
            // The target of a link has a line of its own.
            if !doc.contains("]: ") {
                said = format!("{} {}", said, doc.trim()).trim().to_owned();
            }
            continue;
        }
        let meaning = plain(&std::mem::take(&mut said));
        let (word, rest) =
            line.split_at(line.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(0));
        match (&mut open, rest) {
            (Some(variant), _) if line == "}," => variants.extend(Some(std::mem::take(variant))),
            (Some(variant), _) if rest.starts_with(':') => {
                let of = rest.trim_matches([':', ',', ' ']).to_owned();
                variant.fields.push((word.to_owned(), of, meaning));
                continue;
            }
            (None, " {") => {
                open = Some(Variant { name: kebab(word), meaning, ..Variant::default() });
                continue;
            }
            (None, _) if !word.is_empty() => {
                let value =
                    rest.strip_prefix('(').map(|rest| rest.trim_end_matches("),").to_owned());
                variants.push(Variant { name: kebab(word), value, meaning, ..Variant::default() });
            }
            _ => {}
        }
        open = None;
    }
    variants
}

/// `RestartEmpty`: `restart-empty`.
fn kebab(name: &str) -> String {
    let mut out = String::new();
    for c in name.chars() {
        if c.is_uppercase() && !out.is_empty() {
            out.push('-');
        }
        out.extend(c.to_lowercase());
    }
    out
}

/// Words without links: "[`ClientCont`](Self::ClientCont)" is "`client-cont`".
fn plain(doc: &str) -> String {
    let mut out = String::new();
    let mut rest = doc;
    while let Some((before, after)) = rest.split_once("[`") {
        let Some((linked, after)) = after.split_once("`]") else { break };
        let last = linked.rsplit("::").next().unwrap_or(linked);
        out += &format!("{before}`{}`", kebab(last));
        rest = match after.strip_prefix('(') {
            Some(target) => target.split_once(')').map_or("", |(_, after)| after),
            None => after,
        };
    }
    out + rest
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::{Fault, Until, WayState, When};

    fn parse<T: serde::de::DeserializeOwned>(example: &str) -> T {
        #[derive(serde::Deserialize)]
        struct One<T> {
            of: T,
        }
        let one: Result<One<T>, _> = toml::from_str(&format!("of = {example}"));
        one.unwrap_or_else(|error| panic!("{example}: {error}")).of
    }

    /// The words that serde expects, from its error.
    fn words<T: serde::de::DeserializeOwned + std::fmt::Debug>() -> usize {
        let error = serde_json::from_str::<T>("\"no such word\"").unwrap_err().to_string();
        error.matches('`').count() / 2 - 1
    }

    #[test]
    fn each_word_is_there_with_an_example_that_a_plan_may_have() {
        for variant in variants(STEP, "When") {
            parse::<When>(&variant.example());
        }
        for variant in variants(FAULT, "Fault") {
            parse::<Fault>(&variant.example());
        }
        let count = |name, source| variants(source, name).len();
        assert_eq!(count("When", STEP), words::<When>());
        assert_eq!(count("Fault", FAULT), words::<Fault>());
        assert_eq!(count("WayState", FAULT), words::<WayState>());
        assert_eq!(count("Until", FAULT), words::<Until>());
        assert!(!plans_page().contains("Self::"));
    }

    #[test]
    fn the_page_in_the_repository_is_this_one() {
        let page = include_str!("../../../../../docs/lab/PLANS.md");
        assert_eq!(
            page.trim_end(),
            plans_page().trim_end(),
            "write it: quorumlock-lab list --plans"
        );
    }

    #[test]
    fn a_row_has_fields_and_no_links() {
        let faults = variants(FAULT, "Fault");
        let row = |name: &str| faults.iter().find(|of| of.name == name).expect("it is one").row();
        assert_eq!(row("cut-tail")[1], "`{ cut-tail = { node = 0, bytes = 100 } }`");
        assert!(
            row("cut-tail")[2]
                .ends_with(" `node`: The server. `bytes`: How many bytes are cut off.")
        );
        assert!(row("client-freeze")[2].ends_with("until `client-cont`."));
    }
}
