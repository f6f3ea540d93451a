//! The results: every round of every figure, so that any two figures can be compared within a
//! round.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};
use serde::{Deserialize, Serialize};

/// The subject that all others are compared with.
pub const RAW: &str = "raw";
/// A cluster of etcd, which synchronises each write to disk.
pub const ETCD: &str = "etcd, fsync";

/// The identity of a figure: metric, subject, servers and workload.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Key {
    /// The workload: `P1`.
    pub workload: String,
    /// The program of the servers: `redis 7.0`.
    pub server: String,
    /// The number of servers.
    pub nodes: usize,
    /// The number of tasks, waiters or held locks.
    pub tasks: usize,
    /// The form of the workload: `fresh names`.
    pub case: String,
    /// The name of the subject.
    pub subject: String,
    /// The metric.
    pub metric: String,
    /// The unit of the values.
    pub unit: String,
}

/// One figure: a value for each round that has one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// The identity of the figure.
    #[serde(flatten)]
    pub key: Key,
    /// `None`: the subject had no lap in that round.
    pub rounds: Vec<Option<f64>>,
}

/// All figures. `docs/benchmarks/results.json` holds them.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Results {
    /// By workload and server: see [`condition`](Self::condition).
    conditions: BTreeMap<String, Condition>,
    rows: Vec<Row>,
}

/// The conditions under which a workload was run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Condition {
    /// The version that the servers report: `redis 7.0.15`.
    pub version: String,
    /// The machine, the crates and the plan.
    pub machine: String,
}

/// The median of several rounds, with the smallest and the largest value.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Range {
    /// The middle value; for an even number of values, the mean of the two middle ones.
    pub median: f64,
    /// The smallest value.
    pub min: f64,
    /// The largest value.
    pub max: f64,
}

impl Range {
    /// The range of these values; `None` if there are none.
    #[must_use]
    pub fn of(mut values: Vec<f64>) -> Option<Self> {
        values.sort_by(f64::total_cmp);
        let (min, max) = (*values.first()?, *values.last()?);
        let middle = values.len() / 2;
        let median = match values.len() % 2 {
            0 => f64::midpoint(values[middle - 1], values[middle]),
            _ => values[middle],
        };
        Some(Self { median, min, max })
    }
}

impl Row {
    /// The range over all rounds; `None` if no round has a value.
    #[must_use]
    pub fn range(&self) -> Option<Range> {
        Range::of(self.rounds.iter().flatten().copied().collect())
    }

    /// The ratio to another row, round by round.
    #[must_use]
    pub fn ratio(&self, to: &Self) -> Option<Range> {
        let rounds = self.rounds.iter().zip(&to.rounds);
        let ratios = rounds.filter_map(|(value, base)| Some((*value)? / (*base)?));
        Range::of(ratios.filter(|ratio| ratio.is_finite()).collect())
    }
}

impl Results {
    /// Enters a value. A value that is not finite is ignored.
    pub fn enter(&mut self, round: usize, key: Key, value: f64) {
        if !value.is_finite() {
            return;
        }
        let at = match self.rows.iter().position(|row| row.key == key) {
            Some(at) => at,
            None => {
                self.rows.push(Row { key, rounds: Vec::new() });
                self.rows.len() - 1
            }
        };
        let rounds = &mut self.rows[at].rounds;
        if rounds.len() <= round {
            rounds.resize(round + 1, None);
        }
        rounds[round] = Some(four_digits(value));
    }

    /// Records the conditions under which a workload was run.
    pub fn note(&mut self, workload: &str, server: &str, condition: Condition) {
        self.conditions.insert(format!("{workload}, {server}"), condition);
    }

    /// The conditions under which a workload was run; `None` if it was not run.
    #[must_use]
    pub fn condition(&self, workload: &str, server: &str) -> Option<&Condition> {
        self.conditions.get(&format!("{workload}, {server}"))
    }

    /// The kinds of servers in the results, in the order of their names.
    #[must_use]
    pub fn servers(&self) -> Vec<&str> {
        let mut servers: Vec<_> = self.rows.iter().map(|row| row.key.server.as_str()).collect();
        servers.sort_unstable();
        servers.dedup();
        servers
    }

    /// All rows of a workload, in the order of their first values.
    pub fn rows<'a>(&'a self, workload: &'a str) -> impl Iterator<Item = &'a Row> {
        self.rows.iter().filter(move |row| row.key.workload == workload)
    }

    /// The row of this key. The unit is not compared.
    #[must_use]
    pub fn find(&self, key: &Key) -> Option<&Row> {
        self.rows.iter().find(|row| Key { unit: key.unit.clone(), ..row.key.clone() } == *key)
    }

    /// The row of the same figure for another subject.
    #[must_use]
    pub fn other(&self, row: &Row, subject: &str) -> Option<&Row> {
        self.find(&Key { subject: subject.to_owned(), ..row.key.clone() })
    }

    /// Takes over the results of `new`. Each workload and kind of server that `new` has replaces
    /// the old results as a whole.
    pub fn take_over(&mut self, new: Self) {
        let again = |key: &Key| new.condition(&key.workload, &key.server).is_some();
        self.rows.retain(|row| !again(&row.key));
        self.rows.extend(new.rows);
        self.conditions.extend(new.conditions);
    }

    /// Reads results from a file. A missing file gives empty results.
    ///
    /// # Errors
    /// If the file cannot be read or is not a results file.
    pub fn read(path: &Path) -> Result<Self> {
        if !path.exists() {
            return Ok(Self::default());
        }
        serde_json::from_str(&fs::read_to_string(path)?)
            .with_context(|| format!("{} holds no results", path.display()))
    }

    /// Writes the results into a file, with a line for each figure.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn write(&self, path: &Path) -> Result<()> {
        let lines: Vec<_> =
            self.rows.iter().map(serde_json::to_string).collect::<Result<_, _>>()?;
        let conditions = serde_json::to_string_pretty(&self.conditions)?;
        let rows = lines.join(",\n");
        let text = format!("{{\"conditions\": {conditions},\n\"rows\": [\n{rows}\n]}}\n");
        Ok(fs::write(path, text)?)
    }
}

/// Rounds to four significant digits: more would be noise.
fn four_digits(value: f64) -> f64 {
    format!("{value:.3e}").parse().unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(subject: &str) -> Key {
        Key {
            workload: "P1".into(),
            server: "redis 7.0".into(),
            subject: subject.into(),
            ..Key::default()
        }
    }

    fn measured(subject: &str, rounds: &[f64]) -> Results {
        let mut results = Results::default();
        for (round, value) in rounds.iter().enumerate() {
            results.enter(round, key(subject), *value);
        }
        let condition = Condition { version: "redis 7.0.15".into(), machine: "ours".into() };
        results.note("P1", "redis 7.0", condition);
        results
    }

    #[test]
    fn the_median_is_in_the_middle() {
        let range = |values: &[f64]| Range::of(values.to_vec());
        assert_eq!(range(&[3.0, 1.0, 2.0]), Some(Range { median: 2.0, min: 1.0, max: 3.0 }));
        assert_eq!(range(&[4.0, 1.0]), Some(Range { median: 2.5, min: 1.0, max: 4.0 }));
        assert_eq!(range(&[]), None);
    }

    #[test]
    fn ratios_are_taken_within_a_round() {
        let mut results = measured(RAW, &[10.0, 100.0, 10.0]);
        [9.0, 50.0, 8.0, 1.0].iter().enumerate().for_each(|(round, value)| {
            results.enter(round, key("other"), *value);
        });
        let row = results.find(&key("other")).unwrap();
        // The raw client had no lap in the fourth round.
        let ratio = row.ratio(results.other(row, RAW).unwrap()).unwrap();
        assert_eq!(ratio, Range { median: 0.8, min: 0.5, max: 0.9 });
        assert!(results.other(row, "nobody").is_none());
    }

    #[test]
    fn a_value_that_is_no_number_is_none() {
        let results = measured(RAW, &[f64::NAN, 123_456.0]);
        assert_eq!(results.find(&key(RAW)).unwrap().rounds, [None, Some(123_500.0)]);
    }

    #[test]
    fn what_was_measured_again_replaces_what_was_there() {
        let mut results = measured("gone", &[1.0]);
        let elsewhere = Key { server: "valkey 9.1".into(), ..key("stays") };
        results.enter(0, elsewhere.clone(), 2.0);
        results.take_over(measured("new", &[3.0]));
        assert_eq!(results.find(&key("gone")), None);
        assert!(results.find(&key("new")).is_some() && results.find(&elsewhere).is_some());
    }

    #[test]
    fn a_file_holds_all_of_it() {
        let path = std::env::temp_dir().join(format!("results-{}.json", std::process::id()));
        let results = measured(RAW, &[f64::NAN, 2.5]);
        results.write(&path).unwrap();
        let read = Results::read(&path).unwrap();
        fs::remove_file(&path).unwrap();
        assert_eq!(read, results);
        assert_eq!(Results::read(&path).unwrap(), Results::default());
    }
}
