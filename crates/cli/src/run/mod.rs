//! `quorumlock run`: hold a lock, a permit or a read-write lock while a command runs.

pub(crate) mod exec;
mod hold;
mod job;
mod plan;
mod signals;
mod terminal;

use std::ffi::OsString;
use std::io;
use std::pin::pin;
use std::process::ExitStatus;
use std::time::Duration;

use quorumlock::kind::Kind;
use quorumlock::{Error, Guard, LockRequest, Lost, Watch};
use quorumlock_command::{Failure, Outcome, exit, say};
use rustix::process::Signal;
use tokio::time::sleep;

use self::hold::Hold;
use self::job::Job;
use self::plan::Plan;
use self::signals::Signals;
use crate::nodes::LockNodes;
use crate::permits;

/// Hold a lock, or one of several permits, while a command runs.
///
/// The command finds the lock's name in QUORUMLOCK_NAME (of several names, one in each line) and its
/// fencing token, a number that grows with every grant, in QUORUMLOCK_FENCE. The exit code is the
/// command's own, or 128 plus the number of the signal that ended it.
///
/// With --permits the command runs under one of so many permits of the name, and finds the number
/// of its slot in QUORUMLOCK_SLOT: no other command that holds a permit of the name has the same
/// number. Each slot is a lock of its own, so what follows is true of a permit, too.
///
/// With --read or --write the command runs under the read-write lock of the name: commands that
/// read run at the same time, and a command that writes runs alone. A writer that waits keeps new
/// readers out. A name is a lock or a read-write lock, so all programs must use it as the same.
/// What follows is true of readers and writers, too.
///
/// The lock is renewed until the command ends. If renewals fail, SIGTERM goes to the command and
/// all its descendants early enough to leave them the grace time, and SIGKILL follows before
/// another client can get the lock; the exit code is then 79. A lock that turns out to be gone
/// (taken away by force, or forgotten by a server) leaves no time: SIGKILL follows at once. The
/// next renewal finds that out, after a third of the lease.
///
/// The command runs in a process group of its own. INT, TERM, HUP, QUIT, USR1 and USR2 are passed
/// on to that group. Descendants that are still running when the command has ended, or that left
/// the group, run on without the lock.
///
/// Where stdin is a terminal and quorumlock is in its foreground, the command is: it reads from the
/// terminal, and Ctrl-C and Ctrl-Z reach it. After Ctrl-Z it keeps its lock, and Ctrl-Z lets it go
/// on. Elsewhere the command cannot read from the terminal (it would be stopped), and Ctrl-Z is
/// refused, since a stopped quorumlock could not renew the lock.
///
/// If quorumlock itself is killed by SIGKILL, Linux kills the command as well, but not its
/// descendants. If quorumlock is stopped by SIGSTOP, it can neither renew the lock nor stop the
/// command: the lock ends with its lease while the command goes on. Send the fencing token with
/// every write of the command.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    nodes: LockNodes,

    /// The lock's name. With several names the command runs while all of them are held: they are
    /// taken in one step, all or none.
    #[arg(long = "name", value_name = "NAME", required = true)]
    names: Vec<String>,

    /// Hold one of K permits of the name (1 to 256) instead of its lock, so that up to K commands
    /// run at a time. All programs must give the same K. Takes one --name.
    #[arg(long, value_name = "K", value_parser = permits::number())]
    permits: Option<u32>,

    /// Hold the read-write lock of the name to read: other readers run at the same time, and no
    /// writer does. Takes one --name.
    #[arg(long, conflicts_with_all = ["write", "permits"])]
    read: bool,

    /// Hold the read-write lock of the name to write: nobody else runs, no reader either. Takes one
    /// --name.
    #[arg(long, conflicts_with = "permits")]
    write: bool,

    /// Give up after this time if other clients hold the lock, or all permits [default: wait
    /// without limit].
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    wait: Option<Duration>,

    /// How long the servers keep the lock without a renewal; it is renewed every third of that.
    #[arg(
        long, value_name = "TIME", value_parser = humantime::parse_duration, default_value = "30s"
    )]
    lease: Duration,

    /// End the hold, and with it the command, after this time at the latest; SIGTERM comes earlier
    /// by the grace time.
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    hold_at_most: Option<Duration>,

    /// Time between SIGTERM and SIGKILL when the lock is lost [default: a third of the lease].
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    grace: Option<Duration>,

    /// The command and its arguments.
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// What the options ask for.
enum Wanted<'a> {
    Lock(&'a [String]),
    Permit(&'a str, u32),
    Read(&'a str),
    Write(&'a str),
}

impl Args {
    fn wanted(&self) -> Result<Wanted<'_>, Failure> {
        Ok(match (self.permits, self.read, self.write) {
            (Some(permits), ..) => Wanted::Permit(self.one_name("--permits")?, permits),
            (None, true, _) => Wanted::Read(self.one_name("--read")?),
            (None, false, true) => Wanted::Write(self.one_name("--write")?),
            (None, false, false) => Wanted::Lock(&self.names),
        })
    }

    /// The only name, which `option` needs.
    fn one_name(&self, option: &str) -> Result<&str, Failure> {
        match &self.names[..] {
            [name] => Ok(name),
            names => Err(Failure::usage(format!(
                "{option} takes one --name, and {} are given: give one, or leave {option} out",
                names.len(),
            ))),
        }
    }

    fn set_options<K: Kind>(&self, mut request: LockRequest<K>) -> LockRequest<K> {
        request = request.lease(self.lease);
        if let Some(wait) = self.wait {
            request = request.wait(wait);
        }
        if let Some(limit) = self.hold_at_most {
            request = request.hold_at_most(limit);
        }
        request
    }
}

pub(crate) async fn run(args: Args) -> Outcome {
    let plan = Plan::new(args.lease, args.hold_at_most, args.grace)?;
    let wanted = args.wanted()?;
    let locker = args.nodes.locker()?;
    // Before the first request, so that a signal from now on leaves nothing behind on the servers.
    let mut signals = Signals::listen()
        .map_err(|error| Failure::new(exit::SOFTWARE, format!("cannot handle signals: {error}")))?;
    let outcome = match wanted {
        Wanted::Lock(names) => {
            hold_and_run(&args, plan, Hold::lock(&locker, names), &mut signals).await
        }
        Wanted::Permit(name, permits) => {
            hold_and_run(&args, plan, Hold::permit(&locker, name, permits), &mut signals).await
        }
        Wanted::Read(name) => {
            hold_and_run(&args, plan, Hold::read(&locker, name), &mut signals).await
        }
        Wanted::Write(name) => {
            hold_and_run(&args, plan, Hold::write(&locker, name), &mut signals).await
        }
    };
    tokio::select! {
        () = locker.close() => {}
        _ = ends(&mut signals) => {} // enough: what was not released ends with its lease
    }
    outcome
}

async fn hold_and_run<K: Kind>(
    args: &Args,
    plan: Plan,
    hold: Hold<K>,
    signals: &mut Signals,
) -> Outcome {
    let hold = hold.with(|request| args.set_options(request));
    let (guard, slot) = tokio::select! {
        held = hold.acquire() => held?,
        signal = ends(signals) => return Ok(job::code_of_signal(signal.as_raw())),
    };
    let mut job = match Job::start(&args.command, &guard, slot) {
        Ok(job) => job,
        Err(error) => {
            release(guard).await?;
            return Err(exec::cannot_execute(&args.command[0], &error));
        }
    };
    match supervise(&mut job, &guard.watch(), signals, plan).await {
        Ok(End::Itself(status)) => {
            release(guard).await?;
            Ok(job::code_of(status))
        }
        Ok(End::Stopped { why }) => {
            // The lock is lost or about to end: the nodes' answer changes nothing.
            let _ = guard.unlock().await;
            Err(Failure::new(exit::LOST, format!("{why}; the command was stopped")))
        }
        Err(error) => {
            Err(Failure::new(exit::SOFTWARE, format!("cannot wait for the command: {error}")))
        }
    }
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

/// Fails only if the lock was lost before, so that the command's work may have overlapped with that
/// of another holder.
async fn release<K: Kind>(guard: Guard<K>) -> Result<(), Failure> {
    match guard.unlock().await {
        Ok(()) => Ok(()),
        Err(Error::Lost(Lost { name, why, .. })) => Err(Failure::new(
            exit::LOST,
            format!(
                "{name}: the lock was lost: {why}. The command has ended, but somebody else may \
                 have had the lock, too"
            ),
        )),
        Err(error) => {
            say(format_args!("the lock could not be released and ends with its lease: {error}"));
            Ok(())
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
