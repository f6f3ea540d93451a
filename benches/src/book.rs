//! What was measured.

use serde::{Deserialize, Serialize};

use crate::stats::Range;

/// The subject that all others are compared with.
pub const RAW: &str = "raw";

/// What was measured of whom.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Key {
    /// The workload.
    pub id: String,
    /// Of whom.
    pub subject: String,
    /// On how many servers.
    pub nodes: usize,
    /// How many tasks, waiters or held locks.
    pub tasks: usize,
    /// What.
    pub metric: String,
    /// In which unit.
    pub unit: String,
}

/// All that was measured, one value per key and round.
#[derive(Debug, Clone, Default)]
pub struct Book {
    entries: Vec<(Key, Vec<Option<f64>>)>,
}

/// One line of `docs/benchmarks.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// The workload.
    pub id: String,
    /// Of whom.
    pub subject: String,
    /// On how many servers.
    pub nodes: usize,
    /// How many tasks, waiters or held locks.
    pub tasks: usize,
    /// What.
    pub metric: String,
    /// In which unit.
    pub unit: String,
    /// Over all rounds.
    pub median: Option<f64>,
    /// Over all rounds.
    pub min: Option<f64>,
    /// Over all rounds.
    pub max: Option<f64>,
    /// The median of the ratios to the raw client of the same round.
    pub ratio_to_raw: Option<f64>,
    /// The least of them.
    pub ratio_min: Option<f64>,
    /// The largest of them.
    pub ratio_max: Option<f64>,
}

impl Book {
    /// Enters a value.
    pub fn enter(&mut self, round: usize, key: Key, value: f64) {
        let at = match self.entries.iter().position(|(known, _)| *known == key) {
            Some(at) => at,
            None => {
                self.entries.push((key, Vec::new()));
                self.entries.len() - 1
            }
        };
        let rounds = &mut self.entries[at].1;
        if rounds.len() <= round {
            rounds.resize(round + 1, None);
        }
        rounds[round] = Some(value);
    }

    /// In which unit a figure was entered; `None` if it was not.
    #[must_use]
    pub fn unit(&self, key: &Key) -> Option<String> {
        let same = |known: &Key| Key { unit: key.unit.clone(), ..known.clone() } == *key;
        self.entries.iter().find(|(known, _)| same(known)).map(|(known, _)| known.unit.clone())
    }

    /// The values of one key.
    #[must_use]
    pub fn values(&self, key: &Key) -> Vec<f64> {
        self.rounds(key).iter().flatten().copied().collect()
    }

    /// The ratios of one key to another subject's, each within its round.
    #[must_use]
    pub fn ratios(&self, key: &Key, to: &str) -> Vec<f64> {
        let other = Key { subject: to.to_owned(), ..key.clone() };
        let pairs = self.rounds(key).iter().zip(self.rounds(&other));
        let ratios = pairs.filter_map(|(value, base)| Some((*value)? / (*base)?));
        ratios.filter(|ratio| ratio.is_finite()).collect()
    }

    /// One row per key, in the order of their first values.
    #[must_use]
    pub fn rows(&self) -> Vec<Row> {
        self.entries.iter().map(|(key, _)| self.row(key)).collect()
    }

    fn row(&self, key: &Key) -> Row {
        let value = Range::of(self.values(key));
        let ratio = Range::of(self.ratios(key, RAW));
        Row {
            id: key.id.clone(),
            subject: key.subject.clone(),
            nodes: key.nodes,
            tasks: key.tasks,
            metric: key.metric.clone(),
            unit: key.unit.clone(),
            median: value.map(|value| rounded(value.median)),
            min: value.map(|value| rounded(value.min)),
            max: value.map(|value| rounded(value.max)),
            ratio_to_raw: ratio.map(|ratio| rounded(ratio.median)),
            ratio_min: ratio.map(|ratio| rounded(ratio.min)),
            ratio_max: ratio.map(|ratio| rounded(ratio.max)),
        }
    }

    fn rounds(&self, key: &Key) -> &[Option<f64>] {
        let found = self.entries.iter().find(|(known, _)| known == key);
        found.map_or(&[], |(_, rounds)| rounds)
    }
}

/// Four digits: more would only be noise.
fn rounded(value: f64) -> f64 {
    if value == 0.0 || !value.is_finite() {
        return value;
    }
    format!("{value:.3e}").parse().unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(subject: &str) -> Key {
        Key {
            id: "P1".into(),
            subject: subject.into(),
            nodes: 1,
            tasks: 1,
            metric: "pair p50".into(),
            unit: "us".into(),
        }
    }

    #[test]
    fn ratios_are_taken_within_a_round() {
        let mut book = Book::default();
        for (round, (raw, other)) in [(10.0, 9.0), (100.0, 50.0), (10.0, 8.0)].iter().enumerate() {
            book.enter(round, key(RAW), *raw);
            book.enter(round, key("other"), *other);
        }
        // Of a lap that failed there is no ratio.
        book.enter(3, key("other"), 1.0);
        assert_eq!(book.ratios(&key("other"), RAW), [0.9, 0.5, 0.8]);
        let rows = book.rows();
        assert_eq!((rows[0].ratio_to_raw, rows[0].median), (Some(1.0), Some(10.0)));
        assert_eq!((rows[1].ratio_to_raw, rows[1].ratio_min), (Some(0.8), Some(0.5)));
        assert_eq!(rows[1].ratio_max, Some(0.9));
    }

    #[test]
    fn without_a_raw_client_there_is_no_ratio() {
        let mut book = Book::default();
        book.enter(1, key("other"), 123_456.0);
        let row = &book.rows()[0];
        assert_eq!((row.median, row.ratio_to_raw), (Some(123_500.0), None));
    }

    #[test]
    fn a_row_is_what_the_file_says() {
        let mut book = Book::default();
        book.enter(0, key(RAW), 2.0);
        let text = serde_json::to_string(&book.rows()).unwrap();
        let begin = r#"[{"id":"P1","subject":"raw","nodes":1,"tasks":1,"metric":"pair p50","unit":"us","median":2.0"#;
        assert!(text.starts_with(begin), "{text}");
        assert_eq!(serde_json::from_str::<Vec<Row>>(&text).unwrap(), book.rows());
    }
}
