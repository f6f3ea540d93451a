//! Text for people.

use std::fmt;
use std::time::Duration;

use humantime::format_duration;
use quorumlock::Holder;
use quorumlock::admission::MemberList;
use serde::Serialize;

use crate::nodes::millis;

/// A duration as people read it: rounded up to whole seconds, below 10 s to tenths.
pub(crate) fn brief(time: Duration) -> String {
    let unit = if time < Duration::from_secs(10) { 100 } else { 1_000 };
    let ms = time.as_nanos().div_ceil(unit * 1_000_000) * unit;
    format_duration(Duration::from_millis(u64::try_from(ms).unwrap_or(u64::MAX))).to_string()
}

/// The holder of a lock.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Held {
    pub(crate) id: String,
    /// `null`: it is not known.
    pub(crate) label: Option<String>,
    /// `null`: the key never expires, so that only its writer ends the lock.
    pub(crate) remaining_ms: Option<u64>,
    pub(crate) holds: u32,
}

impl From<Holder> for Held {
    fn from(holder: Holder) -> Self {
        let Holder { id, remaining, holds, label, .. } = holder;
        Self { id, label, remaining_ms: remaining.map(millis), holds }
    }
}

/// The labels of a list.
pub(crate) fn labels(list: &MemberList) -> Vec<String> {
    list.labels().iter().map(ToString::to_string).collect()
}

/// How many milliseconds a hold lasts, as people read it.
pub(crate) struct Left(pub(crate) Option<u64>);

impl fmt::Display for Left {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(ms) => {
                let left = format_duration(Duration::from_millis(ms));
                write!(f, ", for another {left} unless renewed")
            }
            None => f.write_str(", without an expiry"),
        }
    }
}

/// Who holds a lock: the label of its locker, if that is known, and the id.
pub(crate) struct Who<'a> {
    pub(crate) id: &'a str,
    pub(crate) label: Option<&'a str>,
}

impl fmt::Display for Who<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.label {
            Some(label) => write!(f, "{label} ({})", self.id),
            None => f.write_str(self.id),
        }
    }
}

/// Whether an argument that should be a name is the URL of a node, which may hold a password.
pub(crate) fn is_node_url(text: &str) -> bool {
    let begins = |scheme| text.starts_with(scheme);
    text.contains("://") && ["redis", "valkey", "unix:"].into_iter().any(begins)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_rounded_up() {
        let cases =
            [(0, "0s"), (1, "100ms"), (1_234, "1s 300ms"), (9_999, "10s"), (61_001, "1m 2s")];
        for (ms, text) in cases {
            assert_eq!(brief(Duration::from_millis(ms)), text);
        }
    }
}
