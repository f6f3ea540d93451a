//! Both versions on one name while clients and servers fail.

use std::env;
use std::fmt;
use std::fs;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::thread;
use std::time::Duration;

use quorumlock_protocol::Instant;
use quorumlock_testbed::servers::{Server, ServerOptions, Servers, ask, for_test};
use quorumlock_watchdog::Clock;
use rustix::process::{Pid, Signal, kill_process};

use super::{TERMS, Version, previous};
use crate::common::QUORUMLOCK;

/// How long each bed runs; `QUORUMLOCK_TEST_SECONDS` says otherwise.
const SECONDS: u64 = 20;

/// Of each version.
const WORKERS: usize = 3;

/// Longer than a lease that a killed client leaves behind, and the admission of a server that
/// restarts; a loaded machine keeps it.
const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// Two holders at a time read one number, or one finds that it was changed meanwhile. It ends long
/// before the lease of a client that is killed or stopped.
const JOB: &str = "n=$(cat count) && echo ${QUORUMLOCK_TOKEN:-$QUORUMLOCK_FENCE} >> tokens && sleep 0.1 && \
                   { [ \"$n\" = \"$(cat count)\" ] || echo \"$n\" >> overlaps; } && \
                   echo $((n + 1)) > count.$$ && mv count.$$ count";

/// The servers and the layout that a bed has.
#[derive(Clone, Copy, Debug)]
struct Bed {
    servers: usize,
    layout: &'static str,
}

const BEDS: [Bed; 4] = [
    Bed { servers: 1, layout: "redisson" },
    Bed { servers: 1, layout: "redlock" },
    Bed { servers: 3, layout: "redisson" },
    Bed { servers: 3, layout: "redlock" },
];

/// A client that runs, unless it is `None`.
#[derive(Default)]
struct Slot {
    child: Option<Child>,
    /// Whether a fault hit this client.
    disturbed: bool,
}

#[derive(Default)]
struct Shared {
    slots: Vec<Mutex<Slot>>,
    /// How many clients ended well, of each slot.
    done: Vec<AtomicUsize>,
    ended: AtomicBool,
    longest: Mutex<Duration>,
    faults: AtomicUsize,
    /// The ends of clients that no fault hit and that should not end so.
    failures: Mutex<Vec<String>>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap()
}

impl Shared {
    fn of(slots: usize) -> Self {
        Self {
            slots: (0..slots).map(|_| Mutex::default()).collect(),
            done: (0..slots).map(|_| AtomicUsize::new(0)).collect(),
            ..Self::default()
        }
    }

    /// Runs jobs one after the other until the bed ends.
    fn work(&self, slot: usize, command: impl Fn() -> Command) {
        let (clock, messages) = (Clock::system(), tempfile::NamedTempFile::new().unwrap());
        while !self.ended.load(Ordering::Relaxed) {
            fs::write(messages.path(), "").unwrap();
            let begun = clock.now();
            let mut command = command();
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(messages.reopen().unwrap());
            *locked(&self.slots[slot]) =
                Slot { child: Some(command.spawn().unwrap()), disturbed: false };
            let (code, disturbed) = self.await_end(slot);
            let waited = clock.now().since(begun);
            if code == Some(0) {
                self.done[slot].fetch_add(1, Ordering::Relaxed);
            }
            if !disturbed {
                let mut longest = locked(&self.longest);
                *longest = (*longest).max(waited);
                if !is_expected(code, waited) {
                    let said = fs::read_to_string(messages.path()).unwrap();
                    locked(&self.failures).push(format!("{slot}: {code:?}, {waited:?}: {said}"));
                }
            }
        }
    }

    /// The exit code, and whether a fault hit the client.
    fn await_end(&self, slot: usize) -> (Option<i32>, bool) {
        loop {
            // Not by waiting for it: the faults need the client, too.
            thread::sleep(Duration::from_millis(10));
            let mut slot = locked(&self.slots[slot]);
            if let Some(status) = slot.child.as_mut().and_then(|child| child.try_wait().unwrap()) {
                slot.child = None;
                return (status.code(), slot.disturbed);
            }
        }
    }

    /// Sends the signal to the client; it has not been waited for, so the number is its own.
    fn signal(&self, slot: usize, signal: Signal) {
        let mut slot = locked(&self.slots[slot]);
        if let Some(child) = &slot.child {
            kill_process(Pid::from_child(child), signal).unwrap();
            slot.disturbed = true;
            self.faults.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// One fault after the other, in turn; then the bed ends.
    fn disturb(&self, servers: &Servers, end: Instant) {
        let _ends = Ends(&self.ended);
        let clock = Clock::system();
        let stops = [200, 1_000, 2_500, 4_500].map(Duration::from_millis);
        for fault in 0.. {
            if clock.now() >= end {
                break;
            }
            let victim = fault * 5 % self.slots.len();
            match fault % 8 {
                0 | 4 => self.signal(victim, Signal::KILL),
                1 | 3 | 5 => {
                    self.signal(victim, Signal::STOP);
                    thread::sleep(stops[fault / 2 % stops.len()]);
                    self.signal(victim, Signal::CONT);
                }
                // Seldom: a quorum does without one server, which votes again some seconds later.
                _ if fault % 24 == 7 => servers[fault / 24 % servers.len()].restart().unwrap(),
                _ => servers.iter().for_each(unsubscribe),
            }
            // The clients go on meanwhile.
            thread::sleep(Duration::from_millis(300));
        }
    }
}

/// Whether a client that no fault hit may end so.
fn is_expected(code: Option<i32>, waited: Duration) -> bool {
    match code {
        // A release that a restarted server answers by "not held" counts as a loss (SAFETY.md G6).
        Some(0 | 79) => true,
        // It gives up if too few servers can vote for half a minute: on a loaded machine, one that has
        // restarted and one that greets late.
        Some(69 | 78) => waited >= Duration::from_secs(30),
        _ => false,
    }
}

/// Lets the clients' threads end, also if a fault could not be made.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Ends all subscriptions at the server: messages that are under way are lost. On a loaded machine the
/// server may answer late.
fn unsubscribe(server: &Server) {
    let _ = ask(server.addr().unwrap(), &["CLIENT", "KILL", "TYPE", "pubsub"]);
}

/// What a bed has seen.
struct Seen {
    bed: Bed,
    tokens: Vec<u64>,
    overlaps: usize,
    shared: Shared,
}

impl fmt::Display for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (faults, longest) = (&self.shared.faults, locked(&self.shared.longest));
        let (holds, overlaps, failures) =
            (self.tokens.len(), self.overlaps, locked(&self.shared.failures));
        write!(f, "{:?}: {holds} holds, {faults:?} faults of clients, ", self.bed)?;
        write!(f, "{overlaps} overlaps, longest wait {longest:?}, failures {failures:?}, ")?;
        write!(f, "done by each {:?}", self.shared.done)
    }
}

fn run(bed: Bed, previous: &str) -> Option<Seen> {
    let options = ServerOptions { appendonly: true, ..ServerOptions::default() };
    let servers = for_test(bed.servers, &options)?;
    let urls = servers.urls();
    let version = |program| Version { program, urls: &urls };
    let on_terms = |mut command: Command| {
        command.env("QUORUMLOCK_MAX_LEASE", TERMS[0].1);
        if bed.servers > 1 {
            command.env("QUORUMLOCK_CLOCK_BOUND", TERMS[1].1);
        }
        command
    };
    if bed.servers > 1 {
        assert!(on_terms(version(previous).command(&["init"])).status().unwrap().success());
    }
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("count"), "0").unwrap();
    let job = format!("cd '{}' && {JOB}", dir.path().display());

    let shared = Shared::of(2 * WORKERS);
    let given = env::var("QUORUMLOCK_TEST_SECONDS").ok().and_then(|given| given.parse().ok());
    let clock = Clock::system();
    let end = clock.now() + Duration::from_secs(given.unwrap_or(SECONDS));
    thread::scope(|scope| {
        for slot in 0..2 * WORKERS {
            // The version before calls a layout a wire.
            let (program, layout) =
                if slot % 2 == 0 { (previous, "--wire") } else { (QUORUMLOCK, "--layout") };
            let command = || {
                let options = ["--name", "x", "--lease", "3s", layout, bed.layout];
                let mut command = on_terms(version(program).command(&["run"]));
                command.args(options).args(["--", "sh", "-c", &job]);
                command
            };
            let shared = &shared;
            scope.spawn(move || shared.work(slot, command));
        }
        shared.disturb(&servers, end);
    });
    let read = |name: &str| fs::read_to_string(dir.path().join(name)).unwrap_or_default();
    let tokens = read("tokens").lines().map(|token| token.parse().unwrap()).collect();
    let overlaps = read("overlaps").lines().count();
    Some(Seen { bed, tokens, overlaps, shared })
}

/// Clients of both versions are killed and stopped, whether they hold or wait, subscriptions end, and
/// servers restart with their data.
#[test]
fn both_versions_share_a_name_under_faults() {
    let Some(previous) = previous() else { return };
    thread::scope(|scope| {
        let previous = &*previous;
        let beds = BEDS.map(|bed| scope.spawn(move || run(bed, previous)));
        let beds = beds.map(|bed| bed.join().unwrap());
        beds.iter().flatten().for_each(|seen| eprintln!("{seen}"));
        for seen in beds.iter().flatten() {
            assert_eq!(seen.overlaps, 0, "{seen}");
            assert!(seen.tokens.is_sorted_by(|before, after| before < after), "{:?}", seen.tokens);
            assert!(locked(&seen.shared.failures).is_empty(), "{seen}");
            assert!(*locked(&seen.shared.longest) < LONGEST_WAIT, "{seen}");
            let done = |done: &AtomicUsize| done.load(Ordering::Relaxed) > 0;
            assert!(seen.shared.done.iter().all(done), "{seen}");
        }
    });
}
