use std::fmt;
use std::sync::{Arc, LazyLock};

use crc::{CRC_16_XMODEM, Crc};

use crate::{ConfigError, Nonce};

/// The name of a lock, which is the key on the nodes, verbatim. It is not empty, has at most 1,024
/// bytes, and begins with none of [`Name::RESERVED`].
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Name(Arc<str>);

impl Name {
    /// The longest name, in bytes.
    pub const MAX_LEN: usize = 1024;

    /// No name begins with one of these prefixes, which keys of quorumlock and of Redisson have.
    #[doc(hidden)]
    pub const RESERVED: [&str; 2] = ["quorumlock:", "redisson_lock_"];

    /// Checks a name.
    ///
    /// # Errors
    /// [`ConfigError::EmptyName`], [`ConfigError::NameTooLong`], [`ConfigError::ReservedName`].
    pub fn new(name: &str) -> Result<Self, ConfigError> {
        match name.len() {
            0 => Err(ConfigError::EmptyName),
            len if len > Self::MAX_LEN => Err(ConfigError::NameTooLong { len, max: Self::MAX_LEN }),
            _ => match Self::RESERVED.into_iter().find(|prefix| name.starts_with(prefix)) {
                Some(prefix) => Err(ConfigError::ReservedName { name: name.into(), prefix }),
                None => Ok(Self(name.into())),
            },
        }
    }

    /// A name that no lock can have, to ask servers about. An ACL that permits our own keys permits
    /// it.
    #[doc(hidden)]
    pub fn probe() -> Self {
        Self("quorumlock:probe".into())
    }

    /// What begins the names of all slots of the permits `of`: `quorumlock:permit:{of}:`, or
    /// `quorumlock:permit:raw:of:` for a name that contains a `}`. No key has this name (PROTOCOL.md
    /// PER1, PER3).
    pub(crate) fn permits(of: &Self) -> Self {
        let name = of.as_str();
        Self(match name.contains('}') {
            true => format!("{PERMIT}raw:{name}:").into(),
            false => format!("{PERMIT}{{{name}}}:").into(),
        })
    }

    /// The name for which readers of `of` subscribe. It has the hash slot of `of`.
    pub(crate) fn for_readers(of: &Self) -> Self {
        let name = of.as_str();
        Self(match name.contains('}') {
            true => format!("quorumlock:read:{name}").into(),
            false => format!("quorumlock:read:{{{name}}}").into(),
        })
    }

    /// The name of a slot: `permits` is what begins it.
    pub(crate) fn slot_of_permits(permits: &Self, slot: u16) -> Self {
        Self(format!("{permits}{slot}").into())
    }

    /// The name under which waiters for this name wait: the slots of permits have one queue.
    #[doc(hidden)]
    pub fn queue(&self) -> Self {
        match self.permit_slot() {
            Some((permits, _)) => Self(permits.into()),
            None => self.clone(),
        }
    }

    /// The name of a slot of permits as a message of a server tells it, and its number.
    pub(crate) fn of_slot(text: &str) -> Option<(Self, u16)> {
        let key = Self(text.into());
        let slot = key.permit_slot()?.1.parse().ok()?;
        Some((key, slot))
    }

    /// The name of the permits whose slot this is.
    pub(crate) fn of_permits(&self) -> Option<&str> {
        let of = self.permit_slot()?.0.strip_prefix(PERMIT)?.strip_suffix(':')?;
        of.strip_prefix("raw:").or_else(|| of.strip_prefix('{')?.strip_suffix('}'))
    }

    /// What begins the names of all slots, and the number of this one; `None` for the name of a lock.
    fn permit_slot(&self) -> Option<(&str, &str)> {
        if !self.0.starts_with(PERMIT) {
            return None;
        }
        let permits = self.0.trim_end_matches(|digit: char| digit.is_ascii_digit());
        Some((permits, &self.0[permits.len()..]))
    }

    /// The key with the label of the locker whose nonce this is.
    #[doc(hidden)]
    pub fn owner(nonce: Nonce) -> Self {
        Self(format!("quorumlock:owner:{}", nonce.locker_id()).into())
    }

    /// The key with the label of this hold alone.
    #[doc(hidden)]
    pub fn hold_label(nonce: Nonce) -> Self {
        Self(format!("quorumlock:owner:{nonce}").into())
    }

    /// A text for messages, which no lock has as its name.
    pub(crate) fn label(text: &str) -> Self {
        Self(text.into())
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// How many slots there are: the number of slots of a Redis Cluster.
    #[doc(hidden)]
    pub const SLOTS: usize = 16_384;

    /// The name's hash slot, as a Redis Cluster computes it. Many names share one slot.
    #[doc(hidden)]
    pub fn slot(&self) -> usize {
        slot_of(self.as_str())
    }

    /// Whether all keys of the lock have the name's slot, as a Redis Cluster requires. They have, unless
    /// the name contains a brace and no hash tag: `a{`, `a}`, `a{}`.
    #[doc(hidden)]
    pub fn has_one_slot(&self) -> bool {
        let here = |key: [&str; 3]| slot_of(&key.concat()) == self.slot();
        !self.as_str().contains(['{', '}'])
            || here(self.channel_parts()) && here(self.waiters_key_parts())
    }

    /// The key of the mark of the name's slot: the largest token of a name in that slot that a node
    /// has accepted.
    #[doc(hidden)]
    pub fn mark_key(&self) -> &'static str {
        Self::mark_key_of(self.slot())
    }

    /// The key of the mark of a slot, `quorumlock:token:{TAG}`. TAG is the smallest number whose
    /// hash slot this is, so that a Redis Cluster keeps the mark on the node of the names.
    ///
    /// # Panics
    /// If there is no such slot: [`Name::SLOTS`] or more.
    #[doc(hidden)]
    pub fn mark_key_of(slot: usize) -> &'static str {
        let MarkKeys { text, begins } = &*MARK_KEYS;
        &text[begins[slot]..begins[slot + 1]]
    }

    /// The hash tag, in braces, that puts a key into a slot.
    ///
    /// # Panics
    /// As [`Name::mark_key_of`].
    #[doc(hidden)]
    pub fn tag_of(slot: usize) -> &'static str {
        let key = Self::mark_key_of(slot);
        key.find('{').map_or("", |begin| &key[begin..])
    }

    /// The channel on which a release of the name is published: `redisson_lock__channel:{name}`, as
    /// Redisson computes it. Two names may share it: `x` and `{x}` do.
    #[doc(hidden)]
    pub fn channel(&self) -> String {
        self.channel_parts().concat()
    }

    /// The key of the queue of the name's waiters: `quorumlock:waiters:{name}`, or
    /// `quorumlock:waiters:raw:name` for a name that contains a `}`. No two names share it. It has
    /// the name's hash slot, unless the name contains a `}` and no hash tag: such a name cannot be
    /// the hash tag of another key. The slots of permits have one queue.
    #[doc(hidden)]
    pub fn waiters_key(&self) -> String {
        self.waiters_key_parts().concat()
    }

    /// [`Name::channel`] in parts.
    #[doc(hidden)]
    pub fn channel_parts(&self) -> [&str; 3] {
        self.braced(["redisson_lock__channel:", "redisson_lock__channel:{"])
    }

    /// The key in which Redisson's `RFencedLock` counts tokens, in parts:
    /// `redisson_lock_token:{name}`.
    #[doc(hidden)]
    pub fn counter_key_parts(&self) -> [&str; 3] {
        self.braced(["redisson_lock_token:", "redisson_lock_token:{"])
    }

    /// [`Name::waiters_key`] in parts.
    #[doc(hidden)]
    pub fn waiters_key_parts(&self) -> [&str; 3] {
        let name = self.permit_slot().map_or(self.as_str(), |(permits, _)| permits);
        match name.contains('}') {
            true => ["quorumlock:waiters:raw:", name, ""],
            false => ["quorumlock:waiters:{", name, "}"],
        }
    }

    /// Redisson's rule: put the name in braces, unless it **contains** an opening brace anywhere
    /// (docs/PROTOCOL.md, Layout formats).
    fn braced(&self, [bare, open]: [&'static str; 2]) -> [&str; 3] {
        let name = self.as_str();
        if name.contains('{') { [bare, name, ""] } else { [open, name, "}"] }
    }
}

/// Begins the names of the slots of permits. No lock's name does ([`Name::RESERVED`]).
const PERMIT: &str = "quorumlock:permit:";

fn slot_of(key: &str) -> usize {
    usize::from(SLOT.checksum(hash_tag(key).as_bytes())) % Name::SLOTS
}

/// What a Redis Cluster hashes of a key: the text between the first `{` and the next `}`, if there
/// is any; otherwise the whole key.
fn hash_tag(key: &str) -> &str {
    let tag = key.split_once('{').and_then(|(_, rest)| rest.split_once('}'));
    tag.map(|(tag, _)| tag).filter(|tag| !tag.is_empty()).unwrap_or(key)
}

static SLOT: Crc<u16> = Crc::<u16>::new(&CRC_16_XMODEM);

/// The mark keys of all slots.
static MARK_KEYS: LazyLock<MarkKeys> = LazyLock::new(MarkKeys::new);

struct MarkKeys {
    text: String,
    /// Where in `text` the key of each slot begins, and the last one ends.
    begins: Vec<usize>,
}

impl MarkKeys {
    fn new() -> Self {
        let mut tags = vec![None; Name::SLOTS];
        let mut missing = tags.len();
        let mut numbers = 0_u32..;
        while missing > 0
            && let Some(number) = numbers.next()
        {
            let tag = number.to_string();
            let slot = usize::from(SLOT.checksum(tag.as_bytes())) % Name::SLOTS;
            if tags[slot].is_none() {
                (tags[slot], missing) = (Some(tag), missing - 1);
            }
        }
        let mut keys = Self { text: String::new(), begins: vec![0] };
        for tag in tags.into_iter().flatten() {
            keys.text += "quorumlock:token:{";
            keys.text += &tag;
            keys.text.push('}');
            keys.begins.push(keys.text.len());
        }
        keys
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
        assert_eq!(plain.channel(), "redisson_lock__channel:{invoice/7}");
        assert_eq!(plain.waiters_key(), "quorumlock:waiters:{invoice/7}");
        assert_eq!(plain.counter_key_parts().concat(), "redisson_lock_token:{invoice/7}");
        let inner = Name::new("a{b}c").unwrap();
        assert_eq!(inner.channel(), "redisson_lock__channel:a{b}c");
        assert_eq!(inner.waiters_key(), "quorumlock:waiters:raw:a{b}c");
        assert_eq!(inner.counter_key_parts().concat(), "redisson_lock_token:a{b}c");
    }

    #[test]
    fn slots_of_permits_have_one_queue_and_the_hash_slot_of_their_name() {
        for (text, permits) in [
            ("db", "quorumlock:permit:{db}:"),
            ("a{b", "quorumlock:permit:{a{b}:"),
            ("a{b}c:3", "quorumlock:permit:raw:a{b}c:3:"),
            ("a}:3", "quorumlock:permit:raw:a}:3:"),
        ] {
            let name = Name::new(text).unwrap();
            let of = Name::permits(&name);
            assert_eq!(of.as_str(), permits);
            let slot = Name::slot_of_permits(&of, 17);
            assert_eq!(slot.as_str(), format!("{permits}17"));
            assert_eq!((slot.queue(), of.queue()), (of.clone(), of.clone()));
            assert_eq!(slot.waiters_key(), format!("quorumlock:waiters:raw:{permits}"));
            assert_eq!(Name::of_slot(slot.as_str()), Some((slot.clone(), 17)));
            assert!(Name::of_slot(permits).is_none() && Name::new(slot.as_str()).is_err());
            if name.has_one_slot() {
                assert_eq!(slot.slot(), name.slot());
                assert!(slot.has_one_slot());
            }
        }
        let lock = Name::new("db").unwrap();
        assert_eq!((lock.queue(), Name::of_slot("db")), (lock, None));
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

    /// The examples are those of the Redis Cluster specification and of the command CLUSTER
    /// KEYSLOT.
    #[test]
    fn slots_are_those_of_a_redis_cluster() {
        let slot = |name: &str| Name::new(name).unwrap().slot();
        assert_eq!(slot("123456789"), 0x31c3);
        assert_eq!(slot("somekey"), 11_058);
        assert_eq!(slot("foo{hash_tag}"), 2_515);
        assert_eq!(slot("{user1000}.following"), slot("{user1000}.followers"));
        assert_eq!(slot("foo{}{bar}"), usize::from(SLOT.checksum(b"foo{}{bar}")) % Name::SLOTS);
    }

    #[test]
    fn a_name_without_a_hash_tag_keeps_its_keys_in_one_slot_unless_it_has_a_brace() {
        let one = |name: &str| Name::new(name).unwrap().has_one_slot();
        for name in ["x", "{x}", "a{x}b", "{x}{y}", "{user1000}.following"] {
            assert!(one(name), "{name}");
        }
        for name in ["a{", "a}", "a{}b", "}a{", "{}"] {
            assert!(!one(name), "{name}");
        }
    }

    #[test]
    fn each_mark_lies_in_its_own_slot() {
        for slot in 0..Name::SLOTS {
            let key = Name::mark_key_of(slot);
            assert_eq!(slot_of(key), slot);
        }
    }

    /// Names made of parts that look like our keys, so that their keys are likely to collide.
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

    /// Two names; the second is often the first with something around it.
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
            for derived in [&*name.waiters_key(), name.mark_key()] {
                prop_assert!(Name::new(derived).is_err(), "{} is a name", derived);
                prop_assert_ne!(derived, "quorumlock:node");
            }
            prop_assert_ne!(&*name.waiters_key(), other.mark_key());
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
