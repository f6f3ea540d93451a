//! The servers for which options are made.

use quorumlock_redis::uses_tls;

use self::ServerKind::{
    Cluster, Members, PlainQuorum, ProvenReplicated, ProvenSingle, Quorum, Replicated, Single,
};

/// What a locker, or a change of members, is made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ServerKind {
    Single,
    ProvenSingle,
    Replicated,
    ProvenReplicated,
    Cluster,
    Quorum,
    PlainQuorum,
    /// The change of a quorum's list.
    Members,
    #[cfg(feature = "testing")]
    Memory,
}

/// Several kinds of servers.
#[derive(Debug)]
pub(crate) struct Kinds {
    /// What pages say.
    pub(super) text: &'static str,
    pub(super) kinds: &'static [ServerKind],
}

/// One server decides, for each name.
pub(super) const ONE: Kinds = Kinds {
    text: "all but a quorum",
    kinds: &[Single, ProvenSingle, Replicated, ProvenReplicated, Cluster],
};
/// How locks are taken.
pub(super) const LOCKS: Kinds = Kinds {
    text: "all",
    kinds: &[
        Single,
        ProvenSingle,
        Replicated,
        ProvenReplicated,
        Cluster,
        Quorum,
        PlainQuorum,
        #[cfg(feature = "testing")]
        ServerKind::Memory,
    ],
};
pub(super) const REAL_LOCKS: Kinds = Kinds {
    text: "all",
    kinds: &[Single, ProvenSingle, Replicated, ProvenReplicated, Cluster, Quorum, PlainQuorum],
};
/// How servers are reached.
pub(super) const REAL: Kinds = Kinds {
    text: "all",
    kinds: &[
        Single,
        ProvenSingle,
        Replicated,
        ProvenReplicated,
        Cluster,
        Quorum,
        PlainQuorum,
        Members,
    ],
};
pub(super) const PROVEN: Kinds = Kinds {
    text: "a quorum, or servers with `admission`",
    kinds: &[ProvenSingle, ProvenReplicated, Quorum, Members],
};
pub(super) const ADMITTED: Kinds = Kinds {
    text: "all but a Redis Cluster",
    kinds: &[ProvenSingle, ProvenReplicated, Quorum, PlainQuorum, Members],
};
pub(super) const QUORUM: Kinds = Kinds { text: "a quorum", kinds: &[Quorum, PlainQuorum, Members] };
pub(super) const SINGLE: Kinds = Kinds { text: "a single server", kinds: &[Single] };

/// The servers of a locker.
#[derive(Clone, Copy, Debug)]
pub(crate) struct On {
    pub(crate) kind: ServerKind,
    /// Whether a server or a sentinel is to speak TLS.
    pub(crate) tls: bool,
}

impl ServerKind {
    pub(super) fn text(self) -> &'static str {
        match self {
            Single => "a single server",
            ProvenSingle => "a server that proves its memory",
            Replicated => "a master and its replicas",
            ProvenReplicated => "a master that proves its memory",
            Cluster => "a Redis Cluster",
            Quorum => "a quorum",
            PlainQuorum => "a quorum with Admission::Redlock",
            Members => "a change of members",
            #[cfg(feature = "testing")]
            Self::Memory => "a server in memory",
        }
    }
}

impl On {
    pub(crate) fn new<'a>(kind: ServerKind, urls: impl IntoIterator<Item = &'a str>) -> Self {
        Self { kind, tls: urls.into_iter().any(uses_tls) }
    }
}
