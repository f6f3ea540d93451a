//! The first words on a new connection: who we are, who the server is, the scripts.

use std::sync::Arc;

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::dial::{Dialer, Stream, Trouble};
use super::encode::deletes_if_ours;
use super::identity;
use super::master::Claim;
use super::resp::{self, Value};
use super::scripts::{Scripts, office};
use crate::admission::{Charter, Record, Sheet, Standing, judge};
use crate::{Denial, NodeReport, Stamp};

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
    /// Of this life of the server.
    pub(super) identity: u64,
    /// Whether the server has a command of its own that deletes a key if it holds a given nonce, and we
    /// may use it.
    pub(super) deletes_if_ours: bool,
}

impl Dialer {
    pub(super) async fn greet(&self, stream: &mut Box<dyn Stream>) -> Result<Greeted, Trouble> {
        let mut talk = Talk { stream, buffer: Vec::new() };
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
                let identity = self.enter(field(&last().text(), "run_id"))?;
                Greeted { claim, identity, ..self.unbound(None) }
            }
            Some(charter) => {
                let sheet = read_sheet(&last()).ok_or_else(|| {
                    Trouble::Passing("INFO in a script gave no answer that we know".into())
                })?;
                let identity = self.enter(sheet.life.split('/').next().unwrap_or_default())?;
                Greeted { identity, ..self.admit(&sheet, charter) }
            }
        };
        let load = |text: &str| redis::cmd("SCRIPT").arg("LOAD").arg(text).to_owned();
        let scripts = greeted.scripts.all();
        talk.say(&scripts.map(|script| ("SCRIPT", load(&script.text)))).await?;
        // No counter has this value; and the key is one that an ACL allows.
        let probe = redis::cmd(deletes_if_ours(self.wire))
            .arg("redisson_lock_token:{probe}")
            .arg("")
            .to_owned();
        greeted.deletes_if_ours = talk.offers(&probe).await?;
        Ok(greeted)
    }

    /// Notes which server it is.
    fn enter(&self, run_id: &str) -> Result<u64, Trouble> {
        let label = self.target.label();
        self.roster.enter(label, run_id)?;
        Ok(identity(if run_id.is_empty() { label } else { run_id }))
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
        let not_admitted = |why: String| Denial::NotAdmitted(NodeReport::new(label, why));
        let why = match judge(label, sheet, charter) {
            Standing::Admitted(stamp) => {
                let scripts = Arc::new(Scripts::bound(self.wire, charter, stamp));
                return Greeted { scripts, stamp, ..self.unbound(None) };
            }
            // The connection still serves those who look, give back, or vouch for the node anew.
            Standing::Misfit(error) => Denial::Config(error),
            Standing::Unfit(error) => not_admitted(error.to_string()),
            Standing::Unproven(_) => {
                not_admitted(format!("has restarted or lost its memory: {UNPROVEN}"))
            }
            Standing::Blank => not_admitted(format!("is new, or has lost its memory: {UNPROVEN}")),
        };
        self.unbound(Some(why))
    }

    fn unbound(&self, unproven: Option<Denial>) -> Greeted {
        let (scripts, stamp) = (self.unbound.clone(), Stamp::NONE);
        let (claim, identity, deletes_if_ours) = (Claim::default(), 0, false);
        Greeted { scripts, stamp, unproven, at: 0, claim, identity, deletes_if_ours }
    }

    /// Refuses a replica: it grants nothing, unless it may be written to, and then its grants are
    /// overwritten by its master (SAFETY.md H11).
    fn read_claim(&self, replication: &str) -> Result<Claim, Trouble> {
        let told = |name: &str| field(replication, name).to_owned();
        if told("role") == "slave" {
            let (host, port) = (told("master_host"), told("master_port"));
            return Err(Trouble::Passing(format!("is a replica of {host}:{port}{}", self.advice)));
        }
        Ok(Claim { history: told("master_replid"), continues: told("master_replid2") })
    }
}

const UNPROVEN: &str = "it counts for nothing until it has been watched for the longest lease, or \
                        `quorumlock init` vouches for it";

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
}

impl Talk<'_> {
    async fn say(&mut self, words: &[(&str, redis::Cmd)]) -> Result<Vec<Value>, Trouble> {
        let mut out = Vec::new();
        for (_, cmd) in words {
            out.extend_from_slice(&cmd.get_packed_command());
        }
        self.stream.write_all(&out).await.map_err(broken)?;
        self.stream.flush().await.map_err(broken)?;
        let mut replies = Vec::new();
        for (what, _) in words {
            match self.hear().await? {
                Value::Error(text) => {
                    return Err(Trouble::Passing(format!("{what} was refused: {text}")));
                }
                reply => replies.push(reply),
            }
        }
        Ok(replies)
    }

    /// Whether the server carries it out, for us.
    async fn offers(&mut self, cmd: &redis::Cmd) -> Result<bool, Trouble> {
        self.stream.write_all(&cmd.get_packed_command()).await.map_err(broken)?;
        self.stream.flush().await.map_err(broken)?;
        Ok(!matches!(self.hear().await?, Value::Error(_)))
    }

    async fn hear(&mut self) -> Result<Value, Trouble> {
        loop {
            match resp::decode(&self.buffer) {
                Ok(Some((value, len))) => {
                    self.buffer.drain(..len);
                    return Ok(value);
                }
                Ok(None) => {}
                Err(malformed) => {
                    return Err(Trouble::Passing(format!("speaks no RESP: {}", malformed.0)));
                }
            }
            if self.stream.read_buf(&mut self.buffer).await.map_err(broken)? == 0 {
                return Err(Trouble::Passing("closed the connection at once".into()));
            }
        }
    }
}

fn broken(e: std::io::Error) -> Trouble {
    Trouble::Passing(format!("connection broke: {e}"))
}
