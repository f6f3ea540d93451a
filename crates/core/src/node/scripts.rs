use crate::Wire;

/// The Lua of one wire, and the digests by which servers know it.
#[derive(Debug)]
pub(super) struct Scripts {
    pub(super) acquire: Script,
    pub(super) raise: Script,
    pub(super) renew: Script,
    pub(super) release: Script,
    pub(super) inspect: Script,
    pub(super) force_release: Script,
}

#[derive(Debug)]
pub(super) struct Script {
    pub(super) text: &'static str,
    pub(super) digest: String,
}

impl Scripts {
    pub(super) fn of(wire: Wire) -> Self {
        let [acquire, raise, renew, release] = match wire {
            Wire::Redisson => [
                concat!(
                    include_str!("../lua/token.lua"),
                    include_str!("../lua/redisson/acquire.lua")
                ),
                include_str!("../lua/redisson/raise.lua"),
                include_str!("../lua/redisson/renew.lua"),
                include_str!("../lua/redisson/release.lua"),
            ],
            Wire::Redlock => [
                concat!(
                    include_str!("../lua/token.lua"),
                    include_str!("../lua/redlock/acquire.lua")
                ),
                include_str!("../lua/redlock/raise.lua"),
                include_str!("../lua/redlock/renew.lua"),
                include_str!("../lua/redlock/release.lua"),
            ],
        }
        .map(Script::new);
        Self {
            acquire,
            raise,
            renew,
            release,
            inspect: Script::new(include_str!("../lua/inspect.lua")),
            force_release: Script::new(include_str!("../lua/force_release.lua")),
        }
    }

    pub(super) fn all(&self) -> [&Script; 6] {
        [&self.acquire, &self.raise, &self.renew, &self.release, &self.inspect, &self.force_release]
    }
}

impl Script {
    fn new(text: &'static str) -> Self {
        Self { text, digest: redis::Script::new(text).get_hash().to_owned() }
    }
}
