//! The commands that a lock needs of a server, and what it lacks without each. One table: the
//! handshake, `quorumlock doctor`, a test that takes each command away, and OPERATIONS use it.

/// What a locker lacks if the server refuses a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Without {
    /// Nothing: it does not use the command.
    Unused,
    /// All calls work: what is slower or untold.
    Works(&'static str),
    /// These calls fail; all others work.
    Fails(&'static [Call]),
    /// No lock is granted.
    Refused,
}

/// A call of a locker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// `lock` of a name that another client holds.
    Wait,
    /// `holder`.
    Holder,
    /// `force_unlock`.
    ForceUnlock,
    /// `admit_nodes`, and the admission of nodes by programs.
    Admit,
}

/// A command, or a subcommand.
#[derive(Clone, Copy, Debug)]
pub struct Permission {
    /// As `ACL SETUSER` names it, without `+`.
    pub command: &'static str,
    /// On one server, in Redisson's layout.
    pub single: Without,
    /// On a quorum under strict admission, in Redlock's layout.
    pub quorum: Without,
    /// Arguments of a call that changes nothing, or only the key [`PROBE_KEY`].
    pub probe: &'static [&'static str],
}

/// The key of the probes: no lock has this name.
pub const PROBE_KEY: &str = "quorumlock:probe:doctor";

const BY_SCRIPT: Without = Without::Works("locks are taken by script, which is slower");
const BY_RUN: Without = Without::Works(
    "scripts are loaded by `EVAL`; each vote compares the server's run, and no lock is taken without a \
     script, which is slower",
);
const POLLS: Without = Without::Works("waiters poll");
const POLL_OFTEN: Without =
    Without::Works("waiters far back in a queue poll as often as the first");
const K: &str = PROBE_KEY;

/// All commands that lockers use with default options. Where one is missing, the first row that names
/// it says what is lost.
pub const PERMISSIONS: &[Permission] = {
    use Without::{Fails, Refused, Unused, Works};
    const READS: Without = Fails(&[Call::Wait, Call::Holder, Call::ForceUnlock]);
    const FORCES: Without = Fails(&[Call::ForceUnlock]);
    const NAMELESS: Without = Works("`CLIENT LIST` shows no name of the connections");
    &[
        row("set", Works("holders have no label"), Refused, &[K, "", "PX", "1000"]),
        row(
            "info",
            Works("a replica, a restart and two addresses of one server go unnoticed"),
            Refused,
            &["server"],
        ),
        row("client|setname", NAMELESS, NAMELESS, &["SETNAME", "quorumlock"]),
        row("script|load", Works("scripts are loaded by `EVAL`"), BY_RUN, &["LOAD", "return 1"]),
        row("script|exists", Unused, BY_SCRIPT, &["EXISTS", DIGEST]),
        row("eval", Works("scripts need `SCRIPT LOAD`"), Refused, &["return 1", "0"]),
        row("evalsha", Refused, Refused, &[DIGEST, "0"]),
        row("multi", BY_SCRIPT, BY_RUN, &[]),
        row("exec", BY_SCRIPT, BY_RUN, &[]),
        row("time", Refused, Refused, &[]),
        row("pttl", Refused, Refused, &[K]),
        row("pexpire", Refused, Refused, &[K, "1000"]),
        row("publish", POLLS, POLLS, &["quorumlock:wake:doctor", ""]),
        row("subscribe", POLLS, POLLS, &[]),
        row("unsubscribe", Works("the connection for messages is often opened anew"), Unused, &[]),
        row("restore", BY_SCRIPT, Unused, &[K, "1000", ""]),
        row("exists", Fails(&[Call::Wait]), POLLS, &[K]),
        row("get", Works("`holder` shows no label"), Refused, &[K]),
        row("hdel", Works("locks are released by script"), BY_RUN, &[K, ""]),
        row("hexists", Fails(&[Call::Wait]), Unused, &[K, ""]),
        row("hget", Refused, Refused, &[K, ""]),
        row("hgetall", Unused, Refused, &[K]),
        row("hkeys", READS, Unused, &[K]),
        row("hlen", READS, Unused, &[K]),
        row("hmget", Unused, Refused, &[K, ""]),
        row("hset", Refused, Fails(&[Call::Admit]), &[K, "", ""]),
        row("type", FORCES, FORCES, &[K]),
        row("zadd", Refused, Refused, &[K, "NX", "0", ""]),
        row("zcard", Works("a queue may expire early"), Works("a queue may expire early"), &[K]),
        row("zrange", POLLS, POLLS, &[K, "0", "0"]),
        row("zrank", POLL_OFTEN, POLL_OFTEN, &[K, ""]),
        row("zrem", POLLS, POLLS, &[K, ""]),
        row("zscore", FORCES, FORCES, &[K, ""]),
        row("select", Unused, Works("`init` does not see clusters in other databases"), &[]),
        row("del", Refused, Refused, &[K]),
    ]
};

/// The digest of the script `return 1`.
const DIGEST: &str = "e0e1f9fabfc9d4800c877a703b823ac0578ff8db";

const fn row(
    command: &'static str,
    single: Without,
    quorum: Without,
    probe: &'static [&'static str],
) -> Permission {
    Permission { command, single, quorum, probe }
}

/// What is lost on `quorum` or one server if `command`, as the server names it, is refused.
pub(super) fn lost(command: &str, quorum: bool) -> &'static str {
    let row = PERMISSIONS.iter().find(|row| row.command == command);
    match row.map(|row| if quorum { row.quorum } else { row.single }) {
        Some(Without::Works(lost)) => lost,
        _ => "calls may fail",
    }
}

/// Whether the error is permanent: the user may not run the command, or the server does not know it.
#[must_use]
pub fn is_forbidden(error: &str) -> bool {
    ["NOPERM", "unknown command", "unknown subcommand", "ACL failure", "can't run this command"]
        .into_iter()
        .any(|said| error.contains(said))
}
