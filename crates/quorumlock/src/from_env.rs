//! A [`Builder`] from environment variables.

use std::env::{VarError, var};

use quorumlock_protocol::without_password;
use quorumlock_redis::split_urls;

use crate::env::{Place, Servers};
use crate::options::{LockerOption, OPTIONS, Value, check_environment};
use crate::{Builder, ConfigError, Error, Locker};

impl Builder {
    /// A builder with the options that the environment sets. The variables are those of the command
    /// `quorumlock`: see [`env`](crate::env). Options set in the program replace those of the
    /// environment.
    ///
    /// End it with [`Builder::build`], which uses the servers of the environment.
    ///
    /// ```no_run
    /// # fn doc() -> Result<(), quorumlock::Error> {
    /// use std::time::Duration;
    /// use quorumlock::{Builder, Locker};
    ///
    /// let locker = Locker::from_env()?; // or, with an option of the program's own:
    /// let locker = Builder::from_env()?.answer_timeout(Duration::from_secs(1)).build()?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`ConfigError::BadVariable`](crate::ConfigError::BadVariable) with the variable, its value
    /// and what it must be; also for a variable whose name differs from one of these by a letter or two.
    pub fn from_env() -> Result<Self, Error> {
        check_environment()?;
        let mut builder = Self::default();
        for option in OPTIONS {
            let text = match var(option.variable()) {
                Ok(text) if !text.is_empty() => text,
                Ok(_) | Err(VarError::NotPresent) => continue,
                Err(VarError::NotUnicode(text)) => {
                    let variable = option.variable();
                    return Err(wrong(
                        option,
                        variable,
                        &text.to_string_lossy(),
                        "it is not UTF-8",
                    )
                    .into());
                }
            };
            builder = option
                .set(builder, &text)
                .map_err(|why| wrong(option, option.variable(), &text, why))?
                .set_by(option, option.variable(), &text);
        }
        builder.check_urls()?;
        Ok(builder)
    }

    /// Locks on the servers that [`Builder::from_env`] has found: on a single server, if there is
    /// one URL; on the master, if they are replicated, or if the URL is one of sentinels; on the Redis
    /// Cluster, if they are its members; else on a quorum.
    ///
    /// # Errors
    /// [`Error::Config`] if there are none, and as [`Builder::single`], [`Builder::replicated`],
    /// [`Builder::cluster`] or [`Builder::quorum`]. The error names the variable that is wrong.
    pub fn build(mut self) -> Result<Locker, Error> {
        self.check_urls()?;
        let places = std::mem::take(&mut self.places);
        let Servers { urls, replicated, cluster } = std::mem::take(&mut self.servers);
        let built = match &urls[..] {
            [] => {
                let why =
                    "it is not set: give it the servers, as redis://HOST:6379, of a quorum all, \
                     separated by commas"
                        .into();
                let variable = "QUORUMLOCK_NODES".to_owned();
                return Err(ConfigError::BadVariable { variable, value: None, why }.into());
            }
            _ if replicated => self.replicated(urls),
            _ if cluster => self.cluster(urls),
            [url] => self.single(url),
            _ => self.quorum(urls),
        };
        built.map_err(|error| match error {
            Error::Config(error) => named(error, &places.0).into(),
            error => error,
        })
    }

    /// For errors: the option was set by this variable or argument.
    #[doc(hidden)]
    pub fn set_by(mut self, option: &LockerOption, name: String, value: &str) -> Self {
        self.places.0.push(Place { option: option.name, name, value: value.to_owned() });
        self
    }

    /// Adds the URLs that commas separate in `text`.
    pub(crate) fn add_urls(mut self, text: &str) -> Self {
        self.servers.urls.extend(split_urls(text));
        self
    }

    /// An empty entry is refused: dropping it could turn a quorum into a single server.
    fn check_urls(&self) -> Result<(), ConfigError> {
        let Servers { urls, replicated, cluster } = &self.servers;
        let wrong = |option: &str, why| {
            let variable = format!("QUORUMLOCK_{option}");
            // The other URLs may hold passwords.
            Err(ConfigError::BadVariable { variable, value: None, why })
        };
        match urls.iter().position(String::is_empty) {
            Some(empty) => wrong("NODES", format!("node {} of {} is empty", empty + 1, urls.len())),
            None if *replicated && *cluster => {
                wrong("CLUSTER", "QUORUMLOCK_REPLICATED is set, too".to_owned())
            }
            None => Ok(()),
        }
    }
}

fn wrong(
    option: &LockerOption,
    variable: String,
    text: &str,
    why: impl Into<String>,
) -> ConfigError {
    // Whatever the variable is for, its value may be a URL.
    let value = match option.value {
        Value::Urls(_) if text.contains(',') => None,
        _ => Some(without_password(text)),
    };
    ConfigError::BadVariable { variable, value, why: why.into() }
}

/// The error with the name of the variable or the argument from which the wrong value came, if it came from
/// one.
fn named(error: ConfigError, places: &[Place]) -> ConfigError {
    let name = match &error {
        ConfigError::BadDuration { what, .. } => what,
        ConfigError::DoesNotApply { option, .. } => option,
        ConfigError::BadUrl { .. } | ConfigError::SameServer { .. } => "nodes",
        ConfigError::BadPrefix { .. } => "prefix",
        ConfigError::BadLabel { .. } => "label",
        ConfigError::BadClientName(_) => "client_name",
        ConfigError::BadClockDrift { .. } => "max_clock_drift",
        ConfigError::TooManyReplicas { .. } => "replicas",
        ConfigError::TooManyLosses { .. } => "tolerate_lost_marks",
        ConfigError::BadCertificate(why) => {
            match places.iter().find(|place| why.starts_with(&place.value)) {
                Some(place) => place.option,
                None => return error,
            }
        }
        _ => return error,
    };
    let place = places.iter().rfind(|place| place.option == name);
    let option = OPTIONS.iter().find(|option| option.name == name);
    match (place, option) {
        (Some(Place { name, value, .. }), Some(option)) => {
            wrong(option, name.clone(), value, error.to_string())
        }
        _ => error,
    }
}

impl Locker {
    /// Locks on the servers and with the options that the environment names: see
    /// [`Builder::from_env`].
    ///
    /// # Errors
    /// As [`Builder::from_env`] and [`Builder::build`].
    pub fn from_env() -> Result<Self, Error> {
        Builder::from_env()?.build()
    }
}
