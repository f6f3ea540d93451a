use std::net::{Ipv4Addr, SocketAddr};

use tokio::net::TcpSocket;

/// An address of this machine that refuses connections: the port is bound but not listening, so
/// that no server of another test can listen there.
#[derive(Debug)]
pub struct DeadNode {
    socket: TcpSocket,
}

impl DeadNode {
    /// Binds a free port.
    ///
    /// # Panics
    /// If the system has no port left.
    #[must_use]
    pub fn new() -> Self {
        let socket = TcpSocket::new_v4().expect("a socket");
        socket.bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).expect("a free port");
        Self { socket }
    }

    /// The URL of the address.
    ///
    /// # Panics
    /// Never: the port is bound.
    #[must_use]
    pub fn url(&self) -> String {
        format!("redis://{}", self.socket.local_addr().expect("bound"))
    }
}

impl Default for DeadNode {
    fn default() -> Self {
        Self::new()
    }
}
