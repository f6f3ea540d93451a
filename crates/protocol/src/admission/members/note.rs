use std::time::Duration;

use super::clock::ServerClock;
use super::list::MemberList;
use super::record::Note;

/// What a client does about the note of a node without a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoteStep {
    /// Write a note with the server's present time.
    Write,
    /// The note is not old enough: it is mature after this time.
    Wait(Duration),
    /// Every lease that the server may have forgotten has ended.
    Mature,
    /// Clients of another list wrote the note, and a majority of ours votes: write our list into it,
    /// so that the other list is not founded on it. The time stays, for it is that of the server.
    TakeOver,
    /// Clients of another list wrote the note, and no majority of ours votes.
    OtherList,
    /// The server's clock is ahead of the client's by this many microseconds, or behind: nothing is
    /// written, and nothing is mature.
    ClocksDiffer(i64),
}

/// How old a note must be: the longest lease on any clock that leases were counted by, twice the
/// clock bound, and 10 ms.
pub fn note_age(longest: Duration, max_clock_drift: f64, clock_bound: Duration) -> Duration {
    longest.mul_f64(1.0 + 2.0 * max_clock_drift) + 2 * clock_bound + Duration::from_millis(10)
}

/// What to do about the note on the node `label`, which has no record, for a client of `list`.
/// `note` is of the present run. `majority`: a majority of `list` votes. `age` is that of
/// [`note_age`] (PROTOCOL.md MEM3, MEM4).
pub fn note_step(
    note: Option<&Note>,
    label: &str,
    list: &MemberList,
    majority: bool,
    clock: ServerClock,
    age: Duration,
) -> NoteStep {
    if !clock.agrees() {
        return NoteStep::ClocksDiffer(clock.ahead());
    }
    let Some(note) = note else { return NoteStep::Write };
    let ours = note.list == *list;
    if !ours && !majority {
        return NoteStep::OtherList;
    }
    // The server may be a clone of the one that the note was written on, and have voted since.
    if *note.label != *label {
        return NoteStep::Write;
    }
    if !ours {
        return NoteStep::TakeOver;
    }
    // A clock that went back says nothing about the age.
    let Ok(old) = u64::try_from(clock.server.saturating_sub(note.since)) else {
        return NoteStep::Write;
    };
    match age.checked_sub(Duration::from_micros(old)) {
        None | Some(Duration::ZERO) => NoteStep::Mature,
        Some(left) => NoteStep::Wait(left),
    }
}
