use std::fmt;
use std::sync::Arc;

use crate::ConfigError;

/// The name of a lock: the key on the nodes, verbatim. Not empty, at most 1,024 bytes, and not one of
/// [`Name::RESERVED`].
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Name(Arc<str>);

impl Name {
    /// The longest name, in bytes.
    pub const LONGEST: usize = 1024;

    /// No name begins with one of these: our own keys and Redisson's do.
    pub const RESERVED: [&str; 2] = ["quorumlock:", "redisson_lock_"];

    /// Takes a name.
    ///
    /// # Errors
    /// [`ConfigError::EmptyName`], [`ConfigError::NameTooLong`], [`ConfigError::ReservedName`].
    pub fn new(name: &str) -> Result<Self, ConfigError> {
        match name.len() {
            0 => Err(ConfigError::EmptyName),
            len if len > Self::LONGEST => Err(ConfigError::NameTooLong { len, max: Self::LONGEST }),
            _ => match Self::RESERVED.into_iter().find(|prefix| name.starts_with(prefix)) {
                Some(prefix) => Err(ConfigError::ReservedName { name: name.into(), prefix }),
                None => Ok(Self(name.into())),
            },
        }
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The key of its fencing counter: `redisson_lock_token:{name}`, as Redisson computes it. Two names may
    /// share it: `x` and `{x}` do.
    pub fn token_key(&self) -> String {
        self.token_key_parts().concat()
    }

    /// The channel on which its release is published: `redisson_lock__channel:{name}`, as Redisson computes
    /// it. Two names may share it: `x` and `{x}` do.
    pub fn channel(&self) -> String {
        self.channel_parts().concat()
    }

    /// The key of the queue of its waiters: `quorumlock:waiters:{name}`, or `quorumlock:waiters:raw:name` for
    /// a name that contains a `}`. No two names share it, and it has the name's hash slot: unless the name
    /// contains a `}` and no hash tag, which Redis allows no other key.
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
        let name = self.as_str();
        match name.contains('}') {
            true => ["quorumlock:waiters:raw:", name, ""],
            false => ["quorumlock:waiters:{", name, "}"],
        }
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
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn derived_keys_follow_redissons_brace_rule() {
        let plain = Name::new("invoice/7").unwrap();
        assert_eq!(plain.token_key(), "redisson_lock_token:{invoice/7}");
        assert_eq!(plain.channel(), "redisson_lock__channel:{invoice/7}");
        assert_eq!(plain.waiters_key(), "quorumlock:waiters:{invoice/7}");
        let inner = Name::new("a{b}c").unwrap();
        assert_eq!(inner.token_key(), "redisson_lock_token:a{b}c");
        assert_eq!(inner.channel(), "redisson_lock__channel:a{b}c");
        assert_eq!(inner.waiters_key(), "quorumlock:waiters:raw:a{b}c");
    }

    #[test]
    fn bad_names_are_refused() {
        assert!(matches!(Name::new(""), Err(ConfigError::EmptyName)));
        let long = "x".repeat(1025);
        assert!(matches!(Name::new(&long), Err(ConfigError::NameTooLong { len: 1025, max: 1024 })));
        assert!(Name::new(&long[1..]).is_ok());
        for reserved in ["quorumlock:node", "quorumlock:", "redisson_lock_token:{y}"] {
            let Err(ConfigError::ReservedName { name, prefix }) = Name::new(reserved) else {
                panic!("{reserved} is a name");
            };
            assert!(name == reserved && name.starts_with(prefix));
        }
        assert!(Name::new("quorumlock").is_ok() && Name::new("redisson_lock").is_ok());
    }

    /// What a node hashes of a key, as the specification of Redis Cluster says.
    fn hash_tag(key: &str) -> &str {
        let tag = key.split_once('{').and_then(|(_, rest)| rest.split_once('}'));
        tag.map(|(tag, _)| tag).filter(|tag| !tag.is_empty()).unwrap_or(key)
    }

    /// Of parts that look like our keys, so that names come close to each other.
    fn names() -> impl Strategy<Value = String> {
        let parts = [
            "{",
            "}",
            "x",
            "y",
            ":",
            "raw:",
            "waiters:",
            "\0",
            "é",
            "quorumlock:",
            "redisson_lock_token:",
        ];
        let parts = prop::collection::vec(prop::sample::select(parts.to_vec()), 1..7);
        prop_oneof![parts.prop_map(|parts| parts.concat()), any::<String>()]
    }

    /// Two, of which the second often is the first with something round it.
    fn pairs() -> impl Strategy<Value = (String, String)> {
        (names(), names(), 0..6).prop_map(|(a, b, how)| {
            let b = match how {
                0 => format!("{{{a}}}"),
                1 => format!("raw:{a}"),
                2 => format!("raw:{{{a}}}"),
                3 => format!("{a}}}"),
                _ => b,
            };
            (a, b)
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(4096) })]

        #[test]
        fn no_two_names_meet_in_a_key_of_ours((a, b) in pairs()) {
            let (Ok(name), Ok(other)) = (Name::new(&a), Name::new(&b)) else { return Ok(()) };
            prop_assert_eq!(name == other, name.waiters_key() == other.waiters_key());
            for derived in [name.waiters_key(), name.token_key()] {
                prop_assert!(Name::new(&derived).is_err(), "{} is a name", derived);
                prop_assert_ne!(&derived, "quorumlock:node");
            }
            prop_assert_ne!(name.waiters_key(), other.token_key());
        }

        #[test]
        fn the_queue_of_a_name_has_its_hash_slot(name in names()) {
            let Ok(name) = Name::new(&name) else { return Ok(()) };
            let (text, queue) = (name.as_str(), name.waiters_key());
            let possible = !text.contains('}') || hash_tag(text) != text;
            prop_assert_eq!(possible, hash_tag(&queue) == hash_tag(text), "{:?}", name);
        }
    }
}
