//! Files of a crate import each other in one direction: no circle.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// Path of a module below its crate: `["lock", "guard"]`; the root is empty.
type Module = Vec<String>;

#[test]
fn no_circle_of_files() {
    let mut found = Vec::new();
    let crates = fs::read_dir(super::root().join("crates")).expect("crates");
    let crates = crates.map(|entry| entry.expect("a crate").path());
    for path in crates.chain(["benches", "model", "tests"].map(|name| super::root().join(name))) {
        let modules = Modules::of(&path.join("src"));
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        for circle in circles(&modules.imports()) {
            let files = circle.iter().map(shown).collect::<Vec<_>>();
            found.push(format!("{name}: {}", files.join(", ")));
        }
    }
    super::assert_none("circles of files", &found);
}

fn shown(module: &Module) -> String {
    if module.is_empty() { "lib".to_owned() } else { module.join("/") }
}

struct Modules {
    /// The code of each, without comments, strings and tests.
    code: BTreeMap<Module, String>,
}

impl Modules {
    fn of(src: &Path) -> Self {
        let mut code = BTreeMap::new();
        let mut dirs = vec![src.to_owned()];
        while let Some(dir) = dirs.pop() {
            for entry in fs::read_dir(&dir).expect("a directory") {
                let path = entry.expect("an entry").path();
                if path.is_dir() && !path.ends_with("bin") {
                    dirs.push(path);
                } else if path.extension().is_some_and(|found| found == "rs")
                    && !path.ends_with("tests.rs")
                {
                    let text = fs::read_to_string(&path).expect("text");
                    code.insert(
                        module_of(path.strip_prefix(src).expect("inside")),
                        stripped(&text),
                    );
                }
            }
        }
        Self { code }
    }

    /// For each module those whose items it names.
    fn imports(&self) -> BTreeMap<Module, BTreeSet<Module>> {
        let all = self.code.iter().map(|(module, code)| {
            let re_exported = re_exports(code);
            let named = uses(code).into_iter().chain(paths(code));
            let others = named
                .filter(|path| !re_exported.values().any(|exported| exported == path))
                .filter_map(|path| self.resolve(module, &path, 0))
                .filter(|other| other != module);
            (module.clone(), others.collect())
        });
        all.collect()
    }

    /// The module that defines what `path` names, seen from `from`; `None` for other crates.
    fn resolve(&self, from: &Module, path: &str, depth: usize) -> Option<Module> {
        let mut segments = path.split("::").peekable();
        let mut at = match segments.peek().copied()? {
            "crate" => {
                segments.next();
                Vec::new()
            }
            "self" => {
                segments.next();
                from.clone()
            }
            "super" => {
                let mut at = from.clone();
                while segments.next_if_eq(&"super").is_some() {
                    at.pop();
                }
                at
            }
            first if self.code.contains_key(&child(from, first)) => from.clone(),
            _ => return None,
        };
        for segment in segments {
            let below = child(&at, segment);
            if self.code.contains_key(&below) {
                at = below;
                continue;
            }
            let exported = re_exports(self.code.get(&at)?).remove(segment);
            return match exported {
                Some(path) if depth < 5 => self.resolve(&at, &path, depth + 1).or(Some(at)),
                _ => Some(at),
            };
        }
        Some(at)
    }
}

fn child(module: &Module, name: &str) -> Module {
    let mut below = module.clone();
    below.push(name.to_owned());
    below
}

fn module_of(path: &Path) -> Module {
    let mut parts = path.with_extension("");
    if ["mod", "lib", "main"].iter().any(|root| parts.ends_with(root)) {
        parts.pop();
    }
    parts.iter().map(|part| part.to_string_lossy().into_owned()).collect()
}

/// Without comments, and without the tests at its end.
fn stripped(text: &str) -> String {
    let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    let lines = code.lines().map(|line| line.split("//").next().unwrap_or_default());
    lines.collect::<Vec<_>>().join("\n")
}

/// All paths in `use` items.
fn uses(code: &str) -> Vec<String> {
    use_items(code).flat_map(|(_, tree)| flat(&tree)).collect()
}

/// By name, what `pub use` items make of other modules' items.
fn re_exports(code: &str) -> BTreeMap<String, String> {
    let public = use_items(code).filter(|(public, _)| *public);
    let paths = public.flat_map(|(_, tree)| flat(&tree));
    paths.map(|path| (path.rsplit("::").next().unwrap_or_default().to_owned(), path)).collect()
}

/// Whether it is public, and its tree without blanks.
fn use_items(code: &str) -> impl Iterator<Item = (bool, String)> {
    code.split(';').filter_map(|item| {
        let line = item.rfind("use ").filter(|at| {
            let before = &item[..*at];
            before.rsplit('\n').next().is_some_and(|start| {
                let start = start.trim();
                start.is_empty() || start.starts_with("pub")
            })
        })?;
        let public = item[..line].rsplit('\n').next().is_some_and(|start| start.contains("pub"));
        let tree = item[line + 4..].split_whitespace().collect::<Vec<_>>().join(" ");
        Some((public, tree))
    })
}

/// `a::{b, c::d as e}` as `a::b` and `a::c::d`.
fn flat(tree: &str) -> Vec<String> {
    let tree = tree.trim();
    let Some((prefix, rest)) = tree.split_once('{') else {
        let path = tree.split(" as ").next().unwrap_or_default();
        return if path.is_empty() { Vec::new() } else { vec![path.replace(' ', "")] };
    };
    let inner = rest.trim_end().strip_suffix('}').unwrap_or(rest);
    let (mut depth, mut parts) = (0, vec![String::new()]);
    for letter in inner.chars() {
        match letter {
            ',' if depth == 0 => {
                parts.push(String::new());
                continue;
            }
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        parts.last_mut().expect("one").push(letter);
    }
    let flat = parts.iter().flat_map(|part| flat(part));
    flat.map(|path| format!("{}{path}", prefix.replace(' ', ""))).collect()
}

/// `crate::...` and `super::...` outside of `use` items.
fn paths(code: &str) -> Vec<String> {
    let mut paths = Vec::new();
    for line in code.lines().filter(|line| !line.trim_start().starts_with("use ")) {
        for start in ["crate::", "super::"] {
            for (at, _) in line.match_indices(start) {
                let inside =
                    line[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_' || c == ':');
                let path = line[at..]
                    .split(|c: char| !c.is_alphanumeric() && c != '_' && c != ':')
                    .next()
                    .unwrap_or_default();
                if !inside {
                    paths.push(path.trim_end_matches(':').to_owned());
                }
            }
        }
    }
    paths
}

fn circles(imports: &BTreeMap<Module, BTreeSet<Module>>) -> Vec<Vec<Module>> {
    let reach = |from: &Module| {
        let (mut seen, mut next) = (BTreeSet::new(), vec![from.clone()]);
        while let Some(module) = next.pop() {
            for other in imports.get(&module).into_iter().flatten() {
                if seen.insert(other.clone()) {
                    next.push(other.clone());
                }
            }
        }
        seen
    };
    let reached = imports.keys().map(|module| (module, reach(module))).collect::<BTreeMap<_, _>>();
    let mut circles = BTreeSet::new();
    for (module, others) in &reached {
        let circle = others
            .iter()
            .filter(|other| reached.get(other).is_some_and(|back| back.contains(*module)));
        let circle = circle.cloned().collect::<Vec<_>>();
        if circle.len() > 1 {
            circles.insert(circle);
        }
    }
    circles.into_iter().collect()
}
