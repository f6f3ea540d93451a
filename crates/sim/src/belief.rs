//! What each holder believed, and in which order: a history that a checker from elsewhere can judge.
//!
//! Time is counted in steps, one for each instant that is recorded, so no two instants are the same.
//! A holder is seen to believe at every grant of another attempt. Two beliefs that overlap do so when
//! the second one begins, so no overlap is missed.

use std::collections::BTreeMap;

use quorumlock_protocol::Claim;

/// One hold, as its holder believed in it.
#[derive(Clone, Debug)]
pub struct Belief {
    /// The holder's process.
    pub client: usize,
    /// What is held.
    pub claim: Claim,
    /// The step at which its attempt began.
    pub asked: u64,
    /// The step of the grant.
    pub granted: u64,
    /// The step at which the belief had ended. That of the grant, if the lease was over by then.
    pub until: u64,
    /// The fencing token. A writer that goes on as a reader gets no new one.
    pub token: Option<u64>,
}

/// The beliefs of a run.
#[derive(Debug, Default)]
pub struct Beliefs {
    steps: u64,
    pub all: Vec<Belief>,
    /// For each attempt, its belief that has not ended.
    pub open: BTreeMap<usize, usize>,
}

impl Beliefs {
    /// The next step.
    pub fn step(&mut self) -> u64 {
        self.steps += 1;
        self.steps
    }

    /// All beliefs, in the order of the grants.
    pub fn take(&mut self) -> Vec<Belief> {
        self.open.clear();
        std::mem::take(&mut self.all)
    }
}
