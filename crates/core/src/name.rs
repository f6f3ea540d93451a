use std::fmt;
use std::sync::Arc;

use crate::ConfigError;

/// The name of a lock: the key on the nodes, verbatim. Not empty, at most 1,024 bytes.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Name(Arc<str>);

impl Name {
    /// The longest name, in bytes.
    pub const LONGEST: usize = 1024;

    /// Takes a name.
    ///
    /// # Errors
    /// [`ConfigError::EmptyName`], [`ConfigError::NameTooLong`].
    pub fn new(name: &str) -> Result<Self, ConfigError> {
        match name.len() {
            0 => Err(ConfigError::EmptyName),
            len if len > Self::LONGEST => Err(ConfigError::NameTooLong { len, max: Self::LONGEST }),
            _ => Ok(Self(name.into())),
        }
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The key of its fencing counter: `redisson_lock_token:{name}`.
    pub fn token_key(&self) -> String {
        self.token_key_parts().concat()
    }

    /// The channel on which its release is published: `redisson_lock__channel:{name}`.
    pub fn channel(&self) -> String {
        self.channel_parts().concat()
    }

    /// The key of the queue of those who wait for it: `redisson_lock_waiters:{name}`.
    pub fn waiters_key(&self) -> String {
        self.waiters_key_parts().concat()
    }

    /// [`Name::token_key`], not put together yet.
    pub(crate) fn token_key_parts(&self) -> [&str; 3] {
        self.braced(["redisson_lock_token:", "redisson_lock_token:{"])
    }

    /// [`Name::channel`], not put together yet.
    pub(crate) fn channel_parts(&self) -> [&str; 3] {
        self.braced(["redisson_lock__channel:", "redisson_lock__channel:{"])
    }

    /// [`Name::waiters_key`], not put together yet.
    pub(crate) fn waiters_key_parts(&self) -> [&str; 3] {
        self.braced(["redisson_lock_waiters:", "redisson_lock_waiters:{"])
    }

    /// Redisson's rule: braces round the name, unless it **contains** one anywhere
    /// (docs/ARCHITECTURE.md, Wire formats).
    fn braced(&self, [bare, open]: [&'static str; 2]) -> [&str; 3] {
        let name = self.as_str();
        if name.contains('{') { [bare, name, ""] } else { [open, name, "}"] }
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn derived_keys_follow_redissons_brace_rule() {
        let plain = Name::new("invoice/7").unwrap();
        assert_eq!(plain.token_key(), "redisson_lock_token:{invoice/7}");
        assert_eq!(plain.channel(), "redisson_lock__channel:{invoice/7}");
        assert_eq!(plain.waiters_key(), "redisson_lock_waiters:{invoice/7}");
        let inner = Name::new("a{b}c").unwrap();
        assert_eq!(inner.token_key(), "redisson_lock_token:a{b}c");
        assert_eq!(inner.channel(), "redisson_lock__channel:a{b}c");
    }

    #[test]
    fn bad_names_are_refused() {
        assert!(matches!(Name::new(""), Err(ConfigError::EmptyName)));
        let long = "x".repeat(1025);
        assert!(matches!(Name::new(&long), Err(ConfigError::NameTooLong { len: 1025, max: 1024 })));
        assert!(Name::new(&long[1..]).is_ok());
    }
}
