use super::rule::{Loss, Rule, Windows};
use crate::claim::Claim;
use crate::search::Once;

/// The numbers under which [`Once`] records wins.
pub(super) const RAISED: u32 = 3;
pub(super) const ONE_ROUND: u32 = 4;

/// The model that is searched, with `N` nodes and `K` acquisitions.
#[derive(Debug)]
pub struct TokenModel<const N: usize, const K: usize> {
    /// The rule that clients and nodes follow.
    pub rule: Rule,
    /// What each acquisition asks for.
    pub claims: [Claim; K],
    /// What happens when node 0 loses its data.
    pub loss: Loss,
    /// The number of nodes whose marks may be lost, as clients assume it.
    pub losses: usize,
    /// What clients know about how long nodes hold a nonce.
    pub windows: Windows,
    /// The marks before the first acquisition.
    pub marks: Vec<[u8; N]>,
    /// The largest token that a client may propose.
    pub top: u8,
    /// The number of tokens in a block: proposals are the last tokens of blocks.
    pub block: u8,
    /// How many times, in all, a mark moves for a client that is refused and is not told.
    pub nudges: u8,
    /// How many requests, in all, are carried out a second time. No client hears the second answer.
    pub copies: u8,
    /// Whether releases hand the name to clients that wait.
    pub handoff: bool,
    /// Whether the order of grants at each node is checked.
    pub minds_grants: bool,
    /// Whether actions that cannot break a rule are left out; see `frugal.rs`.
    pub frugal: bool,
    /// Reports each property once.
    pub once: Once,
}

impl<const N: usize, const K: usize> TokenModel<N, K> {
    /// A model with marks of zero and tokens up to 4 that leaves out actions that cannot matter.
    pub fn new(rule: Rule, loss: Loss) -> Self {
        Self {
            rule,
            claims: [Claim::ONE; K],
            loss,
            losses: 0,
            windows: Windows::Unknown,
            marks: vec![[0; N]],
            top: 4,
            block: 1,
            nudges: 0,
            copies: 0,
            handoff: false,
            minds_grants: false,
            frugal: true,
            once: Once::default(),
        }
    }

    /// Each acquisition asks for one of these.
    pub fn claiming(self, claims: [Claim; K]) -> Self {
        Self { claims, ..self }
    }

    /// With all actions: clients may also look at a decision late, and may be told that no answer
    /// will come.
    pub fn in_full(self) -> Self {
        Self { frugal: false, ..self }
    }

    /// With tokens up to `top`.
    pub fn up_to(self, top: u8) -> Self {
        Self { top, ..self }
    }

    /// With blocks of this size.
    pub fn in_blocks(self, block: u8) -> Self {
        Self { block, ..self }
    }

    /// With up to `nudges` marks that move for clients that are refused.
    pub fn nudged(self, nudges: u8) -> Self {
        Self { nudges, ..self }
    }

    /// With up to `copies` requests that are carried out twice.
    pub fn repeated(self, copies: u8) -> Self {
        Self { copies, ..self }
    }

    /// With this knowledge about windows.
    pub fn with_windows(self, windows: Windows) -> Self {
        Self { windows, ..self }
    }

    /// Checks the order in which each node grants.
    pub fn minding_grants(self) -> Self {
        Self { minds_grants: true, ..self }
    }

    /// Clients tolerate the loss of the marks of `losses` nodes.
    pub fn tolerating(self, losses: usize) -> Self {
        Self { losses, ..self }
    }

    /// With releases that hand the name to clients that wait.
    pub fn with_handoff(self) -> Self {
        Self { handoff: true, ..self }
    }

    /// With these marks before the first acquisition.
    pub fn starting_at(self, marks: [u8; N]) -> Self {
        Self { marks: vec![marks], ..self }
    }

    /// With every combination of marks up to `most` before the first acquisition.
    pub fn uneven(self, most: u8) -> Self {
        let mut marks = vec![[0; N]];
        for n in 0..N {
            let all = |start: [u8; N]| (0..=most).map(move |mark| set(start, n, mark));
            marks = marks.into_iter().flat_map(all).collect();
        }
        // Sorted combinations suffice: all nodes are interchangeable except the one that loses its
        // data.
        let first = usize::from(self.loss != Loss::Never);
        marks.retain(|marks| marks[first..].is_sorted());
        Self { marks, ..self }
    }

    /// The tokens that a client may propose above a mark.
    pub(super) fn proposals(&self, mark: u8) -> impl Iterator<Item = u8> + use<N, K> {
        let block = if self.rule == Rule::Unrounded { 1 } else { self.block };
        (mark + 1..=self.top).filter(move |token| token % block == block - 1)
    }
}

fn set<const N: usize>(mut marks: [u8; N], n: usize, mark: u8) -> [u8; N] {
    marks[n] = mark;
    marks
}
