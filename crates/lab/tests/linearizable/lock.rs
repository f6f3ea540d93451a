//! A lock with fencing tokens, as the sequential object that a linearizability checker knows.

use stateright::semantics::SequentialSpec;

/// The state of one name.
#[derive(Clone, Debug)]
pub(crate) struct Lock {
    /// How many may hold it at once.
    places: usize,
    /// Whether a grant must have a larger token than all grants before it.
    fenced: bool,
    /// The holds that have it, and whether they read.
    holders: Vec<(usize, bool)>,
    /// The largest token so far.
    token: u64,
}

/// What a client asks of the lock.
#[derive(Clone, Debug)]
pub(crate) enum Op {
    /// A hold, by its number, begins.
    Acquire { hold: usize, reads: bool },
    /// A hold ends.
    Release { hold: usize },
}

/// The answer.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Ret {
    /// The lock is granted, with a token, if it is known.
    Granted(Option<u64>),
    /// The lock is given back.
    Released,
}

impl Lock {
    /// A free lock whose largest token so far is `token`.
    pub(crate) fn new(places: usize, fenced: bool, token: u64) -> Self {
        Self { places, fenced, holders: Vec::new(), token }
    }

    fn admits(&self, reads: bool) -> bool {
        let shared = reads && self.holders.iter().all(|(_, reads)| *reads);
        shared || self.holders.len() < self.places
    }
}

impl SequentialSpec for Lock {
    type Op = Op;
    type Ret = Ret;

    fn invoke(&mut self, op: &Op) -> Ret {
        match *op {
            Op::Acquire { hold, reads } => {
                self.holders.push((hold, reads));
                Ret::Granted(None)
            }
            Op::Release { hold } => {
                self.holders.retain(|(held, _)| *held != hold);
                Ret::Released
            }
        }
    }

    fn is_valid_step(&mut self, op: &Op, ret: &Ret) -> bool {
        if let (Op::Acquire { reads, .. }, Ret::Granted(token)) = (op, ret) {
            let token = token.filter(|_| self.fenced);
            if !self.admits(*reads) || token.is_some_and(|token| token <= self.token) {
                return false;
            }
            self.token = self.token.max(token.unwrap_or_default());
        }
        self.invoke(op);
        true
    }
}
