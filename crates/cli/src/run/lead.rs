//! `quorumlock lead`: run a command on one of several hosts, and go on after a loss.

use quorumlock_command::Outcome;

use super::hold::Hold;
use super::supervisor::{AfterLoss, Supervised, Supervisor};
use crate::nodes::LockNodes;
use crate::text::no_node_url;

/// Run a command while this process is the leader, and campaign again after a loss.
///
/// Of all processes that campaign under one name, one leads, and the others wait. The leader holds
/// the lock of the name, so that lead NAME and run NAME exclude each other. The command finds
/// the name in QUORUMLOCK_NAME, and in QUORUMLOCK_TOKEN the fencing token: the number of this
/// leader's term, which is larger than that of every leader before.
///
/// The lock is renewed until the command ends. If renewals fail, SIGTERM goes to the command and
/// all its descendants early enough to leave them the grace time, and SIGKILL follows before
/// another process can lead. A lock that turns out to be gone (taken away by force, or forgotten by
/// a server) leaves no time: SIGKILL follows at once. Then quorumlock campaigns again, and runs the
/// command again when it leads. It waits without limit for its turn and for nodes that do not
/// answer. Errors that do not pass by themselves, such as a wrong password, end it. A password or a
/// certificate from a file or from a program may change, so that it goes on.
///
/// When the command ends by itself, quorumlock resigns and exits with the command's code, or with
/// 128 plus the number of the signal that ended the command. Let a supervisor (systemd, the restart
/// policy of a container) start it again.
///
/// The command runs in a process group of its own. INT, TERM, HUP, QUIT, USR1 and USR2 are passed
/// on to that group. While no command runs, INT, TERM and QUIT end quorumlock, and HUP, USR1 and USR2 do
/// nothing. After INT, TERM or QUIT it does not campaign again. Descendants and terminals are as for run.
///
/// A leader that is paused (by SIGSTOP, or with its machine) can neither renew the lock nor stop
/// the command: another process may lead meanwhile, and the work of both commands may overlap. Send
/// the fencing token with every write of the command, and refuse a write whose token is smaller
/// than the largest one seen. If quorumlock itself is killed by SIGKILL, Linux kills the command as
/// well, but not its descendants.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    nodes: LockNodes,

    /// The name under which processes campaign: the name of the lock that the leader holds.
    name: String,

    #[command(flatten)]
    supervised: Supervised,
}

pub(crate) async fn lead(args: Args) -> Outcome {
    no_node_url(&args.name)?;
    let supervisor = Supervisor::new(&args.supervised, &args.nodes, AfterLoss::Campaign)?;
    let supervisor = supervisor.refuse_self_wait();
    let (locker, _metrics) = args.supervised.locker(&args.nodes, &args.name)?;
    supervisor.run(&locker, Hold::lock(&locker, &[&args.name])).await
}
