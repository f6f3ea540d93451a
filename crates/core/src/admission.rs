//! Pure: which nodes may vote (SAFETY.md A3, A4).
//!
//! A quorum is only as good as its nodes' memory. Each node carries a [`Record`]; it may vote only
//! while the run that was admitted still runs. A node that restarted, was flushed, resynchronised
//! or replaced by its replica counts for **nothing** (grant, renewal, token) until some client has
//! watched it for the longest lease on its own clock. Uptime is no witness: it is a wall clock, a
//! promoted replica has been up for days, and a flush leaves it as it is (SAFETY.md b5).

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use crate::{Asked, Fence, Instant, Mismatch, Node, NodeReport, Stamp};

/// What all clients of a quorum must agree on; kept on every node, checked in every script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Charter {
    /// Where the record lives: `{prefix}:node`.
    pub prefix: String,
    /// Names the cluster.
    pub cluster: String,
    /// Raised by one at each change of membership.
    pub epoch: u64,
    /// How many nodes there are.
    pub nodes: usize,
    /// L: no script grants a longer lease.
    pub longest: Duration,
}

impl Charter {
    /// The key of the record.
    pub fn record_key(&self) -> String {
        format!("{}:node", self.prefix)
    }

    /// L in whole milliseconds.
    pub fn longest_ms(&self) -> u64 {
        u64::try_from(self.longest.as_millis()).unwrap_or(u64::MAX)
    }
}

/// What a node keeps about itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// The cluster's name, epoch, size and L.
    pub cluster: String,
    /// See [`Charter::epoch`].
    pub epoch: u64,
    /// See [`Charter::nodes`].
    pub nodes: usize,
    /// See [`Charter::longest_ms`].
    pub longest_ms: u64,
    /// Fresh at each admission and at each barrier: scripts are bound to it.
    pub stamp: String,
    /// The admitted life of the server: its run id and replication id.
    pub life: String,
    /// Set while a new life is being watched: that life and a fresh id.
    pub pending: String,
}

/// The marks of a node, by slot: the largest token that it has accepted of a name in it.
pub type Marks = BTreeMap<usize, Fence>;

/// What a server says of itself, read together with its record in one script.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sheet {
    /// Its record, if it has one.
    pub record: Option<Record>,
    /// Its run id and replication id.
    pub life: String,
    /// `master` or `slave`.
    pub role: String,
    /// How many replicas are attached.
    pub replicas: u64,
    /// What it does when memory is full.
    pub policy: String,
    /// Major version of the protocol family (7 for Redis 7 and all Valkeys).
    pub major: u32,
}

/// Whether a node may vote.
#[derive(Clone, Debug, PartialEq)]
pub enum Standing {
    /// Yes; scripts are bound to this stamp.
    Admitted(Stamp),
    /// Its memory is not proven; the note under which it is being watched, if there is one.
    Unproven(Option<String>),
    /// Nobody has ever admitted it; the note under which it is being watched, if there is one.
    New(Option<String>),
    /// It cannot vote as it is set up; others may.
    Unfit(Mismatch),
    /// It and this client disagree on the charter.
    Misfit(Mismatch),
}

/// What one node of a quorum is worth now.
#[derive(Clone, Debug, PartialEq)]
pub struct Examined {
    /// Its URL, without user and password.
    pub node: String,
    /// Whether it may vote; `None` if it did not answer.
    pub standing: Option<Standing>,
}

/// Judges one node.
pub fn judge(sheet: &Sheet, charter: &Charter) -> Standing {
    if let Some(error) = unfit(sheet) {
        return Standing::Unfit(error);
    }
    if let Some(error) = misfit(sheet, charter) {
        return Standing::Misfit(error);
    }
    let Some(record) = &sheet.record else { return Standing::New(None) };
    if record.life == sheet.life
        && let Some(stamp) = Stamp::parse(&record.stamp)
    {
        return Standing::Admitted(stamp);
    }
    let watched = record.pending.starts_with(&sheet.life) && !record.pending.is_empty();
    let note = watched.then(|| record.pending.clone());
    // A record without an admitted life is there since somebody began to watch it.
    if record.life.is_empty() { Standing::New(note) } else { Standing::Unproven(note) }
}

fn unfit(sheet: &Sheet) -> Option<Mismatch> {
    if sheet.major < 7 {
        // Before 7.0 scripts were saved and replicated, so they would outlive a run.
        return odd("version", sheet.major.to_string(), "7 or later");
    }
    if sheet.role != "master" {
        return odd("role", sheet.role.clone(), "master");
    }
    if sheet.replicas > 0 {
        // A replica may be promoted with a stale copy of everything, the record included.
        return odd("connected replicas", sheet.replicas.to_string(), "0");
    }
    if sheet.policy != "noeviction" {
        // It may drop the keys of locks that are held (SAFETY.md H14).
        return odd("maxmemory-policy", sheet.policy.clone(), "noeviction");
    }
    None
}

fn misfit(sheet: &Sheet, charter: &Charter) -> Option<Mismatch> {
    let record = sheet.record.as_ref()?;
    if record.cluster != charter.cluster {
        return odd("cluster", record.cluster.clone(), &charter.cluster);
    }
    if record.epoch != charter.epoch {
        return odd("epoch", record.epoch.to_string(), &charter.epoch.to_string());
    }
    if record.nodes != charter.nodes {
        let (found, expected) = (record.nodes.to_string(), charter.nodes.to_string());
        return odd("number of nodes", found, &expected);
    }
    if record.longest_ms != charter.longest_ms() {
        let expected = format!("{} ms", charter.longest_ms());
        return odd("longest lease", format!("{} ms", record.longest_ms), &expected);
    }
    None
}

fn odd(what: &'static str, found: String, expected: &str) -> Option<Mismatch> {
    Some(Mismatch::new(what, found, expected.to_owned()))
}

/// A node that can be examined and admitted. Every future ends when the node answers or its
/// connection does.
pub trait Voter: Node {
    /// Whether its memory is proven, as far as its connections know; true before the first one.
    fn proven(&self) -> bool;
    /// What it says of itself.
    fn examine(&self) -> Asked<Result<Sheet, NodeReport>>;
    /// Notes that its present life is being watched, unless it is already.
    fn note(&self, id: &str) -> Asked<Result<(), NodeReport>>;
    /// Ends the rounds under way on it, and gives its marks.
    fn barrier(&self, stamp: &str) -> Asked<Result<Marks, NodeReport>>;
    /// Raises its marks to these, and admits the life under `note`; false if that is no longer the one that is
    /// watched.
    fn admit(&self, note: &str, stamp: &str, marks: &Marks) -> Asked<Result<bool, NodeReport>>;
    /// Admits its present life at once; false if it has a record and is not to `replace` it.
    fn provision(&self, stamp: &str, replace: bool) -> Asked<Result<bool, NodeReport>>;
}

/// What the warden of a quorum does next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Act {
    /// Write a note under which the node's present life is watched.
    Note(usize),
    /// The note was there for L: copy the marks of a majority, then admit it. Tokens that only a bare
    /// majority accepts survive no loss of marks (SAFETY.md a3).
    Admit {
        /// Which node.
        node: usize,
        /// The note that must still stand.
        note: String,
        /// Whom to ask for their marks, in barrier form.
        helpers: Vec<usize>,
        /// How many of them must answer.
        needed: usize,
    },
}

/// Watches unproven nodes on our own clock. Pure: sheets and `now` come in, acts go out.
#[derive(Debug)]
pub struct Warden {
    charter: Charter,
    rho: f64,
    quorum: usize,
    /// Note -> since when we have seen it.
    vigils: HashMap<String, Instant>,
    /// When each node was last seen to be admitted.
    admitted: HashMap<usize, Instant>,
}

impl Warden {
    /// A warden that has seen nothing yet. `rho` bounds how much faster our clock may run than the
    /// clocks by which leases were granted.
    pub fn new(charter: Charter, rho: f64) -> Self {
        let quorum = quorumlock_watchdog::quorum_of(charter.nodes);
        Self { charter, rho, quorum, vigils: HashMap::new(), admitted: HashMap::new() }
    }

    /// How long a node is watched: L on any clock that leases were counted by, and a margin.
    pub fn quarantine(&self) -> Duration {
        self.charter.longest.mul_f64(1.0 + 2.0 * self.rho) + Duration::from_millis(10)
    }

    /// What to do, given what each node said; `None` for one that did not answer. `now` is read
    /// after the answers came.
    pub fn step(&mut self, standings: &[Option<Standing>], now: Instant) -> Vec<Act> {
        let of = |i: usize| standings.get(i).and_then(Option::as_ref);
        for (node, standing) in standings.iter().enumerate() {
            match standing {
                Some(Standing::Admitted(_)) => self.admitted.insert(node, now),
                Some(_) => self.admitted.remove(&node),
                None => continue,
            };
        }
        let mut acts = Vec::new();
        let mut seen = HashMap::new();
        for node in 0..standings.len() {
            match of(node) {
                Some(Standing::New(None) | Standing::Unproven(None)) => {
                    acts.push(Act::Note(node));
                }
                Some(Standing::New(Some(note)) | Standing::Unproven(Some(note))) => {
                    let since = self.vigils.get(note).copied().unwrap_or(now);
                    seen.insert(note.clone(), since);
                    if now.since(since) >= self.quarantine()
                        && let Some((helpers, needed)) = self.helpers(node, standings, &seen, now)
                    {
                        acts.push(Act::Admit { node, note: note.clone(), helpers, needed });
                    }
                }
                _ => {}
            }
        }
        // A node that is silent for a moment keeps its vigil: the note proves its life.
        for (note, since) in seen {
            self.vigils.insert(note, since);
        }
        acts
    }

    /// A majority of admitted nodes other than `node`; with fewer left (site power loss), nodes
    /// that have themselves been watched long enough stand in: all old leases have ended, and the
    /// order of tokens then rests on the clocks.
    fn helpers(
        &self,
        node: usize,
        standings: &[Option<Standing>],
        seen: &HashMap<String, Instant>,
        now: Instant,
    ) -> Option<(Vec<usize>, usize)> {
        let others = || standings.iter().enumerate().filter(move |(i, _)| *i != node);
        let admitted: Vec<usize> = others()
            .filter(|(_, s)| matches!(s, Some(Standing::Admitted(_))))
            .map(|(i, _)| i)
            .collect();
        if admitted.len() >= self.quorum {
            return Some((admitted, self.quorum));
        }
        // One that is silent for a moment still has its marks: wait for it.
        let lately = |at: &&Instant| now.since(**at) < self.quarantine();
        if self.admitted.values().filter(lately).count() >= self.quorum {
            return None;
        }
        let ripe = |standing: &Standing| match standing {
            Standing::Admitted(_) => true,
            Standing::New(Some(note)) | Standing::Unproven(Some(note)) => {
                let since = seen.get(note).or_else(|| self.vigils.get(note));
                since.is_some_and(|since| now.since(*since) >= self.quarantine())
            }
            _ => false,
        };
        let ripe: Vec<usize> =
            others().filter(|(_, s)| s.as_ref().is_some_and(ripe)).map(|(i, _)| i).collect();
        (ripe.len() + 1 >= self.quorum).then_some((ripe, self.quorum - 1))
    }
}

#[cfg(test)]
mod tests;
