//! The network of one client, as the connection code of the library sees it: it dials a node, and
//! reads and writes bytes.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use quorumlock_protocol::BoxFuture;
use quorumlock_redis::simulation::{SimulatedNetwork, Stream};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::arrival::ConnId;
use super::conn::Phase;
use super::pause_gate::{Gated, PauseGate};
use super::world::World;
use crate::dice::Dice;

/// The way from one client to one node.
#[derive(Debug)]
pub struct SimNetwork {
    world: World,
    client: usize,
    node: usize,
    gate: Arc<PauseGate>,
    dice: Mutex<Dice>,
}

/// The client's end of a connection.
struct SimStream {
    world: World,
    id: ConnId,
}

impl SimNetwork {
    pub fn new(world: World, client: usize, node: usize) -> Arc<Self> {
        let (gate, seed) =
            world.with(|state| (state.processes[client].gate.clone(), state.plan.seed));
        let dice = Mutex::new(Dice::new(seed, 2_000_000 + (client * 16 + node) as u64));
        Arc::new(Self { world, client, node, gate, dice })
    }
}

impl SimulatedNetwork for SimNetwork {
    fn open(&self) -> BoxFuture<io::Result<Box<dyn Stream>>> {
        let (world, client, node) = (self.world.clone(), self.client, self.node);
        Box::pin(async move {
            let id = world.with(|state| state.dial(client, node));
            let stream = SimStream { world, id };
            poll_fn(|cx| stream.poll_connected(cx)).await?;
            Ok(Box::new(stream) as Box<dyn Stream>)
        })
    }

    fn spawn(&self, task: BoxFuture<()>) {
        tokio::spawn(Gated::new(self.gate.clone(), task));
    }

    fn pause_share(&self) -> f64 {
        0.5 + self.dice.lock().unwrap_or_else(PoisonError::into_inner).fraction() / 2.0
    }
}

impl SimStream {
    fn poll_connected(&self, cx: &Context<'_>) -> Poll<io::Result<()>> {
        self.world.with(|state| {
            let Some(conn) = state.conns.get_mut(&self.id.number) else {
                return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
            };
            match conn.phase {
                Phase::Dialing => {
                    conn.reader = Some(cx.waker().clone());
                    Poll::Pending
                }
                Phase::Up => Poll::Ready(Ok(())),
                Phase::Refused => Poll::Ready(Err(io::ErrorKind::ConnectionRefused.into())),
                Phase::Reset => Poll::Ready(Err(io::ErrorKind::ConnectionReset.into())),
            }
        })
    }
}

impl AsyncRead for SimStream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.world.look(|state| {
            let Some(conn) = state.conns.get_mut(&self.id.number) else {
                return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
            };
            let ready = &conn.inbound[conn.read..];
            if !ready.is_empty() {
                let length = ready.len().min(buf.remaining());
                buf.put_slice(&ready[..length]);
                conn.read += length;
                if conn.read == conn.inbound.len() {
                    conn.inbound.clear();
                    conn.read = 0;
                }
                return Poll::Ready(Ok(()));
            }
            if conn.phase == Phase::Reset {
                return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
            }
            conn.reader = Some(cx.waker().clone());
            Poll::Pending
        })
    }
}

impl AsyncWrite for SimStream {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.world.with(|state| {
            let now = state.now;
            let Some(conn) = state.conns.get_mut(&self.id.number) else {
                return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
            };
            if conn.phase == Phase::Reset {
                return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
            }
            if conn.full_until > now {
                conn.writer = Some(cx.waker().clone());
                let until = conn.full_until;
                state.at(until, super::event::Event::Writable(self.id));
                return Poll::Pending;
            }
            Poll::Ready(Ok(state.written(self.id, buf)))
        })
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

impl Drop for SimStream {
    fn drop(&mut self) {
        self.world.with(|state| {
            if !state.closed {
                state.close(self.id);
            }
        });
    }
}
