//! Text for people.

use std::fmt;
use std::time::{Duration, SystemTime};

use humantime::{format_duration, format_rfc3339_seconds};
use quorumlock::admission::MemberList;
use quorumlock::{FencingToken, Holder};
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
    /// The last token in the hash slot of the name. `null`: there is none, or it is not known.
    pub(crate) last_token: Option<u64>,
    /// The time of that token (RFC 3339). `null`: it is not known, or the token is no time.
    pub(crate) since: Option<String>,
}

impl From<Holder> for Held {
    fn from(holder: Holder) -> Self {
        let Holder { id, remaining, holds, label, last_token, .. } = holder;
        // A holder without a label is another program, which need not raise the token.
        let last_token = last_token.filter(|_| label.is_some()).map(FencingToken::get);
        let since =
            last_token.and_then(time_of).map(|time| format_rfc3339_seconds(time).to_string());
        Self { id, label, remaining_ms: remaining.map(millis), holds, last_token, since }
    }
}

impl Held {
    /// When the lock was taken, as far as the token tells.
    pub(crate) fn began(&self) -> Option<SystemTime> {
        self.last_token.and_then(time_of)
    }
}

/// The time of a token, unless a server counts them.
fn time_of(token: u64) -> Option<SystemTime> {
    /// July 2017, in microseconds since 1970. A smaller token is the count of a server.
    const FIRST: u64 = 1_500_000_000_000_000;
    (token >= FIRST).then(|| SystemTime::UNIX_EPOCH + Duration::from_micros(token))
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

/// Who holds a lock, for how long, and since when.
pub(crate) struct HeldBy<'a>(pub(crate) &'a Held);

impl fmt::Display for HeldBy<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Held { id, label, remaining_ms, holds, last_token, since } = self.0;
        match (id.as_str(), holds) {
            (Holder::READERS, holds) => write!(f, "{holds} readers")?,
            (id, holds) => {
                write!(f, "{}", Who { id, label: label.as_deref() })?;
                if *holds > 1 {
                    write!(f, " ({holds} holds)")?;
                }
            }
        }
        Left(*remaining_ms).fmt(f)?;
        Since { since: since.as_deref(), last_token: *last_token }.fmt(f)
    }
}

/// Since when a lock is held, as its token tells.
pub(crate) struct Since<'a> {
    pub(crate) since: Option<&'a str>,
    pub(crate) last_token: Option<u64>,
}

impl fmt::Display for Since<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.since, self.last_token) {
            (Some(since), Some(token)) => write!(f, ", since {since} (token {token})"),
            (None, Some(token)) => write!(f, ", token {token}"),
            _ => Ok(()),
        }
    }
}

/// How many wait for a lock.
pub(crate) struct Waiters(pub(crate) Option<u64>);

impl fmt::Display for Waiters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            None | Some(0) => Ok(()),
            Some(1) => f.write_str("; 1 waits"),
            Some(waiters) => write!(f, "; {waiters} wait"),
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
