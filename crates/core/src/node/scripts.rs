use crate::admission::Charter;
use crate::{Stamp, Wire};

/// The Lua of one wire, and the digests by which servers know it.
#[derive(Debug)]
pub(super) struct Scripts {
    /// Where only one life of one server carries them out.
    pub(super) bound: Option<Bound>,
    pub(super) acquire: Script,
    pub(super) raise: Script,
    pub(super) renew: Script,
    pub(super) recreate: Script,
    pub(super) release: Script,
    pub(super) inspect: Script,
    pub(super) force_release: Script,
    pub(super) leave: Script,
    /// For servers without a command for it, in Redlock's layout.
    pub(super) delete_if_ours: Script,
}

/// By what a server proves that it is the one that was verified.
#[derive(Debug)]
pub(super) struct Bound {
    /// The key of its record.
    pub(super) record: String,
    pub(super) longest_ms: u64,
}

#[derive(Debug)]
pub(super) struct Script {
    pub(super) text: String,
    pub(super) digest: String,
}

/// Scripts of admission: seldom run, so sent as text.
pub(super) mod office {
    pub(in crate::node) const SHEET: &str = include_str!("../lua/sheet.lua");
    pub(in crate::node) const NOTE: &str =
        concat!(include_str!("../lua/life.lua"), include_str!("../lua/note.lua"));
    pub(in crate::node) const BARRIER: &str = concat!(
        include_str!("../lua/token.lua"),
        include_str!("../lua/life.lua"),
        include_str!("../lua/barrier.lua")
    );
    pub(in crate::node) const ADMIT: &str = concat!(
        include_str!("../lua/token.lua"),
        include_str!("../lua/life.lua"),
        include_str!("../lua/admit.lua")
    );
    pub(in crate::node) const PROVISION: &str =
        concat!(include_str!("../lua/life.lua"), include_str!("../lua/provision.lua"));
}

impl Scripts {
    /// Scripts that any run of a server carries out.
    pub(super) fn unbound(wire: Wire) -> Self {
        Self::of(wire, include_str!("../lua/unbound.lua"), None)
    }

    /// Scripts that only the admitted life of one server carries out.
    pub(super) fn bound(wire: Wire, charter: &Charter, stamp: Stamp) -> Self {
        let bound = Bound { record: charter.record_key(), longest_ms: charter.longest_ms() };
        let prologue = include_str!("../lua/bound.lua")
            .replace("@RECORD@", &bound.record)
            .replace("@STAMP@", &stamp.to_string())
            .replace("@LONGEST@", &bound.longest_ms.to_string());
        Self::of(wire, &prologue, Some(bound))
    }

    fn of(wire: Wire, prologue: &str, bound: Option<Bound>) -> Self {
        let token = include_str!("../lua/token.lua");
        let (stand, queue) = (include_str!("../lua/stand.lua"), include_str!("../lua/queue.lua"));
        let [layout, holder] = match wire {
            Wire::Redisson => [
                include_str!("../lua/redisson/layout.lua"),
                include_str!("../lua/redisson/holder.lua"),
            ],
            Wire::Redlock => [
                include_str!("../lua/redlock/layout.lua"),
                include_str!("../lua/redlock/holder.lua"),
            ],
        };
        let (hand, wake) = (include_str!("../lua/hand.lua"), include_str!("../lua/wake.lua"));
        let wake = &*[layout, token, hand, wake].concat();
        let [acquire, raise, renew, recreate, release] = match wire {
            Wire::Redisson => [
                include_str!("../lua/redisson/acquire.lua"),
                include_str!("../lua/redisson/raise.lua"),
                include_str!("../lua/redisson/renew.lua"),
                include_str!("../lua/redisson/recreate.lua"),
                include_str!("../lua/redisson/release.lua"),
            ],
            Wire::Redlock => [
                include_str!("../lua/redlock/acquire.lua"),
                include_str!("../lua/redlock/raise.lua"),
                include_str!("../lua/redlock/renew.lua"),
                include_str!("../lua/redlock/recreate.lua"),
                include_str!("../lua/redlock/release.lua"),
            ],
        };
        // Giving back and looking need no proof of memory.
        Self {
            bound,
            acquire: Script::new([prologue, token, holder, stand, queue, acquire].concat()),
            raise: Script::new([prologue, token, raise].concat()),
            renew: Script::new([prologue, renew].concat()),
            recreate: Script::new([prologue, token, recreate].concat()),
            release: Script::new([wake, stand, release].concat()),
            inspect: Script::new([holder, include_str!("../lua/inspect.lua")].concat()),
            force_release: Script::new(
                [wake, holder, include_str!("../lua/force_release.lua")].concat(),
            ),
            leave: Script::new([wake, include_str!("../lua/leave.lua")].concat()),
            delete_if_ours: Script::new(include_str!("../lua/delete_if_ours.lua").to_owned()),
        }
    }

    pub(super) fn all(&self) -> [&Script; 9] {
        let Self {
            bound: _,
            acquire,
            raise,
            renew,
            recreate,
            release,
            inspect,
            force_release,
            leave,
            delete_if_ours,
        } = self;
        [acquire, raise, renew, recreate, release, inspect, force_release, leave, delete_if_ours]
    }
}

impl Script {
    fn new(text: String) -> Self {
        let digest = redis::Script::new(&text).get_hash().to_owned();
        Self { text, digest }
    }
}
