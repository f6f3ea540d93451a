//! What a registry shows of each published crate, and what its package holds.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use super::{ROOMS, assert_none, dependencies, links, package, root};

/// The published crates, from the bottom up.
fn published() -> Vec<&'static str> {
    let open = |room: &&str| !read(room, "Cargo.toml").contains("publish = false");
    let rooms: Vec<_> = ROOMS.into_iter().filter(open).collect();
    assert!(rooms.contains(&"quorumlock") && rooms.len() < ROOMS.len(), "{rooms:?}");
    rooms
}

fn read(room: &str, file: &str) -> String {
    let path = root().join("crates").join(room).join(file);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn published_crates_have_the_metadata_that_a_registry_shows() {
    const FIELDS: [&str; 6] = [
        "description = \"",
        "license.workspace = true",
        "repository.workspace = true",
        "rust-version.workspace = true",
        "readme = \"README.md\"",
        "include.workspace = true",
    ];
    const DOCS_RS: &str = "[package.metadata.docs.rs]\nall-features = true\n\
                           rustdoc-args = [\"--cfg\", \"docsrs\"]\n";
    let rooms = published();
    let mut breaches = Vec::new();
    for room in &rooms {
        let manifest = read(room, "Cargo.toml");
        let missing = FIELDS.iter().filter(|field| !manifest.contains(**field));
        breaches.extend(missing.map(|field| format!("{room}/Cargo.toml lacks {field}")));
        if root().join("crates").join(room).join("src/lib.rs").exists() {
            if !manifest.contains(DOCS_RS) {
                breaches.push(format!("{room}/Cargo.toml lacks {DOCS_RS}"));
            }
            if !read(room, "src/lib.rs").contains("#![cfg_attr(docsrs, feature(doc_cfg))]") {
                breaches.push(format!("{room}/src/lib.rs does not label features"));
            }
        }
        let shipped = manifest.split("[dev-dependencies]").next().unwrap_or_default();
        let closed = ROOMS.into_iter().filter(|other| !rooms.contains(other));
        for name in closed.map(package).filter(|name| dependencies(shipped).any(|on| on == name)) {
            breaches.push(format!("{room} depends on {name}, which is not published"));
        }
    }
    assert_none("metadata", &breaches);
}

/// A program under valgrind ends when rustix first reads the clock.
/// `cargo install` warns of each package of a profile that the installed program does not have.
#[test]
fn the_manifest_has_no_profile_of_a_package() {
    let manifest = fs::read_to_string(root().join("Cargo.toml")).expect("it is there");
    assert!(manifest.contains("[profile.dev]") && !manifest.contains("[profile.dev.package"));
}

#[test]
fn the_lease_clock_is_read_by_the_c_library() {
    let manifest = read("watchdog", "Cargo.toml");
    let on = dependencies(&manifest).collect::<Vec<_>>();
    assert!(on.contains(&"nix") && !on.contains(&"rustix"), "{on:?}");
}

/// A registry shows the page without the repository round it.
#[test]
fn readmes_of_published_crates_link_to_whole_addresses() {
    let mut breaches = Vec::new();
    for room in published() {
        let readme = read(room, "README.md");
        let definitions =
            readme.lines().filter_map(|line| line.strip_prefix('[')?.split_once("]: "));
        let targets = links(&readme).chain(definitions.map(|(_, target)| target));
        let inside = targets.filter(|target| !target.starts_with("https://"));
        breaches.extend(inside.map(|target| format!("{room}/README.md: {target}")));
    }
    assert_none("links of published pages", &breaches);
}

#[test]
fn the_release_page_lists_the_published_crates_from_the_bottom_up() {
    let page = fs::read_to_string(root().join("RELEASING.md")).expect("a page");
    let (_, section) = page.split_once("## The crates").expect("a section");
    let (section, _) = section.split_once("\n## ").expect("a section after it");
    let entries = section.lines().filter_map(|line| line.split_once(". `")?.1.strip_suffix('`'));
    let rooms = published().into_iter().map(package).collect::<Vec<_>>();
    assert_eq!(entries.collect::<Vec<_>>(), rooms);
}

#[test]
fn the_hosted_jobs_check_the_published_crates() {
    let jobs = fs::read_to_string(root().join(".github/workflows/ci.yml")).expect("a workflow");
    let (_, list) = jobs.split_once("PUBLISHED: >-\n").expect("a list");
    let (list, _) = list.split_once("\n\n").expect("an end of the list");
    let rooms = published().into_iter().map(package).collect::<Vec<_>>();
    let named = list.split_whitespace().filter(|word| *word != "-p");
    assert_eq!(named.collect::<Vec<_>>(), rooms);
}

#[test]
fn packages_hold_sources_what_they_include_readme_and_licences_and_nothing_else() {
    const REQUIRED: [&str; 3] = ["README.md", "LICENSE-APACHE", "LICENSE-MIT"];
    const BY_CARGO: [&str; 4] =
        [".cargo_vcs_info.json", "Cargo.lock", "Cargo.toml", "Cargo.toml.orig"];
    let mut breaches = Vec::new();
    let mut included = 0;
    for room in published() {
        let held = packaged(room);
        for required in REQUIRED.iter().filter(|file| !held.contains(Path::new(file))) {
            breaches.push(format!("{room} lacks {required}"));
        }
        for path in &held {
            let known = REQUIRED.iter().chain(&BY_CARGO).any(|file| path == Path::new(file));
            if !known && !path.starts_with("src") && !path.starts_with("examples") {
                breaches.push(format!("{room} holds {}", path.display()));
            }
            if path.extension().is_some_and(|end| end == "rs") {
                let text = read(room, &path.to_string_lossy());
                for file in includes(&text) {
                    included += 1;
                    if !held.contains(&beside(path, file)) {
                        breaches.push(format!("{room} lacks {file}, for {}", path.display()));
                    }
                }
            }
        }
    }
    assert!(included > 30, "{included} included files: the Lua scripts are elsewhere");
    assert_none("packages", &breaches);
}

/// The files that cargo would put into the package.
fn packaged(room: &str) -> BTreeSet<PathBuf> {
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["package", "--list", "--offline", "--allow-dirty", "--package", &package(room)])
        .current_dir(root())
        .output()
        .expect("cargo");
    assert!(output.status.success(), "{room}: {}", String::from_utf8_lossy(&output.stderr));
    let list = String::from_utf8(output.stdout).expect("paths");
    list.lines().map(PathBuf::from).collect()
}

/// The literal paths that `include_str!` and `include_bytes!` name.
fn includes(text: &str) -> impl Iterator<Item = &str> {
    // Put together here, or this file would name files itself.
    let macros = ["include_str", "include_bytes"].map(|name| format!("{name}!(\""));
    let calls =
        macros.map(|call| text.match_indices(&call).map(|(at, _)| at + call.len()).collect());
    let starts = calls.into_iter().flat_map(|starts: Vec<usize>| starts);
    starts.filter_map(|at| text[at..].split('"').next())
}

/// The path that a file names from its own directory.
fn beside(file: &Path, named: &str) -> PathBuf {
    let mut path = file.parent().expect("a file").to_owned();
    for part in Path::new(named) {
        if part != ".." || !path.pop() {
            path.push(part);
        }
    }
    path
}
