//! What it was measured on, and with.

use std::fs;

/// Crates whose versions matter.
const CRATES: [&str; 6] = ["quorumlock", "redis", "tokio", "rslock", "redis-lock", "rlock"];

/// A list for the document.
#[must_use]
pub fn record(server: Option<&str>, rounds: usize, quick: bool, pinned: bool) -> String {
    let read = |file| fs::read_to_string(file).unwrap_or_default();
    let cpu = value(&read("/proc/cpuinfo"), "model name").unwrap_or("unknown").to_owned();
    let memory = value(&read("/proc/meminfo"), "MemTotal").unwrap_or("unknown").to_owned();
    let kernel = read("/proc/sys/kernel/osrelease").trim().to_owned();
    // Not those that we may use: we may have pinned ourselves to one.
    let cores = read("/proc/cpuinfo").lines().filter(|line| line.starts_with("processor")).count();
    let load = read("/proc/loadavg").split(' ').next().unwrap_or("unknown").to_owned();
    let place = match pinned {
        true => "on one core; with many tasks (P2, P4, growth) clients on another",
        false => "on all cores",
    };
    let quick = if quick { ", quick: short laps, for a look only" } else { "" };
    let crates: Vec<_> = CRATES.iter().map(|name| versions(LOCK, name)).collect();
    format!(
        "- machine: {cpu}, {cores} cores, {memory} memory, Linux {kernel}; load {load} at the end\n\
         - servers: {}; clients and servers {place}\n\
         - crates: {}\n\
         - rounds: {rounds}{quick}\n",
        server.unwrap_or("unknown"),
        crates.join(", "),
    )
}

const LOCK: &str = include_str!("../../../Cargo.lock");

fn value<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let mut lines = text.lines().filter_map(|line| line.split_once(':'));
    lines.find(|(key, _)| key.trim() == name).map(|(_, value)| value.trim())
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
    fn fields_of_proc_are_found_by_name() {
        let text = "MemTotal:  123 kB\nmodel name\t: A CPU\n";
        assert_eq!(
            (value(text, "MemTotal"), value(text, "model name")),
            (Some("123 kB"), Some("A CPU"))
        );
    }
}
