//! Text for people.

use std::fmt;
use std::time::Duration;

use humantime::format_duration;
use quorumlock::Holder;
use quorumlock::admission::MemberList;
use quorumlock_command::Failure;
use quorumlock_protocol::without_password;
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

/// Refuses an argument that should be a name and is the URL of a node: an option is missing before it.
pub(crate) fn no_node_url(text: &str) -> Result<(), Failure> {
    if !is_node_url(text) {
        return Ok(());
    }
    // It may hold a password.
    let url = without_password(text);
    Err(Failure::usage(format!("{url} is the URL of a node: put --node before it")))
}

/// Whether the text is the URL of a node, and not a name with a colon.
pub(crate) fn is_node_url(text: &str) -> bool {
    let Some((scheme, _)) = text.split_once("://") else { return false };
    let scheme = scheme.to_ascii_lowercase();
    let is_scheme = scheme.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c));
    let begins = ["redis", "valkey"].into_iter().any(|begins| scheme.starts_with(begins));
    is_scheme && (begins || ["unix", "sentinel"].contains(&&*scheme))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_a_colon_is_no_url() {
        for url in [
            "redis://r1",
            "REDISS://u:pw@r1:7/0",
            "valkeys://r1",
            "redis-sentinel://s1/main",
            "sentinel://s1",
            "unix:///run/redis.sock",
            "redis+unix:///run/redis.sock",
        ] {
            assert!(is_node_url(url), "{url}");
        }
        for name in
            ["redis", "redis:job", "redis:a://b", "job://x", "http://x/y", "a:b:c", "r1:6379"]
        {
            assert!(!is_node_url(name), "{name}");
        }
    }

    #[test]
    fn durations_are_rounded_up() {
        let cases =
            [(0, "0s"), (1, "100ms"), (1_234, "1s 300ms"), (9_999, "10s"), (61_001, "1m 2s")];
        for (ms, text) in cases {
            assert_eq!(brief(Duration::from_millis(ms)), text);
        }
    }
}
