use std::io;
use std::path::{Path, PathBuf};

use quorumlock_core::Instant;

use super::plan::{Mode, Phase, Slice};
use super::{CompareError, Report};
use crate::history::BadHistory;
use crate::mode;
use crate::record::{self, Expected, Lab, NodeFacts, Observed, Run};
use crate::stamp;
use crate::trial::environment;
use crate::trial::recorder::{Recorder, Scribe};
use crate::trial::verdict::{disagrees, judge};

/// What is kept of a comparison on disk: as of the lab, so that the same judge and the same report
/// are for both. What is not contended is measured only: to record it would slow it down.
#[derive(Debug)]
pub struct Journal {
    dir: PathBuf,
    lab: Lab,
    /// What is being recorded.
    open: Option<Page>,
}

/// A run that has no end yet.
#[derive(Debug)]
struct Page {
    run: Run,
    began: Instant,
    recorder: Recorder,
}

impl Journal {
    /// Makes the directory. `command_line`: as it was typed.
    ///
    /// # Errors
    /// As the system says; [`io::ErrorKind::AlreadyExists`] if there are runs in it, which would be
    /// mixed with those of this comparison.
    pub fn create(dir: &Path, seed: u64, command_line: Vec<String>) -> io::Result<Self> {
        let runs = dir.join("runs");
        std::fs::create_dir_all(&runs)?;
        if std::fs::read_dir(&runs)?.next().is_some() {
            let why = format!("{} holds runs already: name another directory", dir.display());
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, why));
        }
        let lab = Lab {
            schema: record::SCHEMA,
            command_line,
            seed,
            interrupted: false,
            environment: environment::gather(env!("CARGO_PKG_VERSION")),
            runs: Vec::new(),
        };
        Ok(Self { dir: dir.to_owned(), lab, open: None })
    }

    /// Ends what was recorded; `report` is what was measured besides, or `None` if the comparison did
    /// not come to its end.
    ///
    /// # Errors
    /// [`CompareError::Record`] if the disk is full, or what was written cannot be read.
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

    /// Begins a run if what happens in this slice is recorded.
    pub(super) fn begin(
        &mut self,
        slice: Slice,
        nodes: Vec<NodeFacts>,
    ) -> Result<Option<Scribe>, CompareError> {
        let Some(Staged { id, title, story }) = staged(slice.phase) else { return Ok(None) };
        let (mode, seed) = (letters(slice.mode), self.lab.seed);
        let same = |run: &&Run| run.scenario == id && run.mode == mode.to_string();
        let repetition = self.lab.runs.iter().filter(same).count() as u64;
        let name = format!("{id}-{mode}-process-s{seed}-{repetition}");
        let dir = self.dir.join("runs").join(&name);
        std::fs::create_dir_all(&dir)?;
        let (recorder, scribe, _) = Recorder::start(&dir.join("history.jsonl"), &name, seed)?;
        if let Some(node) = nodes.first().filter(|_| self.lab.environment.server.is_empty()) {
            self.lab.environment.server.clone_from(&node.version);
        }
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
            began_wall_ns: stamp::wall_ns(),
            lasted_ms: 0.0,
            nodes,
            interrupted: false,
        };
        let began = stamp::instant(stamp::mono_ns());
        self.open = Some(Page { run, began, recorder });
        Ok(Some(scribe))
    }

    /// Ends the run that has begun, if one has: judges it by what is on disk.
    pub(super) async fn end(&mut self, interrupted: bool) -> Result<(), CompareError> {
        let Some(Page { run, began, recorder }) = self.open.take() else { return Ok(()) };
        recorder.finish().await?;
        let lasted = stamp::instant(stamp::mono_ns()).since(began);
        let dir = self.dir.join("runs").join(&run.run);
        let judged = tokio::task::spawn_blocking(move || -> Result<_, BadHistory> {
            let (observed, account) = judge(&dir.join("history.jsonl"), None)?;
            let why = disagrees(run.expected, &observed, &account, interrupted);
            let as_expected = why.is_none();
            let lasted_ms = (lasted.as_secs_f64() * 1e3).round();
            let run = Run { observed, as_expected, why, lasted_ms, interrupted, ..run };
            record::write(&dir.join("run.json"), &run)?;
            Ok(run)
        });
        self.lab.runs.push(judged.await.map_err(io::Error::other)??);
        Ok(())
    }
}

/// What was measured without being recorded, beside `lab.json`.
pub(crate) const MEASURED: &str = "comparison.json";

/// A phase as a scenario.
struct Staged {
    id: &'static str,
    title: &'static str,
    story: &'static str,
}

fn staged(phase: Phase) -> Option<Staged> {
    match phase {
        Phase::Alone | Phase::Parallel => None,
        Phase::Contended => Some(Staged {
            id: "C1",
            title: "Many tasks, one lock",
            story: "The tasks of several lockers want the same lock all the time, and hold it for a \
                    millisecond; nothing breaks. A locker stands for a process: it shares no \
                    connection and no memory with the others.",
        }),
        Phase::Fault => Some(Staged {
            id: "C2",
            title: "A server is killed and comes back empty",
            story: "Tasks of several lockers work under eight locks, shortly or for up to a second. \
                    One server is killed, and is back after 300 ms, with nothing. If it is the only \
                    one, it grants what is still held. Those of a quorum that were not killed still \
                    know; the one that has forgotten does not vote before it was watched for the \
                    longest lease.",
        }),
    }
}

fn letters(mode: Mode) -> mode::Mode {
    match mode {
        Mode::Single => mode::Mode::S,
        Mode::Quorum => mode::Mode::QQ,
    }
}

/// Only one server that has forgotten may let two hold; whether it does is up to who holds then.
fn expected(slice: Slice) -> Expected {
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

    const SLICE: Slice =
        Slice { phase: Phase::Contended, mode: Mode::Single, lasts: Duration::ZERO };

    fn journal(dir: &Path) -> Journal {
        Journal::create(dir, 7, vec!["quorumlock".to_owned()]).unwrap()
    }

    fn lab(dir: &Path) -> Lab {
        serde_json::from_str(&std::fs::read_to_string(dir.join("lab.json")).unwrap()).unwrap()
    }

    /// Two holds of "x" by different lockers, the second granted before the first has ended.
    async fn overlap(scribe: Scribe) {
        for (client, at) in [("a", 0), ("b", 5)] {
            let seen = |op, phase, at| Event {
                hold: Some(0),
                name: Some("x".to_owned()),
                token: Some(at),
                valid_until_ns: Some(1_000),
                mono_ns: at,
                ..scribe.event(client, op, phase)
            };
            scribe.tell(seen(Op::Lock, Done::Invoke, at)).await;
            scribe.tell(seen(Op::Lock, Done::Ok, at + 1)).await;
            scribe.tell(seen(Op::Unlock, Done::Invoke, at + 100)).await;
        }
    }

    #[tokio::test]
    async fn what_is_contended_is_judged_and_what_is_not_leaves_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let mut journal = journal(dir.path());
        let alone = Slice { phase: Phase::Alone, ..SLICE };
        assert!(journal.begin(alone, Vec::new()).unwrap().is_none());
        journal.end(false).await.unwrap();
        let killed = Slice { phase: Phase::Fault, ..SLICE };
        for slice in [SLICE, SLICE, killed, Slice { mode: Mode::Quorum, ..killed }] {
            overlap(journal.begin(slice, Vec::new()).unwrap().unwrap()).await;
            journal.end(false).await.unwrap();
        }
        journal.close(None).await.unwrap();
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
        let mut journal = journal(dir.path());
        let scribe = journal.begin(SLICE, Vec::new()).unwrap().unwrap();
        scribe.tell(scribe.event("a", Op::Note, Done::Info)).await;
        drop(scribe);
        journal.close(None).await.unwrap();
        let [run] = &lab(dir.path()).runs[..] else { panic!("one run") };
        assert!(run.interrupted && run.as_expected, "nothing was granted, for a reason: {run:?}");
        let history = dir.path().join("runs").join(&run.run).join("history.jsonl");
        assert_eq!(Reader::open(history).unwrap().count(), 1);
        let again = Journal::create(dir.path(), 8, Vec::new()).unwrap_err();
        assert_eq!(again.kind(), io::ErrorKind::AlreadyExists, "{again}");
    }
}
