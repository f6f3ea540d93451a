//! The house rules, which no compiler checks.

mod citations;
mod groups;
mod imports;
mod map;
mod operations;
mod options;
mod packages;
mod words;

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace")
}

/// All text of the repository, with paths from its root: nothing that is built or cached.
fn texts() -> Vec<(PathBuf, String)> {
    let mut texts = Vec::new();
    let mut dirs = vec![root().to_owned()];
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(&dir).expect("a directory") {
            let entry = entry.expect("an entry");
            let (path, name) = (entry.path(), entry.file_name());
            // A file of that name, too: git makes one in a worktree.
            if [".git", ".cache", "target"].iter().any(|skipped| name == *skipped) {
                continue;
            }
            if entry.file_type().expect("a type").is_dir() {
                dirs.push(path);
            } else if let Ok(text) = fs::read_to_string(&path) {
                texts.push((path.strip_prefix(root()).expect("inside").to_owned(), text));
            }
        }
    }
    assert!(texts.len() > 50, "this is not the workspace: {:?}", root());
    texts
}

fn with_extension(extension: &str) -> Vec<(PathBuf, String)> {
    let mut texts = texts();
    texts.retain(|(path, _)| path.extension().is_some_and(|found| found == extension));
    assert!(!texts.is_empty(), "no {extension} at all");
    texts
}

fn of_the_library(path: &Path) -> bool {
    ["protocol", "watchdog", "redis", "core", "quorum", "quorumlock"]
        .iter()
        .any(|room| path.starts_with(Path::new("crates").join(room).join("src")))
}

/// Breaches as one readable list, so that all can be mended at once.
fn assert_none(rule: &str, breaches: &[String]) {
    assert!(breaches.is_empty(), "{rule}:\n{}", breaches.join("\n"));
}

#[test]
fn no_source_file_is_longer_than_600_lines() {
    // Longer ones, each with its reason: (path, reason).
    const EXCEPTIONS: [(&str, &str); 0] = [];
    let breaches = with_extension("rs").into_iter().filter_map(|(path, text)| {
        let excused = EXCEPTIONS.iter().any(|(long, _)| path == Path::new(long));
        let lines = text.lines().count();
        (lines > 600 && !excused).then(|| format!("{}: {lines} lines", path.display()))
    });
    assert_none("split them", &breaches.collect::<Vec<_>>());
}

#[test]
fn every_lua_file_says_what_it_takes_replies_and_guarantees() {
    let mut breaches = Vec::new();
    for (path, text) in with_extension("lua") {
        let header = text.lines().take_while(|line| line.starts_with("--")).collect::<String>();
        // What is put in front of other scripts takes nothing of its own.
        let prelude = !text.contains("KEYS[") && !text.contains("ARGV[");
        let parts: &[&str] = match prelude && header.contains("prepended to") {
            true => &[],
            false => &["KEYS:", "ARGV:", "Replies:", "Rule"],
        };
        for part in parts.iter().filter(|part| !header.contains(**part)) {
            breaches.push(format!("{}: its header has no {part:?}", path.display()));
        }
    }
    assert_none("Lua headers", &breaches);
}

/// From the bottom up; each may depend on those before it only.
const ROOMS: [&str; 12] = [
    "protocol",
    "watchdog",
    "redis",
    "core",
    "quorum",
    "quorumlock",
    "python",
    "testbed",
    "command",
    "cli",
    "sim",
    "lab",
];

fn package(room: &str) -> String {
    if room == "quorumlock" { room.to_owned() } else { format!("quorumlock-{room}") }
}

#[test]
fn arrows_between_rooms_point_one_way_only() {
    let mut breaches = Vec::new();
    for (floor, room) in ROOMS.iter().enumerate() {
        let manifest = root().join("crates").join(room).join("Cargo.toml");
        let manifest = fs::read_to_string(manifest).expect("a manifest");
        assert!(manifest.contains(&format!("name = \"{}\"", package(room))), "{room}");
        let above = ROOMS[floor..].iter().map(|room| package(room)).collect::<HashSet<_>>();
        for dependency in dependencies(&manifest).filter(|name| above.contains(*name)) {
            breaches.push(format!("{} depends on {dependency}", package(room)));
        }
    }
    let rooms = fs::read_dir(root().join("crates")).expect("rooms").count();
    assert_eq!(rooms, ROOMS.len(), "a new room needs its place in the order");
    assert_none("arrows", &breaches);
}

#[test]
fn the_rules_do_no_io_and_the_operators_command_brings_no_experiment() {
    let without = [
        ("protocol", ["tokio", "redis", "rustix"]),
        ("cli", ["quorumlock-testbed", "quorumlock-sim", "quorumlock-lab"]),
    ];
    let mut breaches = Vec::new();
    for (room, forbidden) in without {
        let manifest = root().join("crates").join(room).join("Cargo.toml");
        let manifest = fs::read_to_string(manifest).expect("a manifest");
        let shipped = manifest.split("[dev-dependencies]").next().unwrap_or_default();
        for name in dependencies(shipped).filter(|name| forbidden.contains(name)) {
            breaches.push(format!("{room} depends on {name}"));
        }
    }
    assert_none("manifests", &breaches);
}

/// The names on the left of `=` in any table of dependencies.
fn dependencies(manifest: &str) -> impl Iterator<Item = &str> {
    let mut inside = false;
    manifest.lines().filter_map(move |line| {
        if let Some(table) = line.strip_prefix('[') {
            inside = table.trim_end_matches(']').ends_with("dependencies");
            return None;
        }
        let name = line.split(['=', '.']).next().unwrap_or_default().trim();
        (inside && !name.is_empty() && !name.starts_with('#')).then_some(name)
    })
}

#[test]
fn packages_outside_crates_are_not_published() {
    let manifests = with_extension("toml")
        .into_iter()
        .filter(|(path, _)| path.ends_with("Cargo.toml") && path.components().count() == 2);
    let manifests = manifests.collect::<Vec<_>>();
    assert!(manifests.iter().any(|(path, _)| path.starts_with("tests")), "{manifests:?}");
    let published = manifests.iter().filter(|(_, text)| !text.contains("publish = false"));
    let breaches = published.map(|(path, _)| path.display().to_string()).collect::<Vec<_>>();
    assert_none("publish = false", &breaches);
}

#[test]
fn only_clock_rs_reads_a_clock() {
    let mut breaches = Vec::new();
    for (path, text) in with_extension("rs") {
        if !of_the_library(&path) || path.file_name().is_some_and(|name| name == "clock.rs") {
            continue;
        }
        for (number, line) in text.lines().enumerate() {
            if ["Instant::now(", "SystemTime::now("].iter().any(|read| line.contains(read)) {
                breaches.push(format!("{}:{}: {}", path.display(), number + 1, line.trim()));
            }
        }
    }
    assert_none("clock reads", &breaches);
}

/// Unit tests and the fuzz target drive the connection machine without a network or a clock.
#[test]
fn the_connection_machine_does_no_io() {
    const OUTSIDE: [&str; 8] = [
        "tokio",
        "futures::",
        "quorumlock_watchdog",
        "rand::",
        "std::io",
        "std::net",
        "std::thread",
        "std::time::Instant",
    ];
    let source = Path::new("crates/redis/src");
    let shared = ["command.rs", "encode.rs", "resp.rs", "scripts.rs", "server_info.rs"];
    let (mut files, mut breaches) = (0, Vec::new());
    for (path, text) in with_extension("rs") {
        let inside = path.starts_with(source.join("connection/machine"));
        if !inside && !shared.iter().any(|file| path == source.join(file)) {
            continue;
        }
        files += 1;
        for line in text.lines().filter(|line| OUTSIDE.iter().any(|name| line.contains(name))) {
            breaches.push(format!("{}: {}", path.display(), line.trim()));
        }
    }
    assert!(files > shared.len() + 8, "the machine is elsewhere");
    assert_none("I/O in the machine", &breaches);
}

/// What is counted from an early instant ends early; what is judged by one might be judged late (SAFETY.md A2).
#[test]
fn early_instants_are_for_what_begins() {
    const BEGIN: [&str; 2] = ["redis/src/connection.rs", "quorum/src/acquire.rs"];
    let (mut breaches, mut begin) = (Vec::new(), 0);
    for (path, text) in with_extension("rs").into_iter().filter(|(path, _)| of_the_library(path)) {
        let uses = text.matches(".early()").count();
        match BEGIN.iter().any(|place| path.ends_with(place)) {
            true => begin += uses,
            false if uses > 0 => breaches.push(path.display().to_string()),
            false => {}
        }
    }
    assert_eq!(begin, 7, "look whether the new one begins something");
    assert_none("early instants", &breaches);
}

/// A generator in the process would give a cloned machine the same nonces as its copy (SAFETY.md
/// H20): it may spread retries, and nothing else.
#[test]
fn nonces_come_from_the_operating_system() {
    let mut breaches = Vec::new();
    let mut fresh = false;
    for (path, text) in with_extension("rs") {
        let library = of_the_library(&path);
        for (number, line) in text.lines().enumerate().filter(|_| library) {
            let system = path.ends_with("ids.rs")
                && ["TryRng", "SysRng"].iter().any(|name| line.contains(name));
            fresh |= system;
            if line.contains("rand::") && !line.contains("rand::random_range(") && !system {
                breaches.push(format!("{}:{}: {}", path.display(), number + 1, line.trim()));
            }
        }
    }
    assert!(fresh, "the system's source is used nowhere");
    assert_none("generators", &breaches);
}

#[test]
fn no_text_names_a_place_on_somebodys_machine() {
    // Put together here, or this file would break its own rule.
    let places = ["work", "root", "home", "Users"].map(|place| format!("/{place}/"));
    let mut breaches = Vec::new();
    for (path, text) in texts() {
        for (number, line) in text.lines().enumerate() {
            if places.iter().any(|place| line.contains(place.as_str())) {
                breaches.push(format!("{}:{}: {}", path.display(), number + 1, line.trim()));
            }
        }
    }
    assert_none("machine paths", &breaches);
}

/// A registry may be mirrored: texts say "the crate registry" or "the Python package index".
#[test]
fn no_text_names_the_host_of_a_package_registry() {
    // Put together here, or this file would break its own rule.
    let hosts = [["crates", ".io"], ["py", "pi"], ["python", "hosted"], ["npm", "js"]];
    let hosts = hosts.map(|parts| parts.concat());
    let mut breaches = Vec::new();
    for (path, text) in texts() {
        // Cargo writes it, with the index that each crate is from.
        if path.ends_with("Cargo.lock") {
            continue;
        }
        for (number, line) in text.lines().enumerate() {
            let lower = line.to_lowercase();
            if hosts.iter().any(|host| lower.contains(host.as_str())) {
                breaches.push(format!("{}:{}: {}", path.display(), number + 1, line.trim()));
            }
        }
    }
    assert_none("hosts of registries", &breaches);
}

#[test]
fn nothing_is_left_to_be_done_later() {
    let markers = [["TO", "DO"], ["FIX", "ME"], ["XX", "X"]].map(|parts| parts.concat());
    let stubs = ["todo!(", "unimplemented!("];
    let mut breaches = Vec::new();
    for (path, text) in texts() {
        let code =
            path.extension().is_some_and(|found| found == "rs") && !path.ends_with("house/main.rs");
        for (number, line) in text.lines().enumerate() {
            let marked = markers.iter().any(|marker| has_word(line, marker));
            if marked || code && stubs.iter().any(|stub| line.contains(stub)) {
                breaches.push(format!("{}:{}: {}", path.display(), number + 1, line.trim()));
            }
        }
    }
    assert_none("left open", &breaches);
}

fn has_word(line: &str, word: &str) -> bool {
    line.split(|c: char| !c.is_alphanumeric()).any(|found| found == word)
}

#[test]
fn links_between_documents_lead_somewhere() {
    let mut breaches = Vec::new();
    for (path, text) in with_extension("md") {
        let dir = root().join(&path).parent().expect("a directory").to_owned();
        for target in links(&text) {
            let file = target.split('#').next().unwrap_or_default();
            let elsewhere = target.contains("://") || target.starts_with("mailto:");
            if !elsewhere && !file.is_empty() && !dir.join(file).exists() {
                breaches.push(format!("{}: {target}", path.display()));
            }
        }
    }
    assert_none("dead links", &breaches);
}

/// What stands in the parentheses of `[text](target)`, outside of code blocks.
fn links(text: &str) -> impl Iterator<Item = &str> {
    let prose = text.split("```").step_by(2);
    prose.flat_map(|part| part.split("](").skip(1)).filter_map(|rest| {
        rest.split_once(')').map(|(target, _)| target.split(' ').next().unwrap_or_default())
    })
}

#[test]
fn the_readmes_commands_exist_and_it_is_short() {
    let readme = fs::read_to_string(root().join("README.md")).expect("a README");
    let makefile = fs::read_to_string(root().join("Makefile")).expect("a Makefile");
    for target in ["demo", "test"] {
        assert!(readme.contains(&format!("make {target}")), "README: make {target}");
        let rule = makefile.lines().any(|line| line.starts_with(&format!("{target}:")));
        assert!(rule, "Makefile: {target}");
    }
    assert!(readme.lines().count() < 150, "README: {} lines", readme.lines().count());
}
