//! What `run` and `lead` do: take a lock, run the command while it is held, and stop the command before
//! it ends.

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::pin::pin;
use std::process::ExitStatus;
use std::time::Duration;

use quorumlock::env::parse_duration;
use quorumlock::kind::Kind;
use quorumlock::{Error, Guard, HoldView, Locker, LossReason, Lost};
use quorumlock_command::{Failure, Outcome, exit, say};
use quorumlock_watchdog::Clock;
use tokio::time::sleep;

use super::descendants::Descendants;
use super::exec;
use super::hold::Hold;
use super::job::{self, Job};
use super::metrics_file::MetricsFile;
use super::outer_holds::OuterHolds;
use super::plan::Plan;
use super::signals::Signals;
use crate::log::print_warnings;
use crate::nodes::LockNodes;

/// The command, and the times that decide when it is stopped.
#[derive(Debug, clap::Args)]
pub(super) struct Supervised {
    /// Time between SIGTERM and SIGKILL when the lock is lost [default: a third of the lease].
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    grace: Option<Duration>,

    /// Do not say who holds the lock while quorumlock waits for it, nor what the command leaves running.
    #[arg(long, short = 'q')]
    quiet: bool,

    /// Print what happens to the lock, not only warnings of it.
    #[arg(long, short = 'v', conflicts_with = "quiet")]
    verbose: bool,

    /// Write the metrics of the lock to FILE, in the text format of Prometheus: every 15 s, and at the end. For
    /// the textfile collector of the node exporter, whose files end in .prom.
    #[arg(long, value_name = "FILE")]
    metrics_file: Option<PathBuf>,

    /// The command and its arguments.
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

impl Supervised {
    /// A locker for the lock, and what writes its metrics until it is dropped.
    pub(super) fn locker(
        &self,
        nodes: &LockNodes,
        lock: &str,
    ) -> Result<(Locker, Option<MetricsFile>), Failure> {
        let builder = (*nodes.builder).clone();
        let Some(path) = &self.metrics_file else {
            return Ok((nodes.build(builder)??, None));
        };
        let (file, builder) = MetricsFile::begin(path, lock, builder)?;
        Ok((nodes.build(builder)??, Some(file)))
    }
}

/// What follows when the lock could not be kept and the command was stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AfterLoss {
    /// quorumlock exits.
    Exit,
    /// quorumlock asks for the lock again, also while the nodes do not answer.
    Campaign,
}

/// Runs a command while a lock is held.
#[derive(Debug)]
pub(super) struct Supervisor<'a> {
    supervised: &'a Supervised,
    plan: Plan,
    /// Since the grant: the lock is kept for so long, also after the command.
    hold_at_least: Duration,
    after_loss: AfterLoss,
    outer: OuterHolds,
    refuses_self_wait: bool,
}

/// How one hold ended.
enum Ended {
    /// With the command, or by a signal: the exit code.
    Done(u8),
    /// The command was stopped, since the lock could not be kept.
    Lost { why: String },
}

impl<'a> Supervisor<'a> {
    /// Fails if the times do not fit each other.
    pub(super) fn new(
        supervised: &'a Supervised,
        nodes: &LockNodes,
        after_loss: AfterLoss,
    ) -> Result<Self, Failure> {
        let plan = Plan::new(nodes.lease(), nodes.hold_at_most(), supervised.grace)?;
        Ok(Self {
            supervised,
            plan,
            hold_at_least: Duration::ZERO,
            after_loss,
            outer: OuterHolds::from_env(),
            refuses_self_wait: false,
        })
    }

    /// Fails, instead of waiting, if a hold under which this process runs keeps the lock.
    pub(super) fn refuse_self_wait(self) -> Self {
        Self { refuses_self_wait: true, ..self }
    }

    /// Keeps the lock for this time after the grant, if the command ends sooner. Fails if the lock
    /// may not be held for so long.
    pub(super) fn hold_at_least(self, time: Duration) -> Result<Self, Failure> {
        self.plan.check_hold_at_least(time)?;
        Ok(Self { hold_at_least: time, ..self })
    }

    pub(super) async fn run<K: Kind>(&self, locker: &Locker, hold: Hold<K>) -> Outcome {
        print_warnings(self.supervised.verbose);
        // Before the first request, so that a signal from now on leaves nothing behind on the
        // servers.
        let notifications_end = self.after_loss == AfterLoss::Exit;
        let mut signals = Signals::listen(notifications_end).map_err(|error| {
            Failure::new(exit::SOFTWARE, format!("cannot handle signals: {error}"))
        })?;
        let outcome = self.hold_until_done(locker, &hold, &mut signals).await;
        tokio::select! {
            () = locker.close() => {}
            _ = signals.end() => {} // enough: what was not released ends with its lease
        }
        outcome
    }

    async fn hold_until_done<K: Kind>(
        &self,
        locker: &Locker,
        hold: &Hold<K>,
        signals: &mut Signals,
    ) -> Outcome {
        tokio::select! {
            excluded = self.check_self_wait(locker, hold) => excluded?,
            signal = signals.end() => return Ok(job::code_of_signal(signal.as_raw())),
        }
        loop {
            let why = match self.hold_once(locker, hold, signals).await? {
                Ended::Done(code) => return Ok(code),
                Ended::Lost { why } => why,
            };
            if self.after_loss == AfterLoss::Exit {
                return Err(Failure::new(exit::LOST, format!("{why}; the command was stopped")));
            }
            // The signal was passed on to the command, but the sender wants quorumlock to end.
            if let Some(signal) = signals.asked_to_end() {
                return Ok(job::code_of_signal(signal.as_raw()));
            }
            say("the command was stopped: campaigning again");
        }
    }

    async fn hold_once<K: Kind>(
        &self,
        locker: &Locker,
        hold: &Hold<K>,
        signals: &mut Signals,
    ) -> Result<Ended, Failure> {
        let command = &self.supervised.command;
        let (guard, slot) = tokio::select! {
            held = self.acquire(locker, hold) => held?,
            signal = signals.end() => return Ok(Ended::Done(job::code_of_signal(signal.as_raw()))),
        };
        let clock = Clock::system();
        let granted = clock.now();
        let mut job = match Job::start(command, &guard, slot, &self.outer) {
            Ok(job) => job,
            Err(error) => {
                self.release(guard, false).await?;
                return Err(exec::cannot_execute(&command[0], &error));
            }
        };
        let view = guard.view();
        let end = supervise(&mut job, &view, signals, self.plan).await.map_err(|error| {
            Failure::new(exit::SOFTWARE, format!("cannot wait for the command: {error}"))
        })?;
        let descendants = job.into_descendants(); // Ctrl-C ends what follows
        let rest = self.hold_at_least.saturating_sub(clock.now().since(granted));
        let kept = keep(&view, rest, signals).await;
        match end {
            End::Itself(status) => {
                let released = self.release(guard, kept).await;
                if !self.supervised.quiet {
                    report_left(&descendants).await;
                }
                released?;
                Ok(Ended::Done(job::code_of(status)))
            }
            End::Stopped { why } => {
                // The lock is lost or about to end: the nodes' answer changes nothing.
                let _ = guard.unlock().await;
                Ok(Ended::Lost { why })
            }
        }
    }

    async fn check_self_wait<K: Kind>(
        &self,
        locker: &Locker,
        hold: &Hold<K>,
    ) -> Result<(), Failure> {
        let excluded = match self.refuses_self_wait {
            true => self.outer.excludes(&hold.asked, locker).await,
            false => None,
        };
        excluded.map_or(Ok(()), |name| {
            Err(Failure::usage(format!(
                "{name} is held by the quorumlock under which this one runs, and which waits for it: run \
                 the command without this quorumlock, or under another name. If it is to outlive that \
                 hold, start it without {}",
                OuterHolds::VARIABLE,
            )))
        })
    }

    /// Waits for the grant. A campaign waits for the nodes, too, as long as their errors may pass.
    async fn acquire<K: Kind>(
        &self,
        locker: &Locker,
        hold: &Hold<K>,
    ) -> Result<(Guard<K>, Option<u16>), Failure> {
        /// Between two attempts. Some errors come at once.
        const PAUSE: Duration = Duration::from_secs(5);

        loop {
            match hold.acquire(self.supervised.quiet).await {
                Err(error) if self.after_loss == AfterLoss::Campaign && locker.may_pass(&error) => {
                    say(format_args!("campaigning again in {PAUSE:?}: {error:#}"));
                    sleep(PAUSE).await;
                }
                Err(error) => return Err(hold.failure(error).await),
                Ok(acquired) => return Ok(acquired),
            }
        }
    }

    /// Reports a lock that was lost before, so that the command's work may have overlapped with that
    /// of another holder: as a failure if a loss ends quorumlock. `kept`: the lock was kept after the
    /// command, whose result stands.
    async fn release<K: Kind>(&self, guard: Guard<K>, kept: bool) -> Result<(), Failure> {
        match guard.unlock().await {
            Ok(()) => {}
            // --hold-at-most is as long as --hold-at-least.
            Err(Error::Lost(Lost { why: LossReason::HoldLimit, .. })) if kept => {}
            Err(Error::Lost(Lost { name, why, .. })) if kept => say(format_args!(
                "{name}: the lock was lost: {why}. The command had ended, but somebody else may \
                 have the lock before --hold-at-least is over"
            )),
            Err(Error::Lost(Lost { name, why, .. })) => {
                let loss = format!(
                    "{name}: the lock was lost: {why}. The command has ended, but somebody else may \
                     have had the lock, too"
                );
                match self.after_loss {
                    AfterLoss::Exit => return Err(Failure::new(exit::LOST, loss)),
                    AfterLoss::Campaign => say(loss),
                }
            }
            Err(error) => {
                say(format_args!("the lock could not be released and ends with its lease: {error}"))
            }
        }
        Ok(())
    }
}

/// Keeps the lock for this time after the command has ended: less if the lock is lost, or if a signal
/// asks this program to end. Returns whether it was kept at all.
async fn keep(view: &HoldView, time: Duration, signals: &mut Signals) -> bool {
    // A signal that ended the command was meant for quorumlock, too.
    if time.is_zero() || signals.asked_to_end().is_some() || view.check().is_err() {
        return false;
    }
    tokio::select! {
        () = sleep(time) => {}
        _ = view.lost() => {}
        _ = signals.end() => {}
    }
    true
}

/// How a command ended.
enum End {
    Itself(ExitStatus),
    /// quorumlock stopped the command, since the lock could not be kept.
    Stopped {
        why: String,
    },
}

/// Passes signals on until the command ends, or stops the command before the lock's window shuts.
async fn supervise(
    job: &mut Job,
    view: &HoldView,
    signals: &mut Signals,
    plan: Plan,
) -> io::Result<End> {
    loop {
        tokio::select! {
            status = job.ended() => return Ok(End::Itself(status?)),
            signal = signals.next() => job.signal(signal),
            () = window_falls_to(view, plan.terminate_at()) => break,
        }
    }
    let why = match view.check() {
        Err(lost) => format!("the lock was lost: {}", lost.why),
        Ok(()) => plan.reason(view.loss_ahead()),
    };
    let why = format!("{}: {why}", view.names().collect::<Vec<_>>().join(", "));
    say(format_args!("{why}: stopping the command"));
    job.terminate();
    let mut grace = pin!(sleep(plan.grace));
    loop {
        tokio::select! {
            gone = job.all_ended() => return gone.map(|()| End::Stopped { why }),
            signal = signals.next() => job.signal(signal),
            () = &mut grace => break,
            () = window_falls_to(view, plan.kill_at()) => break,
        }
    }
    job.kill().await?;
    Ok(End::Stopped { why })
}

/// Reports the processes that the command has left behind, in one line.
async fn report_left(descendants: &Descendants) {
    /// Those that end with the command may end a little later.
    const ENDS_WITHIN: Duration = Duration::from_millis(100);
    const NAMED: usize = 5;

    let left = || descendants.alive().filter(|left| !left.is_empty());
    if left().is_none() {
        return;
    }
    sleep(ENDS_WITHIN).await;
    let Some(left) = left() else { return };
    let mut names = left.iter().take(NAMED).map(ToString::to_string).collect::<Vec<_>>().join(", ");
    if left.len() > NAMED {
        names.push_str(", ...");
    }
    let count = left.len();
    let processes = if count == 1 { "process, which runs" } else { "processes, which run" };
    say(format_args!("the command left {count} {processes} on without the lock: {names}"));
}

/// Returns when the lock is valid for no more than `left`, or lost.
async fn window_falls_to(view: &HoldView, left: Duration) {
    /// Timers do not count suspend, and a node's refusal shortens the window, so the window is
    /// checked often.
    const POLL_EVERY: Duration = Duration::from_millis(100);

    while let Some(time) = view.valid_for().checked_sub(left).filter(|time| !time.is_zero()) {
        tokio::select! {
            () = sleep(time.min(POLL_EVERY)) => {}
            _ = view.lost() => return,
        }
    }
}
