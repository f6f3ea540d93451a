//! What other lock libraries promise: in which scenarios exclusion holds, by their own pages. What a run
//! shows beyond a promise is luck; what it shows against one is a finding.

use crate::worker::Topology;

/// The scenarios that compare libraries: what every worker can carry out, in one topology at least.
pub const SCENARIOS: [&str; 10] =
    ["L01", "L02", "L10", "L14", "L16", "L19", "L21", "L23", "L28", "L32"];

/// The promise of a library.
#[derive(Debug, PartialEq, Eq)]
pub struct Promise {
    /// The library, as its worker's `hello` says.
    pub library: &'static str,
    /// The page that says so.
    pub source: &'static str,
    /// What the page says of exclusion.
    pub says: &'static str,
    /// The scenarios in which exclusion holds by these rules.
    exclusion: &'static [(Topology, &'static [&'static str])],
}

/// Clients fail, and are cut off; servers keep their data, and their clocks run on.
const CLIENTS: &[&str] = &["L01", "L02", "L28", "L32"];

const PROMISES: [Promise; 6] = [
    Promise {
        library: "SET NX PX",
        source: "https://redis.io/docs/latest/commands/set/",
        says: "A key with an expiry on one server is a simple lock; the page advises Redlock for more.",
        exclusion: &[(Topology::One, CLIENTS)],
    },
    Promise {
        library: "redis-py Lock",
        source: "https://redis.readthedocs.io/en/stable/lock.html",
        says: "The lock is shared between processes and machines, for `timeout` at most. The page \
               says nothing of servers that fail.",
        exclusion: &[(Topology::One, CLIENTS)],
    },
    Promise {
        library: "Redisson RLock",
        source: "https://redisson.pro/docs/data-and-services/locks-and-synchronizers/",
        says: "Locks are advisory, and their safety depends on the servers. A grant waits for the \
               replicas by default, which closes the gap of a master that fails before it has \
               replicated; a risk remains. `RedissonRedLock` is deprecated.",
        exclusion: &[
            (Topology::One, CLIENTS),
            (Topology::Quorum, CLIENTS),
            (Topology::Sentinel, &["L16"]),
        ],
    },
    Promise {
        library: "Redisson RFencedLock",
        source: "https://redisson.pro/docs/data-and-services/locks-and-synchronizers/",
        says: "As `RLock`. A token of each acquisition lets the resource refuse a holder that was \
               delayed.",
        exclusion: &[(Topology::One, CLIENTS), (Topology::Sentinel, &["L16"])],
    },
    Promise {
        library: "node-redlock",
        source: "https://github.com/mike-marcacci/node-redlock",
        says: "It implements Redlock, with strong guarantees on one server and on several.",
        exclusion: &[(Topology::One, CLIENTS), (Topology::Quorum, CLIENTS)],
    },
    Promise {
        library: "redsync",
        source: "https://github.com/go-redsync/redsync",
        says: "It implements Redlock. Redlock (redis.io, Distributed Locks with Redis) assumes \
               clocks of about the same rate, and servers that keep their data or stay away for a \
               lease after a restart.",
        exclusion: &[(Topology::One, CLIENTS), (Topology::Quorum, CLIENTS)],
    },
];

impl Promise {
    /// The promise of a library, if its page was read.
    #[must_use]
    pub fn of(library: &str) -> Option<&'static Self> {
        PROMISES.iter().find(|promise| promise.library == library)
    }

    /// Whether exclusion holds in this scenario.
    #[must_use]
    pub fn exclusion(&self, topology: Topology, scenario: &str) -> bool {
        let same = |(of, _): &&(Topology, &[&str])| *of == topology;
        self.exclusion.iter().find(same).is_some_and(|(_, ids)| ids.contains(&scenario))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::find;

    #[test]
    fn promises_are_of_scenarios_that_are_run() {
        assert!(SCENARIOS.iter().all(|id| find(id).is_some()));
        let ids = PROMISES.iter().flat_map(|promise| promise.exclusion).flat_map(|(_, ids)| *ids);
        assert!(ids.into_iter().all(|id| SCENARIOS.contains(id)));
    }

    #[test]
    fn a_library_that_waits_for_replicas_promises_more_behind_sentinels() {
        let of = |library| Promise::of(library).expect("its page was read");
        let sentinel = |library| of(library).exclusion(Topology::Sentinel, "L16");
        assert!(sentinel("Redisson RLock") && !sentinel("redis-py Lock"));
        assert!(!of("redsync").exclusion(Topology::Sentinel, "L16"), "it has no such locks");
        assert_eq!(Promise::of("another"), None);
    }
}
