use super::model::TTL;
use crate::admission::{Deed, Quarantine, counts, memory};

/// The state of one node for one name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Server {
    /// The client that holds the key, and the tick at which the key expires.
    key: Option<(u8, u8)>,
    /// The earliest tick at which the node can be admitted again: a client that has watched it
    /// since the crash may admit it then. Zero once that tick has passed.
    admitted_at: u8,
}

/// The answer of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Reply {
    Yes,
    /// The key is not this client's.
    No,
    /// The node carried out the request, but its yes does not count in its quarantine.
    Uncounted,
}

impl Server {
    pub(super) fn is_free(&self) -> bool {
        self.key.is_none()
    }

    pub(super) fn is_held_by(&self, client: usize) -> bool {
        self.key.is_some_and(|(holder, _)| usize::from(holder) == client)
    }

    pub(super) fn acquire(&mut self, client: usize, now: u8, quarantine: Quarantine) -> Reply {
        if !self.is_free() {
            return Reply::No;
        }
        self.hold(client, now, quarantine, Deed::Grant)
    }

    pub(super) fn renew(
        &mut self,
        client: usize,
        now: u8,
        quarantine: Quarantine,
        recreates: bool,
    ) -> Reply {
        match self.key {
            Some(_) if self.is_held_by(client) => {
                self.hold(client, now, quarantine, Deed::Extension)
            }
            None if recreates => self.hold(client, now, quarantine, Deed::Regrant),
            _ => Reply::No,
        }
    }

    /// Writes the key even where the yes does not count. The library's scripts refuse instead, so
    /// the model is more permissive here.
    fn hold(&mut self, client: usize, now: u8, quarantine: Quarantine, deed: Deed) -> Reply {
        self.key = Some((client as u8, now + TTL));
        if counts(quarantine, memory(self.admitted_at > now), deed) {
            Reply::Yes
        } else {
            Reply::Uncounted
        }
    }

    pub(super) fn free(&mut self, client: usize) {
        if self.is_held_by(client) {
            self.key = None;
        }
    }

    pub(super) fn crash(&mut self, now: u8, quarantine: Quarantine) {
        let admitted_at = if quarantine == Quarantine::None { 0 } else { now + TTL };
        *self = Self { key: None, admitted_at };
    }

    pub(super) fn pass(&mut self, now: u8) {
        self.key = self.key.filter(|(_, ends)| *ends > now);
        if self.admitted_at <= now {
            self.admitted_at = 0;
        }
    }
}
