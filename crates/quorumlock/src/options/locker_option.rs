//! One option, and how its value is read and written.

use std::borrow::Cow;
use std::path::PathBuf;
use std::time::Duration;

use quorumlock_protocol::bounds::{Bounds, Max};

use super::servers::{Kinds, On};
use crate::Builder;
use crate::env::parse_duration;

/// An option of a locker.
#[derive(Debug)]
pub struct LockerOption {
    /// Its name: that of the method of [`Builder`], in the variable and in the argument.
    pub name: &'static str,
    /// What its value is, and what sets it.
    pub value: Value,
    /// What holds without it.
    pub default: &'static str,
    /// What it is about.
    pub group: Group,
    /// The servers and options beside which it makes sense.
    pub(super) applies: Applies,
    /// What it does: one or two sentences.
    pub about: &'static str,
}

/// What an option is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    /// Where the servers are, and how to speak to them.
    Servers,
    /// What all programs with these servers must agree on.
    Agreed,
    /// How locks are taken.
    Locks,
}

/// What the value of an option is, and the method of [`Builder`] that sets it.
#[derive(Debug)]
pub enum Value {
    /// Yes or no.
    Flag(fn(Builder, bool) -> Builder),
    /// A duration.
    Time(Bounds, fn(Builder, Duration) -> Builder),
    /// One of these words.
    Word(&'static [Word]),
    /// The path of a file.
    File(fn(Builder, PathBuf) -> Builder),
    /// A text: what stands for it in help and tables, its bounds, and what reads it.
    Text(&'static str, &'static str, fn(Builder, &str) -> Result<Builder, String>),
    /// Servers as text ([`Servers`](crate::Servers)); each call adds some.
    Servers(fn(Builder, &str) -> Builder),
}

/// A word, and what it sets.
pub type Word = (&'static str, fn(Builder) -> Builder);

/// The servers and options beside which an option makes sense. Beside others it is an error, and
/// never ignored.
#[derive(Debug)]
pub(super) enum Applies {
    Always,
    /// If `given` is true of a builder, it is an error on servers that are not among `servers`, and
    /// where one of `unless` is true: the text says beside what.
    Only {
        given: fn(&Builder) -> bool,
        servers: Kinds,
        unless: &'static [Unless],
    },
}

/// What an option is not for, and whether that is so.
pub(super) type Unless = (&'static str, fn(&Builder, On) -> bool);

impl LockerOption {
    /// The environment variable.
    pub fn variable(&self) -> String {
        format!("QUORUMLOCK_{}", self.name.to_ascii_uppercase())
    }

    /// The argument of the command, without dashes before it.
    pub fn flag(&self) -> String {
        match self.value {
            // Each names one, or several.
            Value::Servers(_) => "node".to_owned(),
            _ => self.name.replace('_', "-"),
        }
    }

    /// Sets the option to the value that `text` stands for.
    ///
    /// # Errors
    /// What the text must be.
    pub fn set(&self, builder: Builder, text: &str) -> Result<Builder, String> {
        match self.value {
            Value::Flag(set) => flag(text).map(|value| set(builder, value)),
            Value::Time(bounds, set) => {
                let time = parse_duration(text).map_err(|error| error.to_string())?;
                bounds.check_to(Duration::MAX, time).map_err(|error| error.to_string())?;
                Ok(set(builder, time))
            }
            Value::Word(words) => match words.iter().find(|(word, _)| *word == text) {
                Some((_, set)) => Ok(set(builder)),
                None => Err(format!("it must be {}", self.values())),
            },
            Value::File(set) => Ok(set(builder, PathBuf::from(text))),
            Value::Text(_, _, set) => set(builder, text),
            Value::Servers(set) => Ok(set(builder, text)),
        }
    }

    /// What stands for a value in help and tables; `None`: the option needs none.
    pub fn placeholder(&self) -> Option<Cow<'static, str>> {
        match self.value {
            Value::Flag(_) => None,
            Value::Time(..) => Some("TIME".into()),
            Value::Word(_) => Some(self.values().replace(" or ", "|").into()),
            Value::File(_) => Some("FILE".into()),
            Value::Text(what, ..) => Some(what.into()),
            Value::Servers(_) => Some("URL".into()),
        }
    }

    /// The values that the option may have.
    pub fn values(&self) -> String {
        match self.value {
            Value::Flag(_) => "true or false".to_owned(),
            Value::Time(bounds, _) => {
                let max = match bounds.max {
                    Max::Option(option) => option.to_owned(),
                    Max::Is(max) => time(max),
                    _ => String::new(),
                };
                format!("{} to {max}", time(bounds.min))
            }
            Value::Word(words) => {
                words.iter().map(|(word, _)| *word).collect::<Vec<_>>().join(" or ")
            }
            Value::File(_) => "the path of a file".to_owned(),
            Value::Text(_, bounds, _) => bounds.to_owned(),
            Value::Servers(_) => "URLs, separated by commas".to_owned(),
        }
    }

    /// The servers to which the option applies.
    pub fn servers(&self) -> &'static str {
        match self.applies {
            Applies::Always => "all",
            Applies::Only { ref servers, .. } => servers.text,
        }
    }
}

fn flag(text: &str) -> Result<bool, String> {
    match &*text.to_ascii_lowercase() {
        "true" | "t" | "yes" | "y" | "on" | "1" => Ok(true),
        "false" | "f" | "no" | "n" | "off" | "0" => Ok(false),
        _ => Err("neither true nor false".to_owned()),
    }
}

fn time(time: Duration) -> String {
    const DAY: u64 = 24 * 60 * 60;
    match time.as_secs() {
        _ if time.is_zero() => "0".to_owned(),
        seconds if seconds >= DAY && seconds % DAY == 0 => format!("{} days", seconds / DAY),
        _ => humantime::format_duration(time).to_string(),
    }
}
