use std::fmt;
use std::sync::Arc;

use crate::quorum_of;

/// The labels of all servers of a cluster: a set, in order.
///
/// A label is `host:port/db` as the URL says, or what the URL gives as `?label=`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MemberList(Arc<[Arc<str>]>);

impl MemberList {
    /// The set of these labels.
    #[doc(hidden)]
    pub fn new<L: Into<Arc<str>>>(labels: impl IntoIterator<Item = L>) -> Self {
        let mut labels: Vec<Arc<str>> = labels.into_iter().map(Into::into).collect();
        labels.sort();
        labels.dedup();
        Self(labels.into())
    }

    /// Reads the form that [`MemberList::text`] writes; `None` for an empty text.
    #[doc(hidden)]
    pub fn parse(text: &str) -> Option<Self> {
        (!text.is_empty()).then(|| Self::new(text.split(' ')))
    }

    /// The form in records and notes. No label has a space.
    #[doc(hidden)]
    pub fn text(&self) -> String {
        self.0.join(" ")
    }

    /// The labels, in order.
    pub fn labels(&self) -> &[Arc<str>] {
        &self.0
    }

    /// How many servers are a majority of the list.
    pub fn quorum(&self) -> usize {
        quorum_of(self.0.len())
    }

    /// Whether the list has the label.
    pub fn contains(&self, label: &str) -> bool {
        self.0.binary_search_by(|known| (**known).cmp(label)).is_ok()
    }

    /// Whether one of the lists is the other and one server more. Then each majority of one shares
    /// a server with each majority of the other (PROTOCOL.md MEM1).
    #[doc(hidden)]
    pub fn differs_by_one(&self, other: &Self) -> bool {
        let (less, more) = if self.0.len() < other.0.len() { (self, other) } else { (other, self) };
        !less.0.is_empty()
            && less.0.len() + 1 == more.0.len()
            && less.0.iter().all(|label| more.contains(label))
    }
}

impl fmt::Display for MemberList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join(", "))
    }
}
