use std::collections::BTreeMap;
use std::time::Duration;

use quorumlock_protocol::Instant;

use super::{Effect, Effects, Ended, HistoryReplay, Hold, Wait};
use crate::history::{Event, Op, Phase, Refusal};
use crate::timestamp::instant;

/// A history as holds, waits and effects: the input of the judges.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HistorySummary {
    /// Attempts that were granted.
    pub holds: Vec<Hold>,
    /// Attempts that were not granted.
    pub waits: Vec<Wait>,
    /// Effects that should not have happened.
    pub effects: Effects,
    /// For each holder notified of a loss: the instants of the grant and of the notice.
    pub losses: Vec<(Instant, Instant)>,
    /// Holders that learned of a loss by their release.
    pub lost_at_release: u64,
    /// Releases that too few nodes confirmed.
    pub unconfirmed: u64,
    /// When a fault began, ended, or took effect.
    pub faults: Vec<Instant>,
    /// The number of attempts that definitely failed.
    pub failed: u64,
    /// The error of the first failed attempt.
    pub first_failure: Option<String>,
    /// The durations of the series of failed attempts: from the first of them to the client's next
    /// attempt that was granted or found the lock held.
    pub failing: Vec<Duration>,
    /// What each client was refused with, and whether it was granted the lock afterwards.
    pub refusals: BTreeMap<(String, Refusal), bool>,
    /// The clients that asked for the lock.
    pub asked: BTreeMap<String, Asked>,
    /// The names of the clients, in the order of first appearance.
    pub clients: Vec<String>,
}

/// What became of the attempts of one client.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Asked {
    /// Whether at least one was granted.
    pub granted: bool,
    /// The longest time from a request to its grant, or until the client gave up.
    pub longest_wait: Duration,
}

/// Builds a [`HistorySummary`] from events, one by one.
#[derive(Debug)]
pub struct Summarizer {
    summary: HistorySummary,
    replay: HistoryReplay,
    last: Instant,
    /// The clients whose last attempt failed, and when their series of failures began.
    failing: BTreeMap<String, Instant>,
    /// The attempts that wait, by client and number, and since when.
    asking: BTreeMap<(String, u64), Instant>,
}

impl Default for Summarizer {
    fn default() -> Self {
        Self {
            summary: HistorySummary::default(),
            replay: HistoryReplay::default(),
            last: Instant::NEVER,
            failing: BTreeMap::new(),
            asking: BTreeMap::new(),
        }
    }
}

impl Summarizer {
    /// Takes the next event, in the order of the history.
    pub fn observe(&mut self, event: &Event) {
        let now = instant(event.mono_ns);
        self.follow_attempt(event, now);
        let Self { summary, replay, last, failing, .. } = self;
        *last = now.max(*last);
        let entry = replay.observe(event);
        if let Some(refusal) = event.refusal {
            summary.refusals.entry((event.client.clone(), refusal)).or_default();
        }
        match (event.op, event.phase, &entry.ended) {
            (Op::Fault, ..) => summary.faults.push(now),
            (Op::Lock, Phase::Fail, ended) => {
                summary.failed += 1;
                if let Some(Ended::Wait(wait)) = ended {
                    failing.entry(event.client.clone()).or_insert(wait.asked);
                }
                let why = || event.what.clone().unwrap_or_default();
                summary.first_failure.get_or_insert_with(why);
            }
            (Op::Lock, Phase::Ok | Phase::Info, _) => {
                summary.failing.extend(failing.remove(&event.client).map(|since| now.since(since)));
                if event.phase == Phase::Ok {
                    for ((client, _), granted) in &mut summary.refusals {
                        *granted |= *client == event.client;
                    }
                }
            }
            (Op::Lost, Phase::Info, Some(Ended::Hold(hold))) => {
                summary.losses.push((hold.granted, now));
            }
            (Op::Unlock, Phase::Fail, _) => summary.lost_at_release += 1,
            (Op::Unlock, Phase::Unknown, _) => summary.unconfirmed += 1,
            _ => {}
        }
        match entry.effect {
            Some(Effect::Stale) => summary.effects.stale += 1,
            Some(Effect::Refused) => summary.effects.refused += 1,
            Some(Effect::Accepted) | None => {}
        }
        summary.extend(entry.ended);
    }

    /// Ends everything that is still open at the last event, and returns the summary.
    #[must_use]
    pub fn close(self) -> HistorySummary {
        let Self { mut summary, replay, last, asking, .. } = self;
        for ((client, _), since) in asking {
            summary.waited(client, last.since(since));
        }
        let (ended, clients) = replay.close(last);
        summary.extend(ended);
        summary.clients = clients;
        summary
    }
}

impl Summarizer {
    /// An attempt waits from its request to the next event of it, whatever that is.
    fn follow_attempt(&mut self, event: &Event, now: Instant) {
        let (Op::Lock, Some(hold)) = (event.op, event.hold) else { return };
        let attempt = (event.client.clone(), hold);
        if event.phase == Phase::Invoke {
            self.asking.insert(attempt, now);
        } else if let Some(since) = self.asking.remove(&attempt) {
            let asked = self.summary.waited(attempt.0, now.since(since));
            asked.granted |= event.phase == Phase::Ok;
        }
    }
}

impl HistorySummary {
    /// The name of the client with this number ([`Who::locker`](super::Who)).
    #[must_use]
    pub fn client(&self, number: usize) -> String {
        self.clients.get(number).cloned().unwrap_or_default()
    }

    fn waited(&mut self, client: String, time: Duration) -> &mut Asked {
        let asked = self.asked.entry(client).or_default();
        asked.longest_wait = asked.longest_wait.max(time);
        asked
    }
}

impl Extend<Ended> for HistorySummary {
    fn extend<T: IntoIterator<Item = Ended>>(&mut self, ended: T) {
        for ended in ended {
            match ended {
                Ended::Hold(hold) => self.holds.push(hold),
                Ended::Wait(wait) => self.waits.push(wait),
            }
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::history::SCHEMA;
    use crate::judge::Who;

    /// An event of client `client` at `mono_ns` nanoseconds.
    pub(in super::super) fn event(
        client: &str,
        mono_ns: u64,
        op: Op,
        phase: Phase,
        hold: u64,
    ) -> Event {
        Event {
            v: SCHEMA,
            run: String::new(),
            seed: 0,
            seq: 0,
            mono_ns,
            wall_ns: 0,
            client: client.to_owned(),
            op,
            phase,
            hold: Some(hold),
            task: None,
            name: Some("x".to_owned()),
            permits: None,
            reads: false,
            nonce: None,
            token: Some(7),
            valid_until_ns: None,
            asked_ns: None,
            node: None,
            value: None,
            refusal: None,
            what: None,
        }
    }

    /// A line for each event: nanoseconds, client, what it does and how that goes, the hold, and until
    /// when the lock is valid.
    fn history(lines: &str) -> Vec<Event> {
        let of = |line: &str| {
            let words = line.split_whitespace().collect::<Vec<_>>();
            let [at, client, op, phase, hold, until @ ..] = &words[..] else { panic!("{line}") };
            let (op, phase) =
                (serde_json::from_value((*op).into()), serde_json::from_value((*phase).into()));
            let hold = hold.parse().unwrap();
            Event {
                valid_until_ns: until.first().map(|until| until.parse().unwrap()),
                ..event(client, at.parse().unwrap(), op.unwrap(), phase.unwrap(), hold)
            }
        };
        lines.trim().lines().map(of).collect()
    }

    fn summarize(events: &[Event]) -> HistorySummary {
        let mut summarizer = Summarizer::default();
        events.iter().for_each(|event| summarizer.observe(event));
        summarizer.close()
    }

    #[test]
    fn belief_ends_with_the_unlock_the_loss_or_the_last_window() {
        let found = summarize(&history(
            "
            10 a lock invoke 0
            20 a lock ok 0 100
            60 a hold info 0 150
            70 b lock invoke 0
            120 a unlock invoke 0 151
            130 b lock ok 0 200
            140 b lost info 0
            150 c lock invoke 0
            155 c lock ok 0 160
            999 c note info 0",
        ));
        let ends = found.holds.iter().map(|hold| hold.believed_until()).collect::<Vec<_>>();
        assert_eq!(ends, [instant(120), instant(140), instant(160)]);
        assert_eq!(found.losses, [(instant(130), instant(140))]);
        assert_eq!(found.holds[1].who, Who { locker: 1, task: 0 });
    }

    #[test]
    fn who_is_not_granted_waits_until_that_is_known_or_the_end() {
        let found = summarize(&history(
            "
            10 a lock invoke 0
            30 a lock fail 0
            31 a lock invoke 1
            40 b lock invoke 0
            50 b lock unknown 0
            60 nemesis fault info 0",
        ));
        let waits = found.waits.iter().map(|wait| (wait.asked, wait.ended)).collect::<Vec<_>>();
        let pair = |asked, ended| (instant(asked), instant(ended));
        assert_eq!(waits, [pair(10, 30), pair(40, 50), pair(31, 60)]);
        assert_eq!((found.failed, found.faults), (1, vec![instant(60)]));
    }

    #[test]
    fn a_series_of_failures_ends_with_a_grant_or_when_the_lock_is_found_held() {
        let found = summarize(&history(
            "
            10 a lock invoke 0
            20 a lock fail 0
            20 b lock invoke 0
            25 a lock invoke 1
            30 a lock fail 1
            35 b lock fail 0
            40 a lock invoke 2
            50 a lock ok 2
            55 b lock invoke 1
            60 b lock info 1
            70 c lock invoke 0
            80 c lock fail 0",
        ));
        let ns = found.failing.iter().map(Duration::as_nanos).collect::<Vec<_>>();
        assert_eq!(ns, [40, 40], "c is not granted any more");
    }

    #[test]
    fn the_longest_wait_counts_in_vain_or_not() {
        let found = summarize(&history(
            "
            10 a lock invoke 0
            15 b lock invoke 0
            20 a lock ok 0
            30 a lock invoke 1
            32 a lock ok 1
            40 b lock unknown 0
            45 c lock invoke 0
            60 nemesis fault info 0",
        ));
        let of = |asked: &Asked| (asked.granted, asked.longest_wait.as_nanos());
        let asked = found.asked.iter().map(|(client, asked)| (&**client, of(asked)));
        let expected = [("a", (true, 10)), ("b", (false, 25)), ("c", (false, 15))];
        assert_eq!(asked.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn a_refusal_counts_by_client_and_a_later_grant_is_seen() {
        let by = |refusal, event| Event { refusal: Some(refusal), ..event };
        let failed = |client, hold| event(client, 10, Op::Lock, Phase::Fail, hold);
        let found = summarize(&[
            event("b", 5, Op::Lock, Phase::Ok, 0),
            by(Refusal::OtherMembers, failed("a", 0)),
            by(Refusal::OtherMembers, failed("b", 1)),
            event("a", 20, Op::Lock, Phase::Ok, 1),
            by(Refusal::NotAdmitted, failed("a", 2)),
        ]);
        let refused =
            found.refusals.iter().map(|((client, by), granted)| (&**client, *by, *granted));
        let expected = [
            ("a", Refusal::OtherMembers, true),
            ("a", Refusal::NotAdmitted, false),
            ("b", Refusal::OtherMembers, false),
        ];
        assert_eq!(refused.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn an_effect_of_a_read_that_a_later_hold_has_replaced_is_stale() {
        let read = |client, value| Event {
            what: Some("read".to_owned()),
            value: Some(value),
            ..event(client, 1, Op::Note, Phase::Info, 0)
        };
        let wrote = |client, value| Event {
            value: Some(value),
            ..event(client, 2, Op::Write, Phase::Ok, 0)
        };
        let stale = |events: &[Event]| summarize(events).effects.stale;
        // a reads, b writes, then a writes for the first time, from an outdated value.
        assert_eq!(stale(&[read("a", 4), wrote("b", 5), wrote("a", 6)]), 1);
        // Nothing is stale: a reads after b's write, and a's own writes update what a knows.
        assert_eq!(stale(&[wrote("b", 5), read("a", 5), wrote("a", 6), wrote("a", 7)]), 0);
        // A hold that has read nothing cannot write from an outdated value.
        assert_eq!(stale(&[wrote("b", 5), wrote("a", 6)]), 0);
        let refused = event("a", 3, Op::Write, Phase::Fail, 0);
        let found = summarize(&[read("a", 4), wrote("b", 5), refused, wrote("a", 6)]).effects;
        assert_eq!(found, Effects { stale: 1, refused: 1 }, "a refusal brings nothing up to date");
    }
}
