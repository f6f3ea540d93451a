//! The first words on a new connection: who we are, who the server is, the scripts.

use std::sync::Arc;

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::dial::{Dialer, Presence, Stream, problem_of};
use super::encode::deletes_if_ours;
use super::identity;
use super::master::Claim;
use super::request::micros;
use super::resp::{self, Value};
use super::scripts::{Scripts, office};
use crate::admission::{Charter, Record, Sheet, Standing, judge};
use crate::{Denial, NodeProblem, NodeReport, Stamp, fingerprint};

/// What a connection is good for.
#[derive(Clone, Debug)]
pub(super) struct Greeted {
    pub(super) scripts: Arc<Scripts>,
    /// Under what the node's memory was verified.
    pub(super) stamp: Stamp,
    /// What whoever asks for a vote is told, if the node counts for nothing.
    pub(super) unproven: Option<Denial>,
    /// Which of the node's addresses it is at.
    pub(super) at: usize,
    pub(super) claim: Claim,
    /// Of this run of the server.
    pub(super) identity: u64,
    /// Of its memory, if it says so: another one after a restart, or a promotion.
    pub(super) life: Option<u64>,
    /// Which server it is, as long as the connection lives.
    pub(super) presence: Option<Presence>,
    /// Whether the server has a command of its own that deletes a key if it holds a given nonce, and we
    /// may use it.
    pub(super) deletes_if_ours: bool,
    /// What its wall clock showed, in microseconds.
    pub(super) time: Option<i64>,
}

impl Dialer {
    pub(super) async fn greet(&self, stream: &mut Box<dyn Stream>) -> Result<Greeted, NodeProblem> {
        let hint = if self.target.wants_tls() { "" } else { MAY_SPEAK_TLS };
        let mut talk = Talk { stream, buffer: Vec::new(), hint };
        let mut hello = self.introduction();
        match &self.charter {
            None => hello.extend(
                ["server", "replication"]
                    .map(|part| ("INFO", redis::cmd("INFO").arg(part).to_owned())),
            ),
            Some(charter) => hello.push(("EVAL", sheet_command(charter))),
        }
        let mut told = talk.say(&hello).await?.into_iter().rev();
        let mut last = || told.next().unwrap_or(Value::Nil);
        let mut greeted = match &self.charter {
            None => {
                let claim = self.read_claim(&last().text())?;
                let server = last();
                let server = server.text();
                let run_id = field(&server, "run_id");
                let (identity, presence) = self.enter(run_id)?;
                let life = life(run_id, &claim.history);
                Greeted { claim, identity, life, presence, ..self.unbound(None) }
            }
            Some(charter) => {
                let sheet = read_sheet(&last())
                    .ok_or_else(|| NodeProblem::Malformed("INFO in a script".into()))?;
                let run_id = sheet.life.split('/').next().unwrap_or_default();
                let (identity, presence) = self.enter(run_id)?;
                let life = life(run_id, &sheet.life);
                Greeted { identity, life, presence, ..self.admit(&sheet, charter) }
            }
        };
        let load = |text: &str| redis::cmd("SCRIPT").arg("LOAD").arg(text).to_owned();
        let scripts = greeted.scripts.all();
        talk.say(&scripts.map(|script| ("SCRIPT", load(&script.text)))).await?;
        // Nothing has this value; and the key is one that an ACL allows.
        let probe =
            redis::cmd(deletes_if_ours(self.wire)).arg("quorumlock:probe").arg("").to_owned();
        let [probed, time] = talk.ask([probe, redis::cmd("TIME")]).await?;
        greeted.deletes_if_ours = !matches!(probed, Value::Error(_));
        greeted.time = micros(&time);
        Ok(greeted)
    }

    /// Notes which server it is.
    fn enter(&self, run_id: &str) -> Result<(u64, Option<Presence>), NodeProblem> {
        let label = self.target.label();
        let presence = self.roster.enter(label, run_id)?;
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

    fn admit(&self, sheet: &Sheet, charter: &Charter) -> Greeted {
        let label = self.target.label();
        let not_admitted = |why| Denial::NotAdmitted(NodeReport::new(label, why));
        let why = match judge(sheet, charter) {
            Standing::Admitted(stamp) => {
                let scripts = Arc::new(Scripts::bound(self.wire, charter, stamp));
                return Greeted { scripts, stamp, ..self.unbound(None) };
            }
            // The connection still serves those who look, give back, or vouch for the node anew.
            Standing::Misfit(terms) => {
                Denial::Refused(NodeReport::new(label, NodeProblem::OtherTerms(terms)))
            }
            Standing::Unfit(what) => not_admitted(NodeProblem::Unfit(what)),
            Standing::Unproven(_) => not_admitted(NodeProblem::NotAdmitted),
            Standing::New(_) => not_admitted(NodeProblem::New),
        };
        self.unbound(Some(why))
    }

    fn unbound(&self, unproven: Option<Denial>) -> Greeted {
        let (scripts, stamp) = (self.unbound.clone(), Stamp::NONE);
        let claim = Claim::default();
        Greeted {
            scripts,
            stamp,
            unproven,
            at: 0,
            claim,
            identity: 0,
            life: None,
            presence: None,
            deletes_if_ours: false,
            time: None,
        }
    }

    /// Refuses a replica: it grants nothing, unless it may be written to, and then its grants are
    /// overwritten by its master (SAFETY.md H11).
    fn read_claim(&self, replication: &str) -> Result<Claim, NodeProblem> {
        let told = |name: &str| field(replication, name).to_owned();
        if told("role") == "slave" {
            let (host, port) = (told("master_host"), told("master_port"));
            return Err(NodeProblem::Replica(format!("{host}:{port}")));
        }
        Ok(Claim { history: told("master_replid"), continues: told("master_replid2") })
    }
}

/// A number for a memory: of this run of a server, with this history.
fn life(run_id: &str, history: &str) -> Option<u64> {
    (!run_id.is_empty()).then(|| fingerprint(identity(run_id), history))
}

/// Of a server that is spoken to in plain text, and has said nothing that we understand.
const MAY_SPEAK_TLS: &str = "; if it speaks TLS, its URL begins with rediss://";

/// The command that asks a server for its [`Sheet`].
pub(super) fn sheet_command(charter: &Charter) -> redis::Cmd {
    redis::cmd("EVAL").arg(office::SHEET).arg(1).arg(charter.record_key()).to_owned()
}

/// The reply to [`sheet_command`].
pub(super) fn read_sheet(told: &Value) -> Option<Sheet> {
    let Value::Array(parts) = told else { return None };
    let [Value::Array(record), server, replication, memory] = parts.as_slice() else {
        return None;
    };
    let (server, replication, memory) = (server.text(), replication.text(), memory.text());
    let life = format!("{}/{}", field(&server, "run_id"), field(&replication, "master_replid"));
    let number = |text: &str| text.parse().unwrap_or(0);
    Some(Sheet {
        record: read_record(record),
        life,
        role: field(&replication, "role").to_owned(),
        replicas: number(field(&replication, "connected_slaves")),
        policy: field(&memory, "maxmemory_policy").to_owned(),
        major: u32::try_from(number(field(&server, "redis_version").split('.').next()?)).ok()?,
    })
}

fn read_record(flat: &[Value]) -> Option<Record> {
    if flat.is_empty() {
        return None;
    }
    let get = |name: &str| {
        let mut pairs = flat.chunks_exact(2);
        pairs
            .find(|pair| pair[0].text() == name)
            .map(|pair| pair[1].text().into_owned())
            .unwrap_or_default()
    };
    Some(Record {
        cluster: get("cluster"),
        epoch: get("epoch").parse().unwrap_or(0),
        nodes: get("nodes").parse().unwrap_or(0),
        longest_ms: get("longest_ms").parse().unwrap_or(0),
        stamp: get("stamp"),
        life: get("life"),
        pending: get("pending"),
    })
}

fn field<'a>(info: &'a str, name: &str) -> &'a str {
    let value = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    value.unwrap_or_default().trim()
}

/// Strictly question and answer, before the connection is published.
struct Talk<'a> {
    stream: &'a mut Box<dyn Stream>,
    buffer: Vec<u8>,
    /// What to look at if the server does not even answer the first word.
    hint: &'static str,
}

impl Talk<'_> {
    async fn say(&mut self, words: &[(&str, redis::Cmd)]) -> Result<Vec<Value>, NodeProblem> {
        let mut out = Vec::new();
        for (_, cmd) in words {
            out.extend_from_slice(&cmd.get_packed_command());
        }
        self.stream.write_all(&out).await.map_err(broken)?;
        self.stream.flush().await.map_err(broken)?;
        let mut replies = Vec::new();
        for (what, _) in words {
            match self.hear().await? {
                Value::Error(text) => return Err(refused(what, &text)),
                reply => replies.push(reply),
            }
        }
        Ok(replies)
    }

    /// What the server replies, which may not carry it out for us.
    async fn ask<const N: usize>(
        &mut self,
        commands: [redis::Cmd; N],
    ) -> Result<[Value; N], NodeProblem> {
        let out: Vec<u8> = commands.iter().flat_map(redis::Cmd::get_packed_command).collect();
        self.stream.write_all(&out).await.map_err(broken)?;
        self.stream.flush().await.map_err(broken)?;
        let mut replies = [const { Value::Nil }; N];
        for reply in &mut replies {
            *reply = self.hear().await?;
        }
        Ok(replies)
    }

    async fn hear(&mut self) -> Result<Value, NodeProblem> {
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

fn broken(e: std::io::Error) -> NodeProblem {
    problem_of(&e, NodeProblem::Broken)
}

/// What the server answered to one of the first words.
fn refused(what: &str, text: &str) -> NodeProblem {
    match (what, NodeProblem::from_reply(text)) {
        ("AUTH", NodeProblem::Refused { .. }) => NodeProblem::Authentication(text.to_owned()),
        ("SELECT", NodeProblem::Refused { .. }) => NodeProblem::Database(text.to_owned()),
        (_, problem) => problem,
    }
}
