//! What one address of a master and its replicas shows, whatever its role is.

use super::dial::Dialer;
use super::handshake::ReplicationIds;
use super::node_info::{cluster_list_command, field, read_cluster_list};
use super::resp::Value;
use super::talk::Talk;
use quorumlock_protocol::NodeProblem;

/// The role of a server, its replication history, and whether it has the record of a cluster.
#[derive(Debug)]
pub(super) struct Shown {
    master: bool,
    ids: ReplicationIds,
    record: bool,
}

impl Shown {
    /// Asks the server at this address.
    pub(super) async fn by(dialer: &Dialer) -> Result<Self, NodeProblem> {
        let mut progress = dialer.progress();
        let credentials = dialer.credentials().await?;
        let mut stream = dialer.dial(&mut progress).await?;
        let mut talk = Talk::new(&mut stream, &mut progress, "");
        let introduction = dialer.introduction(credentials.as_ref());
        let info = redis::cmd("INFO").arg("replication").to_owned();
        let commands = introduction.iter().map(|(_, command)| command.clone());
        let commands: Vec<_> = commands.chain([info, cluster_list_command()]).collect();
        talk.write(&commands).await?;
        for _ in introduction {
            talk.receive().await?;
        }
        let replication = match talk.receive().await? {
            Value::Error(text) => return Err(NodeProblem::from_reply(&text)),
            reply => reply.text().into_owned(),
        };
        Ok(Self {
            master: field(&replication, "role") == "master",
            ids: ReplicationIds::read(&replication),
            record: read_cluster_list(&talk.receive().await?).is_some(),
        })
    }

    /// Whether this server, rather than the master `ours`, may have the locks. `new`: `ours` has never
    /// had a record.
    pub(super) fn rivals(&self, ours: &Self, new: bool) -> bool {
        let Self { master, ids: ReplicationIds { history, .. }, record } = self;
        // A copy of ours, and what ours was promoted over.
        let ours = [&ours.ids.history, &ours.ids.continues].contains(&history);
        !ours && (*master || new && *record)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(master: bool, (history, continues): (&str, &str), record: bool) -> Shown {
        let ids = ReplicationIds { history: history.into(), continues: continues.into() };
        Shown { master, ids, record }
    }

    #[test]
    fn only_a_server_of_another_history_rivals_the_master() {
        let ours = shown(true, ("b", "a"), false);
        for (of, other) in [("itself", ("b", "a")), ("what it was promoted over", ("a", "0"))] {
            assert!(!shown(true, other, true).rivals(&ours, true), "{of}");
        }
        let (master, replica) = (shown(true, ("c", "b"), false), shown(false, ("c", "0"), true));
        assert!(master.rivals(&ours, false) && master.rivals(&ours, true), "it was promoted");
        assert!(replica.rivals(&ours, true), "it has the record of a cluster");
        assert!(!replica.rivals(&ours, false), "a copy of an earlier master");
        assert!(!shown(false, ("c", "0"), false).rivals(&ours, true), "it has nothing");
    }
}
