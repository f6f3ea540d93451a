//! The environment variables that [`Builder::from_env`](crate::Builder::from_env) and the command
//! `quorumlock` read.
//!
//! An empty value is a value, and an error where it makes no sense. Durations are written as
//! [`parse_duration`] reads them; yes and no as `true`, `1`, `yes`, `on` and `false`, `0`, `no`, `off`.

use std::env::VarError;
use std::fmt;
use std::path::Path;
use std::str::FromStr;
use std::time::Duration;

use quorumlock_protocol::without_password;
use quorumlock_redis::split_urls;

use crate::ConfigError;

/// The servers' URLs, separated by commas. One is a single server, several are a quorum, or with
/// [`REPLICATED`] a master and its replicas, with [`CLUSTER`] members of one Redis Cluster. Or one URL of
/// sentinels:
/// `redis-sentinel://user:password@host:26379,host:26379/NAME/0`, with the user, password and database
/// of the servers; `?sentinel_username=...&sentinel_password=...` are those of the sentinels, and
/// `rediss-sentinel://` is TLS to both.
pub const NODES: &str = "QUORUMLOCK_NODES";
/// Yes: several URLs are a master and its replicas.
pub const REPLICATED: &str = "QUORUMLOCK_REPLICATED";
/// Yes: the URLs are members of one Redis Cluster.
pub const CLUSTER: &str = "QUORUMLOCK_CLUSTER";
/// [`Builder::replicas`](crate::Builder::replicas), or `all` for
/// [`Builder::all_replicas`](crate::Builder::all_replicas).
pub const REPLICAS: &str = "QUORUMLOCK_REPLICAS";
/// [`Builder::durable`](crate::Builder::durable): yes or no.
pub const DURABLE: &str = "QUORUMLOCK_DURABLE";
/// [`Builder::admission`](crate::Builder::admission): `strict` or `redlock`.
pub const ADMISSION: &str = "QUORUMLOCK_ADMISSION";
/// [`Builder::max_lease`](crate::Builder::max_lease).
pub const MAX_LEASE: &str = "QUORUMLOCK_MAX_LEASE";
/// [`Builder::clock_bound`](crate::Builder::clock_bound).
pub const CLOCK_BOUND: &str = "QUORUMLOCK_CLOCK_BOUND";
/// [`Builder::wire`](crate::Builder::wire): `redisson` or `redlock`.
pub const WIRE: &str = "QUORUMLOCK_WIRE";
/// [`Builder::redisson_fenced`](crate::Builder::redisson_fenced): yes or no.
pub const REDISSON_FENCED: &str = "QUORUMLOCK_REDISSON_FENCED";
/// [`Builder::strict_order`](crate::Builder::strict_order): yes or no.
pub const STRICT_ORDER: &str = "QUORUMLOCK_STRICT_ORDER";
/// [`Builder::takeover_delay`](crate::Builder::takeover_delay).
pub const TAKEOVER_DELAY: &str = "QUORUMLOCK_TAKEOVER_DELAY";
/// A PEM file for [`Builder::tls_ca`](crate::Builder::tls_ca).
pub const TLS_CA: &str = "QUORUMLOCK_TLS_CA";
/// A PEM file: the certificate of [`Builder::tls_client`](crate::Builder::tls_client).
pub const TLS_CERT: &str = "QUORUMLOCK_TLS_CERT";
/// A PEM file: the key of [`Builder::tls_client`](crate::Builder::tls_client).
pub const TLS_KEY: &str = "QUORUMLOCK_TLS_KEY";

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

/// The servers that the environment names.
#[derive(Clone, Default)]
pub(crate) struct Servers {
    pub(crate) urls: Vec<String>,
    pub(crate) replicated: bool,
    pub(crate) cluster: bool,
}

/// Without the URLs, which may hold passwords.
impl fmt::Debug for Servers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} URLs", self.urls.len())
    }
}

/// The value of a variable, and its name for errors.
pub(crate) struct Variable {
    name: &'static str,
    value: String,
}

impl Variable {
    /// The variable, if it is set.
    pub(crate) fn read(name: &'static str) -> Result<Option<Self>, ConfigError> {
        match std::env::var(name) {
            Ok(value) => Ok(Some(Self { name, value })),
            Err(VarError::NotPresent) => Ok(None),
            Err(VarError::NotUnicode(value)) => {
                let value = value.to_string_lossy().into_owned();
                Err(Self { name, value }.wrong("it is not UTF-8"))
            }
        }
    }

    pub(crate) fn number<T: FromStr<Err: ToString>>(&self) -> Result<T, ConfigError> {
        self.value
            .parse()
            .map_err(|error: T::Err| self.wrong(format!("no number: {}", error.to_string())))
    }

    pub(crate) fn is(&self, word: &str) -> bool {
        self.value == word
    }

    pub(crate) fn duration(&self) -> Result<Duration, ConfigError> {
        parse_duration(&self.value).map_err(|error| self.wrong(error.to_string()))
    }

    pub(crate) fn flag(&self) -> Result<bool, ConfigError> {
        match &*self.value.to_ascii_lowercase() {
            "true" | "t" | "yes" | "y" | "on" | "1" => Ok(true),
            "false" | "f" | "no" | "n" | "off" | "0" => Ok(false),
            _ => Err(self.wrong("neither true nor false")),
        }
    }

    pub(crate) fn one_of<T: Copy>(&self, values: &[(&str, T)]) -> Result<T, ConfigError> {
        match values.iter().find(|(name, _)| *name == self.value) {
            Some((_, value)) => Ok(*value),
            None => {
                let names: Vec<_> = values.iter().map(|(name, _)| *name).collect();
                Err(self.wrong(format!("it must be {}", names.join(" or "))))
            }
        }
    }

    pub(crate) fn file(&self) -> Result<Vec<u8>, ConfigError> {
        std::fs::read(Path::new(&self.value)).map_err(|error| self.wrong(error.to_string()))
    }

    /// The URLs. An empty entry is refused: dropping it could turn a quorum into a single server.
    pub(crate) fn urls(&self) -> Result<Vec<String>, ConfigError> {
        let urls = split_urls(&self.value);
        match urls.iter().position(String::is_empty) {
            None => Ok(urls),
            Some(_) if urls.len() == 1 => Err(self.wrong("it is empty")),
            Some(empty) => {
                let why = format!("node {} of {} is empty", empty + 1, urls.len());
                // The others may hold passwords.
                Err(ConfigError::BadVariable { variable: self.name, value: None, why })
            }
        }
    }

    pub(crate) fn wrong(&self, why: impl Into<String>) -> ConfigError {
        // Whatever the variable is for, its value may be a URL.
        let (value, why) = (Some(without_password(&self.value)), why.into());
        ConfigError::BadVariable { variable: self.name, value, why }
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
