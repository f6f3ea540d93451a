//! The machine and the programs of a run.

use std::fs;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::record::Environment;
use crate::timestamp;

/// Gathers what is known now. `version`: that of the calling program.
#[must_use]
pub fn gather(version: &str) -> Environment {
    let read = |file| fs::read_to_string(file).unwrap_or_default();
    let text = |text: String| Some(text.trim().to_owned()).filter(|text| !text.is_empty());
    let memory = value(&read("/proc/meminfo"), "MemTotal")
        .and_then(|kib| kib.trim_end_matches("kB").trim().parse::<u64>().ok());
    let loads = read("/proc/loadavg");
    let mut loads = loads.split(' ').map(|load| load.parse().unwrap_or_default());
    let clocksource = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
    let commit = commit();
    let uname = rustix::system::uname();
    Environment {
        quorumlock: version.to_owned(),
        dirty: commit.is_some().then(|| diff().is_some()),
        diff: diff(),
        commit,
        build: if cfg!(debug_assertions) { "debug" } else { "release" }.to_owned(),
        rustc: output_of(Command::new("rustc").arg("--version")),
        kernel: format!(
            "{} {}",
            uname.sysname().to_string_lossy(),
            uname.release().to_string_lossy()
        ),
        cpu: value(&read("/proc/cpuinfo"), "model name").unwrap_or_default().to_owned(),
        cpus: std::thread::available_parallelism().map_or(0, usize::from),
        memory_bytes: memory.unwrap_or_default() * 1024,
        load_before: std::array::from_fn(|_| loads.next().unwrap_or_default()),
        server: String::new(),
        clocksource: text(read(clocksource)),
    }
}

/// The commit that was built, if known. Asked for once.
pub(super) fn commit() -> Option<String> {
    static COMMIT: OnceLock<Option<String>> = OnceLock::new();
    COMMIT.get_or_init(|| git(&["rev-parse", "HEAD"])).clone()
}

/// The hash of all differences between the source tree and its commit, files that git does not know
/// included; `None` if there are none, or no tree. Asked for once.
pub(super) fn diff() -> Option<String> {
    static DIFF: OnceLock<Option<String>> = OnceLock::new();
    DIFF.get_or_init(|| {
        let root = PathBuf::from(git(&["rev-parse", "--show-toplevel"])?);
        let mut all = git(&["diff", "HEAD", "--binary"]).unwrap_or_default();
        // Names from the top of the tree: the working directory of the lab does not matter.
        let new = git(&["ls-files", "--full-name", "--others", "--exclude-standard", ":/"]);
        for file in new.unwrap_or_default().lines() {
            let hash = git(&["hash-object", &root.join(file).to_string_lossy()]);
            all += &format!("\n{file} {}", hash.unwrap_or_default());
        }
        if all.is_empty() { None } else { hash(&all) }
    })
    .clone()
}

/// The hash that git gives a file with this text.
fn hash(text: &str) -> Option<String> {
    let mut file = tempfile::NamedTempFile::new().ok()?;
    file.write_all(text.as_bytes()).ok()?;
    git(&["hash-object", &file.path().to_string_lossy()])
}

/// Runs git on the source tree of this build, if it still exists. At run time, so that no build
/// depends on it.
fn git(arguments: &[&str]) -> Option<String> {
    output_of(Command::new("git").arg("-C").arg(env!("CARGO_MANIFEST_DIR")).args(arguments))
}

/// The output of a program; `None` if it is missing, fails, or prints nothing.
fn output_of(command: &mut Command) -> Option<String> {
    let output = command.stdin(Stdio::null()).stderr(Stdio::null()).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?.trim().to_owned();
    (output.status.success() && !text.is_empty()).then_some(text)
}

/// The wall-clock time, for the names of directories.
#[must_use]
pub fn now() -> SystemTime {
    UNIX_EPOCH + Duration::from_nanos(timestamp::wall_ns())
}

fn value<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let mut lines = text.lines().filter_map(|line| line.split_once(':'));
    lines.find(|(key, _)| key.trim() == name).map(|(_, value)| value.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_that_differs_has_a_hash() {
        let environment = gather("0.1.0");
        assert_eq!(environment.dirty.unwrap_or(false), environment.diff.is_some());
        let changed = git(&["status", "--porcelain"]).is_some();
        assert_eq!(environment.diff.is_some(), changed && environment.commit.is_some());
    }
}
