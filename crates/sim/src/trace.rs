use std::collections::VecDeque;
use std::fmt;
use std::hash::{Hash, Hasher};

use super::time::Micros;

/// The events of a run, in order. Every event goes into the hash; only the last `keep` events are
/// kept for display.
#[derive(Debug)]
pub struct Trace {
    hash: Fnv,
    count: u64,
    last_notes: VecDeque<Note>,
    max_notes: usize,
}

/// One event.
#[derive(Clone, Copy, Debug)]
pub struct Note {
    pub at: Micros,
    pub what: &'static str,
    pub who: Who,
    pub number: u64,
}

/// The client, the node and the attempt that an event concerns.
#[derive(Clone, Copy, Debug, Default, Hash)]
pub struct Who {
    pub client: Option<usize>,
    pub node: Option<usize>,
    pub attempt: Option<usize>,
}

impl Trace {
    /// Keeps the last `keep` notes.
    pub fn new(keep: usize) -> Self {
        Self {
            hash: Fnv(0xcbf2_9ce4_8422_2325),
            count: 0,
            last_notes: VecDeque::new(),
            max_notes: keep,
        }
    }

    pub fn note(&mut self, note: Note) {
        note.hash(&mut self.hash);
        self.count += 1;
        self.last_notes.push_back(note);
        if self.last_notes.len() > self.max_notes {
            self.last_notes.pop_front();
        }
    }

    pub fn hash(&self) -> u64 {
        self.hash.0
    }

    pub fn count(&self) -> u64 {
        self.count
    }

    pub fn lines(&self) -> Vec<String> {
        self.last_notes.iter().map(Note::to_string).collect()
    }
}

impl Who {
    pub fn client(client: usize) -> Self {
        Self { client: Some(client), ..Self::default() }
    }

    pub fn node(node: usize) -> Self {
        Self { node: Some(node), ..Self::default() }
    }

    pub fn both(client: usize, node: usize) -> Self {
        Self { client: Some(client), node: Some(node), attempt: None }
    }

    pub fn on(self, attempt: Option<usize>) -> Self {
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

/// Hashes the time, the place and the number of an event, not its text: a changed text keeps the
/// hash of a run.
impl Hash for Note {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.at, self.who, self.number).hash(state);
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
