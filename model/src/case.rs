//! One search, with its expected result.

use crate::search::{Outcome, Searched, search};

/// One search.
pub struct Case {
    /// The id in the table of model checks in docs/PROTOCOL.md.
    pub id: &'static str,
    /// A description of the model that is searched.
    pub what: &'static str,
    /// The expected result.
    pub expected: Expected,
    /// The smallest plan that contains this search.
    pub size: Size,
    run: Box<Run>,
}

type Run = dyn Fn(usize, &mut dyn FnMut(usize)) -> Outcome;

/// The expected result of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected {
    /// Every rule holds in every state, and every property that must be seen was seen.
    Holds,
    /// The search finds the planted bug.
    Caught,
}

/// The size of a plan, by its duration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Size {
    /// Seconds; `cargo test` runs it.
    Quick,
    /// Minutes.
    Full,
    /// Much longer than minutes, and gigabytes of memory.
    Deep,
}

impl Case {
    /// Runs the search. `progress` is called from time to time with the number of states so far.
    pub fn run(&self, threads: usize, progress: &mut dyn FnMut(usize)) -> Outcome {
        (self.run)(threads, progress)
    }

    /// Whether the outcome is the expected one.
    pub fn is_as_expected(&self, outcome: &Outcome) -> bool {
        match self.expected {
            Expected::Holds => outcome.broken.is_none() && outcome.unseen.is_empty(),
            Expected::Caught => outcome.broken.is_some(),
        }
    }
}

impl std::fmt::Debug for Case {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Case").field("id", &self.id).field("what", &self.what).finish()
    }
}

/// The search of `model`.
pub(crate) fn case<M: Searched>(
    id: &'static str,
    what: &'static str,
    expected: Expected,
    size: Size,
    model: impl Fn() -> M + 'static,
) -> Case {
    let run = move |threads, progress: &mut dyn FnMut(usize)| search(model(), threads, progress);
    Case { id, what, expected, size, run: Box::new(run) }
}
