//! The public API of the crate quorumlock, as its documentation shows it, is that of docs/api.txt:
//! no change of it goes unseen. `make api` writes the file anew.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

#[test]
fn the_public_api_is_that_of_the_file() {
    let (found, leaks) = listing(&document());
    assert!(leaks.is_empty(), "types of the inner crates: re-export them\n{}", leaks.join("\n"));
    let file = root().join("docs/api.txt");
    if env::var_os("QUORUMLOCK_UPDATE_API").is_some() {
        return fs::write(file, found).expect("written");
    }
    let known = fs::read_to_string(file).expect("docs/api.txt");
    let only_in = |one: &str, other: &str| {
        let lines = one.lines().filter(|line| !other.lines().any(|known| known == *line));
        lines.collect::<Vec<_>>().join("\n")
    };
    assert!(
        found == known,
        "docs/api.txt differs: if the change is meant, `make api` writes it\nnew:\n{}\ngone:\n{}",
        only_in(&found, &known),
        only_in(&known, &found),
    );
}

/// What the async API does, the blocking one does, too.
#[test]
fn the_blocking_api_has_the_methods_of_the_async_one() {
    // A dropped future has no counterpart; a watch of the async API tells more.
    const ASYNC_ONLY: [&str; 4] =
        ["Election::run", "Guard::at_risk", "Guard::run", "Locker::builder"];
    let text = fs::read_to_string(root().join("docs/api.txt")).expect("docs/api.txt");
    let methods = |path: &str| {
        let item = text.split("\n\n").find(|item| item.lines().next() == Some(path));
        let lines = item.unwrap_or_else(|| panic!("no {path}")).lines().map(str::trim);
        let names = lines.filter_map(|line| {
            let line = line.strip_prefix("pub ")?;
            line.strip_prefix("async ")
                .unwrap_or(line)
                .strip_prefix("fn ")?
                .split(['(', '<'])
                .next()
        });
        names.map(str::to_owned).collect::<Vec<_>>()
    };
    let mut missing = Vec::new();
    for name in [
        "Election",
        "Guard",
        "LockRequest",
        "Locker",
        "Mutex",
        "RwLock",
        "Semaphore",
        "TryLockRequest",
    ] {
        let blocking = methods(&format!("quorumlock::blocking::{name}"));
        let lacks = |method: &String| !blocking.contains(method);
        let found = methods(&format!("quorumlock::{name}"));
        missing.extend(found.into_iter().filter(lacks).map(|method| format!("{name}::{method}")));
    }
    assert_eq!(missing, ASYNC_ONLY);
}

/// A program that upgrades a dependency of quorumlock must not break: no signature names a type of
/// another crate, except these: a trait that streams everywhere have, and what a feature asks for.
#[test]
fn signatures_name_types_of_the_library_and_of_the_standard_library_only() {
    const FOREIGN: [(&str, &str); 4] = [
        ("CancellationToken", "of tokio-util, by the feature tokio-util"),
        ("Serialize", "of serde, by the feature serde"),
        ("Deserialize", "of serde, by the feature serde"),
        ("Stream", "of futures-core, which streams everywhere implement"),
    ];
    const STANDARD: &str = "Arc AsRef Box Clone Copy Debug Default Display Drop Duration Eq Error Fn FnMut \
        FnOnce From FromStr Future Hash Into IntoFuture IntoIterator Item Iterator Option Ord Output \
        PartialEq PartialOrd Path PathBuf Result Self Send String StructuralPartialEq Sync TryFrom Unpin Vec";
    let text = fs::read_to_string(root().join("docs/api.txt")).expect("docs/api.txt");
    let own = text.lines().filter_map(|line| line.strip_prefix("quorumlock::"));
    let mut known: BTreeSet<_> = own.filter_map(|path| path.rsplit("::").next()).collect();
    known.extend(STANDARD.split_whitespace());
    // The trait that nobody else can name, and parameters.
    known.extend(["Sealed", "Fut"]);
    let mut foreign = BTreeMap::new();
    for line in text.lines().filter(|line| line.starts_with(' ')) {
        for name in types(line).filter(|name| !known.contains(name)) {
            foreign.entry(name).or_insert(line);
        }
    }
    let allowed: Vec<_> = FOREIGN.iter().map(|(name, _)| *name).collect();
    let (used, strange): (Vec<_>, Vec<_>) =
        foreign.into_iter().partition(|(name, _)| allowed.contains(name));
    assert!(strange.is_empty(), "types of other crates: {strange:#?}");
    assert_eq!(used.len(), allowed.len(), "no longer in use: {used:?}");
}

/// The names of types in a line of the list. The first name in the line of a variant is its own.
fn types(line: &str) -> impl Iterator<Item = &str> {
    let line = line.trim();
    let is_text = line.starts_with("pub const") && line.contains('"') || line.starts_with("--");
    let code = if is_text { "" } else { line };
    let skipped = usize::from(code.starts_with(char::is_uppercase));
    let words = code.split(|c: char| !c.is_alphanumeric() && c != '_').skip(skipped);
    // Parameters have one letter, constants none in lower case.
    words.filter(|word| {
        word.starts_with(char::is_uppercase) && word.contains(|c: char| c.is_lowercase())
    })
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace")
}

/// Makes the pages of the crate quorumlock; they show the items of the inner crates that it
/// re-exports as its own.
fn document() -> PathBuf {
    let target = Path::new(env!("CARGO_BIN_EXE_quorumlock-tests-worker"));
    let target = target.ancestors().nth(2).expect("the target directory");
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["doc", "--package", "quorumlock", "--no-deps", "--all-features", "--quiet"]);
    // What cargo tells this test about itself would make cargo build other crates anew.
    let told = ["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_CRATE_", "CARGO_BIN_"];
    for (name, _) in env::vars().filter(|(name, _)| told.iter().any(|it| name.starts_with(it))) {
        cargo.env_remove(name);
    }
    let made = cargo.arg("--target-dir").arg(target).current_dir(root()).status();
    assert!(made.expect("cargo").success(), "cargo doc");
    target.join("doc/quorumlock")
}

/// One line for each item, method, variant, field and implemented trait; and the signatures that
/// name types which the crate does not re-export.
fn listing(pages: &Path) -> (String, Vec<String>) {
    let all = fs::read_to_string(pages.join("all.html")).expect("the list of all items");
    let links = between(&all, "<li><a href=\"", "\"");
    let mut items: Vec<_> = links.filter(|link| link.ends_with(".html")).collect();
    items.sort_unstable_by_key(|item| path_of(item));
    let (mut text, mut leaks) = (String::new(), Vec::new());
    for item in items {
        let page =
            fs::read_to_string(pages.join(item)).unwrap_or_else(|error| panic!("{item}: {error}"));
        // What the compiler and the standard library implement for every type.
        let page = page.split("id=\"synthetic-implementations\"").next().unwrap_or_default();
        let page = page.split("id=\"blanket-implementations\"").next().unwrap_or_default();
        writeln!(text, "{}", path_of(item)).expect("a String");
        let declared = between(page, "<pre class=\"rust item-decl\"><code>", "</code></pre>");
        for line in
            declared.flat_map(|code| plain(code).lines().map(str::to_owned).collect::<Vec<_>>())
        {
            writeln!(text, "    {line}").expect("a String");
        }
        let (own, traits) = page.split_once("id=\"trait-implementations\"").unwrap_or((page, ""));
        let methods = between(own, "<h4 class=\"code-header\">", "</h4>");
        let traits = between(traits, "<h3 class=\"code-header\">", "</h3>");
        for signature in methods.chain(traits) {
            let line = plain(signature).split_whitespace().collect::<Vec<_>>().join(" ");
            if between(signature, "title=\"", "\"").any(|title| title.contains(" quorumlock_")) {
                leaks.push(format!("{}: {line}", path_of(item)));
            }
            writeln!(text, "    {line}").expect("a String");
        }
        text.push('\n');
    }
    (text, leaks)
}

/// `quorumlock::blocking::Guard` of `blocking/struct.Guard.html`.
fn path_of(page: &str) -> String {
    let (module, file) = page.rsplit_once('/').unwrap_or(("", page));
    let name = file.split('.').nth(1).unwrap_or(file);
    let modules = module.split('/').filter(|part| !part.is_empty());
    ["quorumlock"].into_iter().chain(modules).chain([name]).collect::<Vec<_>>().join("::")
}

fn between<'a>(text: &'a str, before: &'a str, after: &'a str) -> impl Iterator<Item = &'a str> {
    text.split(before).skip(1).filter_map(move |rest| rest.split(after).next())
}

/// Text without tags.
fn plain(html: &str) -> String {
    // "Show 19 variants", of a long declaration.
    let html = match (html.split_once("<summary"), html.split_once("</summary>")) {
        (Some((before, _)), Some((_, after))) => &format!("{before}{after}"),
        _ => html,
    };
    let broken = html.replace("<div", "\n<div").replace("</div>", "\n");
    let mut text = String::new();
    for (index, part) in broken.split('<').enumerate() {
        let shown = if index == 0 { part } else { part.split_once('>').map_or("", |(_, it)| it) };
        text.push_str(shown);
    }
    let text = text.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"");
    let text = text.replace("&#39;", "'").replace("&#x27;", "'").replace("&amp;", "&");
    text.lines().filter(|line| !line.trim().is_empty()).collect::<Vec<_>>().join("\n")
}
