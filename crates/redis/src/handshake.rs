//! The handshake of a new connection: authenticates, identifies the server, loads the scripts.

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::command::micros;
use super::dial::{Dialer, Presence, problem_of};
use super::encode::deletes_if_ours;
use super::node_info::{field, node_info_command, read_node_info};
use super::resp::{self, Value};
use super::scripts::{Bound, Scripts, admission_scripts};
use super::server_info::ServerInfo;
use super::stream::Stream;
use quorumlock_protocol::admission::{ClusterConfig, NodeInfo, NodeStatus, classify};
use quorumlock_protocol::{Denial, Incarnation, NodeProblem, NodeReport, fnv1a};

/// The result of a handshake: what the connection may be used for.
#[derive(Clone, Debug)]
pub(super) struct HandshakeInfo {
    pub(super) server: ServerInfo,
    /// The index of the node's address.
    pub(super) at: usize,
    pub(super) replication_ids: ReplicationIds,
    /// A number for the run id of the server (or for its label, if it does not tell a run id).
    pub(super) identity: u64,
    /// The entry of this connection in the [`RunIdRegistry`](super::dial::RunIdRegistry).
    pub(super) presence: Option<Presence>,
    /// The server's wall clock at the handshake, in microseconds.
    pub(super) time: Option<i64>,
}

/// The replication ids that a master reports.
#[derive(Clone, Debug, Default)]
pub(super) struct ReplicationIds {
    /// `master_replid`: fresh at each promotion.
    pub(super) history: String,
    /// `master_replid2`: the replication id that it continued when it was promoted.
    pub(super) continues: String,
}

impl Dialer {
    /// Connects and completes the handshake: the scripts are loaded, and the server is known.
    pub(super) async fn open(&self) -> Result<(Box<dyn Stream>, HandshakeInfo), NodeProblem> {
        let opening = async {
            match self.attempt().await {
                // A healthy server may close a connection that it just accepted (`CLIENT KILL`).
                Err(NodeProblem::Broken(_)) => self.attempt().await,
                done => done,
            }
        };
        match tokio::time::timeout(self.connect_timeout, opening).await {
            Ok(done) => done,
            Err(_) => Err(self.timed_out()),
        }
    }

    async fn attempt(&self) -> Result<(Box<dyn Stream>, HandshakeInfo), NodeProblem> {
        let mut stream = self.dial().await?;
        let greeted = self.greet(&mut stream).await?;
        Ok((stream, greeted))
    }

    async fn greet(&self, stream: &mut Box<dyn Stream>) -> Result<HandshakeInfo, NodeProblem> {
        let hint = if self.target.wants_tls() { "" } else { MAY_SPEAK_TLS };
        let mut talk = Handshake { stream, buffer: Vec::new(), hint };
        let mut greeted = self.identify(&mut talk).await?;
        talk.load(&greeted.server.scripts).await?;
        // The probe deletes nothing, since no nonce is empty. ACLs allow this key.
        let probe =
            redis::cmd(deletes_if_ours(self.wire)).arg("quorumlock:probe").arg("").to_owned();
        let [probed, time] = talk.ask([probe, redis::cmd("TIME")]).await?;
        greeted.server.deletes_if_ours = !matches!(probed, Value::Error(_));
        greeted.time = micros(&time);
        Ok(greeted)
    }

    async fn identify(&self, talk: &mut Handshake<'_>) -> Result<HandshakeInfo, NodeProblem> {
        let mut hello = self.introduction();
        match &self.cluster {
            None => hello.extend(
                ["server", "replication"]
                    .map(|part| ("INFO", redis::cmd("INFO").arg(part).to_owned())),
            ),
            Some(cluster) => hello.push(("EVAL", node_info_command(cluster))),
        }
        let mut replies = talk.send(&hello).await?.into_iter().rev();
        let mut last = || replies.next().unwrap_or(Value::Nil);
        Ok(match &self.cluster {
            None => {
                let claim = self.read_replication_ids(&last().text())?;
                let server = last();
                let server = server.text();
                let run_id = field(&server, "run_id");
                let (identity, presence) = self.register(run_id)?;
                let life = run_identity(run_id, &claim.history);
                let server = ServerInfo { run_identity: life, ..self.unbound(None) };
                HandshakeInfo {
                    replication_ids: claim,
                    ..HandshakeInfo::new(server, identity, presence)
                }
            }
            Some(cluster) => {
                let wall_micros = self.clock.wall_micros();
                let info = read_node_info(&last(), self.target.member(), cluster, wall_micros)
                    .ok_or_else(|| NodeProblem::Malformed("INFO in a script".into()))?;
                let run_identity_text = &info.memory.run_identity;
                let run_id = run_identity_text.split('/').next().unwrap_or_default();
                let (identity, presence) = self.register(run_id)?;
                let life = run_identity(run_id, run_identity_text);
                let server = ServerInfo { run_identity: life, ..self.admit(&info, cluster) };
                HandshakeInfo::new(server, identity, presence)
            }
        })
    }

    /// Registers the server, and refuses one that another address of this locker leads to.
    fn register(&self, run_id: &str) -> Result<(u64, Option<Presence>), NodeProblem> {
        let label = self.target.label();
        let presence = self.run_ids.register(label, run_id)?;
        Ok((identity(if run_id.is_empty() { label } else { run_id }), presence))
    }

    fn introduction(&self) -> Vec<(&'static str, redis::Cmd)> {
        let redis = self.target.redis();
        let mut words = Vec::new();
        if let Some(password) = redis.password() {
            let mut auth = redis::cmd("AUTH");
            if let Some(user) = redis.username() {
                auth.arg(user);
            }
            words.push(("AUTH", auth.arg(password).to_owned()));
        }
        if redis.db() != 0 {
            words.push(("SELECT", redis::cmd("SELECT").arg(redis.db()).to_owned()));
        }
        if let Some(name) = &self.client_name {
            words.push(("CLIENT", redis::cmd("CLIENT").arg("SETNAME").arg(name).to_owned()));
        }
        words
    }

    fn admit(&self, info: &NodeInfo, cluster: &ClusterConfig) -> ServerInfo {
        let status = classify(info, cluster);
        if let NodeStatus::Admitted(incarnation) = status {
            let scripts =
                self.last_bound.of(incarnation, || Scripts::bound(self.wire, cluster, incarnation));
            return ServerInfo { scripts, incarnation, ..self.unbound(None) };
        }
        // The connection still serves inspection, releases and admission.
        let report = status.problem().map(|problem| NodeReport::new(self.target.label(), problem));
        self.unbound(report.map(|report| match status {
            NodeStatus::OtherMembers { .. } | NodeStatus::ConfigMismatch(_) => {
                Denial::Refused(report)
            }
            _ => Denial::NotAdmitted(report),
        }))
    }

    fn unbound(&self, unproven: Option<Denial>) -> ServerInfo {
        let (scripts, incarnation) = (self.unbound.clone(), Incarnation::NONE);
        ServerInfo { scripts, incarnation, unproven, run_identity: None, deletes_if_ours: false }
    }

    /// Reads the replication ids, and refuses a replica: it grants nothing, or, if it is writable,
    /// its master overwrites its grants (SAFETY.md H11, PROTOCOL.md REP3).
    fn read_replication_ids(&self, replication: &str) -> Result<ReplicationIds, NodeProblem> {
        let value = |name: &str| field(replication, name).to_owned();
        if value("role") == "slave" {
            let (host, port) = (value("master_host"), value("master_port"));
            return Err(NodeProblem::Replica(format!("{host}:{port}")));
        }
        Ok(ReplicationIds { history: value("master_replid"), continues: value("master_replid2") })
    }
}

impl HandshakeInfo {
    fn new(server: ServerInfo, identity: u64, presence: Option<Presence>) -> Self {
        let replication_ids = ReplicationIds::default();
        Self { server, at: 0, replication_ids, identity, presence, time: None }
    }
}

/// The number that stands for a run id or a label.
pub(super) fn identity(what: &str) -> u64 {
    const BASIS: u64 = 0xcbf2_9ce4_8422_2325;
    fnv1a(BASIS, what)
}

/// A number for a run identity: the run id and the replication id.
fn run_identity(run_id: &str, history: &str) -> Option<u64> {
    (!run_id.is_empty()).then(|| fnv1a(identity(run_id), history))
}

/// The hint if a server on a plain-text connection sent nothing that we understand.
const MAY_SPEAK_TLS: &str = "; if it speaks TLS, its URL begins with rediss://";

/// Sends commands and awaits their replies, before other requests use the connection.
struct Handshake<'a> {
    stream: &'a mut Box<dyn Stream>,
    buffer: Vec<u8>,
    /// The hint added to a failure before the first reply.
    hint: &'static str,
}

impl Handshake<'_> {
    /// Sends the commands and returns their replies; the first error reply fails the handshake.
    async fn send(&mut self, words: &[(&str, redis::Cmd)]) -> Result<Vec<Value>, NodeProblem> {
        let mut out = Vec::new();
        for (_, cmd) in words {
            out.extend_from_slice(&cmd.get_packed_command());
        }
        self.write(&out).await?;
        let mut replies = Vec::new();
        for (what, _) in words {
            replies.push(self.accepted(what).await?);
        }
        Ok(replies)
    }

    /// Loads the scripts. A proxy may have put another server behind the connection since it was
    /// identified: voting scripts that are bound to an incarnation are loaded in one step in which the
    /// server revokes an incarnation that is not of its run (PROTOCOL.md ADM6).
    async fn load(&mut self, scripts: &Scripts) -> Result<(), NodeProblem> {
        let load = |text| vec!["SCRIPT", "LOAD", text];
        let (voting, others) = (scripts.voting().map(load), scripts.others().map(load));
        let mut commands = Vec::from(others);
        match &scripts.bound {
            None => commands.extend(voting),
            Some(Bound { record, .. }) => {
                // A replica, which cannot revoke, refuses the write that changes nothing, and then the
                // transaction.
                let write = vec!["HDEL", record, ""];
                let revoke = vec!["EVAL", admission_scripts::REVOKE, "1", record];
                commands.extend([vec!["MULTI"], write, revoke]);
                commands.extend(voting);
                commands.push(vec!["EXEC"]);
            }
        }
        self.write(&encoded(&commands)).await?;
        let mut problem = None;
        for words in commands {
            let error = error_in(self.receive().await?);
            problem = problem.or_else(|| error.map(|text| refused(words[0], &text)));
        }
        match problem {
            // A full Redis queues no transaction. Scripts that it has loaded before still vote.
            None | Some(NodeProblem::OutOfMemory(_)) => Ok(()),
            Some(problem) => Err(problem),
        }
    }

    async fn write(&mut self, bytes: &[u8]) -> Result<(), NodeProblem> {
        self.stream.write_all(bytes).await.map_err(broken)?;
        self.stream.flush().await.map_err(broken)
    }

    /// The next reply, unless it is an error.
    async fn accepted(&mut self, what: &str) -> Result<Value, NodeProblem> {
        match self.receive().await? {
            Value::Error(text) => Err(refused(what, &text)),
            reply => Ok(reply),
        }
    }

    /// Sends the commands and returns their replies, errors included.
    async fn ask<const N: usize>(
        &mut self,
        commands: [redis::Cmd; N],
    ) -> Result<[Value; N], NodeProblem> {
        let out: Vec<u8> = commands.iter().flat_map(redis::Cmd::get_packed_command).collect();
        self.write(&out).await?;
        let mut replies = [const { Value::Nil }; N];
        for reply in &mut replies {
            *reply = self.receive().await?;
        }
        Ok(replies)
    }

    async fn receive(&mut self) -> Result<Value, NodeProblem> {
        loop {
            match resp::decode(&self.buffer) {
                Ok(Some((value, len))) => {
                    self.buffer.drain(..len);
                    self.hint = "";
                    return Ok(value);
                }
                Ok(None) => {}
                Err(malformed) => {
                    return Err(NodeProblem::Malformed(format!("{}{}", malformed.0, self.hint)));
                }
            }
            let hinted = |what: &str| NodeProblem::Broken(format!("{what}{}", self.hint));
            match self.stream.read_buf(&mut self.buffer).await {
                Ok(0) => return Err(hinted("closed by the server at once")),
                Err(e) => return Err(problem_of(&e, |what| hinted(&what))),
                Ok(_) => {}
            }
        }
    }
}

fn encoded(commands: &[Vec<&str>]) -> Vec<u8> {
    let length = commands.iter().flatten().map(|word| word.len() + 16).sum();
    let mut out = Vec::with_capacity(length);
    for words in commands {
        resp::command(&mut out, words.len());
        words.iter().for_each(|word| resp::bulk(&mut out, word.as_bytes()));
    }
    out
}

/// The first error of a reply, also of one to a transaction.
fn error_in(reply: Value) -> Option<String> {
    match reply {
        Value::Error(text) => Some(text),
        Value::Array(replies) => replies.into_iter().find_map(error_in),
        _ => None,
    }
}

fn broken(e: std::io::Error) -> NodeProblem {
    problem_of(&e, NodeProblem::Broken)
}

/// The problem behind an error reply to a command of the handshake.
fn refused(what: &str, text: &str) -> NodeProblem {
    match (what, NodeProblem::from_reply(text)) {
        ("AUTH", NodeProblem::Refused { .. }) => NodeProblem::Authentication(text.to_owned()),
        ("SELECT", NodeProblem::Refused { .. }) => NodeProblem::Database(text.to_owned()),
        (_, problem) => problem,
    }
}
