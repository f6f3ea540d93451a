//! `quorumlock run`: hold a lock, a permit or a read-write lock while a command runs.

mod descendants;
pub(crate) mod exec;
mod hold;
mod job;
pub(crate) mod lead;
mod metrics_file;
mod outer_holds;
mod plan;
mod signals;
mod supervisor;
mod terminal;

use std::time::Duration;

use quorumlock::env::parse_duration;
use quorumlock::kind::Kind;
use quorumlock_command::{Failure, Outcome};
use quorumlock_protocol::without_password;

use self::hold::Hold;
use self::supervisor::{AfterLoss, Supervised, Supervisor};
use crate::nodes::LockNodes;
use crate::permits;
use crate::text::is_node_url;

/// Hold a lock, or one of several permits, while a command runs.
///
/// The command finds the lock's name in QUORUMLOCK_NAME (of several names, one in each line) and its
/// fencing token, a number that grows with every grant, in QUORUMLOCK_TOKEN. The exit code is the
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
/// (taken away by force, or forgotten by a server) leaves no time: SIGKILL follows at once. A forced
/// unlock is heard of by message, once the lock has been held for a second; else the next renewal finds it
/// out, after a third of the lease.
///
/// With --hold-at-least the lock is kept after the command, and quorumlock exits with the command's
/// code when the time is over. INT, TERM, QUIT, HUP, USR1 or USR2 ends quorumlock at once meanwhile, and
/// the lock is released; after INT, TERM or QUIT to the command it is not kept. If the lock is lost
/// meanwhile, a message says so.
///
/// The command runs in a process group of its own. INT, TERM, HUP, QUIT, USR1 and USR2 are passed
/// on to that group. While no command runs, each of them ends quorumlock. On Linux a loss ends
/// descendants that have left the group, too; elsewhere they run on without the lock. Descendants that
/// are still running when the command has ended by itself run on without the lock; on Linux a message
/// names them.
///
/// A quorumlock in the command's environment finds the holds under which it runs in QUORUMLOCK_HOLDS. If
/// one of them keeps the lock that it asks for, it fails with exit code 64 instead of waiting for
/// itself.
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

    #[command(flatten)]
    names: Names,

    /// Hold one of K permits of the name (1 to 256) instead of its lock, so that up to K commands
    /// run at a time. All programs must give the same K. Takes one name.
    #[arg(long, value_name = "K", value_parser = permits::number())]
    permits: Option<u32>,

    /// Hold the read-write lock of the name to read: other readers run at the same time, and no
    /// writer does. Takes one name.
    #[arg(long, conflicts_with_all = ["write", "permits"])]
    read: bool,

    /// Hold the read-write lock of the name to write: nobody else runs, no reader either. Takes one
    /// name.
    #[arg(long, conflicts_with = "permits")]
    write: bool,

    /// Give up after this time if other clients hold the lock, or all permits, or if too few nodes answer
    /// or can vote [default: wait for other clients without limit, and for nodes 30s].
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    wait: Option<Duration>,

    /// Keep the lock for this time after the grant, also if the command ends sooner: for a job that
    /// several hosts start at one time, longer than their clocks differ.
    #[arg(long, value_name = "TIME", value_parser = parse_duration, default_value = "0s")]
    hold_at_least: Duration,

    #[command(flatten)]
    supervised: Supervised,
}

/// The names, in either form or in both.
#[derive(Debug, clap::Args)]
#[group(required = true, multiple = true)]
struct Names {
    /// The lock's name. With several names the command runs while all of them are held: they are
    /// taken in one step, all or none.
    #[arg(value_name = "NAME")]
    given: Vec<String>,

    /// A name, as the argument NAME. Repeat the option for several names.
    #[arg(short = 'n', long = "name", value_name = "NAME")]
    named: Vec<String>,
}

impl Names {
    /// An argument that is a node's URL is refused: a `--node` is missing before it, and a name is
    /// shown, and a password in it.
    fn all(&self) -> Result<Vec<&str>, Failure> {
        if let Some(url) = self.given.iter().find(|name| is_node_url(name)) {
            let url = without_password(url);
            return Err(Failure::usage(format!(
                "{url} is the URL of a node: put --node before it (or --name, if it is the lock's name)"
            )));
        }
        Ok(self.given.iter().chain(&self.named).map(String::as_str).collect())
    }
}

/// What the options ask for.
enum Wanted<'a> {
    Lock(Vec<&'a str>),
    Permit(&'a str, u32),
    Read(&'a str),
    Write(&'a str),
}

impl Wanted<'_> {
    fn label(&self) -> String {
        match self {
            Self::Lock(names) => names.join(" "),
            Self::Permit(name, _) | Self::Read(name) | Self::Write(name) => (*name).to_owned(),
        }
    }
}

impl Args {
    fn wanted(&self) -> Result<Wanted<'_>, Failure> {
        Ok(match (self.permits, self.read, self.write) {
            (Some(permits), ..) => Wanted::Permit(self.one_name("--permits")?, permits),
            (None, true, _) => Wanted::Read(self.one_name("--read")?),
            (None, false, true) => Wanted::Write(self.one_name("--write")?),
            (None, false, false) => Wanted::Lock(self.names.all()?),
        })
    }

    /// The only name, which `option` needs.
    fn one_name(&self, option: &str) -> Result<&str, Failure> {
        match self.names.all()?[..] {
            [name] => Ok(name),
            ref names => Err(Failure::usage(format!(
                "{option} takes one name, and {} are given: give one, or leave {option} out",
                names.len(),
            ))),
        }
    }

    fn set_options<K: Kind>(&self, hold: Hold<K>) -> Hold<K> {
        hold.with(|mut request| {
            if let Some(wait) = self.wait {
                request = request.wait(wait);
            }
            request
        })
    }
}

pub(crate) async fn run(args: Args) -> Outcome {
    let supervisor = Supervisor::new(&args.supervised, &args.nodes, AfterLoss::Exit)?
        .hold_at_least(args.hold_at_least)?;
    let supervisor = match args.wait {
        Some(Duration::ZERO) => supervisor,
        _ => supervisor.refuse_self_wait(),
    };
    let wanted = args.wanted()?;
    let (locker, _metrics) = args.supervised.locker(&args.nodes, &wanted.label())?;
    match wanted {
        Wanted::Lock(names) => {
            supervisor.run(&locker, args.set_options(Hold::lock(&locker, &names))).await
        }
        Wanted::Permit(name, permits) => {
            supervisor.run(&locker, args.set_options(Hold::permit(&locker, name, permits))).await
        }
        Wanted::Read(name) => {
            supervisor.run(&locker, args.set_options(Hold::read(&locker, name))).await
        }
        Wanted::Write(name) => {
            supervisor.run(&locker, args.set_options(Hold::write(&locker, name))).await
        }
    }
}
