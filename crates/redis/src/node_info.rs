//! What a server says about itself: the command that asks, and the form of the reply.

use std::collections::HashMap;
use std::sync::Arc;

use quorumlock_protocol::Incarnation;
use quorumlock_protocol::admission::members::{
    MemberList, MemberRecord, NodeMemory, Note, ServerClock, Terms,
};
use quorumlock_protocol::admission::{ClusterConfig, NodeInfo};

use super::resp::Value;
use super::scripts::admission_scripts;

/// The command that returns a server's [`NodeInfo`]. A client that only `observes` tells no list.
pub(super) fn node_info_command(cluster: &ClusterConfig, observes: bool) -> redis::Cmd {
    let mut eval = redis::cmd("EVAL");
    eval.arg(admission_scripts::NODE_INFO).arg(1).arg(cluster.record_key());
    eval.arg(if observes { String::new() } else { cluster.members.text() }).to_owned()
}

/// The command that returns the list of the cluster to which the server belongs. It asks for no
/// permission that locks do without.
pub(super) fn cluster_list_command() -> redis::Cmd {
    redis::cmd("HGET").arg("quorumlock:node").arg("list").to_owned()
}

/// Decodes the reply to [`cluster_list_command`]; `None` if the server has no record, of whichever run,
/// or does not show it.
pub(super) fn read_cluster_list(reply: &Value) -> Option<MemberList> {
    MemberList::parse(&reply.text())
}

/// Decodes the reply to [`node_info_command`]. `member` is the server's label, `wall_micros` our
/// wall clock after the reply: a late reply makes the server seem behind, and the scripts compare
/// again.
pub(super) fn read_node_info(
    reply: &Value,
    member: &Arc<str>,
    cluster: &ClusterConfig,
    wall_micros: u64,
) -> Option<NodeInfo> {
    let Value::Array(parts) = reply else { return None };
    let [Value::Array(record), server, replication, memory, seconds, micros] = parts.as_slice()
    else {
        return None;
    };
    let (server, replication, memory) = (server.text(), replication.text(), memory.text());
    let run_identity: Arc<str> =
        format!("{}/{}", field(&server, "run_id"), field(&replication, "master_replid")).into();
    let clock = ServerClock {
        server: i64::try_from(1_000_000 * seconds.text().parse::<u64>().ok()?).ok()?
            + micros.text().parse::<i64>().ok()?,
        client: i64::try_from(wall_micros).unwrap_or(i64::MAX),
        bound: cluster.clock_bound,
    };
    let record = Record::of(record);
    let of_the_run = record.get("life") == &*run_identity;
    let note = record.note();
    Some(NodeInfo {
        incarnation: Incarnation::parse(record.get("stamp")).filter(|_| of_the_run),
        note_id: note.is_some().then(|| record.get("pending").to_owned()),
        agreed_ms: record.agreed_ms().filter(|_| of_the_run),
        protocol: record.protocol(),
        outdated: record.outdated(),
        memory: NodeMemory {
            label: member.clone(),
            record: record.member_record(),
            run_identity,
            note,
            clock,
        },
        role: field(&replication, "role").to_owned(),
        replicas: field(&replication, "connected_slaves").parse().unwrap_or(0),
        policy: field(&memory, "maxmemory_policy").to_owned(),
        major: field(&server, "redis_version").split('.').next()?.parse().ok()?,
    })
}

/// The run in a reply to [`node_info_command`], and the incarnation and the note in its record.
pub(super) fn record_ids(reply: &Value) -> Option<(String, Vec<String>)> {
    let Value::Array(parts) = reply else { return None };
    let [Value::Array(record), server, ..] = parts.as_slice() else { return None };
    let record = Record::of(record);
    let ids = ["stamp", "pending"].map(|field| record.get(field).to_owned());
    let ids = ids.into_iter().filter(|id| !id.is_empty()).collect();
    Some((field(&server.text(), "run_id").to_owned(), ids))
}

/// A field of an answer to `INFO`; empty if it is not there.
pub(super) fn field<'a>(info: &'a str, name: &str) -> &'a str {
    let value = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    value.unwrap_or_default().trim()
}

/// The fields of an admission record.
struct Record(HashMap<String, String>);

impl Record {
    fn of(flat: &[Value]) -> Self {
        let text = |value: &Value| value.text().into_owned();
        Self(flat.chunks_exact(2).map(|pair| (text(&pair[0]), text(&pair[1]))).collect())
    }

    fn get(&self, name: &str) -> &str {
        self.0.get(name).map(String::as_str).unwrap_or_default()
    }

    fn member_record(&self) -> Option<MemberRecord> {
        let (phase, list) = (self.get("phase").parse().ok()?, MemberList::parse(self.get("list"))?);
        Some(MemberRecord {
            label: self.get("label").into(),
            terms: Terms { phase, list, next: MemberList::parse(self.get("next")) },
            run_identity: self.get("life").into(),
        })
    }

    fn note(&self) -> Option<Note> {
        let (run_identity, _) = self.get("pending").rsplit_once('/')?;
        Some(Note {
            label: self.get("note_label").into(),
            run_identity: run_identity.into(),
            list: MemberList::parse(self.get("note_list"))?,
            since: self.get("note_since").parse().ok()?,
        })
    }

    fn agreed_ms(&self) -> Option<(u64, u64)> {
        Some((self.get("longest_ms").parse().ok()?, self.get("clock_bound_ms").parse().ok()?))
    }

    /// A record without a number is older than the number; one that is no number is newer.
    fn protocol(&self) -> u32 {
        self.0.get("protocol").map_or(1, |text| text.parse().unwrap_or(u32::MAX))
    }

    fn outdated(&self) -> Option<(MemberList, i64)> {
        let list = MemberList::parse(self.get("outdated_list"))?;
        Some((list, self.get("outdated_at").parse().ok()?))
    }
}
