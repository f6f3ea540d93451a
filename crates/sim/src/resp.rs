//! RESP2 as a server speaks it: reads commands, writes replies.

use std::ops::Range;

/// A reply of a server.
#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    Int(i64),
    Text(Vec<u8>),
    Status(&'static str),
    Nil,
    Error(String),
    Array(Vec<Self>),
}

/// Whole commands, in the bytes that a client wrote.
#[derive(Clone, Debug, Default)]
pub struct Commands {
    bytes: Vec<u8>,
    /// The places of all arguments, the names of the commands included.
    args: Vec<Range<usize>>,
    /// For each command: the end of its arguments in `args`.
    ends: Vec<usize>,
}

impl Commands {
    /// Takes the whole commands at the beginning of `bytes`. The rest stays there.
    ///
    /// # Panics
    /// If the bytes are no commands: a client wrote nonsense.
    pub fn take(bytes: &mut Vec<u8>) -> Self {
        let (mut args, mut ends, mut at) = (Vec::new(), Vec::new(), 0);
        while let Some(end) = command(bytes, at, &mut args) {
            at = end;
            ends.push(args.len());
        }
        args.truncate(ends.last().copied().unwrap_or(0));
        let rest = bytes.split_off(at);
        Self { bytes: std::mem::replace(bytes, rest), args, ends }
    }

    pub fn len(&self) -> usize {
        self.ends.len()
    }

    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The arguments of one command, its name first.
    pub fn args(&self, number: usize) -> Args<'_> {
        let begins = number.checked_sub(1).map_or(0, |before| self.ends[before]);
        Args { bytes: &self.bytes, args: &self.args[begins..self.ends[number]] }
    }

    pub fn iter(&self) -> impl Iterator<Item = Args<'_>> {
        (0..self.len()).map(|number| self.args(number))
    }
}

/// The arguments of one command.
#[derive(Clone, Copy, Debug)]
pub struct Args<'a> {
    bytes: &'a [u8],
    args: &'a [Range<usize>],
}

impl<'a> Args<'a> {
    pub fn len(self) -> usize {
        self.args.len()
    }

    pub fn is_empty(self) -> bool {
        self.args.is_empty()
    }

    /// The argument; empty if there is none.
    pub fn get(self, at: usize) -> &'a [u8] {
        self.args.get(at).map_or(&[], |range| &self.bytes[range.clone()])
    }

    pub fn text(self, at: usize) -> &'a str {
        std::str::from_utf8(self.get(at)).unwrap_or_default()
    }

    pub fn number(self, at: usize) -> usize {
        self.text(at).parse().unwrap_or(0)
    }

    pub fn iter(self) -> impl Iterator<Item = &'a [u8]> {
        self.args.iter().map(move |range| &self.bytes[range.clone()])
    }

    pub fn to_vec(self) -> Vec<&'a [u8]> {
        self.iter().collect()
    }
}

/// Reads one command. Returns its end; `None` if it is not whole.
fn command(bytes: &[u8], at: usize, args: &mut Vec<Range<usize>>) -> Option<usize> {
    let (count, mut at) = header(bytes, at, b'*')?;
    for _ in 0..count {
        let (len, begins) = header(bytes, at, b'$')?;
        at = begins + len + 2;
        if bytes.len() < at {
            return None;
        }
        args.push(begins..begins + len);
    }
    Some(at)
}

fn header(bytes: &[u8], at: usize, kind: u8) -> Option<(usize, usize)> {
    let (first, rest) = bytes.get(at..)?.split_first()?;
    assert_eq!(*first, kind, "a client wrote no RESP");
    let mut number = 0;
    for (i, byte) in rest.iter().enumerate() {
        match byte {
            b'0'..=b'9' => number = number * 10 + usize::from(byte - b'0'),
            _ => return rest.get(i + 1).map(|_| (number, at + i + 3)),
        }
    }
    None
}

impl Reply {
    pub const OK: Self = Self::Status("OK");

    pub fn text(text: impl Into<Vec<u8>>) -> Self {
        Self::Text(text.into())
    }

    pub fn read_only() -> Self {
        Self::Error("READONLY You can't write against a read only replica.".to_owned())
    }

    pub fn wrong_type() -> Self {
        Self::Error("WRONGTYPE Operation against a key holding the wrong kind of value".to_owned())
    }

    /// Appends the reply as a server writes it.
    pub fn write(&self, out: &mut Vec<u8>) {
        match self {
            Self::Int(number) => line(out, b':', number.to_string().as_bytes()),
            Self::Text(text) => {
                line(out, b'$', text.len().to_string().as_bytes());
                out.extend_from_slice(text);
                out.extend_from_slice(b"\r\n");
            }
            Self::Status(text) => line(out, b'+', text.as_bytes()),
            Self::Nil => out.extend_from_slice(b"$-1\r\n"),
            Self::Error(text) => line(out, b'-', text.replace(['\r', '\n'], " ").as_bytes()),
            Self::Array(items) => {
                line(out, b'*', items.len().to_string().as_bytes());
                items.iter().for_each(|item| item.write(out));
            }
        }
    }
}

fn line(out: &mut Vec<u8>, kind: u8, text: &[u8]) {
    out.push(kind);
    out.extend_from_slice(text);
    out.extend_from_slice(b"\r\n");
}
