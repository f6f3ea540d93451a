//! The options of a locker as arguments of the command: the table of the library says which there are.

use std::env;

use clap::builder::{OsStr, PossibleValuesParser, Resettable, ValueParser};
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};
use quorumlock::Builder;
use quorumlock::options::{Group, LockerOption, OPTIONS, Value, check_environment};

/// The options that the arguments and the environment give. `LOCKS`: those about how locks are taken,
/// too.
#[derive(Debug, Clone)]
pub(crate) struct Options<const LOCKS: bool> {
    pub(super) builder: Box<Builder>,
    given: Vec<&'static str>,
}

impl<const LOCKS: bool> Options<LOCKS> {
    /// Whether the option is given.
    pub(super) fn has(&self, name: &str) -> bool {
        self.given.contains(&name)
    }

    fn all() -> impl Iterator<Item = &'static LockerOption> {
        OPTIONS.iter().filter(|option| LOCKS || option.group != Group::Locks)
    }
}

impl<const LOCKS: bool> Args for Options<LOCKS> {
    fn augment_args(command: Command) -> Command {
        command.args(Self::all().map(arg))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl<const LOCKS: bool> FromArgMatches for Options<LOCKS> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        check_environment().map_err(|error| clap::Error::raw(ERROR, format!("{error}\n")))?;
        let mut this = Self { builder: Box::default(), given: Vec::new() };
        this.update_from_arg_matches(matches)?;
        Ok(this)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        for option in Self::all() {
            let source = matches.value_source(option.name);
            if !matches!(source, Some(ValueSource::CommandLine | ValueSource::EnvVariable)) {
                continue;
            }
            for text in matches.get_many::<String>(option.name).into_iter().flatten() {
                let set = option.set(std::mem::take(&mut *self.builder), text);
                let place = match source {
                    Some(ValueSource::CommandLine) => format!("--{}", option.flag()),
                    _ => option.variable(),
                };
                // The parser of the argument has read it before.
                let set = set.map_err(|why| clap::Error::raw(ERROR, why))?;
                *self.builder = set.set_by(option, place, text);
            }
            self.given.push(option.name);
        }
        Ok(())
    }
}

const ERROR: clap::error::ErrorKind = clap::error::ErrorKind::ValueValidation;

fn arg(option: &'static LockerOption) -> Arg {
    let arg = Arg::new(option.name)
        .long(option.flag())
        .env(variable(option))
        // URLs may hold passwords.
        .hide_env_values(true)
        .value_parser(parser(option))
        .help(help(option))
        .help_heading(match option.group {
            Group::Servers => "Servers",
            Group::Agreed => "What all programs with these servers must agree on",
            Group::Locks => "Locks",
        });
    let arg = match option.placeholder() {
        Some(placeholder) => arg.value_name(placeholder.into_owned()),
        None => arg.num_args(0..=1).require_equals(true).default_missing_value("true"),
    };
    match option.value {
        Value::Servers(_) => arg.action(ArgAction::Append),
        _ => arg,
    }
}

/// The variable that sets the option; `None` if it is empty, which counts as not set.
fn variable(option: &LockerOption) -> Resettable<OsStr> {
    let variable = option.variable();
    match env::var_os(&variable).is_some_and(|value| value.is_empty()) {
        true => Resettable::Reset,
        false => Resettable::Value(variable.into()),
    }
}

fn parser(option: &'static LockerOption) -> ValueParser {
    match option.value {
        Value::Word(words) => PossibleValuesParser::new(words.iter().map(|(word, _)| *word)).into(),
        _ => ValueParser::from(move |text: &str| {
            option.set(Builder::default(), text).map(|_| text.to_owned())
        }),
    }
}

fn help(option: &LockerOption) -> String {
    let LockerOption { about, default, .. } = option;
    match option.value {
        Value::Servers(_) => format!("{about} Repeat the option, or separate URLs by commas"),
        Value::Time(..) => {
            format!("{} [default: {default}; {}]", about.trim_end_matches('.'), option.values())
        }
        _ => format!("{} [default: {default}]", about.trim_end_matches('.')),
    }
}
