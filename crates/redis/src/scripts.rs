use quorumlock_protocol::admission::ClusterConfig;
use quorumlock_protocol::{Incarnation, Wire};

/// The Lua scripts of one wire format, with their digests.
#[derive(Debug)]
pub(super) struct Scripts {
    /// Set if only one incarnation of one server runs the voting scripts (strict admission).
    pub(super) bound: Option<Bound>,
    pub(super) acquire: Script,
    pub(super) raise: Script,
    pub(super) renew: Script,
    pub(super) regrant: Script,
    pub(super) release: Script,
    pub(super) inspect: Script,
    pub(super) force_release: Script,
    pub(super) dequeue: Script,
    /// Redlock's layout only: for servers without `DELIFEQ`.
    pub(super) delete_if_ours: Script,
}

/// Where the fencing tokens of grants come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tokens {
    /// Clients propose them.
    Proposed,
    /// The server counts them in the key of Redisson's `RFencedLock`.
    Counted,
}

/// How a server proves, in each vote, that it is the verified one.
#[derive(Debug)]
pub(super) struct Bound {
    /// The key of its admission record.
    pub(super) record: String,
    /// Its scripts refuse a longer lease.
    pub(super) longest_ms: u64,
}

#[derive(Debug)]
pub(super) struct Script {
    pub(super) text: String,
    pub(super) digest: String,
}

/// The admission scripts. They run seldom, so clients send them as text.
pub(super) mod admission_scripts {
    pub(crate) const NODE_INFO: &str = include_str!("lua/node_info.lua");
    pub(crate) const NOTE: &str = concat!(
        include_str!("lua/run_identity.lua"),
        include_str!("lua/agreed_time.lua"),
        include_str!("lua/note.lua")
    );
    pub(crate) const BARRIER: &str = concat!(
        include_str!("lua/token.lua"),
        include_str!("lua/run_identity.lua"),
        include_str!("lua/barrier.lua")
    );
    pub(crate) const ADMIT: &str = concat!(
        include_str!("lua/token.lua"),
        include_str!("lua/run_identity.lua"),
        include_str!("lua/agreed_time.lua"),
        include_str!("lua/admit.lua")
    );
    pub(crate) const WRITE_TERMS: &str =
        concat!(include_str!("lua/run_identity.lua"), include_str!("lua/write_terms.lua"));
    pub(crate) const OTHER_DATABASES: &str = include_str!("lua/other_databases.lua");
    pub(crate) const PROVISION: &str =
        concat!(include_str!("lua/run_identity.lua"), include_str!("lua/provision.lua"));
}

impl Scripts {
    /// Scripts that a server runs under any run identity.
    pub(super) fn unbound(wire: Wire, tokens: Tokens) -> Self {
        Self::of(wire, tokens, (include_str!("lua/no_admission.lua"), None))
    }

    /// Scripts whose votes only this incarnation of one server gives.
    pub(super) fn bound(wire: Wire, cluster: &ClusterConfig, incarnation: Incarnation) -> Self {
        let bound = Bound { record: cluster.record_key(), longest_ms: cluster.longest_ms() };
        let prologue = include_str!("lua/check_admission.lua")
            .replace("@RECORD@", &bound.record)
            .replace("@STAMP@", &incarnation.to_string())
            .replace("@LONGEST@", &bound.longest_ms.to_string());
        Self::of(wire, Tokens::Proposed, (&prologue, Some(bound)))
    }

    fn of(wire: Wire, tokens: Tokens, (prologue, bound): (&str, Option<Bound>)) -> Self {
        let token = include_str!("lua/token.lua");
        let grant = match tokens {
            Tokens::Proposed => include_str!("lua/propose.lua"),
            Tokens::Counted => include_str!("lua/redisson/count.lua"),
        };
        let (enqueue, wait_queue) =
            (include_str!("lua/enqueue.lua"), include_str!("lua/wait_queue.lua"));
        let [layout, holder] = match wire {
            Wire::Redisson => {
                [include_str!("lua/redisson/layout.lua"), include_str!("lua/redisson/holder.lua")]
            }
            Wire::Redlock => {
                [include_str!("lua/redlock/layout.lua"), include_str!("lua/redlock/holder.lua")]
            }
        };
        let (handoff, notify_next) =
            (include_str!("lua/handoff.lua"), include_str!("lua/notify_next.lua"));
        let notify = &*[layout, token, handoff, notify_next].concat();
        let [acquire, raise, renew, regrant, release] = match wire {
            Wire::Redisson => [
                include_str!("lua/redisson/acquire.lua"),
                include_str!("lua/redisson/raise.lua"),
                include_str!("lua/redisson/renew.lua"),
                include_str!("lua/redisson/regrant.lua"),
                include_str!("lua/redisson/release.lua"),
            ],
            Wire::Redlock => [
                include_str!("lua/redlock/acquire.lua"),
                include_str!("lua/redlock/raise.lua"),
                include_str!("lua/redlock/renew.lua"),
                include_str!("lua/redlock/regrant.lua"),
                include_str!("lua/redlock/release.lua"),
            ],
        };
        // Releases, inspection and leaving a queue need no proof of memory.
        Self {
            bound,
            acquire: Script::new(
                [prologue, token, grant, holder, enqueue, wait_queue, acquire].concat(),
            ),
            raise: Script::new([prologue, token, raise].concat()),
            renew: Script::new([prologue, renew].concat()),
            regrant: Script::new([prologue, token, regrant].concat()),
            release: Script::new([notify, enqueue, release].concat()),
            inspect: Script::new([holder, include_str!("lua/inspect.lua")].concat()),
            force_release: Script::new(
                [notify, holder, include_str!("lua/force_release.lua")].concat(),
            ),
            dequeue: Script::new([notify, include_str!("lua/dequeue.lua")].concat()),
            delete_if_ours: Script::new(include_str!("lua/delete_if_ours.lua").to_owned()),
        }
    }

    pub(super) fn all(&self) -> [&Script; 9] {
        let Self {
            bound: _,
            acquire,
            raise,
            renew,
            regrant,
            release,
            inspect,
            force_release,
            dequeue,
            delete_if_ours,
        } = self;
        [acquire, raise, renew, regrant, release, inspect, force_release, dequeue, delete_if_ours]
    }
}

impl Script {
    fn new(text: String) -> Self {
        let digest = redis::Script::new(&text).get_hash().to_owned();
        Self { text, digest }
    }
}
