use std::fmt;
use std::sync::Arc;

use crate::{ConfigError, Name};

/// What one acquisition asks each node to hold under its nonce: one name, all of several, one slot of
/// permits, or one name of a read-write lock.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Claim {
    first: Name,
    kind: Kind,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Kind {
    /// The usual case.
    One,
    /// The names after the first one, in order.
    All(Arc<[Name]>),
    /// Any of so many slots of permits. The call chooses one for each attempt.
    AnySlot(Name, u16),
    /// One of so many slots of permits.
    Slot(Name, u16, u16),
    /// One name of a read-write lock, for reading.
    Read,
    /// And for writing.
    Write,
}

impl Claim {
    /// The most names of one claim.
    pub const MAX_NAMES: usize = 32;

    /// The most permits of one name.
    pub const MAX_PERMITS: u16 = 256;

    /// All of these names: sorted, each once.
    ///
    /// # Errors
    /// [`ConfigError::NoNames`], [`ConfigError::TooManyNames`].
    pub fn all(mut names: Vec<Name>) -> Result<Self, ConfigError> {
        names.sort_unstable();
        names.dedup();
        let count = names.len();
        if count > Self::MAX_NAMES {
            return Err(ConfigError::TooManyNames { names: count, max: Self::MAX_NAMES });
        }
        let mut names = names.into_iter();
        let first = names.next().ok_or(ConfigError::NoNames)?;
        let kind = if count > 1 { Kind::All(names.collect()) } else { Kind::One };
        Ok(Self { first, kind })
    }

    /// The lock of one name, or of several: see [`Claim::all`].
    ///
    /// # Errors
    /// As there, and for a bad name.
    pub fn lock<N: AsRef<str>>(names: impl IntoIterator<Item = N>) -> Result<Self, ConfigError> {
        let names: Result<_, _> = names.into_iter().map(|name| Name::new(name.as_ref())).collect();
        Self::all(names?)
    }

    /// Any of the slots 0 to `slots` - 1 of the permits `of`.
    ///
    /// # Errors
    /// [`ConfigError::BadPermits`] unless `slots` is 1 to 256.
    pub fn any_slot(of: Name, slots: u32) -> Result<Self, ConfigError> {
        let max = Self::MAX_PERMITS;
        match u16::try_from(slots) {
            Ok(slots) if (1..=max).contains(&slots) => {
                Ok(Self { first: Name::permits(&of), kind: Kind::AnySlot(of, slots) })
            }
            _ => Err(ConfigError::BadPermits { permits: slots, max }),
        }
    }

    /// The slot with this number of the permits `of`, however many there are.
    ///
    /// # Errors
    /// [`ConfigError::BadSlot`] unless `slot` is 0 to 255.
    pub fn one_slot(of: Name, slot: u16) -> Result<Self, ConfigError> {
        let bad_slot = ConfigError::BadSlot { slot, max: Self::MAX_PERMITS - 1 };
        Self::any_slot(of, Self::MAX_PERMITS.into())?.with_slot(slot).ok_or(bad_slot)
    }

    /// The name of a read-write lock, for reading: readers do not exclude each other, and each
    /// hold ends by itself (PROTOCOL.md RW1, RW2).
    pub fn read(name: Name) -> Self {
        Self { first: name, kind: Kind::Read }
    }

    /// The name of a read-write lock, for writing.
    pub fn write(name: Name) -> Self {
        Self { first: name, kind: Kind::Write }
    }

    /// Whether others may hold the same at a time: of permits, or of a read-write lock for reading.
    pub fn is_shared(&self) -> bool {
        self.reads() || self.slots().is_some()
    }

    /// Whether it is for reading.
    pub fn reads(&self) -> bool {
        matches!(self.kind, Kind::Read)
    }

    /// Whether it is for writing or for reading a read-write lock, which has a layout of its own.
    pub fn is_read_write(&self) -> bool {
        matches!(self.kind, Kind::Read | Kind::Write)
    }

    /// Whether this claim and `other` exclude each other.
    pub fn excludes(&self, other: &Self) -> bool {
        !(self.reads() && other.reads()) && self.common_names(other).next().is_some()
    }

    /// The names that both claims have.
    pub fn common_names<'a>(&'a self, other: &'a Self) -> impl Iterator<Item = &'a Name> {
        self.names().filter(|name| other.names().any(|n| n == *name))
    }

    /// The slot with this number (PROTOCOL.md PER1); `None` if the claim is not of more permits than
    /// that.
    #[must_use]
    pub fn with_slot(&self, slot: u16) -> Option<Self> {
        match &self.kind {
            Kind::AnySlot(of, slots) | Kind::Slot(of, slots, _) if slot < *slots => Some(Self {
                first: Name::slot_of_permits(&self.first.queue(), slot),
                kind: Kind::Slot(of.clone(), *slots, slot),
            }),
            _ => None,
        }
    }

    /// A slot of these permits that a node says is free, whatever its number: the program that gave it back
    /// may have more permits of the name.
    #[must_use]
    pub fn told_slot(&self, slot: u16) -> Self {
        let permits = self.queue();
        let kind = Kind::Slot(permits.clone(), Self::MAX_PERMITS, slot);
        Self { first: Name::slot_of_permits(&permits, slot), kind }
    }

    /// All slots in order, if it is a claim of permits.
    pub fn every_slot(&self) -> impl Iterator<Item = Self> {
        (0..self.slots().unwrap_or(0)).filter_map(|slot| self.with_slot(slot))
    }

    /// Any slot, if it is a claim of permits; else the claim itself. The calls of one process that want
    /// the same wait in one queue.
    #[must_use]
    pub fn any_of_slots(&self) -> Self {
        match &self.kind {
            Kind::Slot(of, slots, _) => {
                Self { first: self.queue(), kind: Kind::AnySlot(of.clone(), *slots) }
            }
            _ => self.clone(),
        }
    }

    /// What a message of a server is about: which layout the name has, or which slot of permits it is.
    ///
    /// # Errors
    /// As [`Name::new`].
    #[doc(hidden)]
    pub fn of_message(text: &str) -> Result<Self, ConfigError> {
        if let Some(name) = text.strip_prefix("quorumlock:read:") {
            Ok(Self::read(Name::new(name)?))
        } else if let Some(name) = text.strip_prefix("quorumlock:write:") {
            Ok(Self::write(Name::new(name)?))
        } else if let Some((name, slot)) = Name::of_slot(text) {
            Ok(Self::from(name).told_slot(slot))
        } else {
            Ok(Name::new(text)?.into())
        }
    }

    /// How many slots there are, if it is a claim of permits.
    pub fn slots(&self) -> Option<u16> {
        match self.kind {
            Kind::AnySlot(_, slots) | Kind::Slot(_, slots, _) => Some(slots),
            _ => None,
        }
    }

    /// The number of the slot, if it is a claim of one slot of permits.
    pub fn slot(&self) -> Option<u16> {
        match self.kind {
            Kind::Slot(_, _, slot) => Some(slot),
            _ => None,
        }
    }

    /// The name that the nodes hold; of several names, the first one in order.
    pub fn name(&self) -> &Name {
        &self.first
    }

    /// All names that the nodes hold, in order.
    pub fn names(&self) -> impl Iterator<Item = &Name> {
        let rest: &[Name] = if let Kind::All(rest) = &self.kind { rest } else { &[] };
        std::iter::once(&self.first).chain(rest)
    }

    /// The same claim for each name alone.
    pub fn of_each_name(&self) -> impl Iterator<Item = Self> {
        self.names().map(|name| match &self.kind {
            Kind::All(_) => Self { first: name.clone(), kind: Kind::All(Arc::default()) },
            _ => self.clone(),
        })
    }

    /// Whether it is for several names, or for one of several ([`Claim::of_each_name`]).
    pub fn is_of_set(&self) -> bool {
        matches!(self.kind, Kind::All(_))
    }

    /// The name as its callers give it, of a claim that a node listed.
    #[doc(hidden)]
    pub fn listed_name(&self) -> &str {
        self.first.of_permits().unwrap_or(self.first.as_str())
    }

    /// All names as the caller gave them, in order.
    pub fn given_names(&self) -> impl Iterator<Item = &Name> {
        let of = match &self.kind {
            Kind::AnySlot(of, _) | Kind::Slot(of, ..) => Some(of),
            _ => None,
        };
        of.into_iter().chain(self.names().filter(move |_| of.is_none()))
    }

    /// The number of names.
    pub fn count(&self) -> usize {
        match &self.kind {
            Kind::All(rest) => 1 + rest.len(),
            _ => 1,
        }
    }

    /// The name under which its waiters wait, and whose home node is the claim's: that of the first
    /// name. All slots of permits have one.
    pub fn queue(&self) -> Name {
        self.first.queue()
    }

    /// The names for which its waiters subscribe, in order. Readers and writers of one process subscribe
    /// for different ones.
    pub fn subscribed_names(&self) -> impl Iterator<Item = Name> {
        let one = match self.kind {
            Kind::Read => Some(Name::for_readers(&self.first)),
            Kind::AnySlot(..) | Kind::Slot(..) => Some(self.queue()),
            Kind::One | Kind::All(_) | Kind::Write => None,
        };
        let all = one.is_none();
        one.into_iter().chain(self.names().filter(move |_| all).cloned())
    }

    /// The claim as one text, for messages.
    pub fn label(&self) -> Name {
        match self.kind {
            Kind::One | Kind::Read | Kind::Write => self.first.clone(),
            _ => Name::label(&self.to_string()),
        }
    }

    /// Whether it is a lock of one name.
    pub fn is_plain(&self) -> bool {
        matches!(self.kind, Kind::One)
    }

    /// Whether a release can hand it off: a release hands off one name, and no call waits for one slot.
    pub fn accepts_handoff(&self) -> bool {
        matches!(self.kind, Kind::One | Kind::Read | Kind::Write)
    }

    /// Whether it has one name.
    pub fn is_one(&self) -> bool {
        self.count() == 1
    }
}

impl From<Name> for Claim {
    fn from(first: Name) -> Self {
        Self { first, kind: Kind::One }
    }
}

impl fmt::Display for Claim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            Kind::AnySlot(of, 1) => write!(f, "{of} (1 permit)"),
            Kind::AnySlot(of, slots) => write!(f, "{of} ({slots} permits)"),
            Kind::Slot(of, slots, slot) => write!(f, "{of} (slot {slot} of {slots})"),
            Kind::One | Kind::All(_) | Kind::Read | Kind::Write => {
                self.first.fmt(f)?;
                self.names().skip(1).try_for_each(|name| write!(f, ", {name}"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_sorted_and_none_is_twice() {
        let names = |words: &[&str]| words.iter().map(|word| Name::new(word).unwrap()).collect();
        let claim = Claim::all(names(&["b", "a", "b"])).unwrap();
        assert_eq!((claim.to_string().as_str(), claim.count()), ("a, b", 2));
        assert_eq!(claim, Claim::all(names(&["a", "b"])).unwrap());
        let one = Claim::all(names(&["a", "a"])).unwrap();
        assert!(one.is_one());
        assert_eq!(one, Name::new("a").unwrap().into());
    }

    #[test]
    fn no_name_and_too_many_are_refused() {
        assert_eq!(Claim::all(Vec::new()), Err(ConfigError::NoNames));
        let many = |count: usize| (0..count).map(|n| Name::new(&n.to_string()).unwrap()).collect();
        assert_eq!(Claim::all(many(32)).unwrap().count(), 32);
        assert_eq!(Claim::all(many(33)), Err(ConfigError::TooManyNames { names: 33, max: 32 }));
    }

    #[test]
    fn permits_claim_one_slot_at_a_time() {
        let db = || Name::new("db").unwrap();
        let any = Claim::any_slot(db(), 5).unwrap();
        assert_eq!(
            (any.slots(), any.slot(), any.to_string().as_str()),
            (Some(5), None, "db (5 permits)")
        );
        let third = any.with_slot(3).unwrap();
        assert_eq!((third.slots(), third.slot(), third.is_one()), (Some(5), Some(3), true));
        assert_eq!(third.name().as_str(), "quorumlock:permit:{db}:3");
        assert_eq!(third.given_names().collect::<Vec<_>>(), [&db()]);
        assert_eq!(third.any_of_slots(), any);
        assert_eq!((third.queue(), third.with_slot(4)), (any.queue(), any.with_slot(4)));
        assert_eq!((any.with_slot(5), Claim::from(db()).with_slot(0)), (None, None));
        assert_eq!(any.every_slot().count(), 5);
        // The waiters for any slot hear of each one (PROTOCOL.md PER2).
        let told = Claim::of_message("quorumlock:permit:{db}:3").unwrap();
        assert_eq!((told.slot(), told.name()), (Some(3), third.name()));
        assert!(told.subscribed_names().eq(any.subscribed_names()));
        for permits in [0, 257, u32::MAX] {
            let refused = Claim::any_slot(db(), permits);
            assert_eq!(refused, Err(ConfigError::BadPermits { permits, max: 256 }));
        }
        assert!(Claim::any_slot(db(), 256).is_ok());
    }
}
