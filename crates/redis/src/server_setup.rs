//! How a server is set up, as far as an operator may change it while a connection lasts.

use super::node_info::field;
use super::resp::{Value, bulk, command};

/// What the handshake has found, and what is looked at again (PROTOCOL.md ADM5, REP1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ServerSetup {
    role: String,
    replicas: String,
    /// The `maxmemory-policy`; `None` of a server that does not prove its memory.
    policy: Option<String>,
}

impl ServerSetup {
    /// Reads the sections `replication` and, of a server that proves its memory, `memory` of `INFO`.
    pub(crate) fn read(replication: &str, memory: Option<&str>) -> Self {
        let text = |section, name| field(section, name).to_owned();
        Self {
            role: text(replication, "role"),
            replicas: text(replication, "connected_slaves"),
            policy: memory.map(|memory| text(memory, "maxmemory_policy")),
        }
    }

    /// How many replicas are attached.
    pub(crate) fn replicas(&self) -> usize {
        self.replicas.parse().unwrap_or(0)
    }

    /// Appends the question. Servers before 7.0 take one section only, and prove no memory.
    pub(crate) fn ask(&self, out: &mut Vec<u8>) {
        let sections: &[&[u8]] = match &self.policy {
            None => &[b"replication"],
            Some(_) => &[b"replication", b"memory"],
        };
        command(out, 1 + sections.len());
        bulk(out, b"INFO");
        sections.iter().for_each(|section| bulk(out, section));
    }

    /// Whether the reply to [`Self::ask`] says otherwise.
    pub(crate) fn differs(&self, reply: &Value) -> bool {
        let text = reply.text();
        let memory = self.policy.as_ref().map(|_| &*text);
        !matches!(reply, Value::Error(_)) && Self::read(&text, memory) != *self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REPLICATION: &str = "# Replication\r\nrole:master\r\nconnected_slaves:2\r\n";
    const MEMORY: &str = "# Memory\r\nmaxmemory_policy:noeviction\r\n";

    fn reply(text: &str) -> Value {
        Value::Text(text.as_bytes().into())
    }

    #[test]
    fn a_change_is_seen_and_an_error_is_none() {
        let both = format!("{REPLICATION}\r\n{MEMORY}");
        let setup = ServerSetup::read(REPLICATION, Some(MEMORY));
        assert_eq!(setup.replicas(), 2);
        for (from, to, differs) in [
            ("", "", false),
            ("noeviction", "allkeys-lru", true),
            ("connected_slaves:2", "connected_slaves:0", true),
            ("role:master", "role:slave", true),
        ] {
            assert_eq!(setup.differs(&reply(&both.replace(from, to))), differs, "{to}");
        }
        assert!(!setup.differs(&Value::Error("NOPERM".into())));
        let unproven = ServerSetup::read(REPLICATION, None);
        assert!(!unproven.differs(&reply(REPLICATION)), "one section");
    }
}
