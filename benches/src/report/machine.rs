//! What it was measured on, and with.

use std::fs;
use std::path::Path;
use std::process::Command;

use quorumlock_testbed::servers::EtcdProgram;

use crate::plan::Plan;

/// Crates whose versions matter.
const CRATES: [&str; 5] = ["quorumlock", "redis", "tokio", "rslock", "redis-lock"];

/// The machine and the plan, in one line.
#[must_use]
pub fn record(plan: &Plan, pinned: bool) -> String {
    let read = |file| fs::read_to_string(file).unwrap_or_default();
    let cpu = value(&read("/proc/cpuinfo"), "model name").unwrap_or("unknown").to_owned();
    let memory = gigabytes(&read("/proc/meminfo")).unwrap_or(f64::NAN);
    let kernel = read("/proc/sys/kernel/osrelease").trim().to_owned();
    // Not those that we may use: we may have pinned ourselves to one.
    let cores = read("/proc/cpuinfo").lines().filter(|line| line.starts_with("processor")).count();
    let load = read("/proc/loadavg").split(' ').next().unwrap_or("unknown").to_owned();
    let place = if pinned { "" } else { "; NOT PINNED to cores" };
    let quick = if plan.quick { "; QUICK: short laps, for a look, not for figures" } else { "" };
    let etcd = etcd().map_or_else(String::new, |etcd| format!("; {etcd}"));
    let crates: Vec<_> = CRATES.iter().map(|name| versions(LOCK, name)).collect();
    format!(
        "{cpu}, {cores} cores, {memory:.1} GB, Linux {kernel}, load {load} before; {}{etcd}; {} rounds{place}{quick}",
        crates.join(", "),
        plan.rounds,
    )
}

/// The version of etcd, and what its data is on, for that decides how long a write takes.
fn etcd() -> Option<String> {
    let said =
        Command::new(EtcdProgram::discover().ok()?.path()).arg("--version").output().ok()?.stdout;
    let said = String::from_utf8(said).ok()?;
    let version = value(&said, "etcd Version")?;
    let mounts = fs::read_to_string("/proc/mounts").unwrap_or_default();
    let disk = file_system(&mounts, &std::env::temp_dir()).unwrap_or("unknown");
    Some(format!("etcd {version} with its defaults, its data on {disk}"))
}

/// The kind of file system that has this directory.
fn file_system<'a>(mounts: &'a str, dir: &Path) -> Option<&'a str> {
    let of = |line: &'a str| {
        let mut words = line.split(' ').skip(1);
        let (at, kind) = (words.next()?, words.next()?);
        dir.starts_with(at).then_some((at.len(), kind))
    };
    // Of those mounted at one place the last counts.
    mounts.lines().filter_map(of).max_by_key(|(length, _)| *length).map(|(_, kind)| kind)
}

const LOCK: &str = include_str!("../../../Cargo.lock");

fn value<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let mut lines = text.lines().filter_map(|line| line.split_once(':'));
    lines.find(|(key, _)| key.trim() == name).map(|(_, value)| value.trim())
}

fn gigabytes(meminfo: &str) -> Option<f64> {
    let kilobytes = value(meminfo, "MemTotal")?.strip_suffix(" kB")?;
    Some(kilobytes.parse::<f64>().ok()? * 1024.0 / 1e9)
}

fn versions(lock: &str, name: &str) -> String {
    let mut packages = lock.split("[[package]]");
    let head = format!("\nname = \"{name}\"\n");
    let found: Vec<_> = packages
        .by_ref()
        .filter_map(|package| package.strip_prefix(&head)?.split('"').nth(1))
        .collect();
    format!("{name} {}", found.join(" and "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_those_of_the_lock_file() {
        let lock = "[[package]]\nname = \"redis\"\nversion = \"0.27.6\"\n\n\
            [[package]]\nname = \"redis\"\nversion = \"1.8.1\"\n\n\
            [[package]]\nname = \"redis-lock\"\nversion = \"0.5.1\"\n";
        assert_eq!(versions(lock, "redis"), "redis 0.27.6 and 1.8.1");
        assert_eq!(versions(lock, "redis-lock"), "redis-lock 0.5.1");
    }

    #[test]
    fn the_deepest_mount_has_a_directory() {
        let mounts = "overlay / overlay rw 0 0\n/dev/vda / ext4 rw 0 0\nnone /tmp tmpfs rw 0 0\n\
            none /tmp/other xfs rw 0 0\n";
        let of = |dir| file_system(mounts, Path::new(dir));
        assert_eq!([of("/tmp/x"), of("/var"), of("x")], [Some("tmpfs"), Some("ext4"), None]);
    }

    #[test]
    fn fields_of_proc_are_found_by_name() {
        let text = "MemTotal:  1000000 kB\nmodel name\t: A CPU\n";
        assert_eq!((gigabytes(text), value(text, "model name")), (Some(1.024), Some("A CPU")));
    }
}
