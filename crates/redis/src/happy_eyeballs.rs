//! The addresses of one name, tried side by side as RFC 8305 says: a silent one delays the others by
//! the pause between two attempts, and no more.

use std::collections::BTreeMap;
use std::future::pending;
use std::io;
use std::net::SocketAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use tokio::net::TcpStream;

/// How the names with several addresses were last reached. It has an entry for each such name.
#[derive(Debug, Default)]
pub(super) struct AddressMemory(Mutex<BTreeMap<String, Last>>);

/// The address that a name was last reached at.
#[derive(Clone, Copy, Debug)]
struct Last {
    address: SocketAddr,
    /// Whether more than a connection came of it, as far as we know.
    answered: bool,
}

impl AddressMemory {
    /// The addresses of a name, in the order in which to try them.
    pub(super) fn in_order(&self, name: &str, resolved: Vec<SocketAddr>) -> Vec<SocketAddr> {
        in_order(resolved, self.names().get(name).copied())
    }

    /// One of several addresses of the name accepted a connection.
    pub(super) fn connected(&self, name: &str, address: SocketAddr) {
        self.names().insert(name.to_owned(), Last { address, answered: true });
    }

    /// The address that was connected last did not answer.
    pub(super) fn unanswered(&self, name: &str) {
        if let Some(last) = self.names().get_mut(name) {
            last.answered = false;
        }
    }

    fn names(&self) -> MutexGuard<'_, BTreeMap<String, Last>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The order in which to try addresses: the one that answered last, then those of both families in
/// turn, in the order of the system. If the last one was connected and did not answer, it comes last.
fn in_order(resolved: Vec<SocketAddr>, last: Option<Last>) -> Vec<SocketAddr> {
    let of_first = |address: &SocketAddr| address.is_ipv6() == resolved[0].is_ipv6();
    let (first, other): (Vec<_>, Vec<_>) = resolved.iter().copied().partition(of_first);
    let mut addresses = Vec::with_capacity(resolved.len());
    for i in 0..first.len().max(other.len()) {
        addresses.extend(first.get(i));
        addresses.extend(other.get(i));
    }
    let at = last.and_then(|last| addresses.iter().position(|each| *each == last.address));
    match (at, last.is_some_and(|last| last.answered)) {
        (Some(at), true) => addresses[..=at].rotate_right(1),
        (Some(at), false) => addresses.rotate_left(at + 1),
        (None, _) => {}
    }
    addresses
}

/// The pause between two attempts: short enough for each address to have its share of the timeout.
pub(super) fn pause(addresses: usize, timeout: Duration) -> Duration {
    const RECOMMENDED: Duration = Duration::from_millis(250);

    let share = timeout / (u32::try_from(addresses).unwrap_or(u32::MAX).saturating_add(1));
    RECOMMENDED.min(share)
}

/// Connects to the first of the addresses that accepts. Each has `pause` before the next one is tried
/// beside it.
pub(super) async fn connect(addresses: &[SocketAddr], pause: Duration) -> io::Result<TcpStream> {
    let (mut untried, mut attempts) = (addresses.iter(), FuturesUnordered::new());
    let mut refused = io::Error::other("the name has no address");
    loop {
        match untried.next() {
            Some(address) => attempts.push(TcpStream::connect(*address)),
            None if attempts.is_empty() => return Err(refused),
            None => {}
        }
        let next_attempt = async {
            match untried.len() {
                0 => pending().await,
                _ => tokio::time::sleep(pause).await,
            }
        };
        // An attempt that fails makes room for the next one at once.
        tokio::select! {
            biased;
            ended = attempts.next() => match ended {
                Some(Ok(stream)) => return Ok(stream),
                Some(Err(e)) => refused = e,
                None => {}
            },
            () = next_attempt => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use tokio::net::TcpListener;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn addresses(texts: &[&str]) -> Vec<SocketAddr> {
        texts.iter().map(|text| text.parse().expect("an address")).collect()
    }

    #[test]
    fn families_take_turns_and_the_system_says_which_begins() {
        let resolved = addresses(&["[::1]:1", "[::2]:1", "[::3]:1", "1.0.0.1:1"]);
        let turns = addresses(&["[::1]:1", "1.0.0.1:1", "[::2]:1", "[::3]:1"]);
        assert_eq!(in_order(resolved, None), turns);
        let resolved = addresses(&["1.0.0.1:1", "1.0.0.2:1", "[::1]:1"]);
        let turns = addresses(&["1.0.0.1:1", "[::1]:1", "1.0.0.2:1"]);
        assert_eq!(in_order(resolved, None), turns);
    }

    #[test]
    fn the_address_that_answered_is_tried_first_and_one_that_did_not_last() {
        let resolved = addresses(&["1.0.0.1:1", "1.0.0.2:1", "1.0.0.3:1"]);
        let [a, b, c] = resolved[..] else { panic!("three") };
        let after =
            |address, answered| in_order(resolved.clone(), Some(Last { address, answered }));
        assert_eq!(after(c, true), [c, a, b]);
        assert_eq!(after(a, false), [b, c, a]);
        // So that each one has its turn while none answers.
        assert_eq!(after(b, false), [c, a, b]);
        let elsewhere = "1.0.0.4:1".parse().expect("an address");
        assert_eq!(after(elsewhere, true), [a, b, c]);
        let none = in_order(Vec::new(), None);
        assert!(none.is_empty(), "{none:?}");
    }

    #[test]
    fn each_address_has_a_share_of_a_short_timeout() {
        assert_eq!(pause(2, SECOND), Duration::from_millis(250));
        assert_eq!(pause(9, SECOND), Duration::from_millis(100));
        assert_eq!(pause(2, SECOND / 10), SECOND / 30);
    }

    /// An address that accepts no connection and refuses none, as long as the result lives: the queue
    /// of its listener is full.
    #[cfg(target_os = "linux")]
    async fn silent() -> (SocketAddr, impl Sized) {
        let socket = tokio::net::TcpSocket::new_v4().expect("a socket");
        socket.bind((Ipv4Addr::LOCALHOST, 0).into()).expect("a free port");
        let listener = socket.listen(0).expect("a listener");
        let address = listener.local_addr().expect("bound");
        let mut queued = Vec::new();
        while let Ok(stream) = tokio::time::timeout(SECOND / 4, TcpStream::connect(address)).await {
            queued.push(stream.expect("room in the queue"));
        }
        (address, (listener, queued))
    }

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn a_silent_address_does_not_keep_the_next_one_from_being_tried() {
        let (silent, _queue) = silent().await;
        let live = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a free port");
        let live = live.local_addr().expect("bound");
        let pause = pause(2, SECOND);
        let stream = tokio::time::timeout(20 * SECOND, connect(&[silent, live], pause)).await;
        let stream = stream.expect("connected by then").expect("connected");
        assert_eq!(stream.peer_addr().expect("connected"), live);
    }

    #[tokio::test]
    async fn an_address_that_refuses_makes_room_at_once_and_the_last_refusal_is_told() {
        let gone = {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a free port");
            listener.local_addr().expect("bound")
        };
        let live = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a free port");
        let addresses = [gone, gone, live.local_addr().expect("bound")];
        let hour = 3_600 * SECOND;
        let stream = tokio::time::timeout(20 * SECOND, connect(&addresses, hour)).await;
        stream.expect("at once").expect("connected");
        let refused = connect(&[gone, gone], hour).await.expect_err("nobody is there");
        assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
    }
}
