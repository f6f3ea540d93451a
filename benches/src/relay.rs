//! Relays that make servers look far away.

use std::time::Duration;

use anyhow::Result;
use quorumlock_protocol::Instant;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::mpsc;
use tokio::time::sleep;

use crate::cpu::{self, Core};
use crate::testbed::now;

/// A relay to each server that delays both directions. It loads the clients' processor, not that of
/// the servers.
pub struct Relay {
    urls: Vec<String>,
    runtime: Option<Runtime>,
}

impl Relay {
    /// Starts relays to the servers at these addresses. Bytes arrive later by `later` in each
    /// direction, and by up to a millisecond more, which is the precision of tokio's timers.
    ///
    /// # Errors
    /// If the operating system provides no thread or no port.
    pub async fn to(urls: &[String], later: Duration, pinned: bool) -> Result<Self> {
        let mut runtime = Builder::new_multi_thread();
        runtime.worker_threads(1).enable_all();
        if pinned {
            runtime.on_thread_start(|| cpu::pin(None, Core::Clients));
        }
        let mut relay = Self { urls: Vec::new(), runtime: None };
        let runtime = relay.runtime.insert(runtime.build()?);
        for url in urls {
            let server = url.trim_start_matches("redis://").to_owned();
            let listener = TcpListener::bind("127.0.0.1:0").await?.into_std()?;
            relay.urls.push(format!("redis://{}", listener.local_addr()?));
            runtime.spawn(serve(listener, server, later));
        }
        Ok(relay)
    }

    /// The URLs of the relays, in the order of the servers.
    #[must_use]
    pub fn urls(&self) -> &[String] {
        &self.urls
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

async fn serve(listener: std::net::TcpListener, server: String, later: Duration) -> Result<()> {
    let listener = TcpListener::from_std(listener)?;
    loop {
        let (client, _) = listener.accept().await?;
        let Ok(server) = TcpStream::connect(&server).await else { continue };
        client.set_nodelay(true)?;
        server.set_nodelay(true)?;
        let ((from_client, to_client), (from_server, to_server)) =
            (client.into_split(), server.into_split());
        tokio::spawn(carry(from_client, to_server, later));
        tokio::spawn(carry(from_server, to_client, later));
    }
}

/// Carries one direction of a connection until it ends.
async fn carry(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, later: Duration) {
    let (sent, mut under_way) = mpsc::unbounded_channel::<(Instant, Vec<u8>)>();
    tokio::spawn(async move {
        while let Some((due, bytes)) = under_way.recv().await {
            sleep(due.since(now())).await;
            if to.write_all(&bytes).await.is_err() {
                return;
            }
        }
    });
    let mut bytes = vec![0; 1 << 16];
    while let Ok(count @ 1..) = from.read(&mut bytes).await {
        if sent.send((now() + later, bytes[..count].to_vec())).is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn everything_arrives_and_not_before_its_time() -> Result<()> {
        let server = TcpListener::bind("127.0.0.1:0").await?;
        let later = Duration::from_millis(5);
        let url = format!("redis://{}", server.local_addr()?);
        let relay = Relay::to(&[url], later, false).await?;
        let begun = now();
        let mut client = TcpStream::connect(relay.urls()[0].trim_start_matches("redis://")).await?;
        client.write_all(b"PING").await?;
        let (mut served, _) = server.accept().await?;
        let mut heard = [0; 4];
        served.read_exact(&mut heard).await?;
        assert_eq!(&heard, b"PING");
        assert!(now().since(begun) >= later);
        served.write_all(b"PONG").await?;
        client.read_exact(&mut heard).await?;
        assert_eq!(&heard, b"PONG");
        assert!(now().since(begun) >= 2 * later);
        Ok(())
    }
}
