//! The resource that the lock guards: a register that every worker writes to, over TCP.
//!
//! It decides which writes are accepted, and in which order. Only its own events show the outcome
//! of writes.

use std::collections::HashMap;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use quorumlock::FencingToken;
use quorumlock::fencing::{FenceGate, Stale};
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Mutex;
use tokio::task::JoinSet;

use super::recorder::HistorySender;
use crate::history::{Event, Op, Phase};
use crate::workload::Kind;

/// A request of a worker to the resource.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Request {
    pub(crate) kind: Kind,
    pub(crate) client: String,
    pub(crate) hold: u64,
    pub(crate) name: String,
    pub(crate) token: u64,
}

/// A worker's connection to the resource.
#[derive(Debug)]
pub(crate) struct Access {
    resource: SocketAddr,
    open: Option<BufReader<TcpStream>>,
}

impl Access {
    pub(crate) fn new(resource: SocketAddr) -> Self {
        Self { resource, open: None }
    }

    /// Waits for the answer. The resource's events show whether it accepted the request.
    pub(crate) async fn ask(&mut self, request: &Request) -> io::Result<()> {
        let mut line = serde_json::to_vec(request)?;
        line.push(b'\n');
        // If the caller cancels in the middle, the connection is unusable. So it is put back only
        // at the end.
        let mut open = match self.open.take() {
            Some(open) => open,
            None => {
                let stream = TcpStream::connect(self.resource).await?;
                stream.set_nodelay(true)?;
                BufReader::new(stream)
            }
        };
        open.get_mut().write_all(&line).await?;
        let mut answer = String::new();
        if open.read_line(&mut answer).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.open = Some(open);
        Ok(())
    }
}

/// The server of the register. Dropping it ends the server.
#[derive(Debug)]
pub(super) struct Resource {
    address: SocketAddr,
    _serving: JoinSet<()>,
}

impl Resource {
    /// `fenced`: refuse a write with a token below the largest token seen, and a reader's read with one
    /// below the largest token that has written.
    pub(super) async fn start(fenced: bool, sender: HistorySender) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let register = Arc::new(Mutex::new(Register { fenced, values: HashMap::new(), sender }));
        let mut serving = JoinSet::new();
        serving.spawn(async move {
            let mut clients = JoinSet::new();
            while let Ok((client, _)) = listener.accept().await {
                clients.spawn(serve(client, Arc::clone(&register)));
                while clients.try_join_next().is_some() {}
            }
        });
        Ok(Self { address, _serving: serving })
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }
}

/// The values by name.
struct Register {
    fenced: bool,
    values: HashMap<String, Value>,
    sender: HistorySender,
}

/// A count of writes, guarded by the library's own `FenceGate`.
#[derive(Debug)]
struct Value {
    gate: FenceGate<i64>,
    now: i64,
    /// The token of the last write.
    written: FencingToken,
    /// The largest token of a reader. Readers do not exclude each other, so the gate does not see them.
    read: FencingToken,
}

impl Default for Value {
    fn default() -> Self {
        Self {
            gate: FenceGate::new(0),
            now: 0,
            written: FencingToken::NONE,
            read: FencingToken::NONE,
        }
    }
}

impl Value {
    fn write(&mut self, token: u64) -> Result<i64, String> {
        let fence = FencingToken::new(token);
        if fence < self.read {
            return Err(format!("token {token} is below {}, which has read", self.read.get()));
        }
        let stale = |stale: Stale| stale.to_string();
        let claimed = self.gate.claim(fence).map_err(stale)?;
        let written = claimed.with(|value| {
            *value += 1;
            *value
        });
        self.now = written.map_err(stale)?;
        self.written = fence;
        Ok(self.now)
    }

    fn read(&mut self, token: u64) -> Result<i64, String> {
        let fence = FencingToken::new(token);
        if fence < self.written {
            return Err(format!(
                "token {token} is below {}, which has written",
                self.written.get()
            ));
        }
        self.read = self.read.max(fence);
        Ok(self.now)
    }
}

async fn serve(client: TcpStream, register: Arc<Mutex<Register>>) {
    let _ = client.set_nodelay(true);
    let mut lines = BufReader::new(client);
    let mut line = String::new();
    while let Ok(1..) = lines.read_line(&mut line).await {
        let Ok(request) = serde_json::from_str(&line) else { return };
        line.clear();
        register.lock().await.take(request).await;
        if lines.get_mut().write_all(b"\n").await.is_err() {
            return;
        }
    }
}

impl Register {
    async fn take(&mut self, request: Request) {
        let value = self.values.entry(request.name.clone()).or_default();
        // Without fencing, all effects get the same token, so that none is refused.
        let token = if self.fenced { request.token } else { 1 };
        let (op, effect) = match request.kind {
            Kind::Read => (Op::Note, Ok(value.now)),
            Kind::Write => (Op::Write, value.write(token)),
            Kind::SharedRead => (Op::Read, value.read(token)),
        };
        let (phase, value, what) = match (op, effect) {
            (Op::Note, _) => (Phase::Info, Some(value.now), Some("read".to_owned())),
            (_, Ok(now)) => (Phase::Ok, Some(now), None),
            (_, Err(stale)) => (Phase::Fail, None, Some(stale)),
        };
        self.sender
            .send(Event {
                client: request.client,
                hold: Some(request.hold),
                name: Some(request.name),
                token: Some(request.token),
                value,
                what,
                ..self.sender.event("resource", op, phase)
            })
            .await;
    }
}
