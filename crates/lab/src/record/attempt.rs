use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};

/// One attempt to lock, as a row of `attempts.csv`. Each row says which run it is of, so that the
/// files of several runs can be read as one table.
///
/// All times are nanoseconds on the one clock that judges.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attempt {
    /// The name of the run.
    pub run: String,
    /// The scenario's id.
    pub scenario: String,
    /// The mode.
    pub mode: String,
    /// The driver of servers and lockers.
    pub driver: String,
    /// Determines every random number of the run.
    pub seed: u64,
    /// The repetition of this scenario, mode and seed, from zero.
    pub repetition: u64,
    /// The takeover delay in milliseconds.
    #[serde(default)]
    pub takeover_delay_ms: u64,
    /// The version of quorumlock.
    pub quorumlock: String,
    /// The product and version of the first server.
    pub server: String,
    /// The lock's name. A slot of permits is `NAME#SLOT`, names held together are `NAME+NAME`.
    pub name: String,
    /// How many may hold the name at once.
    pub permits: u32,
    /// Whether it was held for reading.
    pub reads: bool,
    /// The client that asked.
    pub client: String,
    /// The client's task, if the attempt was granted.
    pub task: Option<usize>,
    /// The fencing token, if the attempt was granted.
    pub token: Option<u64>,
    /// When the client asked.
    pub asked_ns: u64,
    /// When the client learned of the grant; absent: it was not granted.
    pub granted_ns: Option<u64>,
    /// When the client ceased to believe that it held the lock.
    pub believed_until_ns: Option<u64>,
    /// When the client gave the lock back, was told of the loss, or gave up.
    pub ended_ns: u64,
}

/// Writes the rows, with a heading.
///
/// # Errors
/// The [`io::Error`] of the system.
pub fn write_attempts(path: &Path, rows: impl IntoIterator<Item = Attempt>) -> io::Result<()> {
    let mut csv = csv::Writer::from_path(path)?;
    for row in rows {
        csv.serialize(row)?;
    }
    csv.flush()
}

/// Reads what [`write_attempts`] wrote.
///
/// # Errors
/// The [`io::Error`] of the system, also if a row is not an attempt.
pub fn read_attempts(path: &Path) -> io::Result<Vec<Attempt>> {
    let mut csv = csv::Reader::from_path(path)?;
    Ok(csv.deserialize().collect::<Result<_, _>>()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_read_and_what_does_not_apply_is_empty() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("attempts.csv");
        let waited = Attempt { run: "L01-S-process-s7-0".into(), ..Attempt::default() };
        let held = Attempt {
            name: "a, \"b\"".into(),
            task: Some(3),
            token: Some(u64::MAX),
            granted_ns: Some(2),
            believed_until_ns: Some(5),
            ended_ns: 9,
            ..waited.clone()
        };
        write_attempts(&path, [waited.clone(), held.clone()]).unwrap();
        assert_eq!(read_attempts(&path).unwrap(), [waited, held]);
        let text = std::fs::read_to_string(&path).unwrap();
        assert_eq!(text.lines().nth(1), Some("L01-S-process-s7-0,,,,0,0,0,,,,0,false,,,,0,,,0"));
    }
}
