use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use quorumlock_protocol::admission::ClusterConfig;
use quorumlock_protocol::{Claim, Incarnation, Layout};

/// The Lua scripts of one layout, with their digests.
#[derive(Debug)]
pub(super) struct Scripts {
    /// Set if only one incarnation of one server runs the voting scripts (strict admission).
    pub(super) bound: Option<Bound>,
    /// Set if a handoff proves the memory: the key of the admission record, the last key of the scripts
    /// that serve waiters.
    pub(super) handoff_record: Option<String>,
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
    /// Those for read-write locks, which have a layout of their own. `None` for servers that count
    /// tokens.
    read_write: Option<Box<Self>>,
}

/// How the nodes keep a lock.
#[derive(Clone, Copy)]
enum KeyLayout {
    Of(Layout),
    ReadWrite,
}

impl KeyLayout {
    fn script(self) -> &'static str {
        match self {
            Self::Of(Layout::Redisson) => concat!(
                include_str!("lua/other_kind.lua"),
                include_str!("lua/redisson/layout.lua"),
                include_str!("lua/one_holder.lua")
            ),
            Self::Of(Layout::Redlock) => concat!(
                include_str!("lua/other_kind.lua"),
                include_str!("lua/redlock/layout.lua"),
                include_str!("lua/one_holder.lua")
            ),
            Self::ReadWrite => {
                concat!(
                    include_str!("lua/other_kind.lua"),
                    include_str!("lua/read_write/layout.lua")
                )
            }
        }
    }
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
#[derive(Clone, Debug)]
pub(super) struct Bound {
    /// The key of its admission record.
    pub(super) record: String,
    /// Its scripts refuse a longer lease.
    pub(super) longest_ms: u64,
    pub(super) proof: Proof,
}

/// What a vote compares besides the incarnation: a restarted server may have it on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Proof {
    /// Nothing: the server has the script, and the script cache does not outlive it (SAFETY.md H9, H10).
    Cache,
    /// The run identity: the script may have been loaded by any run (PROTOCOL.md ADM6).
    Run,
}

#[derive(Debug)]
pub(super) struct Script {
    pub(super) text: String,
    pub(super) digest: String,
}

/// The admission scripts. They run seldom, so clients send them as text.
#[allow(unreachable_pub, missing_docs, reason = "public for simulations only")]
pub mod admission_scripts {
    pub const NODE_INFO: &str = include_str!("lua/node_info.lua");
    pub const REVOKE: &str =
        concat!(include_str!("lua/run_identity.lua"), include_str!("lua/revoke.lua"));
    pub const NOTE: &str = concat!(
        include_str!("lua/run_identity.lua"),
        include_str!("lua/agreed_time.lua"),
        include_str!("lua/note.lua")
    );
    pub const BARRIER: &str = concat!(
        include_str!("lua/token.lua"),
        include_str!("lua/run_identity.lua"),
        include_str!("lua/barrier.lua")
    );
    pub const ADMIT: &str = concat!(
        include_str!("lua/token.lua"),
        include_str!("lua/run_identity.lua"),
        include_str!("lua/agreed_time.lua"),
        include_str!("lua/admit.lua")
    );
    pub const WRITE_TERMS: &str =
        concat!(include_str!("lua/run_identity.lua"), include_str!("lua/write_terms.lua"));
    pub const OTHER_DATABASES: &str = include_str!("lua/other_databases.lua");
    pub const PROVISION: &str =
        concat!(include_str!("lua/run_identity.lua"), include_str!("lua/provision.lua"));
}

impl Scripts {
    /// Scripts that a server runs under any run identity. They are made once: the digests take a
    /// while.
    pub(super) fn unbound(layout: Layout, tokens: Tokens, strict_order: bool) -> Arc<Self> {
        static MADE: [OnceLock<Arc<Scripts>>; 8] = [const { OnceLock::new() }; 8];
        let at = usize::from(layout == Layout::Redisson)
            + 2 * usize::from(tokens == Tokens::Counted)
            + 4 * usize::from(strict_order);
        let prologue = include_str!("lua/no_admission.lua");
        let make = || Self::of_layout(layout, (tokens, strict_order), (prologue, None), None);
        MADE[at].get_or_init(|| Arc::new(make())).clone()
    }

    /// Scripts for a node whose memory is not proven: they hand nothing off.
    pub(super) fn unproven(
        layout: Layout,
        cluster: &ClusterConfig,
        strict_order: bool,
    ) -> Arc<Self> {
        let prologue = include_str!("lua/no_admission.lua");
        let handoff = HandoffProof::new(cluster, "");
        let grants = (Tokens::Proposed, strict_order);
        Arc::new(Self::of_layout(layout, grants, (prologue, None), Some(&handoff)))
    }

    /// Scripts whose votes only this incarnation of one server gives.
    ///
    /// `one_node`: set if the node is the whole lessor, which may hand a name off: whether a free name
    /// with a queue goes to its head only.
    pub(super) fn bound(
        layout: Layout,
        cluster: &ClusterConfig,
        (incarnation, proof): BoundTo,
        one_node: Option<bool>,
    ) -> Self {
        let bound = Bound { record: cluster.record_key(), longest_ms: cluster.longest_ms(), proof };
        let [before, after] = match proof {
            Proof::Cache => ["", ""],
            Proof::Run => [include_str!("lua/run_identity.lua"), include_str!("lua/check_run.lua")],
        };
        let prologue = [before, include_str!("lua/check_admission.lua"), after]
            .concat()
            .replace("@STAMP@", &incarnation.to_string())
            .replace("@LONGEST@", &bound.longest_ms.to_string());
        let handoff = one_node.map(|_| HandoffProof::new(cluster, &incarnation.to_string()));
        let grants = (Tokens::Proposed, one_node.unwrap_or(false));
        Self::of_layout(layout, grants, (&prologue, Some(bound)), handoff.as_ref())
    }

    fn of_layout(
        layout: Layout,
        grants: (Tokens, bool),
        (prologue, bound): (&str, Option<Bound>),
        handoff_proof: Option<&HandoffProof>,
    ) -> Self {
        let of = |keys, bound| Self::of(keys, grants, (prologue, bound), handoff_proof);
        let read_write = (grants.0 == Tokens::Proposed)
            .then(|| Box::new(of(KeyLayout::ReadWrite, bound.clone())));
        Self { read_write, ..of(KeyLayout::Of(layout), bound) }
    }

    /// `strict_order`: a free name with a queue goes to its head only.
    fn of(
        keys: KeyLayout,
        (tokens, strict_order): (Tokens, bool),
        (prologue, bound): (&str, Option<Bound>),
        handoff_proof: Option<&HandoffProof>,
    ) -> Self {
        let (token, claim) = (include_str!("lua/token.lua"), include_str!("lua/claim.lua"));
        let grant = match tokens {
            Tokens::Proposed => include_str!("lua/propose.lua"),
            Tokens::Counted => include_str!("lua/redisson/count.lua"),
        };
        let layout = keys.script();
        let queue = include_str!("lua/queue.lua");
        let serve = [
            if strict_order { "local STRICT = true\n" } else { "local STRICT = false\n" },
            include_str!("lua/told.lua"),
            include_str!("lua/handoff.lua"),
            handoff_proof.map_or("", |proof| &proof.script),
            include_str!("lua/notify_next.lua"),
        ]
        .concat();
        let notify = [layout, token, queue, &serve].concat();
        let order = match strict_order {
            true => [&serve, include_str!("lua/strict_order.lua")].concat(),
            false => String::new(),
        };
        let script = |parts: &[&str]| Script::new(parts.concat());
        // Releases, inspection and leaving a queue need no proof of memory.
        Self {
            bound,
            handoff_record: handoff_proof.map(|proof| proof.record.clone()),
            acquire: script(&[
                prologue,
                layout,
                token,
                claim,
                grant,
                queue,
                include_str!("lua/wait_queue.lua"),
                &order,
                include_str!("lua/acquire.lua"),
            ]),
            raise: script(&[prologue, layout, token, claim, include_str!("lua/raise.lua")]),
            renew: script(&[prologue, layout, include_str!("lua/renew.lua")]),
            regrant: script(&[prologue, layout, token, claim, include_str!("lua/regrant.lua")]),
            release: script(&[&notify, include_str!("lua/release.lua")]),
            inspect: script(&[layout, include_str!("lua/inspect.lua")]),
            force_release: script(&[&notify, include_str!("lua/force_release.lua")]),
            dequeue: script(&[&notify, include_str!("lua/dequeue.lua")]),
            delete_if_ours: script(&[include_str!("lua/delete_if_ours.lua")]),
            read_write: None,
        }
    }

    /// The scripts of the claim's layout.
    pub(super) fn of_claim(&self, claim: Option<&Claim>) -> &Self {
        let read_write = claim.is_some_and(Claim::is_read_write);
        self.read_write.as_deref().filter(|_| read_write).unwrap_or(self)
    }

    /// The scripts that need a proof of memory, if any does.
    pub(super) fn voting(&self) -> Vec<&Script> {
        let Self { acquire, raise, renew, regrant, read_write, .. } = self;
        let more = read_write.iter().flat_map(|scripts| scripts.voting());
        [acquire, raise, renew, regrant].into_iter().chain(more).collect()
    }

    /// The key of the admission record: the last key of the voting scripts, if they need a proof of memory.
    pub(super) fn record(&self) -> Option<&str> {
        self.bound.as_ref().map(|bound| &*bound.record)
    }

    /// The others.
    pub(super) fn others(&self) -> Vec<&Script> {
        let Self { release, inspect, force_release, dequeue, delete_if_ours, read_write, .. } =
            self;
        let more = read_write.iter().flat_map(|scripts| scripts.others());
        [release, inspect, force_release, dequeue, delete_if_ours].into_iter().chain(more).collect()
    }
}

/// What makes a handoff prove the memory.
struct HandoffProof {
    record: String,
    script: String,
}

impl HandoffProof {
    /// `incarnation`: the verified one, empty if there is none.
    fn new(cluster: &ClusterConfig, incarnation: &str) -> Self {
        let script =
            concat!(include_str!("lua/run_identity.lua"), include_str!("lua/handoff_proof.lua"));
        Self { record: cluster.record_key(), script: script.replace("@STAMP@", incarnation) }
    }
}

/// The bound scripts of the last connection. Most often the next one leads to the same incarnation,
/// and the nine digests need not be computed again.
#[derive(Debug, Default)]
pub(super) struct LastBound(Mutex<Option<(BoundTo, Arc<Scripts>)>>);

/// What scripts are bound to, and what proves it.
type BoundTo = (Incarnation, Proof);

impl LastBound {
    /// The scripts that are bound to the incarnation: the last ones, or those that `make` makes.
    pub(super) fn of(&self, bound_to: BoundTo, make: impl FnOnce() -> Scripts) -> Arc<Scripts> {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match &*last {
            Some((of, scripts)) if *of == bound_to => scripts.clone(),
            _ => {
                let scripts = Arc::new(make());
                *last = Some((bound_to, scripts.clone()));
                scripts
            }
        }
    }
}

impl Script {
    fn new(text: String) -> Self {
        let text = [include_str!("lua/load.lua"), &text].concat();
        let digest = redis::Script::new(&text).get_hash().to_owned();
        Self { text, digest }
    }

    /// The command that loads it: `SCRIPT LOAD`, or with `by_eval` an `EVAL` that only loads it.
    pub(super) fn load(&self, by_eval: bool) -> redis::Cmd {
        match by_eval {
            false => redis::cmd("SCRIPT").arg("LOAD").arg(&self.text).to_owned(),
            true => redis::cmd("EVAL").arg(&self.text).arg(0).arg("load").to_owned(),
        }
    }
}

/// What a script is for.
#[cfg(feature = "simulation")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum ScriptKind {
    Acquire,
    Raise,
    Renew,
    Regrant,
    Release,
    Inspect,
    ForceRelease,
    Dequeue,
    DeleteIfOurs,
    NodeInfo,
    Revoke,
    Note,
    Barrier,
    Admit,
    WriteTerms,
    Provision,
    OtherDatabases,
}

/// The kind of a script: each is told by the file at its end.
#[cfg(feature = "simulation")]
pub(super) fn kind_of(text: &str) -> Option<ScriptKind> {
    use ScriptKind::{
        Acquire, Admit, Barrier, DeleteIfOurs, Dequeue, ForceRelease, Inspect, NodeInfo, Note,
        OtherDatabases, Provision, Raise, Regrant, Release, Renew, Revoke, WriteTerms,
    };
    let kinds = [
        (Acquire, include_str!("lua/acquire.lua")),
        (Raise, include_str!("lua/raise.lua")),
        (Renew, include_str!("lua/renew.lua")),
        (Regrant, include_str!("lua/regrant.lua")),
        (Release, include_str!("lua/release.lua")),
        (Inspect, include_str!("lua/inspect.lua")),
        (ForceRelease, include_str!("lua/force_release.lua")),
        (Dequeue, include_str!("lua/dequeue.lua")),
        (DeleteIfOurs, include_str!("lua/delete_if_ours.lua")),
        (NodeInfo, include_str!("lua/node_info.lua")),
        (Revoke, include_str!("lua/revoke.lua")),
        (Note, include_str!("lua/note.lua")),
        (Barrier, include_str!("lua/barrier.lua")),
        (Admit, include_str!("lua/admit.lua")),
        (WriteTerms, include_str!("lua/write_terms.lua")),
        (Provision, include_str!("lua/provision.lua")),
        (OtherDatabases, include_str!("lua/other_databases.lua")),
    ];
    kinds.into_iter().find(|(_, end)| text.ends_with(end)).map(|(kind, _)| kind)
}
