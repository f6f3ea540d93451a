//! How the runner acts on servers and on ways.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use quorumlock_testbed::proxy::{Proxy, Way};
use quorumlock_testbed::servers::{Server, Servers, Shift, ask};

use super::TrialError;
use crate::scenario::WayState;
use crate::timestamp;

/// Sets the state of a way.
pub(super) async fn set(way: &Proxy, state: WayState) {
    match state {
        WayState::Open => way.heal(),
        WayState::Cut => way.cut(),
        WayState::HoldRequests => way.hold(Way::Requests),
        WayState::HoldReplies => way.hold(Way::Replies),
        WayState::LoseRequests => way.lose(Way::Requests),
        WayState::LoseReplies => way.lose(Way::Replies),
        WayState::HoldOld => way.hold_old_connections(),
        WayState::DeliverOld => way.deliver_late().await,
    }
}

/// A wall clock that stands still from now on.
pub(super) fn frozen() -> Shift {
    Shift::Frozen(timestamp::wall_ns() / 1_000_000_000)
}

/// The address of a server without TLS.
pub(super) fn address_of(server: &Server) -> io::Result<SocketAddr> {
    let foreign = || io::Error::other("servers given by URL cannot be struck by faults");
    let given = || server.url().strip_prefix("redis://")?.parse().ok();
    server.addr().or_else(given).ok_or_else(foreign)
}

/// Sends a command to a server.
pub(super) async fn send(address: SocketAddr, words: &[&str]) -> io::Result<String> {
    let words = words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    tokio::task::spawn_blocking(move || ask(address, &words)).await.map_err(io::Error::other)?
}

/// Runs a blocking function on a thread for blocking work.
pub(super) async fn blocking<T: Send + 'static>(
    act: impl FnOnce() -> Result<T, TrialError> + Send + 'static,
) -> Result<T, TrialError> {
    tokio::task::spawn_blocking(act).await.map_err(io::Error::other)?
}

/// Runs a blocking function on a server.
pub(super) async fn with_server(
    servers: &Arc<Servers>,
    node: usize,
    act: impl FnOnce(&Server) -> Result<(), TrialError> + Send + 'static,
) -> Result<(), TrialError> {
    let servers = Arc::clone(servers);
    blocking(move || act(&servers[node])).await
}
