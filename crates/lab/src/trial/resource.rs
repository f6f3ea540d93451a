//! What the lock guards: a register that every worker writes to, over TCP.
//!
//! It decides what was accepted, and in which order: its events are the only witnesses of effects.

use std::collections::HashMap;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use quorumlock::Fence;
use quorumlock::fencing::FenceGate;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Mutex;
use tokio::task::JoinSet;

use super::recorder::Scribe;
use crate::history::{Event, Op, Phase};

/// One effect, as its writer sends it.
#[derive(Debug, Serialize, Deserialize)]
struct Write {
    client: String,
    hold: u64,
    name: String,
    token: u64,
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

    /// Writes, and waits until that was accepted or refused; which of both, the resource tells.
    pub(crate) async fn write(
        &mut self,
        client: &str,
        hold: u64,
        name: &str,
        token: u64,
    ) -> io::Result<()> {
        let write = Write { client: client.to_owned(), hold, name: name.to_owned(), token };
        let mut line = serde_json::to_vec(&write)?;
        line.push(b'\n');
        // Dropped in the middle, the connection is of no use any more: it is put back at the end.
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

/// The register. Ends when it is dropped.
#[derive(Debug)]
pub(super) struct Resource {
    address: SocketAddr,
    _serving: JoinSet<()>,
}

impl Resource {
    /// `fenced`: it refuses tokens below the largest that it has seen.
    pub(super) async fn start(fenced: bool, scribe: Scribe) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let register = Arc::new(Mutex::new(Register { fenced, values: HashMap::new(), scribe }));
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

/// Its values by name, each behind the library's own gate.
struct Register {
    fenced: bool,
    values: HashMap<String, FenceGate<i64>>,
    scribe: Scribe,
}

async fn serve(client: TcpStream, register: Arc<Mutex<Register>>) {
    let _ = client.set_nodelay(true);
    let mut lines = BufReader::new(client);
    let mut line = String::new();
    while let Ok(1..) = lines.read_line(&mut line).await {
        let Ok(write) = serde_json::from_str(&line) else { return };
        line.clear();
        register.lock().await.take(write).await;
        if lines.get_mut().write_all(b"\n").await.is_err() {
            return;
        }
    }
}

impl Register {
    async fn take(&mut self, write: Write) {
        let gate = self.values.entry(write.name.clone()).or_insert_with(|| FenceGate::new(0));
        // Without the check, everybody has the same token.
        let fence = Fence::new(if self.fenced { write.token } else { 1 });
        let written = gate.claim(fence).and_then(|claimed| {
            claimed.with(|value| {
                *value += 1;
                *value
            })
        });
        let (phase, value, what) = match written {
            Ok(value) => (Phase::Ok, Some(value), None),
            Err(stale) => (Phase::Fail, None, Some(stale.to_string())),
        };
        self.scribe
            .tell(Event {
                client: write.client,
                hold: Some(write.hold),
                name: Some(write.name),
                token: Some(write.token),
                value,
                what,
                ..self.scribe.event("resource", Op::Write, phase)
            })
            .await;
    }
}
