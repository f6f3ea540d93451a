//! What an acquisition asks a node to hold: names, or one slot of a name; exclusive or shared.

/// The largest number of keys, and of marks, that a claim can name.
pub const MOST: usize = 2;

/// A claim, by the keys that it holds and the marks that its token must pass, as bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Claim {
    keys: u8,
    marks: u8,
    shared: bool,
}

impl Claim {
    /// The first name, exclusively.
    pub const ONE: Self = Self { keys: 0b01, marks: 0b01, shared: false };
    /// The second name, exclusively.
    pub const OTHER: Self = Self { keys: 0b10, marks: 0b10, shared: false };
    /// The first name, shared with other readers.
    pub const READ: Self = Self { keys: 0b01, marks: 0b01, shared: true };
    /// Both names.
    pub const ALL: Self = Self { keys: 0b11, marks: 0b11, shared: false };
    /// The second slot of the first name. The first slot is [`Claim::ONE`]: slots share a mark.
    pub const SLOT: Self = Self { keys: 0b10, marks: 0b01, shared: false };

    /// Whether no node may hold both claims.
    pub fn excludes(self, other: Self) -> bool {
        self.keys & other.keys != 0 && !(self.shared && other.shared)
    }

    /// Whether the tokens of both claims must differ, and be in order.
    pub fn shares_mark(self, other: Self) -> bool {
        self.marks & other.marks != 0
    }

    /// The numbers of its keys.
    pub fn keys(self) -> impl Iterator<Item = usize> {
        bits(self.keys)
    }

    /// The numbers of its marks.
    pub fn marks(self) -> impl Iterator<Item = usize> {
        bits(self.marks)
    }
}

fn bits(set: u8) -> impl Iterator<Item = usize> {
    (0..MOST).filter(move |bit| set & (1 << bit) != 0)
}
