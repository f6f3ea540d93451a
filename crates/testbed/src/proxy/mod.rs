//! Network ways to a server. Each can be cut, held, delayed, made one-way or led to another server.

mod pieces;

use std::io::{self, Write as _};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread;
use std::time::Duration;

use quorumlock_watchdog::Clock;

use self::pieces::{Pace, pieces};

/// Longer than any awaited event takes, even on a loaded machine.
const MAX_WAIT: Duration = Duration::from_secs(20);

const POLL_EVERY: Duration = Duration::from_millis(5);

/// A network way from one client to a server. It can be cut, made one-way or led to another server,
/// while other clients reach the server by their own ways.
///
/// Held bytes are delivered later, in order, even if the client has closed its connection
/// meanwhile, as on a network that recovers. After bytes of a connection were dropped in one
/// direction, all later bytes in that direction are dropped too.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    shared: Arc<Shared>,
}

/// A direction of a way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// From the client to the server.
    Requests,
    /// From the server to the client.
    Replies,
}

impl Proxy {
    /// Opens a way to `server`. Its threads end when it is dropped.
    ///
    /// # Panics
    /// If no loopback port is free.
    #[must_use]
    pub fn to(server: SocketAddr) -> Self {
        Self::delayed(server, Duration::ZERO)
    }

    /// Opens a way to a server that looks far away: each piece passes, is held or is dropped
    /// `delay` after it was sent.
    ///
    /// # Panics
    /// If no loopback port is free.
    #[must_use]
    pub fn delayed(server: SocketAddr, delay: Duration) -> Self {
        Self::open(server, Pace { delay, ..Pace::default() })
    }

    /// Opens a way by a thin line: this many bytes a second pass in each direction of a connection.
    ///
    /// # Panics
    /// If no loopback port is free.
    #[must_use]
    pub fn thin(server: SocketAddr, bytes_per_second: u32) -> Self {
        let for_each_byte = Duration::from_secs(1) / bytes_per_second;
        Self::open(server, Pace { for_each_byte, ..Pace::default() })
    }

    fn open(server: SocketAddr, pace: Pace) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let address = listener.local_addr().expect("bound");
        let state = State {
            server,
            fates: [Fate::Pass; 2],
            links: Vec::new(),
            next_id: 0,
            held: 0,
            dropped: 0,
            closed: false,
        };
        let shared = Shared { state: Mutex::new(state), changed: Condvar::new(), pace };
        let shared = Arc::new(shared);
        let accepting = shared.clone();
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                if !accepting.enter(client) {
                    break;
                }
            }
        });
        Self { address, shared }
    }

    /// The address at which it listens.
    #[must_use]
    pub fn addr(&self) -> SocketAddr {
        self.address
    }

    /// The URL for clients.
    #[must_use]
    pub fn url(&self) -> String {
        format!("redis://{}", self.address)
    }

    /// Holds both directions from now on. Connections stay open.
    pub fn cut(&self) {
        self.set([Way::Requests, Way::Replies], Fate::Hold);
    }

    /// Holds what is sent in this direction from now on.
    pub fn hold(&self, way: Way) {
        self.set([way], Fate::Hold);
    }

    /// Drops what is sent in this direction from now on.
    pub fn lose(&self, way: Way) {
        self.set([way], Fate::Drop);
    }

    /// Holds requests on the existing connections from now on. New connections work.
    pub fn hold_old_connections(&self) {
        self.change(|state| {
            state.links.iter_mut().for_each(|link| (link.old, link.frozen) = (true, true));
        });
    }

    /// Lets everything pass again. Held bytes are delivered first.
    pub fn heal(&self) {
        self.change(|state| {
            state.fates = [Fate::Pass; 2];
            for link in &mut state.links {
                link.frozen = false;
                if link.spoiled != [false; 2] {
                    link.close();
                }
            }
            (state.held, state.dropped) = (0, 0);
        });
    }

    /// Closes all connections and leads new ones to another server.
    pub fn lead_to(&self, server: SocketAddr) {
        self.change(|state| {
            state.server = server;
            state.links.drain(..).for_each(|link| link.close());
        });
    }

    /// Leads new connections to another server. The existing ones stay.
    pub fn lead_new_to(&self, server: SocketAddr) {
        self.change(|state| state.server = server);
    }

    /// Switches the server behind the open connections, as a proxy does that speaks the protocol.
    /// Requests already sent are answered by the old server; later requests go to the new one. The
    /// client does not notice.
    ///
    /// # Errors
    /// If the new server accepts no connections.
    pub fn switch_to(&self, server: SocketAddr) -> io::Result<()> {
        let mut switched = Ok(());
        self.change(|state| {
            state.server = server;
            for link in &mut state.links {
                match TcpStream::connect(server)
                    .and_then(|next| next.set_nodelay(true).map(|()| next))
                {
                    Ok(next) => link.next = Some(next),
                    Err(error) => switched = Err(error),
                }
                // The old server answers its pending requests and then closes the connection; the
                // switch happens at that moment.
                let _ = link.server.shutdown(Shutdown::Write);
            }
        });
        switched
    }

    /// Whether something has been held since the last [`heal`](Self::heal).
    #[must_use]
    pub fn holds(&self) -> bool {
        self.shared.state().held > 0
    }

    /// Waits until something has been dropped since the last [`heal`](Self::heal).
    ///
    /// # Panics
    /// If that does not happen within 20 s.
    pub async fn awaits_lost(&self) {
        self.awaits("something is lost", |state| state.dropped > 0).await;
    }

    /// Delivers what is held on old connections to the server, and ends these connections. Returns
    /// when the server has closed them, that is, after it executed all of it.
    pub async fn deliver_late(&self) {
        self.change(|state| {
            for link in state.links.iter().filter(|link| link.old) {
                // Bytes that have arrived are still read; then the stream ends.
                let _ = link.client.shutdown(Shutdown::Read);
            }
        });
        self.heal();
        let over = |state: &State| !state.links.iter().any(|link| link.old);
        self.awaits("old connections end", over).await;
    }

    async fn awaits(&self, what: &str, seen: impl Fn(&State) -> bool) {
        let clock = Clock::system();
        let since = clock.now();
        while !seen(&self.shared.state()) {
            assert!(clock.now().since(since) < MAX_WAIT, "not within {MAX_WAIT:?}: {what}");
            tokio::time::sleep(POLL_EVERY).await;
        }
    }

    fn set<const N: usize>(&self, ways: [Way; N], fate: Fate) {
        self.change(|state| ways.iter().for_each(|way| state.fates[*way as usize] = fate));
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.shared.state());
        self.shared.changed.notify_all();
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.change(|state| {
            state.closed = true;
            state.links.drain(..).for_each(|link| link.close());
        });
        // Wakes the listener thread, which then ends.
        drop(TcpStream::connect(self.address));
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Pass,
    Hold,
    Drop,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    pace: Pace,
}

#[derive(Debug)]
struct State {
    server: SocketAddr,
    /// For requests and for replies.
    fates: [Fate; 2],
    links: Vec<Link>,
    next_id: u64,
    held: usize,
    dropped: usize,
    closed: bool,
}

/// One connection, both halves.
#[derive(Debug)]
struct Link {
    id: u64,
    client: TcpStream,
    server: TcpStream,
    /// Whether it existed when [`Proxy::hold_old_connections`] was called.
    old: bool,
    frozen: bool,
    /// The new server's connection, which replaces `server` when that has answered its pending
    /// requests.
    next: Option<TcpStream>,
    /// The number of switches so far.
    switches: u64,
    /// Whether bytes in this direction were dropped: the receiver would misread what follows, so
    /// all of it is dropped too.
    spoiled: [bool; 2],
}

impl Link {
    fn close(&self) {
        // Either half may be closed already.
        let _ = self.client.shutdown(Shutdown::Both);
        let _ = self.server.shutdown(Shutdown::Both);
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nobody panics while holding it")
    }

    /// Connects a new client to the server. False once the way is closed.
    fn enter(self: &Arc<Self>, client: TcpStream) -> bool {
        let target = self.state().server;
        // The server is unreachable: the client sees a closed connection.
        let Ok(server) = TcpStream::connect(target) else { return !self.state().closed };
        let (_, _) = (client.set_nodelay(true), server.set_nodelay(true));
        let copy = |stream: &TcpStream| stream.try_clone().expect("a file descriptor");
        let mut state = self.state();
        if state.closed || state.server != target {
            return !state.closed;
        }
        let id = state.next_id;
        state.next_id += 1;
        let ends = [
            (Way::Requests, copy(&client), copy(&server)),
            (Way::Replies, copy(&server), copy(&client)),
        ];
        state.links.push(Link {
            id,
            client,
            server,
            old: false,
            frozen: false,
            next: None,
            switches: 0,
            spoiled: [false; 2],
        });
        drop(state);
        for (way, from, to) in ends {
            let shared = self.clone();
            thread::spawn(move || shared.pass(id, way, from, to));
        }
        true
    }

    fn pass(&self, id: u64, way: Way, from: TcpStream, mut to: TcpStream) {
        let mut next_piece = pieces(from, self.pace);
        let mut switches = 0;
        loop {
            // The end of the stream, an empty piece, passes, is held or is dropped like bytes.
            let piece = next_piece();
            if piece.is_empty()
                && way == Way::Replies
                && let Some(next) = self.switched(id)
            {
                next_piece = pieces(next, self.pace);
                continue;
            }
            match (self.fate(id, way), piece.is_empty()) {
                (Fate::Drop, true) => break,
                (Fate::Drop, false) => {}
                (_, true) => {
                    let _ = to.shutdown(Shutdown::Write);
                    break;
                }
                // Requests of a client that has closed its connection are still delivered.
                (_, false) => loop {
                    if way == Way::Requests {
                        self.behind(id, &mut switches, &mut to);
                    }
                    // On failure, the server may have been switched just now: try again.
                    if to.write_all(&piece).is_ok() || !self.is_switching(id, switches) {
                        break;
                    }
                },
            }
        }
        if way == Way::Replies {
            self.state().links.retain(|link| link.id != id);
        }
    }

    /// The stream of the new server, if a switch was pending when the old server closed its stream.
    fn switched(&self, id: u64) -> Option<TcpStream> {
        let mut state = self.state();
        let link = state.links.iter_mut().find(|link| link.id == id)?;
        link.server = link.next.take()?;
        link.switches += 1;
        let server = link.server.try_clone().expect("a file descriptor");
        drop(state);
        self.changed.notify_all();
        Some(server)
    }

    /// Waits for a pending switch, and sets `to` to the current server if that has changed.
    fn behind(&self, id: u64, switches: &mut u64, to: &mut TcpStream) {
        let mut state = self.state();
        loop {
            let Some(link) = state.links.iter().find(|link| link.id == id) else { return };
            if link.next.is_none() {
                if std::mem::replace(switches, link.switches) != link.switches {
                    *to = link.server.try_clone().expect("a file descriptor");
                }
                return;
            }
            state = self.changed.wait(state).expect("nobody panics while holding it");
        }
    }

    fn is_switching(&self, id: u64, switches: u64) -> bool {
        let state = self.state();
        let link = state.links.iter().find(|link| link.id == id);
        link.is_some_and(|link| link.next.is_some() || link.switches != switches)
    }

    /// What to do with a piece of this link. Waits while it is held.
    fn fate(&self, id: u64, way: Way) -> Fate {
        let mut state = self.state();
        let mut held = false;
        loop {
            let fate = state.fates[way as usize];
            // A link that is no longer listed was closed on purpose.
            let Some(link) = state.links.iter_mut().find(|link| link.id == id) else {
                return Fate::Drop;
            };
            let spoiled = &mut link.spoiled[way as usize];
            if *spoiled || fate == Fate::Drop {
                *spoiled = true;
                state.dropped += 1;
                return Fate::Drop;
            }
            if fate == Fate::Pass && !(link.frozen && way == Way::Requests) {
                return Fate::Pass;
            }
            if !std::mem::replace(&mut held, true) {
                state.held += 1;
            }
            state = self.changed.wait(state).expect("nobody panics while holding it");
        }
    }
}

#[cfg(test)]
mod tests;
