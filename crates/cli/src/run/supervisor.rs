//! What `run` and `lead` do: take a lock, run the command while it is held, and stop the command before
//! it ends.

use std::ffi::OsString;
use std::io;
use std::pin::pin;
use std::process::ExitStatus;
use std::time::Duration;

use quorumlock::env::parse_duration;
use quorumlock::kind::Kind;
use quorumlock::{Error, Guard, Locker, LossReason, Lost, Watch};
use quorumlock_command::{Failure, Outcome, exit, say};
use quorumlock_watchdog::Clock;
use rustix::process::Signal;
use tokio::time::sleep;

use super::exec;
use super::hold::Hold;
use super::job::{self, Job};
use super::plan::Plan;
use super::signals::Signals;

/// The command, and the times that decide when it is stopped.
#[derive(Debug, clap::Args)]
pub(super) struct Supervised {
    /// How long the servers keep the lock without a renewal; it is renewed every third of that.
    #[arg(
        long, value_name = "TIME", value_parser = parse_duration, default_value = "30s"
    )]
    lease: Duration,

    /// Time between SIGTERM and SIGKILL when the lock is lost [default: a third of the lease].
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    grace: Option<Duration>,

    /// The command and its arguments.
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
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
        hold_at_most: Option<Duration>,
        after_loss: AfterLoss,
    ) -> Result<Self, Failure> {
        let plan = Plan::new(supervised.lease, hold_at_most, supervised.grace)?;
        Ok(Self { supervised, plan, hold_at_least: Duration::ZERO, after_loss })
    }

    /// Keeps the lock for this time after the grant, if the command ends sooner. Fails if the lock
    /// may not be held for so long.
    pub(super) fn hold_at_least(self, time: Duration) -> Result<Self, Failure> {
        self.plan.check_hold_at_least(time)?;
        Ok(Self { hold_at_least: time, ..self })
    }

    pub(super) async fn run<K: Kind>(&self, locker: &Locker, hold: Hold<K>) -> Outcome {
        let hold = hold.with(|request| request.lease(self.supervised.lease));
        // Before the first request, so that a signal from now on leaves nothing behind on the
        // servers.
        let mut signals = Signals::listen().map_err(|error| {
            Failure::new(exit::SOFTWARE, format!("cannot handle signals: {error}"))
        })?;
        let outcome = self.hold_until_done(&hold, &mut signals).await;
        tokio::select! {
            () = locker.close() => {}
            _ = ends(&mut signals) => {} // enough: what was not released ends with its lease
        }
        outcome
    }

    async fn hold_until_done<K: Kind>(&self, hold: &Hold<K>, signals: &mut Signals) -> Outcome {
        loop {
            let why = match self.hold_once(hold, signals).await? {
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
        hold: &Hold<K>,
        signals: &mut Signals,
    ) -> Result<Ended, Failure> {
        let command = &self.supervised.command;
        let (guard, slot) = tokio::select! {
            held = self.acquire(hold) => held?,
            signal = ends(signals) => return Ok(Ended::Done(job::code_of_signal(signal.as_raw()))),
        };
        let clock = Clock::system();
        let granted = clock.now();
        let mut job = match Job::start(command, &guard, slot) {
            Ok(job) => job,
            Err(error) => {
                self.release(guard, false).await?;
                return Err(exec::cannot_execute(&command[0], &error));
            }
        };
        let watch = guard.watch();
        let end = supervise(&mut job, &watch, signals, self.plan).await.map_err(|error| {
            Failure::new(exit::SOFTWARE, format!("cannot wait for the command: {error}"))
        })?;
        drop(job); // gives the terminal back, so that Ctrl-C ends what follows
        let rest = self.hold_at_least.saturating_sub(clock.now().since(granted));
        let kept = keep(&watch, rest, signals).await;
        match end {
            End::Itself(status) => {
                self.release(guard, kept).await?;
                Ok(Ended::Done(job::code_of(status)))
            }
            End::Stopped { why } => {
                // The lock is lost or about to end: the nodes' answer changes nothing.
                let _ = guard.unlock().await;
                Ok(Ended::Lost { why })
            }
        }
    }

    /// Waits for the grant. A campaign waits for the nodes, too, as long as their errors may pass.
    async fn acquire<K: Kind>(&self, hold: &Hold<K>) -> Result<(Guard<K>, Option<u16>), Error> {
        /// Between two attempts. Some errors come at once.
        const PAUSE: Duration = Duration::from_secs(5);

        loop {
            match hold.acquire().await {
                Err(error) if self.after_loss == AfterLoss::Campaign && error.is_retryable() => {
                    say(format_args!("campaigning again in {PAUSE:?}: {error:#}"));
                    sleep(PAUSE).await;
                }
                acquired => return acquired,
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
async fn keep(watch: &Watch, time: Duration, signals: &mut Signals) -> bool {
    // A signal that ended the command was meant for quorumlock, too.
    if time.is_zero() || signals.asked_to_end().is_some() || watch.check().is_err() {
        return false;
    }
    tokio::select! {
        () = sleep(time) => {}
        _ = watch.lost() => {}
        _ = ends(signals) => {}
    }
    true
}

/// The next signal but Ctrl-Z: nothing runs that it could stop.
async fn ends(signals: &mut Signals) -> Signal {
    loop {
        match signals.next().await {
            Signal::TSTP => say("not stopped: a lock must be renewed. Ctrl-C gives it up"),
            signal => return signal,
        }
    }
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
    watch: &Watch,
    signals: &mut Signals,
    plan: Plan,
) -> io::Result<End> {
    loop {
        tokio::select! {
            status = job.ended() => return Ok(End::Itself(status?)),
            signal = signals.next() => job.signal(signal),
            () = window_falls_to(watch, plan.terminate_at()) => break,
        }
    }
    let why = match watch.check() {
        Err(lost) => format!("the lock was lost: {}", lost.why),
        Ok(()) => plan.reason(watch.loss_ahead()),
    };
    let why = format!("{}: {why}", watch.names().collect::<Vec<_>>().join(", "));
    say(format_args!("{why}: stopping the command"));
    job.signal(Signal::TERM);
    let mut grace = pin!(sleep(plan.grace));
    loop {
        tokio::select! {
            gone = job.all_ended() => return gone.map(|()| End::Stopped { why }),
            signal = signals.next() => job.signal(signal),
            () = &mut grace => break,
            () = window_falls_to(watch, plan.kill_at()) => break,
        }
    }
    job.signal(Signal::KILL);
    job.ended().await?;
    Ok(End::Stopped { why })
}

/// Returns when the lock is valid for no more than `left`, or lost.
async fn window_falls_to(watch: &Watch, left: Duration) {
    /// Timers do not count suspend, and a node's refusal shortens the window, so the window is
    /// checked often.
    const POLL_EVERY: Duration = Duration::from_millis(100);

    while let Some(time) = watch.valid_for().checked_sub(left).filter(|time| !time.is_zero()) {
        tokio::select! {
            () = sleep(time.min(POLL_EVERY)) => {}
            _ = watch.lost() => return,
        }
    }
}
