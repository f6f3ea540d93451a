use serde::{Deserialize, Serialize};

/// The file of the report, beside `lab.json`.
pub const MEASURED: &str = "comparison.json";

/// The results of a comparison, with the same fields for both modes. `null` means not measured.
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
    /// The version of this program.
    pub version: String,
    /// `release` or `debug`. The times of a debug build are not representative.
    pub build: String,
    /// The product and version that the server reports.
    pub server: Option<String>,
    /// Processors that this process may use; the servers share them.
    pub cpus: Option<usize>,
    /// Servers of the quorum.
    pub nodes: usize,
    /// Tasks that lock at the same time.
    pub tasks: usize,
    /// The requested measuring time per mode.
    pub seconds: f64,
    /// The seed of the schedule.
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
    /// A server is killed and restarts empty. `null` if this process did not start the servers.
    pub server_killed: Option<ServerKilled>,
}

/// One task locks and unlocks a free name.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Alone {
    /// The number of pairs of lock and unlock.
    pub pairs: usize,
    /// The time of lock and unlock together: median.
    pub p50_us: Option<u64>,
    /// The time of lock and unlock together: 99th percentile.
    pub p99_us: Option<u64>,
    /// Attempts that failed.
    pub failed: usize,
}

/// Many tasks lock and unlock, each its own name.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Parallel {
    /// The number of pairs of lock and unlock.
    pub pairs: usize,
    /// Pairs per second.
    pub pairs_per_second: u64,
    /// Attempts that failed.
    pub failed: usize,
}

/// Many tasks of several lockers contend for one name. Each holds it for the shortest sleep of a
/// timer.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Contended {
    /// The number of lockers, each a process.
    pub lockers: usize,
    /// The number of grants.
    pub grants: usize,
    /// The duration of a hold: median.
    pub held_p50_us: Option<u64>,
    /// From the end of one task's work to the start of another's: median.
    pub handover_p50_us: Option<u64>,
    /// The same: 99th percentile.
    pub handover_p99_us: Option<u64>,
    /// Handovers to another task of the same locker.
    pub to_another_task: usize,
    /// Handovers to a task of another locker.
    pub to_another_locker: usize,
    /// Handovers to a task of another locker: median.
    pub to_another_locker_p50_us: Option<u64>,
    /// Handovers to a task of another locker: 99th percentile.
    pub to_another_locker_p99_us: Option<u64>,
    /// How often the task that released the lock was the next to get it. Not counted as a handover.
    pub same_task_again: usize,
    /// Grants of the task that got the fewest.
    pub grants_per_task_min: usize,
    /// Grants of the task that got the most.
    pub grants_per_task_max: usize,
    /// Grants of the locker that got the fewest.
    pub grants_per_locker_min: usize,
    /// Grants of the locker that got the most.
    pub grants_per_locker_max: usize,
    /// From the request to the grant: 99th percentile.
    pub wait_p99_ms: Option<u64>,
    /// The longest wait, including waits without a grant.
    pub wait_max_ms: Option<u64>,
    /// Grants that overtook a call: another locker had begun to wait before, and waited on.
    #[serde(default)]
    pub overtakings: usize,
    /// The same, of 1,000 grants.
    #[serde(default)]
    pub overtakings_per_1000: Option<f64>,
    /// Pairs of holders that believed at the same time that they held the lock.
    pub overlaps: usize,
    /// Whether no two holders had the same fencing token.
    pub tokens_unique: bool,
    /// Whether later holders had larger fencing tokens.
    pub tokens_increasing: bool,
    /// Attempts that failed.
    pub failed: usize,
}

/// Jobs under several locks continue while a server is killed and restarted empty.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ServerKilled {
    /// The number of grants.
    pub grants: usize,
    /// From the kill until the server answered again.
    pub down_ms: u64,
    /// The longest time in which a task waited for a lock and no task believed to hold it.
    pub longest_without_grant_ms: u64,
    /// Attempts that failed. The task tried again after 20 ms.
    pub failed_attempts: usize,
    /// The error of the first failed attempt.
    pub first_failure: Option<String>,
    /// Holders that were notified of the loss of the lock, at the latest by their release.
    pub lost: usize,
    /// Releases that too few servers confirmed.
    pub unconfirmed_releases: usize,
    /// Pairs of holders that believed at the same time that they held the same lock.
    pub overlaps: usize,
    /// The duration of the longest overlap.
    pub overlap_longest_ms: u64,
    /// Whether no two holders of one lock had the same fencing token.
    pub tokens_unique: bool,
    /// Whether later holders of one lock had larger fencing tokens.
    pub tokens_increasing: bool,
}
