use std::collections::VecDeque;
use std::fmt;
use std::hash::{Hash, Hasher};

use super::time::Micros;

/// What happened, in order: hashed always, kept only as far as somebody will read it.
#[derive(Debug)]
pub(super) struct Trace {
    hash: Fnv,
    count: u64,
    kept: VecDeque<Note>,
    keep: usize,
}

/// One thing that happened.
#[derive(Clone, Copy, Debug, Hash)]
pub(super) struct Note {
    pub(super) at: Micros,
    pub(super) what: &'static str,
    pub(super) who: Who,
    pub(super) number: u64,
}

/// Whom it concerns.
#[derive(Clone, Copy, Debug, Default, Hash)]
pub(super) struct Who {
    pub(super) client: Option<usize>,
    pub(super) node: Option<usize>,
    pub(super) attempt: Option<usize>,
}

impl Trace {
    /// Keeps the last `keep` notes.
    pub(super) fn new(keep: usize) -> Self {
        Self { hash: Fnv(0xcbf2_9ce4_8422_2325), count: 0, kept: VecDeque::new(), keep }
    }

    pub(super) fn note(&mut self, note: Note) {
        note.hash(&mut self.hash);
        self.count += 1;
        if self.kept.len() == self.keep {
            self.kept.pop_front();
        }
        self.kept.push_back(note);
    }

    pub(super) fn hash(&self) -> u64 {
        self.hash.0
    }

    pub(super) fn count(&self) -> u64 {
        self.count
    }

    pub(super) fn lines(&self) -> Vec<String> {
        self.kept.iter().map(Note::to_string).collect()
    }
}

impl Who {
    pub(super) fn client(client: usize) -> Self {
        Self { client: Some(client), ..Self::default() }
    }

    pub(super) fn node(node: usize) -> Self {
        Self { node: Some(node), ..Self::default() }
    }

    pub(super) fn both(client: usize, node: usize) -> Self {
        Self { client: Some(client), node: Some(node), attempt: None }
    }

    pub(super) fn on(self, attempt: Option<usize>) -> Self {
        Self { attempt, ..self }
    }
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let part = |letter: char, of: Option<usize>| match of {
            Some(number) => format!("{letter}{number}"),
            None => String::new(),
        };
        let (client, node) = (part('c', self.who.client), part('n', self.who.node));
        let attempt = part('a', self.who.attempt);
        let at = self.at as f64 / 1e6;
        write!(f, "{at:10.6}  {client:<4}{node:<4}{attempt:<7}{} {}", self.what, self.number)
    }
}

/// A hash that is the same in every process and on every machine.
#[derive(Debug)]
struct Fnv(u64);

impl Hasher for Fnv {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
        }
    }

    fn write_u64(&mut self, n: u64) {
        self.0 = (self.0.rotate_left(5) ^ n).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    fn write_usize(&mut self, n: usize) {
        self.write_u64(n as u64);
    }
}
