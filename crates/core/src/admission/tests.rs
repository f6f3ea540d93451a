use super::*;
use quorumlock_watchdog::Clock;

const L: Duration = Duration::from_secs(10);

fn stamp(bits: u128) -> Stamp {
    Stamp::parse(&format!("{bits:032x}")).expect("32 digits")
}

fn charter(nodes: usize) -> Charter {
    Charter { prefix: "quorumlock".into(), cluster: "main".into(), epoch: 1, nodes, longest: L }
}

fn sheet() -> Sheet {
    let record = Record {
        cluster: "main".into(),
        epoch: 1,
        nodes: 3,
        longest_ms: 10_000,
        stamp: stamp(1).to_string(),
        life: "run1/repl1".into(),
        pending: String::new(),
    };
    Sheet {
        record: Some(record),
        life: "run1/repl1".into(),
        role: "master".into(),
        replicas: 0,
        policy: "noeviction".into(),
        major: 7,
    }
}

fn with(change: impl Fn(&mut Sheet)) -> Standing {
    let mut sheet = sheet();
    change(&mut sheet);
    judge(&sheet, &charter(3))
}

#[test]
fn only_the_admitted_life_may_vote() {
    assert_eq!(with(|_| {}), Standing::Admitted(stamp(1)));
    for change in ["run2/repl1", "run1/repl2"] {
        assert_eq!(with(|s| s.life = change.into()), Standing::Unproven(None), "{change}");
    }
    assert_eq!(with(|s| s.record = None), Standing::New(None));
    // A record that only a note has made.
    let marked = with(|s| {
        let record = s.record.as_mut().unwrap();
        (record.life, record.stamp) = (String::new(), String::new());
        record.pending = "run1/repl1/abc".into();
    });
    assert_eq!(marked, Standing::New(Some("run1/repl1/abc".into())));
    let damaged = with(|s| s.record.as_mut().unwrap().stamp = "s1".into());
    assert_eq!(damaged, Standing::Unproven(None));
    let watched = with(|s| {
        s.life = "run2/repl2".into();
        s.record.as_mut().unwrap().pending = "run2/repl2/abc".into();
    });
    assert_eq!(watched, Standing::Unproven(Some("run2/repl2/abc".into())));
    // A note of an earlier life is no vigil of this one.
    let stale = with(|s| {
        s.life = "run3/repl3".into();
        s.record.as_mut().unwrap().pending = "run2/repl2/abc".into();
    });
    assert_eq!(stale, Standing::Unproven(None));
    // Marked as pending, never admitted: no stamp, so no vote, even if the life is the same.
    let fresh = with(|s| s.record.as_mut().unwrap().stamp.clear());
    assert_eq!(fresh, Standing::Unproven(None));
}

#[test]
fn misfits_name_what_was_found_and_expected() {
    type Change = fn(&mut Sheet);
    let cases: [(Change, &str); 8] = [
        (|s| s.role = "slave".into(), "role"),
        (|s| s.replicas = 1, "connected replicas"),
        (|s| s.policy = "allkeys-lru".into(), "maxmemory-policy"),
        (|s| s.major = 6, "version"),
        (|s| s.record.as_mut().unwrap().cluster = "other".into(), "cluster"),
        (|s| s.record.as_mut().unwrap().epoch = 2, "epoch"),
        (|s| s.record.as_mut().unwrap().nodes = 5, "number of nodes"),
        (|s| s.record.as_mut().unwrap().longest_ms = 9, "longest lease"),
    ];
    for (change, what) in cases {
        let (Standing::Misfit(mismatch) | Standing::Unfit(mismatch)) = with(change) else {
            panic!("{what} was admitted")
        };
        assert_eq!(mismatch.what, what);
    }
}

type Told = Option<Standing>;

fn admitted() -> Told {
    Some(Standing::Admitted(stamp(1)))
}

fn unproven(note: Option<&str>) -> Told {
    Some(Standing::Unproven(note.map(Into::into)))
}

#[test]
fn a_restarted_node_is_watched_for_the_longest_lease_by_our_own_clock() {
    let clock = Clock::manual();
    let mut warden = Warden::new(charter(3), 0.01);
    let told = [admitted(), admitted(), unproven(None)];
    assert_eq!(warden.step(&told, clock.now()), [Act::Note(2)]);
    let told = [admitted(), admitted(), unproven(Some("m"))];
    assert_eq!(warden.step(&told, clock.now()), []);
    clock.advance(L);
    assert_eq!(warden.step(&told, clock.now()), [], "rho and a margin are missing");
    clock.advance(warden.quarantine() - L);
    let admit = Act::Admit { node: 2, note: "m".into(), helpers: vec![0, 1], needed: 2 };
    assert_eq!(warden.step(&told, clock.now()), [admit]);
}

#[test]
fn another_restart_begins_the_vigil_anew_and_a_silence_does_not() {
    let clock = Clock::manual();
    let mut warden = Warden::new(charter(3), 0.01);
    let told = |note: &str| [admitted(), admitted(), unproven(Some(note))];
    warden.step(&told("m"), clock.now());
    clock.advance(L);
    warden.step(&[admitted(), admitted(), None], clock.now());
    clock.advance(L);
    assert_eq!(warden.step(&told("n"), clock.now()), [], "another life");
    assert_eq!(warden.step(&told("m"), clock.now()).len(), 1, "the note proves the first one");
}

#[test]
fn without_a_majority_of_admitted_helpers_nodes_watched_long_enough_stand_in() {
    let clock = Clock::manual();
    let mut warden = Warden::new(charter(3), 0.01);
    let told = [unproven(Some("a")), unproven(Some("b")), None];
    warden.step(&told, clock.now());
    clock.advance(warden.quarantine());
    let acts = warden.step(&told, clock.now());
    assert_eq!(acts.len(), 2);
    // One node alone is no majority, however long it was watched.
    let mut warden = Warden::new(charter(3), 0.01);
    let told = [unproven(Some("a")), None, None];
    warden.step(&told, clock.now());
    clock.advance(warden.quarantine() * 3);
    assert_eq!(warden.step(&told, clock.now()), []);
}

#[test]
fn a_helper_that_is_silent_for_a_moment_is_waited_for() {
    let clock = Clock::manual();
    let mut warden = Warden::new(charter(3), 0.01);
    let all = [admitted(), admitted(), unproven(Some("m"))];
    warden.step(&all, clock.now());
    clock.advance(warden.quarantine());
    warden.step(&[admitted(), admitted(), None], clock.now());
    let one_silent = [admitted(), None, unproven(Some("m"))];
    assert_eq!(warden.step(&one_silent, clock.now()), [], "its marks are not lost");
    clock.advance(warden.quarantine());
    assert_eq!(warden.step(&one_silent, clock.now()).len(), 1, "it has been away for long");
}

/// SAFETY.md b5: all nodes flushed look just like new ones.
#[test]
fn uptime_admits_nobody() {
    let clock = Clock::manual();
    let mut warden = Warden::new(charter(3), 0.01);
    let marks = [Act::Note(0), Act::Note(1), Act::Note(2)];
    let blank = || Some(Standing::New(None));
    assert_eq!(warden.step(&[blank(), blank(), blank()], clock.now()), marks);
    assert_eq!(warden.step(&[blank(), blank(), None], clock.now()), marks[..2]);
}
