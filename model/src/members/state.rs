use quorumlock_protocol::admission::members::{self, MemberList};

use super::scenario::Scenario;

/// The number of clients. Each makes one acquisition.
pub(super) const CLIENTS: usize = 2;

/// Votes of clients: bit `c * N + n` is that of node `n` for client `c`.
pub(super) type Votes = u16;

/// The state of all nodes, clients and the operator.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State<const N: usize> {
    pub(super) nodes: [Server; N],
    pub(super) clients: [Client; CLIENTS],
    pub(super) operator: Operator,
    pub(super) restarts: u8,
    pub(super) clones: u8,
    /// A decision to admit a node that is not carried out yet.
    pub(super) late: Option<Late>,
}

/// A decision to admit a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Late {
    pub(super) node: u8,
    /// Whether the note is still the same.
    pub(super) same: bool,
    pub(super) record: Record,
}

/// One server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Server {
    pub(super) record: Option<Record>,
    pub(super) note: Option<Note>,
    /// The note in a save from before the server was admitted.
    pub(super) saved: Option<Note>,
    /// The client that holds the lock here.
    pub(super) key: Option<u8>,
}

/// The record of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Record {
    pub(super) terms: Terms,
    pub(super) written: Written,
}

/// Where a record or a note comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Written {
    /// The node, and the list by which its label is chosen.
    pub(super) node: u8,
    pub(super) list: u8,
    /// Whether it is of the server's present run.
    pub(super) present: bool,
}

/// The note on a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Note {
    pub(super) list: u8,
    pub(super) written: Written,
    /// The votes that were alive when it was written, and still are. None of them outlives the time
    /// that makes the note mature, and none that is given later has to end before it is.
    pub(super) after: Votes,
}

/// The library's `Terms`, with lists by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Terms {
    pub(super) phase: u8,
    pub(super) list: u8,
    pub(super) next: Option<u8>,
}

/// One acquisition, and its lease.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Client {
    pub(super) list: Option<u8>,
    /// The nodes whose votes it has.
    pub(super) votes: u8,
}

/// The operator's command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Operator {
    /// The newest terms that it writes.
    pub(super) current: Terms,
    /// Where on its path it is.
    pub(super) at: u8,
    /// How many times it went back.
    pub(super) backs: u8,
    /// The votes that were alive when all that must had confirmed, and still are.
    pub(super) confirmed: Option<Votes>,
}

impl Server {
    /// Writes the record of a node that had none.
    pub(super) fn admit(&mut self, record: Record) {
        (self.record, self.note) = (Some(record), None);
    }
}

impl Written {
    /// By a client of the list, on the node.
    pub(super) fn on(node: usize, list: u8) -> Self {
        Self { node: node as u8, list, present: true }
    }
}

impl Terms {
    /// The library's form.
    pub(super) fn wide<const N: usize>(self, scenario: &Scenario<N>) -> members::Terms {
        members::Terms {
            phase: self.phase.into(),
            list: scenario.list(self.list).clone(),
            next: self.next.map(|next| scenario.list(next).clone()),
        }
    }

    /// Of the library's form.
    pub(super) fn of<const N: usize>(terms: &members::Terms, scenario: &Scenario<N>) -> Self {
        let number = |list: &MemberList| scenario.number(list);
        Self {
            phase: terms.phase as u8,
            list: number(&terms.list),
            next: terms.next.as_ref().map(number),
        }
    }
}

impl<const N: usize> State<N> {
    /// The cluster of the first list.
    pub(super) fn begin(scenario: &Scenario<N>) -> Self {
        let first = scenario.path[0];
        let terms = Terms { phase: 1, list: first, next: None };
        let server = |node| Server {
            record: scenario
                .label(first, node)
                .map(|_| Record { terms, written: Written::on(node, first) }),
            ..Server::default()
        };
        Self {
            nodes: std::array::from_fn(server),
            clients: Default::default(),
            operator: Operator { current: terms, at: 0, backs: 0, confirmed: None },
            restarts: 0,
            clones: 0,
            late: None,
        }
    }

    /// The votes that are alive.
    pub(super) fn alive(&self) -> Votes {
        let votes = |c: usize| Votes::from(self.clients[c].votes) << (c * N);
        (0..CLIENTS).map(votes).fold(0, |all, some| all | some)
    }

    /// Whether a client has a majority of its list.
    pub(super) fn holds(&self, c: usize, scenario: &Scenario<N>) -> bool {
        let client = &self.clients[c];
        let quorum = client.list.map(|list| scenario.list(list).quorum());
        quorum.is_some_and(|quorum| client.votes.count_ones() as usize >= quorum)
    }

    /// A node votes for a client, for the first time or again.
    pub(super) fn vote(&mut self, c: usize, n: usize) {
        self.nodes[n].key = Some(c as u8);
        self.forget(c, n);
        self.clients[c].votes |= 1 << n;
    }

    /// A vote ends, on the node and for the client.
    pub(super) fn lapse(&mut self, c: usize, n: usize) {
        self.forget(c, n);
        self.clients[c].votes &= !(1 << n);
        if self.nodes[n].key == Some(c as u8) {
            self.nodes[n].key = None;
        }
    }

    /// The node has another note, or none.
    pub(super) fn spoil(&mut self, n: usize) {
        if let Some(late) = &mut self.late {
            late.same &= usize::from(late.node) != n;
        }
    }

    /// Nobody waits for this vote any more.
    fn forget(&mut self, c: usize, n: usize) {
        let other = !(1 << (c * N + n));
        self.nodes.iter_mut().flat_map(|node| &mut node.note).for_each(|note| note.after &= other);
        if let Some(confirmed) = &mut self.operator.confirmed {
            *confirmed &= other;
        }
    }
}

// The number of clients is part of the width of `Votes`.
const _: () = assert!(CLIENTS * 8 <= 16);
