//! What a subject takes and gives back.

use std::fmt;

/// A kind of lock. Workloads only pass it on, so another kind is another value here and another arm
/// in each subject that has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What {
    /// One name.
    Lock,
    /// This many names in one step.
    Names(usize),
    /// One of `of` permits of a name, of which another client holds `held`.
    Permit {
        /// The number of permits.
        of: u32,
        /// The number of permits that are not free.
        held: u32,
    },
    /// A read lock of one name.
    Read,
    /// A write lock of one name.
    Write,
    /// One name, from a locker that grants in strict order.
    InOrder,
}

impl What {
    /// The number of permits that another client holds.
    pub(crate) fn held(self) -> u32 {
        match self {
            Self::Permit { held, .. } => held,
            Self::Lock | Self::Names(_) | Self::Read | Self::Write | Self::InOrder => 0,
        }
    }
}

/// A word for the drivers of other languages.
impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lock => write!(f, "lock"),
            Self::Names(count) => write!(f, "names:{count}"),
            Self::Permit { of, held } => write!(f, "permit:{of}:{held}"),
            Self::Read => write!(f, "read"),
            Self::Write => write!(f, "write"),
            Self::InOrder => write!(f, "fair"),
        }
    }
}

/// As many names as one step takes, made from one name.
pub(super) fn several(name: &str, count: usize) -> impl Iterator<Item = String> {
    (0..count).map(move |number| format!("{name}/{number}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drivers_read_a_word_for_each_kind() {
        let kinds = [What::Lock, What::Names(10), What::Permit { of: 10, held: 9 }, What::Read];
        assert_eq!(kinds.map(|what| what.to_string()), ["lock", "names:10", "permit:10:9", "read"]);
        assert_eq!(kinds.map(What::held), [0, 0, 9, 0]);
        assert_eq!(several("a", 2).collect::<Vec<_>>(), ["a/0", "a/1"]);
    }
}
