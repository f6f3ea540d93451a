use std::sync::Arc;
use std::time::Duration;

use quorumlock_protocol::admission::members::MemberList;

use super::rule::Rule;

/// The longest lease, and what the operator waits.
pub(super) const LONGEST: Duration = Duration::from_secs(3);

/// What a search begins with, and what may happen in it.
#[derive(Clone, Debug)]
pub struct Scenario<const N: usize> {
    /// The label of each node in each list; nothing if the list does not have the node.
    labels: Vec<[Option<Arc<str>>; N]>,
    lists: Vec<MemberList>,
    pub(super) rule: Rule,
    /// The lists that the operator changes to, one after the other, from the first.
    pub(super) path: &'static [u8],
    /// How many times the operator may go back in the middle of a change.
    pub(super) goes_back: u8,
    /// How many servers restart, in all, and what they keep.
    pub(super) restarts: u8,
    pub(super) disk: Disk,
    /// How many times, in all, a server is replaced by a clone of another one.
    pub(super) clones: u8,
    /// Whether votes are renewed, and end one by one. Without, attempts last until the search ends.
    pub(super) renewals: bool,
    /// Whether a client may decide to admit a node, and do it later.
    pub(super) late: bool,
}

/// What a restarted server still has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Disk {
    /// Nothing.
    Empty,
    /// Its record and its note, and no lock: the locks are younger than its last save.
    OldSave,
}

impl<const N: usize> Scenario<N> {
    /// The library's rules, a cluster of the first list. Each list is the names of its servers, one
    /// character each; `a` is the first node. A name in upper case is another address of it.
    pub fn new(lists: &[&str]) -> Self {
        let named = |list: &&str| {
            std::array::from_fn(|node| {
                let name = char::from(b'a' + node as u8);
                let label = list.chars().find(|c| c.to_ascii_lowercase() == name)?;
                Some(Arc::from(label.to_string()))
            })
        };
        let labels: Vec<[Option<Arc<str>>; N]> = lists.iter().map(named).collect();
        Self {
            lists: labels
                .iter()
                .map(|list| MemberList::new(list.iter().flatten().cloned()))
                .collect(),
            labels,
            rule: Rule::Library,
            path: &[0],
            goes_back: 0,
            restarts: 0,
            disk: Disk::Empty,
            clones: 0,
            renewals: false,
            late: false,
        }
    }

    /// With this rule.
    pub fn by(self, rule: Rule) -> Self {
        Self { rule, ..self }
    }

    /// The operator changes the list along this path.
    pub fn along(self, path: &'static [u8]) -> Self {
        Self { path, ..self }
    }

    /// The operator may go back once, in the middle of a change.
    pub fn and_back(self) -> Self {
        Self { goes_back: 1, ..self }
    }

    /// So many servers restart, empty.
    pub fn restarts(self, restarts: u8) -> Self {
        Self { restarts, ..self }
    }

    /// Restarted servers have the record and the note of an old save.
    pub fn from_old_saves(self) -> Self {
        Self { disk: Disk::OldSave, ..self }
    }

    /// So many servers are replaced by a clone of another one.
    pub fn clones(self, clones: u8) -> Self {
        Self { clones, ..self }
    }

    /// Votes are renewed, and end one by one.
    pub fn renewing(self) -> Self {
        Self { renewals: true, ..self }
    }

    /// A client decides to admit a node, and does it later.
    pub fn lately(self) -> Self {
        Self { late: true, ..self }
    }

    /// How many lists there are.
    pub(super) fn lists(&self) -> u8 {
        self.lists.len() as u8
    }

    pub(super) fn list(&self, list: u8) -> &MemberList {
        &self.lists[usize::from(list)]
    }

    /// The number of a list.
    pub(super) fn number(&self, list: &MemberList) -> u8 {
        self.lists.iter().position(|known| known == list).unwrap_or_default() as u8
    }

    pub(super) fn label(&self, list: u8, node: usize) -> Option<&Arc<str>> {
        self.labels[usize::from(list)][node].as_ref()
    }

    /// The node of a label.
    pub(super) fn node(&self, label: &str) -> usize {
        let has =
            |node: &usize| self.labels.iter().any(|list| list[*node].as_deref() == Some(label));
        (0..N).find(has).unwrap_or_default()
    }

    /// The nodes of a list.
    pub(super) fn members(&self, list: u8) -> impl Iterator<Item = usize> + use<'_, N> {
        (0..N).filter(move |node| self.label(list, *node).is_some())
    }
}
