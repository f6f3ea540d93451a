use super::*;
use crate::text::Held;

const ALL: Size = Size { width: usize::MAX, height: usize::MAX };

fn snapshot() -> Snapshot {
    let node = |i: u64| NodeRow {
        node: format!("10.0.0.{i}:6379"),
        reachable: true,
        admitted: Some(true),
        problem: None,
        role: Some("master".into()),
        takes_locks: Some(true),
        round_trip_us: Some(200),
        clock_ahead_us: Some(1_200),
        connections: Some(10 + i),
        marks: Some(3),
        waiters: Some(2),
    };
    let silent = NodeRow {
        node: "10.0.0.3:6379".into(),
        admitted: Some(false),
        problem: Some("no answer within 2s".into()),
        ..NodeRow::default()
    };
    let held = Held {
        id: "7f".into(),
        label: Some("web-3:4711".into()),
        remaining_ms: Some(12_000),
        last_token: None,
        since: None,
        holds: 1,
    };
    let invoice = LockRow { holder: Some(held), ..LockRow::new("invoice".into(), None) };
    let locks = vec![
        LockRow {
            held: Some(true),
            seen_for: Some(Duration::from_millis(65_400)),
            waiters: Some(2),
            ..invoice
        },
        LockRow { waiters: Some(0), ..LockRow::new("report".into(), None) },
        LockRow::unknown("x".into(), "too few nodes\n  n1: silent".into()),
    ];
    Snapshot::new(vec![node(1), node(2), silent], 2, locks)
}

#[test]
fn a_wide_terminal_shows_all_columns() {
    let size = Size { width: 120, height: 40 };
    let expected = "\
2 of 3 nodes answer, 2 vote; a lock needs 2

NODE           ANSWERS  VOTES  ROLE    CLOCK    CONNECTIONS  MARKS  WAITERS  PROBLEM
10.0.0.1:6379  yes      yes    master  +0.0 ms  11           3      2
10.0.0.2:6379  yes      yes    master  +0.0 ms  12           3      2
10.0.0.3:6379  no       no     ?       ?        ?            ?      ?        no answer within 2s

LOCK     SEEN FOR  REMAINING  WAITERS  HOLDER
invoice  1m 5s     12s        2        web-3:4711
report   -         -          0        free
x        -         -          ?        unknown: too few nodes";
    assert_eq!(draw(&snapshot(), size).join("\n"), expected);
    assert_eq!(draw(&snapshot(), ALL).join("\n"), expected);
    assert_eq!(snapshot().to_string(), expected);
}

#[test]
fn a_narrow_terminal_leaves_out_the_least_important_columns_and_cuts_the_last() {
    let title_at = |width| draw(&snapshot(), Size { width, ..ALL })[2].clone();
    let without_role =
        "NODE           ANSWERS  VOTES  CLOCK    CONNECTIONS  MARKS  WAITERS  PROBLEM";
    assert_eq!(title_at(85), without_role);
    assert_eq!(title_at(84), without_role.replace("MARKS  ", ""));
    let high = "NODE           ANSWERS  VOTES  WAITERS  PROBLEM";
    assert_eq!(title_at(60), high);
    let expected = "\
2 of 3 nodes answer, 2 vote;…

NODE           PROBLEM
10.0.0.1:6379
10.0.0.2:6379
10.0.0.3:6379  no answer wit…

LOCK     HOLDER
invoice  web-3:4711
report   free
x        unknown: too few no…";
    assert_eq!(draw(&snapshot(), Size { width: 29, ..ALL }).join("\n"), expected);
}

#[test]
fn no_picture_is_larger_than_the_terminal() {
    let snapshot = snapshot();
    for width in 0..100 {
        for height in 0..14 {
            let lines = draw(&snapshot, Size { width, height });
            assert!(lines.len() <= height, "{width} x {height}: {lines:?}");
            let fits = |line: &String| line.width() <= width;
            assert!(lines.iter().all(fits), "{width} x {height}: {lines:?}");
        }
    }
}

#[test]
fn a_low_terminal_says_how_many_lines_it_does_not_show() {
    let lines = draw(&snapshot(), Size { height: 5, ..ALL });
    assert_eq!(lines.len(), 5);
    assert!(lines[3].starts_with("10.0.0.1"), "{lines:?}");
    assert_eq!(lines[4], "7 more lines");
}

#[test]
fn a_name_cannot_command_the_terminal() {
    let locks = vec![LockRow::new("a\x1b[2J\r\nb".into(), None)];
    let lines = draw(&Snapshot::new(Vec::new(), 1, locks), ALL).concat();
    assert!(!lines.contains(char::is_control), "{lines:?}");
    assert!(lines.contains("a [2J  b"), "{lines:?}");
}

#[test]
fn wide_characters_count_twice() {
    let lock = |name: &str| LockRow { waiters: Some(0), ..LockRow::new(name.into(), None) };
    let locks = vec![lock("日本語の錠"), lock("ascii")];
    let lines = draw(&Snapshot::new(Vec::new(), 1, locks), ALL);
    assert!(lines[5].starts_with("日本語の錠  -"), "{lines:?}");
    assert!(lines[6].starts_with("ascii       -"), "{lines:?}");
}

#[test]
fn readers_are_counted_and_a_key_without_expiry_says_so() {
    let readers = LockRow { held: Some(true), readers: 3, ..LockRow::default() };
    assert_eq!(holder(&readers), "3 readers");
    assert_eq!(remaining(&readers), "no expiry");
    let readers = LockRow { readers_remaining_ms: Some(1_500), ..readers };
    assert_eq!(remaining(&readers), "1s 500ms");
}
