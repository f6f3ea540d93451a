//! The map of docs/ARCHITECTURE.md names every file, and no other.

use std::path::Path;

use super::{assert_none, root, with_extension};

#[test]
fn the_map_names_every_file() {
    let text = std::fs::read_to_string(root().join("docs/ARCHITECTURE.md")).expect("a page");
    let (_, map) = text.split_once("## Map").expect("a map");
    let (map, _) = map.split_once("\n## ").expect("a section after it");
    let files: Vec<_> = with_extension("rs").into_iter().map(|(path, _)| path).collect();
    let (mut sources, mut named, mut breaches) = (String::new(), Vec::new(), Vec::new());
    for line in map.lines() {
        if line.ends_with("/src") && !line.starts_with(' ') {
            sources = format!("crates/{line}");
        } else if let Some(entry) = line.strip_prefix("  ") {
            let names = entry.trim_start().split("  ").next().unwrap_or_default();
            for name in names.split(", ") {
                let paths = files.iter().filter(|path| is_named(path, &sources, name));
                let before = named.len();
                named.extend(paths);
                if named.len() == before && !root().join(&sources).join(name).exists() {
                    breaches.push(format!("{sources} has no {name}"));
                }
            }
        }
    }
    let sources = files.iter().filter(|path| {
        let whole = ["lib.rs", "main.rs", "mod.rs", "tests.rs"];
        let within = |name: &str| path.iter().any(|part| part == name);
        let is_whole = whole.iter().any(|name| path.ends_with(name));
        path.starts_with("crates")
            && within("src")
            && !is_whole
            && !within("tests")
            && !within("bin")
    });
    breaches.extend(
        sources.filter(|path| !named.contains(path)).map(|path| format!("{}", path.display())),
    );
    assert_none("the map of docs/ARCHITECTURE.md", &breaches);
}

/// Whether an entry of the map means the file: by its name, or by a directory above it.
fn is_named(path: &Path, sources: &str, name: &str) -> bool {
    let Ok(inside) = path.strip_prefix(sources) else { return false };
    match name.strip_suffix('/') {
        Some(directory) => inside.ancestors().skip(1).any(|above| above.ends_with(directory)),
        None => inside.ends_with(name),
    }
}
