use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

/// A proxy to a server that can stop passing data while others still reach the server directly.
#[derive(Debug)]
pub(crate) struct Proxy {
    address: SocketAddr,
    server: SocketAddr,
    silent: Arc<AtomicBool>,
}

impl Proxy {
    /// Starts the proxy. Its threads end with the test process.
    pub(crate) fn to(server: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let silent = Arc::new(AtomicBool::new(false));
        let proxy = Self { address, server, silent: silent.clone() };
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let Ok(server) = TcpStream::connect(server) else { continue };
                let ways = [(&client, &server), (&server, &client)];
                for (from, to) in ways.map(|(a, b)| (a.try_clone(), b.try_clone())) {
                    let silent = silent.clone();
                    thread::spawn(move || pass(from.unwrap(), to.unwrap(), &silent));
                }
            }
        });
        proxy
    }

    /// With the server's label, so that a quorum knows the server again.
    pub(crate) fn url(&self) -> String {
        format!("redis://{}?label={}/0", self.address, self.server)
    }

    /// Passes nothing from now on, in either direction; connections stay open.
    pub(crate) fn fall_silent(&self) {
        self.silent.store(true, Ordering::SeqCst);
    }
}

fn pass(mut from: TcpStream, mut to: TcpStream, silent: &AtomicBool) {
    let mut buffer = [0; 4096];
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        if silent.load(Ordering::SeqCst) {
            continue;
        }
        if to.write_all(&buffer[..count]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(std::net::Shutdown::Both);
}
