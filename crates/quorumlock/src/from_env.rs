//! A [`Builder`] from environment variables.

use std::env::{VarError, var};

use quorumlock_protocol::without_password;

use crate::env::{Place, Places};
use crate::options::{LockerOption, OPTIONS, Value, check_environment};
use crate::{Builder, ConfigError, Error, Servers};

impl Builder {
    /// A builder with the options that the environment sets. The variables are those of the command
    /// `quorumlock`: see [`env`](crate::env). Options set in the program replace those of the
    /// environment.
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
        builder.servers().map_err(|error| builder.places.name(error))?;
        Ok(builder)
    }

    /// The servers that the program or the environment names.
    #[doc(hidden)]
    pub fn servers(&self) -> Result<Servers, ConfigError> {
        match (&self.servers, &self.nodes.0[..]) {
            (Some(servers), _) => Ok(servers.clone()),
            (None, []) => {
                let why =
                    "it is not set: give it the servers, as redis://HOST:6379, of a quorum all, \
                     separated by commas"
                        .into();
                let variable = "QUORUMLOCK_NODES".to_owned();
                Err(ConfigError::BadVariable { variable, value: None, why })
            }
            (None, texts) => texts.join(",").parse(),
        }
    }

    /// For errors: the option was set by this variable or argument.
    #[doc(hidden)]
    pub fn set_by(mut self, option: &LockerOption, name: String, value: &str) -> Self {
        self.places.0.push(Place { option: option.name, name, value: value.to_owned() });
        self
    }

    /// Adds what stands for servers, or for some of them.
    pub(crate) fn add_nodes(mut self, text: &str) -> Self {
        self.nodes.0.push(text.to_owned());
        self
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
        Value::Servers(_) if text.contains(',') => None,
        _ => Some(without_password(text)),
    };
    ConfigError::BadVariable { variable, value, why: why.into() }
}

impl Places {
    /// The error with the name of the variable or the argument from which the wrong value came, if it
    /// came from one.
    pub(crate) fn name(&self, error: ConfigError) -> ConfigError {
        let name = match &error {
            ConfigError::BadDuration { what, .. } => what,
            ConfigError::DoesNotApply { option, .. } => option,
            ConfigError::BadUrl { .. }
            | ConfigError::EmptyUrl { .. }
            | ConfigError::SameServer { .. }
            | ConfigError::NoNodes => "nodes",
            ConfigError::BadPrefix { .. } => "prefix",
            ConfigError::BadLabel { .. } => "label",
            ConfigError::BadClientName(_) => "client_name",
            ConfigError::BadClockDrift { .. } => "max_clock_drift",
            ConfigError::TooManyReplicas { .. } => "replicas",
            ConfigError::TooManyLosses { .. } => "tolerate_lost_marks",
            ConfigError::BadCertificate(why) => {
                match self.0.iter().find(|place| why.starts_with(&place.value)) {
                    Some(place) => place.option,
                    None => return error,
                }
            }
            _ => return error,
        };
        let place = self.0.iter().rfind(|place| place.option == name);
        let option = OPTIONS.iter().find(|option| option.name == name);
        match (place, option) {
            (Some(Place { name, value, .. }), Some(option)) => {
                wrong(option, name.clone(), value, error.to_string())
            }
            _ => error,
        }
    }
}
