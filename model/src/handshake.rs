//! The scripts of an incarnation and the servers that get them (PROTOCOL.md ADM6).
//!
//! A client reads the record of a server, and then loads the scripts of the incarnation that it read.
//! A server and its replica share one address; a proxy leads each connection to either of them, at
//! any moment. The replica is promoted, and clients admit either server again. The question: does a
//! vote ever count that a server gives by a memory that is not proven?

use stateright::{Model, Property};

use crate::search::Once;

/// How the scripts are loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// As the library: in one step, a server that takes writes revokes the incarnation of another
    /// run and loads the scripts.
    Library,
    /// As the library where a server refuses the transaction: any server loads the scripts, nothing is
    /// revoked, and each vote compares the run in the record with its own.
    RunInVote,
    /// Planted: nothing is revoked.
    Unrevoked,
    /// Planted: the incarnation of another run is revoked in the step before, which reads the
    /// record.
    RevokedBefore,
    /// Planted: a replica loads the scripts, too.
    LoadedOnReplica,
}

/// The model that is searched.
#[derive(Debug)]
pub struct HandshakeModel {
    rule: Rule,
    /// Each server may become a replica of the other one, any time.
    exchange: bool,
    once: Once,
}

/// Two servers and the connections of two clients.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    servers: [Server; 2],
    connections: [Connection; 2],
    /// The number of runs and incarnations so far.
    runs: u8,
    stamps: u8,
    /// A vote counted.
    voted: bool,
    /// A vote counted that was given by a memory that is not proven.
    unproven_voted: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Server {
    run: u8,
    replica: bool,
    /// The run and the incarnation in its record; 0: revoked.
    record: (u8, u8),
    /// The incarnations whose scripts it has, as bits.
    scripts: u8,
    /// Its memory has every lease that it granted.
    proven: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Connection {
    /// The server to which the proxy leads it.
    server: usize,
    stage: Stage,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Stage {
    New,
    /// The client has read this incarnation.
    Read(u8),
    /// The scripts of this incarnation are loaded.
    Loaded(u8),
}

/// One step of the world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// The proxy leads the client's connection to the other server.
    Switch(usize),
    /// The server, a replica, becomes a master: its replication id is new.
    Promote(usize),
    /// The server becomes a replica of the other one, and keeps its scripts.
    Follow(usize),
    /// The server is admitted again, a longest lease later.
    Admit(usize),
    /// The client reads the record.
    Read(usize),
    /// The client loads its scripts.
    Load(usize),
    /// The client asks for a vote.
    Vote(usize),
}

const RUNS: u8 = 4;
const STAMPS: u8 = 3;

impl HandshakeModel {
    /// A model with this rule, where the second server stays what it is once it was promoted.
    pub fn new(rule: Rule) -> Self {
        Self { rule, exchange: false, once: Once::default() }
    }

    /// Each server may become a replica of the other one, any time.
    #[must_use]
    pub fn exchange(self) -> Self {
        Self { exchange: true, ..self }
    }

    fn read(&self, state: &mut State, client: usize) {
        let (server, stage) = state.connection(client);
        if self.rule == Rule::RevokedBefore {
            server.revoke();
        }
        *stage = match server.is_admitted() {
            true => Stage::Read(server.record.1),
            false => Stage::New,
        };
    }

    fn load(&self, state: &mut State, client: usize) -> Option<()> {
        let (server, stage) = state.connection(client);
        let Stage::Read(stamp) = *stage else { return None };
        if server.replica && self.rule == Rule::Library {
            *stage = Stage::New;
            return Some(());
        }
        if matches!(self.rule, Rule::Library | Rule::LoadedOnReplica) {
            server.revoke();
        }
        server.scripts |= 1 << stamp;
        *stage = Stage::Loaded(stamp);
        Some(())
    }
}

impl Server {
    fn revoke(&mut self) {
        if !self.replica && self.record.0 != self.run {
            self.record.1 = 0;
        }
    }

    fn is_admitted(&self) -> bool {
        !self.replica && self.record.0 == self.run && self.record.1 != 0
    }
}

impl State {
    /// The server to which the client's connection leads, and how far the client is.
    fn connection(&mut self, client: usize) -> (&mut Server, &mut Stage) {
        let Connection { server, stage } = &mut self.connections[client];
        (&mut self.servers[*server], stage)
    }

    fn vote(&mut self, rule: Rule, client: usize) -> Option<()> {
        let (server, stage) = self.connection(client);
        let Stage::Loaded(stamp) = *stage else { return None };
        let loaded = server.scripts & 1 << stamp != 0;
        let runs_on = rule != Rule::RunInVote || server.record.0 == server.run;
        if !server.replica && loaded && server.record.1 == stamp && runs_on {
            let proven = server.proven;
            self.voted = true;
            self.unproven_voted |= !proven;
        } else {
            *stage = Stage::New;
        }
        Some(())
    }

    /// A replica has the record of its master.
    fn replicate(&mut self) {
        let [a, b] = &mut self.servers;
        match (a.replica, b.replica) {
            (false, true) => b.record = a.record,
            (true, false) => a.record = b.record,
            _ => {}
        }
    }
}

impl Model for HandshakeModel {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let master = Server { run: 1, replica: false, record: (1, 1), scripts: 0, proven: true };
        let replica = Server { run: 2, replica: true, proven: false, ..master };
        let connection = Connection { server: 0, stage: Stage::New };
        vec![State {
            servers: [master, replica],
            connections: [connection; 2],
            runs: 2,
            stamps: 1,
            voted: false,
            unproven_voted: false,
        }]
    }

    fn actions(&self, _: &State, actions: &mut Vec<Action>) {
        use Action::{Admit, Follow, Load, Promote, Read, Switch, Vote};
        for i in 0..2 {
            actions.extend([Switch(i), Promote(i), Admit(i), Read(i), Load(i), Vote(i)]);
            actions.extend(self.exchange.then_some(Follow(i)));
        }
    }

    fn next_state(&self, state: &State, action: Action) -> Option<State> {
        let mut next = state.clone();
        match action {
            Action::Switch(client) => next.connections[client].server ^= 1,
            Action::Promote(server) if state.servers[server].replica && state.runs < RUNS => {
                next.runs += 1;
                next.servers[server].run = next.runs;
                next.servers[server].replica = false;
            }
            Action::Follow(server) if !state.servers.iter().any(|server| server.replica) => {
                next.servers[server].replica = true;
                next.servers[server].proven = false;
            }
            Action::Admit(server) => {
                let server = &mut next.servers[server];
                if server.replica || server.is_admitted() || state.stamps == STAMPS {
                    return None;
                }
                next.stamps += 1;
                server.record = (server.run, next.stamps);
                server.proven = true;
            }
            Action::Read(client) => self.read(&mut next, client),
            Action::Load(client) => self.load(&mut next, client)?,
            Action::Vote(client) => next.vote(self.rule, client)?,
            Action::Promote(_) | Action::Follow(_) => return None,
        }
        next.replicate();
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("only a proven memory votes", |model: &Self, state: &State| {
                !model.once.first(0, state.unproven_voted)
            }),
            Property::sometimes("the second server votes", |model: &Self, state: &State| {
                let [_, second] = &state.servers;
                model.once.first(1, state.voted && second.scripts & 1 << second.record.1 != 0)
            }),
        ]
    }
}
