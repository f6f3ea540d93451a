//! Lock clients of other languages. Each is a process that is driven by lines of text
//! (`tests/interop/README.md`).

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use crate::subject::{LEASE, What};

/// A client that the benches measure.
#[derive(Debug, PartialEq, Eq)]
pub struct Client {
    /// Its name in reports.
    pub name: &'static str,
    /// The file name of its program, in the directory that `scripts/get-interop` prepares.
    pub program: &'static str,
    /// Whether it takes several names in one step.
    names: bool,
    /// Whether it has permits that expire, read-write locks, and locks in strict order.
    other_kinds: bool,
}

/// The clients that P12 and P13 measure.
pub const CLIENTS: [Client; 3] = [
    Client { name: "Redisson 4.7.0", program: "redisson-4.7.0", names: true, other_kinds: true },
    Client { name: "redsync 4.18.1", program: "redsync", names: false, other_kinds: false },
    Client { name: "node-redlock 5", program: "node-redlock", names: true, other_kinds: false },
];

impl Client {
    /// Whether it has this kind of lock.
    #[must_use]
    pub fn takes(&self, what: What) -> bool {
        match what {
            What::Lock => true,
            What::Names(_) => self.names,
            What::Permit { .. } | What::Read | What::Write | What::InOrder => self.other_kinds,
        }
    }
}

/// The environment variable that names that directory.
pub const PROGRAMS: &str = "QUORUMLOCK_INTEROP";

/// A running client.
pub struct Driver {
    commands: ChildStdin,
    answers: Lines<BufReader<ChildStdout>>,
    /// The number of commands sent so far.
    count: usize,
    /// The process. It is killed on drop.
    _process: Child,
}

/// The result of callers whose locks no other caller wants.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pairs {
    /// The median time of a pair, in microseconds.
    pub p50: f64,
    /// Pairs per second of all callers together.
    pub rate: f64,
}

/// The result of callers that contend for one lock.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Contended {
    /// The median time from the end of a holder's work to the grant to another caller, in
    /// microseconds. NaN if the lock never went to another caller.
    pub gap: f64,
    /// The longest wait of a caller in milliseconds, including callers that still wait at the end.
    pub longest: f64,
    /// The number of grants.
    pub grants: f64,
}

/// The directory of the programs; `None` if the environment variable is not set.
#[must_use]
pub fn programs() -> Option<PathBuf> {
    std::env::var_os(PROGRAMS).filter(|dir| !dir.is_empty()).map(PathBuf::from)
}

impl Driver {
    /// Starts a client that locks on these servers.
    ///
    /// # Errors
    /// If the client does not start or does not connect.
    pub async fn start(program: &Path, urls: &[String]) -> Result<Self> {
        let servers: Vec<_> = urls.iter().map(|url| url.trim_start_matches("redis://")).collect();
        let mut process = Command::new(program)
            .args([servers.join(","), LEASE.as_millis().to_string()])
            // The program's default JVM flags suit short runs only.
            .env("QUORUMLOCK_JAVA_FLAGS", "")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("{} does not start", program.display()))?;
        let commands = process.stdin.take().context("it is piped")?;
        let answers = BufReader::new(process.stdout.take().context("it is piped")?).lines();
        let mut driver = Self { commands, answers, count: 0, _process: process };
        match driver.line().await?.as_str() {
            "ready" => Ok(driver),
            line => bail!("{}: {line}", program.display()),
        }
    }

    /// Lets `callers` callers take and give back `count` times in total: fresh names, or permits of
    /// one name.
    ///
    /// # Errors
    /// The error that the client reports.
    pub async fn pairs(&mut self, what: What, count: usize, callers: usize) -> Result<Pairs> {
        let prefix = match what {
            What::Permit { .. } => format!("invoices:{what}"),
            _ => fresh(),
        };
        match self.ask(&format!("pairs {prefix} {count} {callers} {what}")).await?[..] {
            [p50, rate] => Ok(Pairs { p50, rate }),
            _ => bail!("a pair has two figures"),
        }
    }

    /// Lets `waiters` callers contend for one name for this time. Each hold lasts a millisecond.
    ///
    /// # Errors
    /// The error that the client reports.
    pub async fn contend(
        &mut self,
        what: What,
        waiters: usize,
        time: Duration,
    ) -> Result<Contended> {
        let command = format!("contend {} {waiters} {} {what}", fresh(), time.as_secs_f64());
        match self.ask(&command).await?[..] {
            [gap, longest, grants] => {
                let gap = if gap < 0.0 { f64::NAN } else { gap };
                Ok(Contended { gap, longest, grants })
            }
            _ => bail!("contention has three figures"),
        }
    }

    async fn ask(&mut self, command: &str) -> Result<Vec<f64>> {
        self.count += 1;
        let id = self.count.to_string();
        self.commands.write_all(format!("{id} bench {command}\n").as_bytes()).await?;
        loop {
            let line = self.line().await?;
            let words: Vec<_> = line.split(' ').collect();
            match words[..] {
                [of, _, "ok", ref values @ ..] if of == id => {
                    return values.iter().map(|value| Ok(value.parse()?)).collect();
                }
                [of, ..] if of == id => bail!("{line}"),
                // The answer to an earlier command whose caller has stopped waiting.
                _ => {}
            }
        }
    }

    async fn line(&mut self) -> Result<String> {
        let line = tokio::time::timeout(PATIENCE, self.answers.next_line()).await;
        line.with_context(|| format!("no answer within {PATIENCE:?}"))??.context("it has ended")
    }
}

/// After this time without an answer the client has no figure.
const PATIENCE: Duration = Duration::from_secs(180);

/// A random prefix for names that have not been locked before.
fn fresh() -> String {
    format!("invoice:{:08x}", rand::random::<u32>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_names_in_reports_are_the_pinned_versions() {
        let versions = include_str!("../../tests/interop/versions");
        for pinned in ["REDISSON=\"4.7.0 ", "REDSYNC=4.18.1\n", "NODE_REDLOCK=5."] {
            assert!(versions.contains(pinned), "{pinned}");
        }
    }

    #[tokio::test]
    async fn a_driver_is_asked_by_lines() -> Result<()> {
        use std::os::unix::fs::PermissionsExt as _;

        let path = std::env::temp_dir().join(format!("driver-{}", std::process::id()));
        let program = "#!/bin/sh\necho ready\nread line\necho 0 0 ok 9\necho 1 7 ok 250 1500.5\n\
            read line\necho 2 7 ok -1 3 4\nread line\necho 3 7 error no such lock\n";
        std::fs::write(&path, program)?;
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755))?;
        let mut driver = Driver::start(&path, &["redis://localhost:1".into()]).await?;
        std::fs::remove_file(&path)?;
        assert_eq!(driver.pairs(What::Lock, 1, 1).await?, Pairs { p50: 250.0, rate: 1500.5 });
        let found = driver.contend(What::Lock, 2, Duration::from_secs(1)).await?;
        assert!(found.gap.is_nan() && (found.longest, found.grants) == (3.0, 4.0), "{found:?}");
        let error = driver.pairs(What::Lock, 1, 1).await.unwrap_err().to_string();
        assert!(error.contains("no such lock"), "{error}");
        assert!(driver.pairs(What::Lock, 1, 1).await.is_err(), "it has ended");
        Ok(())
    }
}
