//! Files that no disk delays.

use std::path::{Path, PathBuf};

use rustix::fs::statvfs;

/// What a cluster of etcd needs several times over.
const MIN_FREE: u64 = 1 << 30;

/// A directory whose files are kept in memory. Where the system has none, or too little of it, the one of
/// temporary files.
///
/// On a loaded machine a file is synchronised to disk within seconds only. A sentinel that waits for its
/// disk for 2 s does nothing for the next 30 s, and members of etcd elect another leader.
#[must_use]
pub fn memory_dir() -> PathBuf {
    let memory = Path::new("/dev/shm");
    let free = statvfs(memory).map_or(0, |stat| stat.f_bavail.saturating_mul(stat.f_frsize));
    if free >= MIN_FREE { memory.to_owned() } else { std::env::temp_dir() }
}
