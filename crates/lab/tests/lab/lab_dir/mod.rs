//! A made-up directory of the lab, with every kind of result and with hostile names.

use std::fs;
use std::path::{Path, PathBuf};

use quorumlock_lab::history::{Event, Op, Phase, SCHEMA, Writer};
use quorumlock_lab::record::{Environment, Expected, Lab, NodeFacts, Observed, Run};
use tempfile::TempDir;

/// Text that a name or a message may contain, and that a page must not interpret as markup.
pub(crate) const HOSTILE: &str = "</svg></style><script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">\u{0}\u{202e}";

/// The measurements of a comparison in which exclusion fell on one server.
const COMPARISON: &str = include_str!("comparison.json");

/// The directory.
pub(crate) struct LabDir {
    dir: TempDir,
    /// The contents of its `lab.json`.
    pub(crate) lab: Lab,
}

impl LabDir {
    /// Results that agree with theory, two runs each.
    pub(crate) fn sound() -> Self {
        let mut lab = Self::empty();
        for repetition in 0..2 {
            lab.run(&Story {
                mode: "R",
                expected: Expected::Violation,
                clash: true,
                repetition,
                ..STORY
            });
            lab.run(&Story { mode: "W", repetition, ..STORY });
            lab.run(&Story { mode: "QQ", repetition, ..STORY });
            lab.run(&Story {
                mode: "QF",
                expected: Expected::Fenced,
                clash: true,
                fenced: true,
                repetition,
                ..STORY
            });
        }
        lab.run(&Story {
            scenario: "L01",
            title: "No fault, many contenders",
            clients: 40,
            fault: None,
            ..STORY
        });
        lab.save();
        lab
    }

    /// The files that `quorumlock-lab compare --report` leaves.
    pub(crate) fn comparison() -> Self {
        let mut lab = Self::empty();
        lab.lab.command_line = ["quorumlock", "compare", "--report", "."].map(str::to_owned).into();
        for mode in ["S", "QQ"] {
            let contended = Story {
                scenario: "C1",
                title: "Many tasks, one lock",
                clients: 4,
                fault: None,
                ..STORY
            };
            lab.run(&Story { mode, ..contended });
            let may = mode == "S";
            lab.run(&Story {
                scenario: "C2",
                title: "A server is killed and comes back empty",
                mode,
                expected: if may { Expected::Any } else { Expected::Ok },
                clients: 4,
                fault: Some("dead"),
                clash: may,
                ..STORY
            });
        }
        fs::write(lab.path().join("comparison.json"), COMPARISON).expect("written");
        lab.save();
        lab
    }

    /// As [`sound`](Self::sound), with hostile names and a broken promise.
    pub(crate) fn hostile() -> Self {
        let mut lab = Self::sound();
        lab.run(&Story {
            scenario: "L42",
            mode: "Q5",
            title: HOSTILE,
            client: HOSTILE,
            fault: Some(HOSTILE),
            clash: true,
            ..STORY
        });
        lab.lab.command_line.push(HOSTILE.to_owned());
        lab.lab.environment.cpu = HOSTILE.to_owned();
        lab.save();
        lab
    }

    fn empty() -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let words = ["quorumlock-lab", "run", "--scenario", "L16,L01", "--repeat", "2"];
        let environment = Environment {
            quorumlock: "0.1.0".to_owned(),
            commit: Some("0123abcd".to_owned()),
            dirty: Some(false),
            diff: None,
            build: "release".to_owned(),
            rustc: Some("rustc 1.95.0".to_owned()),
            kernel: "Linux 6.1.0".to_owned(),
            cpu: "A processor of 2026".to_owned(),
            cpus: 2,
            memory_bytes: 8 << 30,
            load_before: [0.12, 0.5, 1.25],
            server: "Valkey 9.1.2".to_owned(),
            clocksource: Some("tsc".to_owned()),
        };
        let command_line = words.map(str::to_owned).to_vec();
        let lab = Lab {
            schema: 1,
            command_line,
            resumed: Vec::new(),
            seed: 42,
            interrupted: false,
            environment,
            runs: Vec::new(),
            skipped: Vec::new(),
        };
        Self { dir, lab }
    }

    /// The path of the directory.
    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }

    /// The directory of a run.
    pub(crate) fn run_dir(&self, run: &str) -> PathBuf {
        self.path().join("runs").join(run)
    }

    /// Writes `lab.json`.
    pub(crate) fn save(&self) {
        let text = serde_json::to_string(&self.lab).expect("JSON");
        fs::write(self.path().join("lab.json"), text).expect("written");
    }

    fn run(&mut self, story: &Story) {
        let run = story.record();
        let dir = self.run_dir(&run.run);
        fs::create_dir_all(&dir).expect("a directory");
        fs::write(dir.join("run.json"), serde_json::to_string(&run).expect("JSON"))
            .expect("written");
        let mut writer = Writer::create(dir.join("history.jsonl")).expect("a file");
        for (seq, event) in story.history(&run.run).into_iter().enumerate() {
            writer.write(&Event { seq: seq as u64, ..event }).expect("written");
        }
        writer.flush().expect("written");
        self.lab.runs.push(run);
    }
}

/// A run to make up: clients hold alternately for 20 ms each; after a second the server fails.
pub(crate) struct Story {
    pub(crate) scenario: &'static str,
    pub(crate) title: &'static str,
    pub(crate) mode: &'static str,
    pub(crate) expected: Expected,
    pub(crate) client: &'static str,
    pub(crate) clients: usize,
    pub(crate) fault: Option<&'static str>,
    /// Whether the fault lets a second client hold.
    pub(crate) clash: bool,
    /// Whether the resource refuses stale writes.
    pub(crate) fenced: bool,
    pub(crate) repetition: u64,
}

pub(crate) const STORY: Story = Story {
    scenario: "L16",
    title: "Master killed before replicating, replica promoted",
    mode: "S",
    expected: Expected::Ok,
    client: "",
    clients: 3,
    fault: Some("master killed, replica promoted"),
    clash: false,
    fenced: false,
    repetition: 0,
};

const MS: u64 = 1_000_000;

impl Story {
    fn record(&self) -> Run {
        let run = format!("{}-{}-process-s42-{}", self.scenario, self.mode, self.repetition);
        let violated = u64::from(self.clash);
        let observed = Observed {
            stale_holders: violated,
            violations: violated,
            violated_ms: 60.0 * violated as f64,
            holders: 1 + violated,
            stale_effects: u64::from(self.clash && !self.fenced),
            refused_effects: u64::from(self.clash && self.fenced),
            vacancy_ms: 400.0 + self.repetition as f64,
            vacancy_total_ms: 700.0,
            failing_ms: 0.0,
            failing_total_ms: 0.0,
            handover_p50_ms: Some(1.5),
            handover_p99_ms: Some(4.25),
            handover_max_ms: Some(400.0),
            overtakings: 2,
            overtakings_per_1000: Some(20.619),
            waited_ms: [("a".to_owned(), 410.0)].into(),
            grants: 97,
            attempts_failed: 3,
            requests_per_success: Some(6.5),
            told_after_ms: self.clash.then_some(61.5),
            tokens_repeated: 0,
            tokens_out_of_order: 0,
            lost: violated,
        };
        let fell = self.clash && self.expected == Expected::Ok;
        Run {
            schema: 1,
            run,
            scenario: self.scenario.to_owned(),
            title: self.title.to_owned(),
            story: "A client holds the lock. The master dies before its replica has heard of it, the replica is promoted, and a second client asks there.".to_owned(),
            mode: self.mode.to_owned(),
            library: None,
            driver: "process".to_owned(),
            seed: 42,
            repetition: self.repetition,
            quorumlock: "0.1.0".to_owned(),
            commit: None,
            diff: None,
            lease_ms: 8_000,
            max_lease_ms: 10_000,
            load: None,
            takeover_delay_ms: 0,
            expected: self.expected,
            observed,
            as_expected: !fell,
            why: fell.then(|| "two holders at the same time, which theory excludes".to_owned()),
            stuck: None,
            began_wall_ns: 1_770_000_000_000_000_000,
            lasted_ms: 2_500.0,
            nodes: vec![node()],
            interrupted: false,
        }
    }

    fn history(&self, run: &str) -> Vec<Event> {
        let event = |at: u64, client: &str, op, phase| Event {
            v: SCHEMA,
            run: run.to_owned(),
            seed: 42,
            seq: 0,
            mono_ns: 1_000_000 * MS + at,
            wall_ns: 1_770_000_000_000_000_000 + at,
            client: client.to_owned(),
            op,
            phase,
            hold: None,
            task: None,
            name: Some("lab/lock".to_owned()),
            permits: None,
            reads: false,
            nonce: None,
            token: None,
            valid_until_ns: None,
            asked_ns: None,
            node: None,
            value: None,
            refusal: None,
            what: None,
        };
        let name = |turn: u64| format!("{}{}", self.client, letter(turn % self.clients as u64));
        let mut events = Vec::new();
        let mut at = 5 * MS;
        for turn in 0..97 {
            let (client, hold) = (name(turn), turn / self.clients as u64);
            let (token, hold) = (Some(turn + 1), Some(hold));
            let base = |at, op, phase| Event { hold, ..event(at, &client, op, phase) };
            let valid_until_ns = Some(1_000_000 * MS + at + 900 * MS);
            events.push(base(at.saturating_sub(15 * MS), Op::Lock, Phase::Invoke));
            events.push(Event { token, valid_until_ns, ..base(at, Op::Lock, Phase::Ok) });
            events.push(Event { token, ..base(at + 4 * MS, Op::Write, Phase::Ok) });
            let struck = turn == 48 && self.fault.is_some();
            if struck && self.clash {
                // The first holder does not know of the loss yet, and writes once more after the
                // second has begun.
                let late = if self.fenced { Phase::Fail } else { Phase::Ok };
                events.push(Event { token, ..base(at + 505 * MS, Op::Write, late) });
                let what = Some("the node has forgotten".to_owned());
                events.push(Event { what, ..base(at + 510 * MS, Op::Lost, Phase::Info) });
            } else {
                events.push(base(at + 17 * MS, Op::Unlock, Phase::Invoke));
                events.push(base(at + 18 * MS, Op::Unlock, Phase::Ok));
            }
            let fault = |at, phase| Event {
                what: self.fault.map(str::to_owned),
                node: Some(0),
                ..event(at, "nemesis", Op::Fault, phase)
            };
            if struck {
                events.push(fault(at + 10 * MS, Phase::Invoke));
                events.push(fault(at + 430 * MS, Phase::Ok));
                at += 430 * MS;
            }
            at += 17 * MS + MS / 2 + turn * MS / 25;
        }
        events.sort_by_key(|event| event.mono_ns);
        events
    }
}

fn node() -> NodeFacts {
    NodeFacts { version: "Valkey 9.1.2".into(), run_id: "ab12".into(), role: "master".into() }
}

/// a to z, then aa.
fn letter(number: u64) -> String {
    let last = char::from(b'a' + u8::try_from(number % 26).expect("a letter"));
    if number < 26 { last.to_string() } else { letter(number / 26 - 1) + &last.to_string() }
}
