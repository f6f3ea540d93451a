//! The handshake of a new connection: authenticates, identifies the server, loads the scripts, and
//! sees the server renew a lock.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::command::micros;
use super::dial::{Dialer, Presence};
use super::encode::deletes_if_ours;
use super::node_info::{
    cluster_list_command, field, node_info_command, read_cluster_list, read_node_info,
};
use super::permissions::is_forbidden;
use super::progress::Progress;
use super::redirect::{Redirect, SlotRange, read_slots};
use super::resp::Value;
use super::scripts::{Proof, Scripts};
use super::server_info::ServerInfo;
use super::server_setup::ServerSetup;
use super::stream::Stream;
use super::talk::Talk;
use quorumlock_protocol::admission::members::MemberList;
use quorumlock_protocol::admission::{ClusterConfig, NodeInfo, NodeStatus, classify};
use quorumlock_protocol::{
    Credentials, Denial, Incarnation, Layout, Mismatch, Name, NodeProblem, NodeReport, fnv1a,
};

/// The result of a handshake: what the connection may be used for.
#[derive(Clone, Debug)]
pub(super) struct HandshakeInfo {
    pub(super) server: ServerInfo,
    pub(super) replication_ids: ReplicationIds,
    /// A number for the run id of the server (or for its label, if it does not tell a run id).
    pub(super) identity: u64,
    /// The entry of this connection in the [`RunIdRegistry`](super::dial::RunIdRegistry).
    pub(super) presence: Option<Presence>,
    /// The server's wall clock at the handshake, in microseconds.
    pub(super) time: Option<i64>,
    /// What a member of a Redis Cluster says about slots.
    pub(super) slots: Option<Vec<SlotRange>>,
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
        let mut progress = self.progress();
        match self.attempt(&mut progress).await {
            // A healthy server may close a connection that it just accepted (`CLIENT KILL`).
            Err(NodeProblem::Broken(_)) => self.attempt(&mut progress).await,
            // The password may have been changed since the program gave it.
            Err(NodeProblem::Authentication(_)) if self.options.credentials.is_some() => {
                self.attempt(&mut progress).await
            }
            done => done,
        }
    }

    async fn attempt(
        &self,
        progress: &mut Progress,
    ) -> Result<(Box<dyn Stream>, HandshakeInfo), NodeProblem> {
        let asked = self.options.clock.now();
        let credentials = self.credentials().await?;
        let opening = async {
            let mut stream = self.dial(progress).await?;
            let greeted = self.greet(&mut stream, progress, credentials.as_ref()).await?;
            Ok((stream, greeted))
        };
        let (stream, mut greeted) = opening.await.inspect_err(|problem: &NodeProblem| {
            if !problem.answered() || matches!(problem, NodeProblem::Tls(_)) {
                self.options.address_memory.unanswered(self.target.label());
            }
        })?;
        let replace_after = credentials.and_then(|credentials| credentials.replace_after());
        greeted.server.replace_at = replace_after.map(|time| asked + time);
        Ok((stream, greeted))
    }

    async fn greet(
        &self,
        stream: &mut Box<dyn Stream>,
        progress: &mut Progress,
        credentials: Option<&Credentials>,
    ) -> Result<HandshakeInfo, NodeProblem> {
        let hint = if self.target.wants_tls() { "" } else { MAY_SPEAK_TLS };
        let mut talk = Talk::new(stream, progress, hint);
        let (mut greeted, transacts) = self.identify(&mut talk, credentials).await?;
        let probed = self.load_and_probe(&mut talk, &mut greeted, transacts).await?;
        self.judge(&mut greeted, &probed)?;
        Ok(greeted)
    }

    /// Introduces this client, and asks who the server is. Also returns whether the server carries
    /// out transactions, which matters where memories are proven.
    async fn identify(
        &self,
        talk: &mut Talk<'_>,
        credentials: Option<&Credentials>,
    ) -> Result<(HandshakeInfo, bool), NodeProblem> {
        let introduction = self.introduction(credentials);
        let mut commands: Vec<_> =
            introduction.iter().map(|(_, command)| command.clone()).collect();
        match &self.options.cluster {
            None => {
                commands.extend(
                    ["server", "replication"].map(|part| redis::cmd("INFO").arg(part).to_owned()),
                );
                // A member of a Redis Cluster belongs to no cluster of a quorum.
                let last =
                    if self.options.redis_cluster { ask_slots } else { cluster_list_command };
                commands.push(last());
            }
            Some(cluster) => commands.extend([
                node_info_command(cluster, self.options.observes),
                redis::cmd("MULTI"),
                redis::cmd("EXEC"),
            ]),
        }
        let known = self.seen_ids();
        talk.write(&commands).await?;
        for (what, _) in introduction {
            self.accept(what, talk.receive().await?)?;
        }
        let Some(cluster) = &self.options.cluster else {
            let (server, replication) = (talk.receive().await?, talk.receive().await?);
            let last = talk.receive().await?;
            let server = self.accept("info", server)?;
            let replication = self.accept("info", replication)?;
            return Ok((self.identify_one(server, replication, &last)?, true));
        };
        let info = talk.receive().await?;
        let transacts = [talk.receive().await?, talk.receive().await?];
        if let Value::Error(text) = &info {
            // A sentinel knows no scripts.
            talk.write(&[redis::cmd("INFO").arg("server").to_owned()]).await?;
            self.refuse_mode(&talk.receive().await?.text())?;
            return Err(NodeProblem::from_reply(text));
        }
        let info = self.refuse_earlier_memory(talk, cluster, (known, info)).await?;
        let transacts = transacts.iter().all(|reply| !matches!(reply, Value::Error(_)));
        Ok((self.identify_member(&info, cluster)?, transacts))
    }

    /// Identifies a server whose memory nobody has to prove, by two sections of `INFO`. `last`: what it
    /// says of its slots, in a Redis Cluster, or else of the cluster to which it belongs.
    fn identify_one(
        &self,
        server: Value,
        replication: Value,
        last: &Value,
    ) -> Result<HandshakeInfo, NodeProblem> {
        let redis_cluster = self.options.redis_cluster;
        let needed = self.options.run_ids.is_none() && !redis_cluster || self.options.all_replicas;
        if needed && replication == Value::Nil {
            let why = "INFO, by which a master and its replicas are known, is refused";
            return Err(NodeProblem::Permission(why.into()));
        }
        let replication = replication.text();
        let server = server.text();
        self.refuse_mode(&server)?;
        refuse_version(&server)?;
        let (slots, list) = match redis_cluster {
            true => (Some(accept_slots(last)?), None),
            false => (None, read_cluster_list(last)),
        };
        let claim = self.read_replication_ids(&replication)?;
        let run_id = field(&server, "run_id");
        let (identity, presence) = self.register(run_id)?;
        let life = run_identity(run_id, &claim.history);
        let setup = self.options.all_replicas.then(|| ServerSetup::read(&replication, None));
        let barred = list.map(|list| self.barred_by(list));
        let server = ServerInfo { run_identity: life, setup, ..self.unbound(barred) };
        let server = self.refuse_without_replicas(server);
        Ok(HandshakeInfo {
            replication_ids: claim,
            slots,
            ..HandshakeInfo::new(server, identity, presence)
        })
    }

    /// Identifies a member of a cluster, by its node info.
    fn identify_member(
        &self,
        reply: &Value,
        cluster: &ClusterConfig,
    ) -> Result<HandshakeInfo, NodeProblem> {
        if let Value::Array(parts) = reply
            && let Some(server) = parts.get(1)
        {
            self.refuse_mode(&server.text())?;
        }
        let replication_ids = match (cluster.replicated, reply) {
            (true, Value::Array(parts)) => {
                self.read_replication_ids(&parts.get(2).map(Value::text).unwrap_or_default())?
            }
            // Which role a node of a quorum has is judged with the rest of what it shows.
            _ => ReplicationIds::default(),
        };
        let wall_micros = self.options.clock.wall_micros();
        let info = read_node_info(reply, self.target.member(), cluster, wall_micros)
            .ok_or_else(|| NodeProblem::Malformed("INFO in a script".into()))?;
        let run_identity_text = &info.memory.run_identity;
        let run_id = run_identity_text.split('/').next().unwrap_or_default();
        let (identity, presence) = self.register(run_id)?;
        let life = run_identity(run_id, run_identity_text);
        let setup = Some(setup_of(reply));
        let server = ServerInfo { run_identity: life, setup, ..self.admit(&info, cluster) };
        let server = self.refuse_without_replicas(server);
        Ok(HandshakeInfo { replication_ids, ..HandshakeInfo::new(server, identity, presence) })
    }

    /// Loads the scripts and probes the server, in one trip. Loads by `EVAL` where the server refuses
    /// `SCRIPT LOAD` or the transaction that loads voting scripts. Returns the replies to the probes.
    async fn load_and_probe(
        &self,
        talk: &mut Talk<'_>,
        greeted: &mut HandshakeInfo,
        transacts: bool,
    ) -> Result<Vec<Value>, NodeProblem> {
        if transacts
            && let Some(probed) = talk.load(&greeted.server.scripts, &self.probes(greeted)).await?
        {
            return Ok(probed);
        }
        let server = &mut greeted.server;
        server.loads_by_eval = true;
        if let (Some(cluster), true) = (&self.options.cluster, server.scripts.bound.is_some()) {
            server.scripts = self.bound(cluster, server.incarnation, Proof::Run);
        }
        self.warn_of(if transacts { "script|load" } else { "multi" });
        talk.load_by_eval(&greeted.server.scripts, &self.probes(greeted)).await
    }

    /// The commands that show how the server releases, what its clock shows, and, if it votes, that it
    /// can renew.
    fn probes(&self, greeted: &HandshakeInfo) -> Vec<redis::Cmd> {
        // The first probe deletes nothing, since no nonce is empty. ACLs allow these keys.
        let deletes = redis::cmd(deletes_if_ours(self.options.layout))
            .arg("quorumlock:probe")
            .arg("")
            .to_owned();
        let slot = self.own_slot(greeted.slots.as_deref());
        let renewal = match greeted.server.unproven {
            // Who only looks need not be able to write.
            None if !self.options.observes && (slot.is_some() || !self.options.redis_cluster) => {
                self.renewal_probe(&greeted.server.scripts, slot)
            }
            _ => Vec::new(),
        };
        [deletes, redis::cmd("TIME")].into_iter().chain(renewal).collect()
    }

    /// What the replies to the probes say.
    fn judge(&self, greeted: &mut HandshakeInfo, probed: &[Value]) -> Result<(), NodeProblem> {
        let [deletes, time, renewal @ ..] = probed else { return Ok(()) };
        greeted.server.deletes_if_ours = match deletes {
            // It has the command, lets us use it, and serves another slot.
            Value::Error(text) => Redirect::parse(text).is_some(),
            _ => true,
        };
        greeted.time = micros(time);
        let moves = |reply: &Value| match reply {
            Value::Error(text) => Redirect::parse(text).is_some(),
            _ => false,
        };
        match self.options.redis_cluster && renewal.iter().any(moves) {
            // The slot of the probe is on its way to another member.
            true => Ok(()),
            false => judge_renewal(renewal),
        }
    }

    /// A lock of our own, its renewal, and its end: a server that cannot renew grants nothing. A
    /// renewal of nothing would need neither `PTTL` nor `PEXPIRE`. The key expires by itself, too.
    ///
    /// `slot`: that of the key, in a Redis Cluster.
    fn renewal_probe(&self, scripts: &Scripts, slot: Option<usize>) -> Vec<redis::Cmd> {
        const LEASE_MS: u64 = 1_000;
        const RENEWED_MS: u64 = 2_000;

        let number = self.options.probes.fetch_add(1, Ordering::Relaxed);
        let tag = slot.map(Name::tag_of).unwrap_or_default();
        let key = &format!("quorumlock:probe:{tag}{}:{number}", self.options.waiter);
        let holder = "probe";
        let mut commands = match self.options.layout {
            Layout::Redlock => {
                vec![redis::cmd("SET").arg(key).arg(holder).arg("PX").arg(LEASE_MS).to_owned()]
            }
            Layout::Redisson => vec![
                redis::cmd("HSET").arg(key).arg(holder).arg(1).to_owned(),
                redis::cmd("PEXPIRE").arg(key).arg(LEASE_MS).to_owned(),
            ],
        };
        let mut renew = redis::cmd("EVALSHA");
        renew.arg(&scripts.renew.digest).arg(1 + usize::from(scripts.record().is_some())).arg(key);
        renew.arg(scripts.record()).arg(holder).arg(RENEWED_MS).arg(1);
        commands.extend([renew, redis::cmd("DEL").arg(key).to_owned()]);
        commands
    }

    /// A slot that this member of a Redis Cluster serves, if it serves one under the address that was
    /// dialled.
    fn own_slot(&self, slots: Option<&[SlotRange]>) -> Option<usize> {
        let here = self.target.endpoint();
        let own = |range: &&SlotRange| {
            range.master.port == here.port
                && (range.master.host.is_none() || range.master.host == here.host)
        };
        slots?.iter().find(own).map(|range| range.first)
    }

    /// The reply to a command of the introduction, or to `INFO`. The lock does without the name of
    /// its connections and without `INFO`.
    fn accept(&self, what: &'static str, reply: Value) -> Result<Value, NodeProblem> {
        match reply {
            Value::Error(text)
                if is_forbidden(&text) && ["client|setname", "info"].contains(&what) =>
            {
                self.warn_of(what);
                Ok(Value::Nil)
            }
            Value::Error(text) => Err(refused(what, &text)),
            reply => Ok(reply),
        }
    }

    /// Refuses a sentinel and, unless it was given as one, a member of a Redis Cluster, which serves only
    /// the names of its own slots.
    fn refuse_mode(&self, server: &str) -> Result<(), NodeProblem> {
        match [field(server, "redis_mode"), field(server, "server_mode")] {
            modes if modes.contains(&"sentinel") => Err(NodeProblem::Sentinel),
            modes if modes.contains(&"cluster") && !self.options.redis_cluster => {
                Err(NodeProblem::ClusterMode)
            }
            _ => Ok(()),
        }
    }

    /// Registers the server, and refuses one that another address of this locker leads to.
    fn register(&self, run_id: &str) -> Result<(u64, Option<Presence>), NodeProblem> {
        let label = self.target.label();
        let presence = match &self.options.run_ids {
            Some(run_ids) => run_ids.register(label, run_id)?,
            None => None,
        };
        Ok((identity(if run_id.is_empty() { label } else { run_id }), presence))
    }

    /// Authenticates, and chooses the database and the name of the connection.
    pub(super) fn introduction(
        &self,
        credentials: Option<&Credentials>,
    ) -> Vec<(&'static str, redis::Cmd)> {
        let redis = self.target.redis();
        let mut words: Vec<_> =
            credentials.map(|credentials| ("auth", login(credentials))).into_iter().collect();
        if redis.db() != 0 {
            words.push(("select", redis::cmd("SELECT").arg(redis.db()).to_owned()));
        }
        if let Some(name) = &self.options.client_name {
            words
                .push(("client|setname", redis::cmd("CLIENT").arg("SETNAME").arg(name).to_owned()));
        }
        words
    }

    fn admit(&self, info: &NodeInfo, cluster: &ClusterConfig) -> ServerInfo {
        let status = classify(info, cluster);
        if let NodeStatus::Admitted(incarnation) = status {
            let proof = if cluster.replicated { Proof::Run } else { Proof::Cache };
            let scripts = self.bound(cluster, incarnation, proof);
            return ServerInfo { scripts, incarnation, ..self.unbound(None) };
        }
        // The connection still serves inspection, releases and admission.
        let report = status.problem().map(|problem| NodeReport::new(self.target.label(), problem));
        self.unbound(report.map(|report| match status {
            NodeStatus::OtherMembers { .. }
            | NodeStatus::ConfigMismatch(_)
            | NodeStatus::NewerProtocol(_) => Denial::Refused(report),
            _ => Denial::NotAdmitted(report),
        }))
    }

    /// The denial of a program without admission at a member of a cluster (PROTOCOL.md ADM9).
    fn barred_by(&self, list: MemberList) -> Denial {
        let database = self.target.redis().db();
        let problem = NodeProblem::StrictCluster { list, database };
        Denial::Refused(NodeReport::new(self.target.label(), problem))
    }

    fn bound(&self, cluster: &ClusterConfig, to: Incarnation, proof: Proof) -> Arc<Scripts> {
        let bound_to = (to, proof);
        self.options.last_bound.of(bound_to, || {
            Scripts::bound(self.options.layout, cluster, bound_to, self.options.one_node)
        })
    }

    fn unbound(&self, unproven: Option<Denial>) -> ServerInfo {
        let (scripts, incarnation) = (self.options.unbound.clone(), Incarnation::NONE);
        ServerInfo {
            scripts,
            incarnation,
            unproven,
            run_identity: None,
            deletes_if_ours: false,
            loads_by_eval: false,
            setup: None,
            replace_at: None,
        }
    }

    /// Where all replicas must acknowledge a vote, a master that has none at present grants nothing
    /// (PROTOCOL.md REP1). The connection still serves the rest.
    fn refuse_without_replicas(&self, server: ServerInfo) -> ServerInfo {
        if !self.options.all_replicas || server.replicas() > 0 || server.unproven.is_some() {
            return server;
        }
        let problem = NodeProblem::NoReplicas("none is attached, and all must acknowledge".into());
        let report = NodeReport::new(self.target.label(), problem);
        ServerInfo { unproven: Some(Denial::Refused(report)), ..server }
    }

    /// Reads the replication ids of a master.
    fn read_replication_ids(&self, replication: &str) -> Result<ReplicationIds, NodeProblem> {
        refuse_role(replication, self.options.redis_cluster)?;
        Ok(ReplicationIds::read(replication))
    }
}

impl ReplicationIds {
    /// Reads the answer to `INFO replication`.
    pub(super) fn read(replication: &str) -> Self {
        let value = |name: &str| field(replication, name).to_owned();
        Self { history: value("master_replid"), continues: value("master_replid2") }
    }
}

impl HandshakeInfo {
    fn new(server: ServerInfo, identity: u64, presence: Option<Presence>) -> Self {
        let replication_ids = ReplicationIds::default();
        Self { server, replication_ids, identity, presence, time: None, slots: None }
    }
}

/// The setup of a server, by its node info.
fn setup_of(reply: &Value) -> ServerSetup {
    let text = |part| match reply {
        Value::Array(parts) => parts.get(part).map(Value::text).unwrap_or_default(),
        _ => Cow::default(),
    };
    ServerSetup::read(&text(2), Some(&text(3)))
}

/// Refuses a server that is too old, as far as it tells its version: tokens need `ZADD` with `GT`, which
/// came with 6.2. Strict admission needs more ([`classify`]).
fn refuse_version(server: &str) -> Result<(), NodeProblem> {
    let version = field(server, "redis_version");
    let mut numbers = version.split('.').map(|part| part.parse::<u32>().ok());
    match (numbers.next().flatten(), numbers.next().flatten()) {
        (Some(major), Some(minor)) if (major, minor) < (6, 2) => {
            let too_old = Mismatch::new("version", version.to_owned(), "6.2 or later".to_owned());
            Err(NodeProblem::Unfit(too_old))
        }
        _ => Ok(()),
    }
}

/// Refuses a replica: it grants nothing, or, if it is writable, its master overwrites its grants
/// (SAFETY.md H11, PROTOCOL.md REP3). An unknown role is refused, too. A server that hides its role is
/// believed.
fn refuse_role(replication: &str, redis_cluster: bool) -> Result<(), NodeProblem> {
    let value = |name| field(replication, name);
    match value("role") {
        "master" | "" => Ok(()),
        // A replica in a Redis Cluster sends each request on to the master of its slot.
        "slave" if redis_cluster => Ok(()),
        "slave" => {
            let master = format!("{}:{}", value("master_host"), value("master_port"));
            Err(NodeProblem::Replica(master))
        }
        other => Err(NodeProblem::UnknownRole(other.to_owned())),
    }
}

/// The command that authenticates a client.
pub(super) fn login(credentials: &Credentials) -> redis::Cmd {
    let (user, password) = credentials.parts();
    let mut auth = redis::cmd("AUTH");
    if let Some(user) = user {
        auth.arg(user);
    }
    auth.arg(password).to_owned()
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

/// The command that asks a member of a Redis Cluster which members serve which slots.
pub(super) fn ask_slots() -> redis::Cmd {
    redis::cmd("CLUSTER").arg("SLOTS").to_owned()
}

/// The reply to [`ask_slots`] in the handshake.
fn accept_slots(reply: &Value) -> Result<Vec<SlotRange>, NodeProblem> {
    match reply {
        Value::Error(text) if text.contains("cluster support disabled") => {
            Err(NodeProblem::NotACluster)
        }
        Value::Error(text) => Err(NodeProblem::from_reply(text)),
        reply => read_slots(reply).ok_or_else(|| NodeProblem::Malformed("to CLUSTER SLOTS".into())),
    }
}

/// What the replies to the probe of a renewal say. A server that is full, or that was emptied in
/// between, may renew later: its next requests show that. The last reply is that to `DEL`, which
/// releases need.
fn judge_renewal(replies: &[Value]) -> Result<(), NodeProblem> {
    let [writes @ .., renewed, deleted] = replies else { return Ok(()) };
    let first = match renewed {
        Value::Array(items) => items.first().unwrap_or(renewed),
        reply => reply,
    };
    for reply in writes.iter().chain([first, deleted]) {
        let Value::Error(text) = reply else { continue };
        return match NodeProblem::from_reply(text) {
            problem if is_forbidden(text) || problem == NodeProblem::ClusterMode => Err(problem),
            problem if text.contains("READONLY") => Err(problem),
            _ => Ok(()),
        };
    }
    if *first == Value::Int(1) { Ok(()) } else { Err(NodeProblem::NotRenewed) }
}

/// The problem behind an error reply to a command of the handshake.
fn refused(what: &str, text: &str) -> NodeProblem {
    match (what, NodeProblem::from_reply(text)) {
        ("auth", NodeProblem::Refused { .. }) => NodeProblem::Authentication(text.to_owned()),
        ("select", NodeProblem::Refused { .. }) => NodeProblem::Database(text.to_owned()),
        (_, problem) => problem,
    }
}

#[cfg(test)]
mod tests;
