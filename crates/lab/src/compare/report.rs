use serde::{Deserialize, Serialize};

/// The comparison: the same things of both modes. `null` stands for "not measured".
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Report {
    /// Where and how it was measured.
    pub environment: Environment,
    /// The lock on one server.
    pub single: Measured,
    /// The lock on a majority of several servers.
    pub quorum: Measured,
}

/// Where and how it was measured.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Environment {
    /// Of this program.
    pub version: String,
    /// `release`, or `debug`: then the times say little.
    pub build: String,
    /// What the servers say they are.
    pub server: Option<String>,
    /// Processors that this process may use; the servers share them.
    pub cpus: Option<usize>,
    /// Servers of the quorum.
    pub nodes: usize,
    /// Tasks of the parallel and of the contended measurement.
    pub tasks: usize,
    /// Measuring time per mode that was asked for.
    pub seconds: f64,
    /// Gives the same schedule again.
    pub seed: u64,
}

/// What was measured in one mode.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Measured {
    /// One task locks and unlocks a free name.
    pub alone: Alone,
    /// Many tasks lock and unlock, each its own name.
    pub parallel: Parallel,
    /// Many tasks of several lockers want one name.
    pub contended: Contended,
    /// A server is killed and comes back empty. `null` if the servers are not ours to kill.
    pub server_killed: Option<ServerKilled>,
}

/// One task locks and unlocks a free name.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Alone {
    /// How often.
    pub pairs: usize,
    /// Lock and unlock together: median.
    pub p50_us: Option<u64>,
    /// Lock and unlock together: 99 of 100 were not slower.
    pub p99_us: Option<u64>,
    /// Attempts that failed.
    pub failed: usize,
}

/// Many tasks lock and unlock, each its own name.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Parallel {
    /// How often.
    pub pairs: usize,
    /// How often in a second.
    pub pairs_per_second: u64,
    /// Attempts that failed.
    pub failed: usize,
}

/// Many tasks of several lockers want one name, and hold it for as long as a timer's shortest sleep.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Contended {
    /// Lockers, each of which stands for a process: they share no connection and no memory.
    pub lockers: usize,
    /// How often the lock was granted.
    pub grants: usize,
    /// How long it was held: median.
    pub held_p50_us: Option<u64>,
    /// From the end of one task's work to the start of another's: median.
    pub handover_p50_us: Option<u64>,
    /// 99 of 100 were not slower.
    pub handover_p99_us: Option<u64>,
    /// The lock went to another task of the same locker.
    pub to_another_task: usize,
    /// The lock went to a task of another locker.
    pub to_another_locker: usize,
    /// Of those: median.
    pub to_another_locker_p50_us: Option<u64>,
    /// Of those: 99 of 100 were not slower.
    pub to_another_locker_p99_us: Option<u64>,
    /// The task that had released the lock was the next to get it. Not counted as a handover.
    pub same_task_again: usize,
    /// Grants of the task that got the fewest.
    pub grants_per_task_min: usize,
    /// Grants of the task that got the most.
    pub grants_per_task_max: usize,
    /// Grants of the locker that got the fewest.
    pub grants_per_locker_min: usize,
    /// Grants of the locker that got the most.
    pub grants_per_locker_max: usize,
    /// From asking to the grant: 99 of 100 were not longer.
    pub wait_p99_ms: Option<u64>,
    /// The longest, also of those that got nothing in their time.
    pub wait_max_ms: Option<u64>,
    /// Pairs of holders that believed at the same time that the lock was theirs.
    pub overlaps: usize,
    /// No two holders had the same fencing token.
    pub tokens_unique: bool,
    /// Later holders had larger tokens.
    pub tokens_increasing: bool,
    /// Attempts that failed.
    pub failed: usize,
}

/// Jobs under several locks go on while a server is killed and comes back empty.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ServerKilled {
    /// How often a lock was granted.
    pub grants: usize,
    /// From the kill until the server answered again.
    pub down_ms: u64,
    /// The longest time in which somebody waited for a lock that nobody held.
    pub longest_without_grant_ms: u64,
    /// Attempts that failed; each was followed by another after 20 ms.
    pub failed_attempts: usize,
    /// What the first of them said.
    pub first_failure: Option<String>,
    /// Holders that were told, at the latest by their release, that the lock was lost.
    pub lost: usize,
    /// Releases that too few servers confirmed.
    pub unconfirmed_releases: usize,
    /// Pairs of holders that believed at the same time that the same lock was theirs.
    pub overlaps: usize,
    /// The longest of these times.
    pub overlap_longest_ms: u64,
    /// No two holders of one lock had the same fencing token.
    pub tokens_unique: bool,
    /// Later holders of one lock had larger tokens.
    pub tokens_increasing: bool,
}
