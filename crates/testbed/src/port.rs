//! Free loopback ports.

use std::hash::{BuildHasher as _, RandomState};
use std::io;
use std::net::{Ipv4Addr, TcpListener, UdpSocket};
use std::ops::Range;

/// Below the ports that Linux (32768..) and macOS (49152..) give to outgoing connections. While a
/// server is dead, no client may get its port, nor connect that port to itself.
const PORTS: Range<u16> = 20_000..30_000;

const ATTEMPTS: usize = 100;

/// A TCP port of a server, also while the server is dead: nobody else is given it. A UDP socket of the same
/// number says so to all processes, and ends with this one.
#[derive(Debug)]
pub(crate) struct Reserved {
    pub(crate) port: u16,
    _socket: UdpSocket,
}

/// A loopback port without a listener, which nobody has reserved. Another process may take it before the
/// caller does, so the caller must be ready to try another one.
pub fn free() -> io::Result<u16> {
    free_of(PORTS)
}

/// As [`free`], of these ports.
pub(crate) fn free_of(ports: Range<u16>) -> io::Result<u16> {
    reserve_of(ports).map(|reserved| reserved.port)
}

/// As [`free`], until the result is dropped.
pub(crate) fn reserve() -> io::Result<Reserved> {
    reserve_of(PORTS)
}

fn reserve_of(ports: Range<u16>) -> io::Result<Reserved> {
    let mut last = None;
    for _ in 0..ATTEMPTS {
        let port = random(&ports);
        let at = (Ipv4Addr::LOCALHOST, port);
        match UdpSocket::bind(at).and_then(|socket| TcpListener::bind(at).map(|_| socket)) {
            Ok(socket) => return Ok(Reserved { port, _socket: socket }),
            Err(error) => last = Some(error),
        }
    }
    Err(last.unwrap_or_else(|| io::ErrorKind::AddrInUse.into()))
}

/// Random, so that test processes that start at the same time do not contend for the same ports.
fn random(ports: &Range<u16>) -> u16 {
    // Each `RandomState` has other keys. The modulus is far below 2^16.
    let number = RandomState::new().hash_one(0) % u64::from(ports.end - ports.start);
    ports.start + u16::try_from(number).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_is_given_a_reserved_port() {
        let reserved = reserve().unwrap();
        let only = reserved.port..reserved.port + 1;
        assert!(free_of(only.clone()).is_err(), "its server may start again");
        drop(reserved);
        assert_eq!(free_of(only.clone()).unwrap(), only.start);
    }

    #[test]
    fn ports_are_free_and_in_range() {
        for _ in 0..50 {
            let port = free().unwrap();
            assert!(PORTS.contains(&port));
            TcpListener::bind((Ipv4Addr::LOCALHOST, port)).unwrap();
        }
    }
}
