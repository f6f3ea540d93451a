//! The plan: which workloads run, how often, and in which order.

use std::time::Duration;

/// One workload.
#[derive(Debug, PartialEq, Eq)]
pub struct Workload {
    /// The id by which the command line selects it.
    pub id: &'static str,
    /// The title, in a few words.
    pub title: &'static str,
    /// A description of what is done and what is counted.
    pub about: &'static str,
    /// The metrics for which the report draws plots and shows ratios to the raw client.
    pub main: &'static [&'static str],
}

/// The median time of a pair of lock and unlock.
pub const P50: &str = "pair p50";
/// Pairs per second.
pub const RATE: &str = "pairs per second";
/// The reads of the servers for each pair or hold.
pub const REQUESTS: &str = "requests";
/// How often the lock went to another task or process.
pub const HANDOVERS: &str = "handovers";
/// The median time from the end of one holder's work to the begin of another's.
pub const HANDOVER: &str = "handover p50";
/// The fewest holds of a task or process, divided by the most: 1 is perfectly even.
pub const EVENNESS: &str = "fewest / most holds";
/// The longest wait of a task or caller for one lock.
pub const LONGEST: &str = "longest wait";
/// The processor time of the clients, as a share of one processor.
pub const CPU: &str = "CPU of the holder";
/// The memory of the fullest server, above that of an empty one.
pub const MEMORY: &str = "memory";
/// The keys of the fullest server, above those of an empty one.
pub const KEYS: &str = "keys";
/// The price of one or more features.
pub const PRICE: &str = "price";
/// The rate of holds over that of the same subject's lock of one name.
pub const OVER_EXCLUSIVE: &str = "x a lock of one name";
/// The time of a pair over that of the same subject's lock.
pub const OVER_LOCK: &str = "x a lock";
/// The time of a pair over that of a lock that quorumlock takes by script.
pub const OVER_SCRIPT: &str = "x a lock by script";

/// The workloads, in the order in which they are run.
pub const ALL: [Workload; 14] = [
    Workload {
        id: "P1",
        title: "one task, one server",
        about: "A lock that nobody else wants is taken and given back, again and again.",
        main: &[P50],
    },
    Workload {
        id: "P2",
        title: "many tasks, one server",
        about: "Each of 64 and 1,024 tasks takes and gives back locks that nobody else wants.",
        main: &[RATE],
    },
    Workload {
        id: "P3",
        title: "one task, five servers",
        about: "As P1, on a quorum.",
        main: &[P50],
    },
    Workload {
        id: "P4",
        title: "many tasks, five servers",
        about: "As P2, on a quorum.",
        main: &[RATE],
    },
    Workload {
        id: "P5",
        title: "one name, many tasks of one process",
        about: "All tasks want the same lock and hold it for a millisecond. Counted are handovers \
            to another task; a task that gets its own lock back is no handover.",
        main: &[HANDOVERS, EVENNESS],
    },
    Workload {
        id: "P6",
        title: "one name, several processes",
        about: "Sixteen tasks in 4 or 16 processes want the same lock and hold it for a \
            millisecond. Counted are handovers to another process. \"Far\": a proxy delays each \
            direction by 2 ms. The token ring locks nothing: a server hands a list element on \
            (BLPOP, LPUSH), and five servers answer PING before and after the work.",
        main: &[HANDOVERS, EVENNESS],
    },
    Workload {
        id: "P7",
        title: "fifty contenders, five servers",
        about: "Fifty lockers with connections of their own want the same lock and hold it for \
            10 ms. \"Ideal\" has one round trip to all servers between two holds.",
        main: &["of the ideal"],
    },
    Workload {
        id: "P8",
        title: "five servers, one of them down",
        about: "As P3 with fresh names, while one of five servers is stopped (SIGSTOP), then \
            killed; over the time with five.",
        main: &["p50 / healthy", "p99 / healthy"],
    },
    Workload {
        id: "P9",
        title: "ten thousand held locks",
        about: "One process holds them and renews them, every third of 30 s.",
        main: &[CPU],
    },
    Workload {
        id: "P10",
        title: "the price of features",
        about: "As P1 and P3 with fresh names, with one feature switched off; how much longer a \
            pair of the default takes. With events: how much longer a pair takes with a handler that \
            looks at each event. Spans refused: the same with a subscriber of tracing that wants no \
            span. Proven: the same with a server that must prove its memory.",
        main: &[P50],
    },
    Workload {
        id: "P11",
        title: "memory after many fresh names",
        about: "Sixty-four tasks lock a million names once. Then all clients disconnect, and \
            nothing is asked any more. Memory and keys are those of the fullest server, above an \
            empty one.",
        main: &[MEMORY],
    },
    Workload {
        id: "P12",
        title: "beside other languages",
        about: "quorumlock and the raw client beside Redisson (RLock, RedissonRedLock), redsync and \
            node-redlock, each with its defaults in a process of its own. Fresh names: a lock that \
            nobody else wants. One name: all callers of a client want the same lock and hold it \
            for a millisecond; the handover is the time from the end of a holder's work to the \
            grant of another caller, and the longest wait is at most the 5 s of a lap. Then pairs \
            while one of five servers is stopped (SIGSTOP), then killed. Clients have one \
            processor, servers the other.",
        main: &[P50, RATE, HANDOVER],
    },
    Workload {
        id: "P13",
        title: "other kinds, one server",
        about: "As P1: several names in one step, and permits, which are slots of one name. Where \
            one permit is left, another client holds the others. \"x a lock\" is the time of a pair \
            over that of the same subject's lock, \"by script\" over that of quorumlock's lock when \
            a script takes it. The raw client takes other kinds by a script. Then sixty-four tasks \
            want one name and hold it for a millisecond, to read, or each alone; such a sleep takes a \
            different time in each language, so only the ratio to the same subject compares. Redisson has \
            RMultiLock, RPermitExpirableSemaphore, RReadWriteLock and RFairLock, node-redlock has \
            several resources; both are in processes of their own, on the processor of all others, \
            and have no p99.",
        main: &[P50, RATE],
    },
    Workload {
        id: "growth",
        title: "growth",
        about: "How cost grows with servers, tasks (fresh names), waiters and held locks.",
        main: &[P50, RATE, HANDOVER, CPU],
    },
];

/// The plan of one run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// The workloads, in order.
    pub workloads: Vec<&'static Workload>,
    /// The number of rounds. In each round every subject has a lap.
    pub rounds: usize,
    /// Shorter laps, for a quick check. Their figures are not for publication.
    pub quick: bool,
    /// The number of fresh names that P11 locks.
    pub names: usize,
    /// How long P11 rests.
    pub rest: Duration,
}

impl Plan {
    /// A plan with all workloads.
    #[must_use]
    pub fn new(rounds: Option<usize>, rest: Option<u64>, quick: bool) -> Self {
        Self {
            workloads: ALL.iter().collect(),
            rounds: rounds.unwrap_or(if quick { 3 } else { 5 }).max(1),
            quick,
            names: if quick { 20_000 } else { 1_000_000 },
            rest: Duration::from_secs(rest.unwrap_or(if quick { 5 } else { 600 })),
        }
    }

    /// Restricts the plan to some workloads. `only` is a list such as `P1,P5`; an empty list keeps
    /// all.
    ///
    /// # Errors
    /// The word that is not the id of a workload.
    pub fn only(mut self, only: &str) -> Result<Self, String> {
        let words = only.split(',').map(str::trim).filter(|word| !word.is_empty());
        let find = |word: &str| {
            let found = ALL.iter().find(|workload| workload.id.eq_ignore_ascii_case(word));
            found.ok_or_else(|| format!("{word:?} is no workload"))
        };
        let chosen = words.map(find).collect::<Result<Vec<_>, _>>()?;
        if !chosen.is_empty() {
            self.workloads = chosen;
        }
        Ok(self)
    }

    /// The length of a lap that takes `millis` in a full run.
    #[must_use]
    pub fn lap(&self, millis: u64) -> Duration {
        Duration::from_millis(if self.quick { millis.div_ceil(3) } else { millis })
    }
}

/// The order in which `subjects` have their laps in a round. Each subject starts once, and the
/// direction alternates, so that no subject always runs after the same other one.
#[must_use]
pub fn order(subjects: usize, round: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..subjects).collect();
    order.rotate_left(round.checked_rem(subjects).unwrap_or(0));
    if round % 2 == 1 {
        order.reverse();
    }
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_of_the_workloads_can_be_asked_for() {
        let ids = |only: &str| {
            let plan = Plan::new(None, None, false).only(only)?;
            Ok(plan.workloads.iter().map(|workload| workload.id).collect())
        };
        let all = ALL.iter().map(|workload| workload.id).collect::<Vec<_>>();
        assert_eq!(ids(""), Ok::<_, String>(all));
        assert_eq!(ids("p5, P1"), Ok(vec!["P5", "P1"]));
        assert_eq!(ids("growth"), Ok(vec!["growth"]));
        assert!(ids("P1,P14").unwrap_err().contains("P14"));
    }

    #[test]
    fn a_full_run_unless_one_only_looks() {
        let full = Plan::new(None, None, false);
        assert_eq!((full.rounds, full.names, full.rest.as_secs()), (5, 1_000_000, 600));
        let asked = Plan::new(Some(9), Some(60), true);
        assert_eq!((asked.rounds, asked.rest.as_secs()), (9, 60));
    }

    #[test]
    fn everybody_runs_once_a_round_and_nobody_always_first() {
        for subjects in 0..6 {
            for round in 0..7 {
                let mut sorted = order(subjects, round);
                sorted.sort_unstable();
                assert_eq!(sorted, (0..subjects).collect::<Vec<_>>());
            }
        }
        let firsts: Vec<_> = (0..4).map(|round| order(4, round)[0]).collect();
        assert!((0..4).any(|subject| firsts[0] != firsts[subject]), "{firsts:?}");
    }
}
