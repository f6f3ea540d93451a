use super::*;
use crate::history::{Phase, Writer};
use crate::judge::Summarizer;

/// The events of a history. Times are in milliseconds.
struct Script {
    events: Vec<Event>,
}

impl Script {
    fn new() -> Self {
        Self { events: Vec::new() }
    }

    fn add(&mut self, at: u64, client: &str, op: Op, phase: Phase) -> &mut Event {
        let mono_ns = (5_000 + at) * 1_000_000;
        let event = Event {
            seq: self.events.len() as u64,
            hold: Some(1),
            name: Some("x".into()),
            ..Event::seen(("r", 1), (mono_ns, 0), client, op, phase)
        };
        self.events.push(event);
        self.events.last_mut().expect("just pushed")
    }

    fn lock(&mut self, at: u64, client: &str, hold: u64, valid_until: u64) {
        self.add(at, client, Op::Lock, Phase::Invoke).hold = Some(hold);
        let event = self.add(at, client, Op::Lock, Phase::Ok);
        event.hold = Some(hold);
        event.token = Some(at);
        event.valid_until_ns = Some((5_000 + valid_until) * 1_000_000);
    }

    fn timeline(&self) -> Timeline {
        self.timeline_with_tail(&[])
    }

    fn timeline_with_tail(&self, tail: &[u8]) -> Timeline {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("history.jsonl");
        let mut writer = Writer::create(&path).unwrap();
        self.events.iter().for_each(|event| writer.write(event).unwrap());
        writer.flush().unwrap();
        let text = [&std::fs::read(&path).unwrap(), tail].concat();
        std::fs::write(&path, text).unwrap();
        Timeline::read(&path).unwrap()
    }
}

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// The start and end of each belief, as offsets from the beginning.
fn beliefs(timeline: &Timeline) -> Vec<(u64, u64)> {
    let millis = |at| u64::try_from(timeline.offset(at).as_millis()).unwrap();
    timeline
        .holds
        .iter()
        .map(|hold| (millis(hold.granted), millis(hold.believed_until())))
        .collect()
}

#[test]
fn a_belief_ends_with_release_loss_or_validity_whatever_is_first() {
    let mut script = Script::new();
    script.lock(0, "a", 1, 30);
    script.add(10, "a", Op::Unlock, Phase::Invoke);
    script.lock(100, "b", 1, 130);
    script.add(120, "b", Op::Lost, Phase::Info);
    script.lock(200, "c", 1, 230);
    script.add(220, "c", Op::Hold, Phase::Info).valid_until_ns = Some(5_260_000_000);
    script.add(290, "c", Op::Unlock, Phase::Invoke);
    script.lock(300, "d", 1, 330);
    script.lock(390, "e", 1, 430);
    script.add(400, "lab", Op::Note, Phase::Info);
    assert_eq!(
        beliefs(&script.timeline()),
        [(0, 10), (100, 120), (200, 260), (300, 330), (390, 400)],
        "the last one lasts until the history ends"
    );
}

#[test]
fn overlaps_and_handovers_are_of_what_was_believed() {
    let mut script = Script::new();
    script.lock(0, "a", 1, 100);
    script.add(20, "b", Op::Lock, Phase::Invoke);
    script.add(50, "a", Op::Unlock, Phase::Invoke);
    script.add(57, "b", Op::Lock, Phase::Ok).valid_until_ns = Some(5_157_000_000);
    script.add(90, "b", Op::Unlock, Phase::Invoke);
    // No client waited for this hold.
    script.lock(200, "a", 2, 300);
    let timeline = script.timeline();
    assert_eq!(timeline.overlaps().len(), 0);
    assert_eq!((timeline.handovers().count(), timeline.handovers().max()), (1, Some(ms(7))));
    script.lock(250, "c", 1, 260);
    script.add(400, "lab", Op::Note, Phase::Info);
    let timeline = script.timeline();
    let overlaps = timeline.overlaps();
    assert_eq!(overlaps.len(), 1);
    assert_eq!(timeline.clients[overlaps[0].second.who.locker], "c");
}

#[test]
fn the_pictures_are_of_what_the_judges_judged() {
    let mut script = Script::new();
    for turn in 0..40 {
        let client = ["a", "b", "a", "c"][turn % 4];
        let at = 10 * turn as u64;
        script.lock(at, client, turn as u64, at + [5, 35][turn % 2]);
        script.add(at + 1, client, Op::Write, Phase::Ok).hold = Some(turn as u64);
        script.add(at + 25, client, Op::Unlock, Phase::Invoke).hold = Some(turn as u64);
    }
    script.events.sort_by_key(|event| event.mono_ns);
    let mut summarizer = Summarizer::default();
    script.events.iter().for_each(|event| summarizer.observe(event));
    let summary = summarizer.close();
    let timeline = script.timeline();
    let stale = timeline.marks.iter().filter(|seen| seen.kind == MarkKind::Stale).count() as u64;
    assert_eq!(timeline.overlaps().len(), overlaps(&summary.holds).len());
    assert_eq!(stale, summary.effects.stale);
    let mut judged: Vec<_> =
        summary.holds.iter().map(|hold| (hold.granted, hold.believed_until())).collect();
    judged.sort_unstable();
    let shown: Vec<_> =
        timeline.holds.iter().map(|hold| (hold.granted, hold.believed_until())).collect();
    assert_eq!(shown, judged);
    assert!(timeline.overlaps().len() > 10, "or it says nothing");
}

#[test]
fn a_write_made_of_what_was_replaced_is_marked_stale_as_it_is_judged() {
    let mut script = Script::new();
    let mut seen = |client, op, value| {
        let event = script.add(1, client, op, if op == Op::Note { Phase::Info } else { Phase::Ok });
        (event.value, event.what) = (Some(value), (op == Op::Note).then(|| "read".to_owned()));
    };
    seen("a", Op::Note, 4);
    seen("b", Op::Write, 5);
    seen("a", Op::Write, 6);
    let kinds: Vec<_> = script.timeline().marks.iter().map(|seen| seen.kind).collect();
    assert_eq!(kinds, [MarkKind::Write, MarkKind::Stale]);
}

#[test]
fn writes_are_marked_stale_after_anothers_claim() {
    let mut script = Script::new();
    for (client, phase) in [
        ("a", Phase::Ok),
        ("b", Phase::Ok),
        ("a", Phase::Ok),
        ("a", Phase::Fail),
        ("b", Phase::Invoke),
    ] {
        script.add(1, client, Op::Write, phase);
    }
    let kinds: Vec<_> = script.timeline().marks.iter().map(|seen| seen.kind).collect();
    assert_eq!(kinds, [MarkKind::Write, MarkKind::Write, MarkKind::Stale, MarkKind::Refused]);
}

#[test]
fn faults_last_until_they_are_mended_or_the_history_ends() {
    let mut script = Script::new();
    let mut fault = |at, phase, what: &str, node| {
        let event = script.add(at, "nemesis", Op::Fault, phase);
        (event.what, event.node) = (Some(what.to_owned()), node);
    };
    fault(0, Phase::Invoke, "killed", Some(0));
    fault(10, Phase::Invoke, "killed", Some(1));
    fault(20, Phase::Info, "flushed\0", None);
    fault(30, Phase::Ok, "killed", Some(0));
    fault(90, Phase::Ok, "never begun", None);
    let faults = script.timeline().faults;
    let told: Vec<_> = faults.iter().map(|f| (f.from, f.until, f.words.as_str())).collect();
    assert_eq!(
        told,
        [
            (ms(0), ms(30), "killed (node 0)"),
            (ms(10), ms(90), "killed (node 1)"),
            (ms(20), ms(20), "flushed�"),
            (ms(90), ms(90), "never begun"),
        ]
    );
}

#[test]
fn a_history_that_is_cut_is_shown_up_to_there() {
    let mut script = Script::new();
    script.lock(0, "a", 1, 30);
    let timeline = script.timeline_with_tail(b"{\"v\":1,\"run\":");
    assert_eq!(timeline.holds.len(), 1);
    let [left_out] = &timeline.left_out[..] else { panic!("{:?}", timeline.left_out) };
    assert!(left_out.contains("line 3 of the history"), "{left_out}");
    assert!(Script::new().timeline().holds.is_empty(), "an empty one is none");
}
