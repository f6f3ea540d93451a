//! The environment variables that [`Builder::from_env`](crate::Builder::from_env) and the command
//! `quorumlock` read.
//!
//! An empty value is a value, and an error where it makes no sense. Durations are written as
//! [`parse_duration`] reads them; yes and no as `true`, `1`, `yes`, `on` and `false`, `0`, `no`, `off`.
//!
#![doc = include_str!("variables.md")]

use std::fmt;
use std::time::Duration;

use quorumlock_protocol::without_password;

use crate::ConfigError;

/// Reads a duration: seconds, as `30` or `0.5`, or with units, as `500ms` or `1m30s`. The options of
/// the command `quorumlock` are read in the same way.
///
/// ```
/// # fn doc() -> Result<(), quorumlock::ConfigError> {
/// use std::time::Duration;
/// use quorumlock::env::parse_duration;
///
/// assert_eq!(parse_duration("90")?, Duration::from_secs(90));
/// assert_eq!(parse_duration("1m30s")?, Duration::from_secs(90));
/// # Ok(()) }
/// # doc().unwrap();
/// ```
///
/// # Errors
/// [`ConfigError::NoDuration`] with the text and the forms that it may have.
pub fn parse_duration(text: &str) -> Result<Duration, ConfigError> {
    let digits = text.trim().replacen('.', "", 1);
    let seconds = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    let unit = if seconds { "s" } else { "" };
    humantime::parse_duration(&format!("{}{unit}", text.trim())).map_err(|error| {
        ConfigError::NoDuration { text: without_password(text), why: error.to_string() }
    })
}

/// The texts of variables or arguments that name servers, or some of them.
#[derive(Clone, Default)]
pub(crate) struct Nodes(pub(crate) Vec<String>);

/// Without the texts, which may hold passwords.
impl fmt::Debug for Nodes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} texts", self.0.len())
    }
}

/// The options that variables or arguments have set, for errors.
#[derive(Clone, Default)]
pub(crate) struct Places(pub(crate) Vec<Place>);

/// Where an option was set.
#[derive(Clone)]
pub(crate) struct Place {
    pub(crate) option: &'static str,
    /// The variable, or the argument.
    pub(crate) name: String,
    pub(crate) value: String,
}

/// Without the values, which may hold passwords.
impl fmt::Debug for Places {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().map(|place| &place.name)).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_is_seconds_or_has_units() {
        let good = [
            ("0", 0),
            ("5", 5_000),
            (" 90 ", 90_000),
            ("0.5", 500),
            ("5s", 5_000),
            ("1.5s", 1_500),
            ("1m30s", 90_000),
            ("1m 30s", 90_000),
            ("250ms", 250),
        ];
        for (text, ms) in good {
            assert_eq!(parse_duration(text), Ok(Duration::from_millis(ms)), "{text:?}");
        }
        let bad =
            ["", " ", "soon", "-5", "5x", "1m30", "1 30", ".", ".5", "5.", "1.2.3", "1e3", "+5"];
        for bad in bad {
            let error = parse_duration(bad).expect_err(bad);
            assert!(matches!(error, ConfigError::NoDuration { .. }), "{error:?}");
            for part in [&format!("{bad:?} is no duration"), "seconds, as 30", "1m30s"] {
                assert!(error.to_string().contains(part), "{error}");
            }
        }
        assert!(parse_duration("99999999999999999999").is_err(), "more seconds than there are");
        let url = parse_duration("redis://:secret@host").expect_err("a URL").to_string();
        assert!(!url.contains("secret"), "{url}");
    }
}
