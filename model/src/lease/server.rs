use super::TTL;
use crate::admission::{Deed, Quarantine, counts, memory};

/// One node, as far as one name goes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Server {
    /// Who holds the key, and the tick at which it expires.
    key: Option<(u8, u8)>,
    /// The tick at which a client that watched it from the first moment on may admit it: the
    /// earliest one possible. Zero once it has passed.
    admitted_at: u8,
}

/// What a node says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Said {
    Yes,
    /// Not this client's.
    No,
    /// It did it, but its memory is not proven.
    Uncounted,
}

impl Server {
    pub(super) fn is_free(&self) -> bool {
        self.key.is_none()
    }

    pub(super) fn is_held_by(&self, client: usize) -> bool {
        self.key.is_some_and(|(holder, _)| usize::from(holder) == client)
    }

    pub(super) fn acquire(&mut self, client: usize, now: u8, quarantine: Quarantine) -> Said {
        if !self.is_free() {
            return Said::No;
        }
        self.hold(client, now, quarantine, Deed::Grant)
    }

    pub(super) fn renew(
        &mut self,
        client: usize,
        now: u8,
        quarantine: Quarantine,
        recreates: bool,
    ) -> Said {
        match self.key {
            Some(_) if self.is_held_by(client) => {
                self.hold(client, now, quarantine, Deed::Extension)
            }
            None if recreates => self.hold(client, now, quarantine, Deed::Recreation),
            _ => Said::No,
        }
    }

    /// Written even where it does not count: worse than the library, whose scripts refuse.
    fn hold(&mut self, client: usize, now: u8, quarantine: Quarantine, deed: Deed) -> Said {
        self.key = Some((client as u8, now + TTL));
        if counts(quarantine, memory(self.admitted_at > now), deed) {
            Said::Yes
        } else {
            Said::Uncounted
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
