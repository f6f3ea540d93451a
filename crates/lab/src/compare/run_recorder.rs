use std::io;
use std::path::{Path, PathBuf};

use quorumlock_protocol::Instant;

use super::plan::{Mode, Phase, PhaseSpan};
use super::{CompareError, Report};
use crate::history::BadHistory;
use crate::mode;
use crate::record::{self, Expected, Lab, NodeFacts, Observed, Run};
use crate::runner::environment;
use crate::runner::recorder::{HistorySender, Recorder};
use crate::runner::verdict::{disagrees, judge};
use crate::timestamp;

/// Writes a comparison to disk in the format of the lab, so that the same judge and the same report
/// apply. Uncontended phases are measured but not recorded, because recording would slow them down.
#[derive(Debug)]
pub struct RunRecorder {
    dir: PathBuf,
    lab: Lab,
    /// The run that is being recorded.
    current: Option<OpenRun>,
}

/// A run that has not ended.
#[derive(Debug)]
struct OpenRun {
    run: Run,
    began: Instant,
    recorder: Recorder,
}

impl RunRecorder {
    /// Creates the directory. `command_line`: as typed.
    ///
    /// # Errors
    /// The [`io::Error`] of the system; [`io::ErrorKind::AlreadyExists`] if the directory already
    /// holds runs, which would mix with the new ones.
    pub fn create(dir: &Path, seed: u64, command_line: Vec<String>) -> io::Result<Self> {
        let runs = dir.join("runs");
        std::fs::create_dir_all(&runs)?;
        if std::fs::read_dir(&runs)?.next().is_some() {
            let why = format!("{} holds runs already: name another directory", dir.display());
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, why));
        }
        let lab = Lab::new(seed, command_line, environment::gather(env!("CARGO_PKG_VERSION")));
        Ok(Self { dir: dir.to_owned(), lab, current: None })
    }

    /// Ends the record. `report` holds the measurements; `None` if the comparison did not complete.
    ///
    /// # Errors
    /// [`CompareError::Record`] if the record cannot be written or read back.
    pub async fn close(mut self, report: Option<&Report>) -> Result<(), CompareError> {
        self.lab.interrupted = report.is_none();
        self.end(report.is_none()).await?;
        let write = |name: &str, written: io::Result<()>| {
            written.map_err(|error| io::Error::new(error.kind(), format!("{name}: {error}")))
        };
        if let Some(report) = report {
            write(MEASURED, record::write(&self.dir.join(MEASURED), report))?;
        }
        Ok(write("lab.json", record::write(&self.dir.join("lab.json"), &self.lab))?)
    }

    /// Begins a run if the phase of this slice is recorded.
    pub(super) fn begin(
        &mut self,
        slice: PhaseSpan,
        nodes: Vec<NodeFacts>,
    ) -> Result<Option<HistorySender>, CompareError> {
        let Some(RecordedPhase { id, title, story }) = recorded_phase(slice.phase) else {
            return Ok(None);
        };
        let (mode, seed) = (letters(slice.mode), self.lab.seed);
        let same = |run: &&Run| run.scenario == id && run.mode == mode.to_string();
        let repetition = self.lab.runs.iter().filter(same).count() as u64;
        let name = format!("{id}-{mode}-process-s{seed}-{repetition}");
        let dir = self.dir.join("runs").join(&name);
        std::fs::create_dir_all(&dir)?;
        let (recorder, sender, _) = Recorder::start(&dir.join("history.jsonl"), &name, seed)?;
        let run = Run {
            schema: record::SCHEMA,
            run: name,
            scenario: id.to_owned(),
            title: title.to_owned(),
            story: story.to_owned(),
            mode: mode.to_string(),
            driver: "process".to_owned(),
            seed,
            repetition,
            expected: expected(slice),
            observed: Observed::default(),
            as_expected: false,
            why: None,
            stuck: None,
            began_wall_ns: timestamp::wall_ns(),
            lasted_ms: 0.0,
            nodes,
            interrupted: false,
        };
        let began = timestamp::instant(timestamp::mono_ns());
        self.current = Some(OpenRun { run, began, recorder });
        Ok(Some(sender))
    }

    /// Ends the current run, if any, and judges its history on disk.
    pub(super) async fn end(&mut self, interrupted: bool) -> Result<(), CompareError> {
        let Some(OpenRun { run, began, recorder }) = self.current.take() else { return Ok(()) };
        recorder.finish().await?;
        let lasted = timestamp::instant(timestamp::mono_ns()).since(began);
        let dir = self.dir.join("runs").join(&run.run);
        let judged = tokio::task::spawn_blocking(move || -> Result<_, BadHistory> {
            let (observed, summary) = judge(&dir.join("history.jsonl"), None)?;
            let why = disagrees(run.expected, &observed, &summary, interrupted);
            let as_expected = why.is_none();
            let lasted_ms = (lasted.as_secs_f64() * 1e3).round();
            let run = Run { observed, as_expected, why, lasted_ms, interrupted, ..run };
            record::write(&dir.join("run.json"), &run)?;
            Ok(run)
        });
        self.lab.add(judged.await.map_err(io::Error::other)??);
        Ok(())
    }
}

/// The file of the measurements, beside `lab.json`.
pub(crate) const MEASURED: &str = "comparison.json";

/// A recorded phase, described as a scenario.
struct RecordedPhase {
    id: &'static str,
    title: &'static str,
    story: &'static str,
}

fn recorded_phase(phase: Phase) -> Option<RecordedPhase> {
    match phase {
        Phase::Alone | Phase::Parallel => None,
        Phase::Contended => Some(RecordedPhase {
            id: "C1",
            title: "Many tasks, one lock",
            story: "The tasks of several lockers want the same lock all the time, and hold it for a \
                    millisecond; nothing breaks. A locker stands for a process: it shares no \
                    connection and no memory with the others.",
        }),
        Phase::Fault => Some(RecordedPhase {
            id: "C2",
            title: "A server is killed and comes back empty",
            story: "Tasks of several lockers work under eight locks, shortly or for up to a second. \
                    One server is killed, and is back after 300 ms, with nothing. If it is the only \
                    one, it grants what is still held. Those of a quorum that were not killed still \
                    know; the one that has forgotten does not vote for the longest lease and twice \
                    the clock bound.",
        }),
    }
}

fn letters(mode: Mode) -> mode::Mode {
    match mode {
        Mode::Single => mode::Mode::S,
        Mode::Quorum => mode::Mode::QQ,
    }
}

/// Exclusion can fall only on a single server that lost its data. Whether it does depends on the
/// holds at that time.
fn expected(slice: PhaseSpan) -> Expected {
    match (slice.phase, slice.mode) {
        (Phase::Fault, Mode::Single) => Expected::Any,
        _ => Expected::Ok,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::history::{Event, Op, Phase as Done, Reader};

    const SLICE: PhaseSpan =
        PhaseSpan { phase: Phase::Contended, mode: Mode::Single, lasts: Duration::ZERO };

    fn run_recorder(dir: &Path) -> RunRecorder {
        RunRecorder::create(dir, 7, vec!["quorumlock".to_owned()]).unwrap()
    }

    fn lab(dir: &Path) -> Lab {
        serde_json::from_str(&std::fs::read_to_string(dir.join("lab.json")).unwrap()).unwrap()
    }

    /// Two overlapping holds of "x" by different lockers.
    async fn overlap(sender: HistorySender) {
        for (client, at) in [("a", 0), ("b", 5)] {
            let seen = |op, phase, at| Event {
                hold: Some(0),
                name: Some("x".to_owned()),
                token: Some(at),
                valid_until_ns: Some(1_000),
                mono_ns: at,
                ..sender.event(client, op, phase)
            };
            sender.send(seen(Op::Lock, Done::Invoke, at)).await;
            sender.send(seen(Op::Lock, Done::Ok, at + 1)).await;
            sender.send(seen(Op::Unlock, Done::Invoke, at + 100)).await;
        }
    }

    #[tokio::test]
    async fn what_is_contended_is_judged_and_what_is_not_leaves_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let mut recorder = run_recorder(dir.path());
        let alone = PhaseSpan { phase: Phase::Alone, ..SLICE };
        assert!(recorder.begin(alone, Vec::new()).unwrap().is_none());
        recorder.end(false).await.unwrap();
        let killed = PhaseSpan { phase: Phase::Fault, ..SLICE };
        for slice in [SLICE, SLICE, killed, PhaseSpan { mode: Mode::Quorum, ..killed }] {
            overlap(recorder.begin(slice, Vec::new()).unwrap().unwrap()).await;
            recorder.end(false).await.unwrap();
        }
        recorder.close(None).await.unwrap();
        let lab = lab(dir.path());
        let seen = lab.runs.iter().map(|run| (run.run.as_str(), run.as_expected));
        assert_eq!(
            seen.collect::<Vec<_>>(),
            [
                ("C1-S-process-s7-0", false),
                ("C1-S-process-s7-1", false),
                ("C2-S-process-s7-0", true),
                ("C2-QQ-process-s7-0", false),
            ]
        );
        assert!(lab.runs.iter().all(|run| run.observed.violations == 1 && !run.interrupted));
        assert!(lab.interrupted, "it was closed without a report");
    }

    #[tokio::test]
    async fn a_run_that_was_cut_short_is_kept_and_says_so() {
        let dir = tempfile::tempdir().unwrap();
        let mut recorder = run_recorder(dir.path());
        let sender = recorder.begin(SLICE, Vec::new()).unwrap().unwrap();
        sender.send(sender.event("a", Op::Note, Done::Info)).await;
        drop(sender);
        recorder.close(None).await.unwrap();
        let [run] = &lab(dir.path()).runs[..] else { panic!("one run") };
        assert!(run.interrupted && run.as_expected, "nothing was granted, for a reason: {run:?}");
        let history = dir.path().join("runs").join(&run.run).join("history.jsonl");
        assert_eq!(Reader::open(history).unwrap().count(), 1);
        let again = RunRecorder::create(dir.path(), 8, Vec::new()).unwrap_err();
        assert_eq!(again.kind(), io::ErrorKind::AlreadyExists, "{again}");
    }
}
