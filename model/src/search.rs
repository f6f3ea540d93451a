//! Runs one search to its end.

use std::fmt::Debug;
use std::hash::Hash;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use quorumlock_watchdog::Clock;
use stateright::{Checker, Expectation, HasDiscoveries, Model};

/// What a search found.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The number of different states.
    pub states: usize,
    /// The length of the longest of the shortest paths to the states.
    pub depth: usize,
    /// The duration of the search.
    pub took: Duration,
    /// The first rule that broke, if one did; the search ends there.
    pub broken: Option<Broken>,
    /// The properties that should have been seen at least once and never were. A search with such a
    /// property proves less than it claims.
    pub unseen: Vec<&'static str>,
}

/// A rule that broke.
#[derive(Clone, Debug)]
pub struct Broken {
    /// The name of the rule.
    pub rule: &'static str,
    /// The shortest path to the state that breaks it.
    pub steps: Vec<String>,
}

/// A model that [`search`] accepts.
pub trait Searched: Model<State: Part + Hash, Action: Part> + Send + Sync + 'static {}

impl<M: Model<State: Part + Hash, Action: Part> + Send + Sync + 'static> Searched for M {}

/// A state or an action of such a model.
pub trait Part: Clone + Debug + PartialEq + Send + Sync + 'static {}

impl<P: Clone + Debug + PartialEq + Send + Sync + 'static> Part for P {}

/// Searches breadth first, so that the path to a broken rule is a shortest one (with one thread).
///
/// `progress` is called from time to time with the number of states so far.
pub fn search<M: Searched>(model: M, threads: usize, progress: &mut dyn FnMut(usize)) -> Outcome {
    let clock = Clock::system();
    let begun = clock.now();
    let properties = model.properties();
    let builder = model.checker().threads(threads).finish_when(HasDiscoveries::AnyFailures);
    let mut checker = builder.spawn_bfs();
    let mut workers = checker.handles();
    while !workers.iter().all(|worker| worker.is_finished()) {
        std::thread::sleep(Duration::from_millis(20));
        progress(checker.unique_state_count());
    }
    for worker in workers.drain(..) {
        if let Err(panic) = worker.join() {
            std::panic::resume_unwind(panic);
        }
    }
    let found = checker.discoveries();
    let broken = properties.iter().find_map(|property| {
        let path = found.get(property.name).filter(|_| property.expectation == Expectation::Always);
        let steps = |path: &stateright::Path<M::State, M::Action>| {
            path.clone().into_actions().iter().map(|action| format!("{action:?}")).collect()
        };
        path.map(|path| Broken { rule: property.name, steps: steps(path) })
    });
    let unseen = properties
        .iter()
        .filter(|p| p.expectation == Expectation::Sometimes && !found.contains_key(p.name))
        .map(|p| p.name)
        .collect();
    Outcome {
        states: checker.unique_state_count(),
        depth: checker.max_depth(),
        took: clock.now().since(begun),
        broken,
        unseen,
    }
}

/// Lets each property be reported only once.
///
/// Without it the checker would replace the first path by a later, longer one, at each of millions
/// of states.
#[derive(Debug, Default)]
pub struct Once {
    reported: AtomicU32,
    seen: AtomicU32,
}

impl Once {
    /// Whether `now` is true for the first time for property number `which`.
    pub fn first(&self, which: u32, now: bool) -> bool {
        now && self.reported.fetch_or(1 << which, Ordering::Relaxed) & (1 << which) == 0
    }

    /// Records that a step saw what property number `which` waits for. No state keeps it.
    pub fn see(&self, which: u32) {
        self.seen.fetch_or(1 << which, Ordering::Relaxed);
    }

    /// Whether [`Once::see`] was called for `which`; true at the first call only.
    pub fn seen(&self, which: u32) -> bool {
        self.first(which, self.seen.load(Ordering::Relaxed) & (1 << which) != 0)
    }
}
