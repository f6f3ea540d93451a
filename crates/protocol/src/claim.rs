use std::fmt;
use std::sync::Arc;

use crate::{ConfigError, Name};

/// What one acquisition asks each node to hold under its nonce: one name, or all of several.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Claim {
    first: Name,
    /// The names after the first one, in order. `None` for one name, the usual case.
    rest: Option<Arc<[Name]>>,
}

impl Claim {
    /// The most names of one claim.
    pub const MAX_NAMES: usize = 32;

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
        let rest = (count > 1).then(|| names.collect());
        Ok(Self { first, rest })
    }

    /// The name; of several names, the first one in order. Its home node is the home node of the claim.
    pub fn name(&self) -> &Name {
        &self.first
    }

    /// All names, in order.
    pub fn names(&self) -> impl Iterator<Item = &Name> {
        std::iter::once(&self.first).chain(self.rest.iter().flat_map(|rest| rest.iter()))
    }

    /// The number of names.
    pub fn count(&self) -> usize {
        1 + self.rest.as_ref().map_or(0, |rest| rest.len())
    }

    /// All names as one text, for messages.
    pub fn label(&self) -> Name {
        match self.is_one() {
            true => self.first.clone(),
            false => Name::label(&self.to_string()),
        }
    }

    /// Whether it has one name.
    pub fn is_one(&self) -> bool {
        self.rest.is_none()
    }
}

impl From<Name> for Claim {
    fn from(first: Name) -> Self {
        Self { first, rest: None }
    }
}

impl fmt::Display for Claim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.first.fmt(f)?;
        self.names().skip(1).try_for_each(|name| write!(f, ", {name}"))
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
}
