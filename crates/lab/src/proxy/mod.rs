//! Ways to a server that can be cut, held, made one-way or led elsewhere, each for itself.

use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread;
use std::time::Duration;

use quorumlock_core::Clock;

/// Longer than anything takes that works at all, even on a loaded machine.
const PATIENCE: Duration = Duration::from_secs(20);

const LOOK_EVERY: Duration = Duration::from_millis(5);

/// A way to a server, for one client: it can be cut, made one-way or led elsewhere, while others
/// reach the server by ways of their own.
///
/// What is held is delivered later, in order, even if the client has gone away meanwhile: so does
/// a network that comes back. A connection on which something was dropped is of no use any more.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    shared: Arc<Shared>,
}

/// One direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// From the client to the server.
    Requests,
    /// From the server to the client.
    Replies,
}

impl Proxy {
    /// A way to `server`. Its threads end with it.
    ///
    /// # Panics
    /// If the system has no port left.
    #[must_use]
    pub fn to(server: SocketAddr) -> Self {
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
        let shared = Arc::new(Shared { state: Mutex::new(state), changed: Condvar::new() });
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

    /// Where it listens.
    #[must_use]
    pub fn addr(&self) -> SocketAddr {
        self.address
    }

    /// Its URL for clients.
    #[must_use]
    pub fn url(&self) -> String {
        format!("redis://{}", self.address)
    }

    /// Nothing passes any more, either way; connections stay open, and what is sent is held.
    pub fn cut(&self) {
        self.set([Way::Requests, Way::Replies], Fate::Hold);
    }

    /// What is sent this way is held from now on.
    pub fn hold(&self, way: Way) {
        self.set([way], Fate::Hold);
    }

    /// What is sent this way is lost from now on.
    pub fn lose(&self, way: Way) {
        self.set([way], Fate::Drop);
    }

    /// What is sent on the connections that there are is held from now on; new ones work.
    pub fn hold_old_connections(&self) {
        self.change(|state| {
            state.links.iter_mut().for_each(|link| (link.old, link.frozen) = (true, true));
        });
    }

    /// All passes again; what was held comes first.
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

    /// Switches what stands behind the open connections, as a proxy does that speaks the protocol.
    /// What was asked is still answered by the server that was there; what is asked from now on goes
    /// to the other, and the client sees nothing of it.
    ///
    /// # Errors
    /// If the other server takes no connections.
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
                // It answers what it was asked, then it ends the connection, and that is the moment.
                let _ = link.server.shutdown(Shutdown::Write);
            }
        });
        switched
    }

    /// Whether something is being held, or was since the last healing.
    #[must_use]
    pub fn holds(&self) -> bool {
        self.shared.state().held > 0
    }

    /// Something is being held since the last healing.
    ///
    /// # Panics
    /// If that does not come; so with the others that wait.
    pub async fn awaits_held(&self) {
        self.awaits("something is held", |state| state.held > 0).await;
    }

    /// Something was lost since the last healing.
    pub async fn awaits_lost(&self) {
        self.awaits("something is lost", |state| state.dropped > 0).await;
    }

    /// What was held on old connections reaches the server, and these connections end. Returns
    /// when the server has carried out all of it.
    pub async fn deliver_late(&self) {
        self.change(|state| {
            for link in state.links.iter().filter(|link| link.old) {
                // What has arrived is still read, and then comes the end.
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
            assert!(clock.now().since(since) < PATIENCE, "not within {PATIENCE:?}: {what}");
            tokio::time::sleep(LOOK_EVERY).await;
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
        // Wakes the listener, which sees that it is over.
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
}

#[derive(Debug)]
struct State {
    server: SocketAddr,
    /// Of requests and of replies.
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
    /// Was there when [`Proxy::hold_old_connections`] was called.
    old: bool,
    frozen: bool,
    /// What is to stand behind it as soon as the server has answered what it was asked.
    next: Option<TcpStream>,
    /// How often that has been another one.
    switches: u64,
    /// Something was dropped that way: what follows would be taken for something else.
    spoiled: [bool; 2],
}

impl Link {
    fn close(&self) {
        // Either may be closed already.
        let _ = self.client.shutdown(Shutdown::Both);
        let _ = self.server.shutdown(Shutdown::Both);
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nobody panics while holding it")
    }

    /// Links a new client to the server; false once the way is closed.
    fn enter(self: &Arc<Self>, client: TcpStream) -> bool {
        let target = self.state().server;
        // Nobody there: the client sees a closed connection.
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

    fn pass(&self, id: u64, way: Way, mut from: TcpStream, mut to: TcpStream) {
        let mut buffer = [0; 4096];
        let mut switches = 0;
        loop {
            // The end passes, is held and is dropped like everything else.
            let count = from.read(&mut buffer).unwrap_or(0);
            if count == 0
                && way == Way::Replies
                && let Some(next) = self.switched(id)
            {
                from = next;
                continue;
            }
            match (self.fate(id, way), count) {
                (Fate::Drop, 0) => break,
                (Fate::Drop, _) => {}
                (_, 0) => {
                    let _ = to.shutdown(Shutdown::Write);
                    break;
                }
                // A client that has gone away takes none of its requests back.
                (_, count) => loop {
                    if way == Way::Requests {
                        self.behind(id, &mut switches, &mut to);
                    }
                    // It may have been switched just now.
                    if to.write_all(&buffer[..count]).is_ok() || !self.is_switching(id, switches) {
                        break;
                    }
                },
            }
        }
        if way == Way::Replies {
            self.state().links.retain(|link| link.id != id);
        }
    }

    /// The server that is behind this link from now on, where the one before it has ended.
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

    /// Where requests go, once a switch that is under way is over.
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

    /// What becomes of a piece of this link, once that is known.
    fn fate(&self, id: u64, way: Way) -> Fate {
        let mut state = self.state();
        let mut held = false;
        loop {
            let fate = state.fates[way as usize];
            // A link that is gone was closed on purpose.
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
