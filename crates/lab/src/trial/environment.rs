//! On what machine, and with what.

use std::fs;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::record::Environment;
use crate::stamp;

/// What can be found out now. `version`: that of the program that asks.
#[must_use]
pub fn gather(version: &str) -> Environment {
    let read = |file| fs::read_to_string(file).unwrap_or_default();
    let text = |text: String| Some(text.trim().to_owned()).filter(|text| !text.is_empty());
    let memory = value(&read("/proc/meminfo"), "MemTotal")
        .and_then(|kib| kib.trim_end_matches("kB").trim().parse::<u64>().ok());
    let loads = read("/proc/loadavg");
    let mut loads = loads.split(' ').map(|load| load.parse().unwrap_or_default());
    let clocksource = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
    let uname = rustix::system::uname();
    Environment {
        quorumlock: version.to_owned(),
        commit: option_env!("QUORUMLOCK_COMMIT").map(str::to_owned),
        dirty: option_env!("QUORUMLOCK_DIRTY").map(|dirty| dirty == "1"),
        build: if cfg!(debug_assertions) { "debug" } else { "release" }.to_owned(),
        rustc: option_env!("QUORUMLOCK_RUSTC").map(str::to_owned),
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

/// The wall clock, for names of directories.
#[must_use]
pub fn now() -> SystemTime {
    UNIX_EPOCH + Duration::from_nanos(stamp::wall_ns())
}

fn value<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let mut lines = text.lines().filter_map(|line| line.split_once(':'));
    lines.find(|(key, _)| key.trim() == name).map(|(_, value)| value.trim())
}
