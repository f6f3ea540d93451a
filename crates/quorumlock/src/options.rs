//! The options of a locker. Each is declared once, in [`OPTIONS`]: from it come the variables of
//! [`Builder::from_env`], the arguments of the command `quorumlock`, the checks that an option applies
//! to the servers, and the tables of the pages.

mod locker_option;
mod misspelled;
mod servers;
mod table;

use std::time::Duration;

use quorumlock_protocol::admission::members::CLOCK_BOUND;
use quorumlock_protocol::{ConfigError, Settings};

use self::locker_option::Applies;
pub use self::locker_option::{Group, LockerOption, Value, Word};
pub use self::misspelled::check_environment;
pub(crate) use self::servers::{On, ServerKind};
pub use self::table::OPTIONS;
use crate::{Admission, Builder};

impl Builder {
    /// Fails for the first option that is given and does not apply.
    pub(crate) fn check_options(&self, on: On) -> Result<(), ConfigError> {
        for option in OPTIONS {
            let Applies::Only { given, servers, unless } = &option.applies else { continue };
            if !given(self) {
                continue;
            }
            let beside = || unless.iter().find(|(_, wrong)| wrong(self, on)).map(|(what, _)| *what);
            let wrong = match servers.kinds.contains(&on.kind) {
                false => Some(on.kind.text()),
                true => beside(),
            };
            if let Some(servers) = wrong {
                return Err(ConfigError::DoesNotApply { option: option.name, servers });
            }
        }
        Ok(())
    }
}

/// For the command `quorumlock`, which also speaks to servers without a locker.
impl Builder {
    #[doc(hidden)]
    #[must_use]
    pub fn settings(&self) -> Settings {
        let mut settings = self.settings.clone();
        settings.lease = self.lease_or_default();
        settings
    }

    /// Takes the prefix away.
    #[doc(hidden)]
    pub fn take_prefix(&mut self) -> Option<String> {
        self.prefix.take()
    }

    /// Whether so many independent nodes must prove their memory.
    #[doc(hidden)]
    #[must_use]
    pub fn is_strict(&self, nodes: usize) -> bool {
        self.admission.map_or(nodes > 1, |admission| admission == Admission::Strict)
    }

    #[doc(hidden)]
    #[must_use]
    pub fn lease_or_default(&self) -> Duration {
        self.lease.unwrap_or_else(|| self.settings.lease.min(self.settings.max_lease))
    }

    #[doc(hidden)]
    #[must_use]
    pub fn clock_bound_or_default(&self) -> Duration {
        self.clock_bound.unwrap_or(CLOCK_BOUND)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::env::parse_duration;

    /// A value other than the default.
    fn other_value(option: &LockerOption) -> &'static str {
        match option.value {
            Value::Flag(_) if option.default == "true" => "false",
            Value::Flag(_) => "true",
            Value::Time(..) => "50ms",
            Value::Word(words) => words[0].0,
            Value::File(_) => "file",
            Value::Text(..) => "1",
            Value::Servers(_) => "redis://127.0.0.1",
        }
    }

    #[test]
    fn each_option_sets_something_and_is_then_given() {
        let blank = Builder::default();
        for option in OPTIONS {
            let set = option.set(blank.clone(), other_value(option)).expect(option.name);
            assert_ne!(format!("{set:?}"), format!("{blank:?}"), "{}", option.name);
            if let Applies::Only { given, .. } = &option.applies {
                assert!(given(&set) && !given(&blank), "{}", option.name);
            }
        }
    }

    #[test]
    fn the_default_that_the_pages_tell_is_the_default() {
        let blank = Builder::default();
        for option in OPTIONS.iter().filter(|option| option.servers() == "all") {
            let told = match option.value {
                Value::Flag(_) => true,
                Value::Time(..) => parse_duration(option.default).is_ok(),
                _ => false,
            };
            if told {
                let set = option.set(blank.clone(), option.default).expect(option.name);
                assert_eq!(format!("{set:?}"), format!("{blank:?}"), "{}", option.name);
            }
        }
    }

    #[test]
    fn names_are_unique_and_each_value_out_of_bounds_is_refused() {
        let mut names: Vec<_> = OPTIONS.iter().map(|option| option.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), OPTIONS.len());
        for option in OPTIONS {
            let bad = match option.value {
                Value::Flag(_) | Value::Word(_) => "perhaps",
                Value::Time(..) => "400000d",
                _ => continue,
            };
            let refused = option.set(Builder::default(), bad);
            // The other option of a maximum is known when the locker is built.
            let later = matches!(option.name, "lease" | "takeover_delay" | "replica_timeout");
            assert_eq!(refused.is_ok(), later, "{}", option.name);
        }
    }
}
