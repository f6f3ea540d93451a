//! What is queued on a connection: as bytes, once it is up, and as requests.

use std::collections::VecDeque;

use super::greet::Greeted;
use super::pending::Pending;
use super::plain::Plain;
use super::request::{Dialect, Request};

#[derive(Debug, Default)]
pub(super) struct Outbox {
    bytes: Vec<u8>,
    queued: VecDeque<Pending>,
    /// So many acquisitions share the transaction at the end of `bytes`, which no EXEC has ended yet.
    sharing: usize,
}

impl Outbox {
    /// How many requests are queued.
    pub(super) fn len(&self) -> usize {
        self.queued.len()
    }

    /// Whether there is something to be sent.
    pub(super) fn has_bytes(&self) -> bool {
        !self.bytes.is_empty()
    }

    /// Queues a request until the connection is up.
    pub(super) fn keep(&mut self, pending: Pending) {
        self.queued.push_back(pending);
    }

    /// Queues what was not written at all before what was asked later, until the connection is up.
    pub(super) fn put_back(&mut self, mut unwritten: VecDeque<Pending>) {
        unwritten.append(&mut self.queued);
        self.queued = unwritten;
    }

    /// Queues a request to a server that is connected.
    pub(super) fn push(&mut self, dialect: &Dialect, to: &Greeted, mut pending: Pending) {
        if let Some(plain) = Plain::of(&pending.request, dialect, &to.scripts) {
            if plain.is_bare() {
                self.end_transaction();
                let begins = self.bytes.len();
                plain.take(dialect, &mut self.bytes);
                pending.expect(1);
                pending.span = (begins, self.bytes.len());
                self.queued.push_back(pending);
                return;
            }
            let (mut replies, begins) = (0, self.bytes.len());
            if self.sharing == 0 {
                replies += plain.begin(&mut self.bytes);
            }
            replies += plain.join(dialect, &mut self.bytes);
            pending.expect(replies);
            pending.span = (begins, self.bytes.len());
            self.queued.push_back(pending);
            self.sharing += 1;
            if self.sharing == MOST_SHARING {
                self.end_transaction();
            }
            return;
        }
        self.end_transaction();
        if dialect.encode_ahead(&pending.request, &mut self.bytes) {
            self.queued.push_back(Pending::new(Request::Aside, pending.asked));
        }
        let begins = self.bytes.len();
        let how = (pending.again, pending.as_text);
        let replies = dialect.encode(&pending.request, how, to, &mut self.bytes);
        pending.expect(replies);
        pending.span = (begins, self.bytes.len());
        self.queued.push_back(pending);
    }

    /// Queues a command whose reply interests nobody.
    pub(super) fn push_aside(&mut self, command: &redis::Cmd, pending: &Pending) {
        self.end_transaction();
        self.bytes.extend_from_slice(&command.get_packed_command());
        self.queued.push_back(Pending::new(Request::Aside, pending.asked));
    }

    /// Moves all of it to what is sent: `bytes` is empty.
    pub(super) fn move_to(&mut self, bytes: &mut Vec<u8>, sent: &mut VecDeque<Pending>) {
        self.end_transaction();
        std::mem::swap(bytes, &mut self.bytes);
        sent.append(&mut self.queued);
    }

    /// Takes the requests out. Their bytes were for a connection that is gone.
    pub(super) fn take(&mut self) -> VecDeque<Pending> {
        self.bytes.clear();
        self.sharing = 0;
        std::mem::take(&mut self.queued)
    }

    /// Keeps so many bytes of room for each of both, at most.
    pub(super) fn shrink_to(&mut self, room: usize) {
        self.bytes.shrink_to(room);
        self.queued.shrink_to(room / size_of::<Pending>());
    }

    /// Nothing but acquisitions is put into a transaction: whatever aborts it must not keep a release away.
    fn end_transaction(&mut self) {
        if std::mem::take(&mut self.sharing) > 0
            && let Some(last) = self.queued.back_mut()
        {
            Plain::end(&mut self.bytes);
            last.ends_transaction();
        }
    }
}

/// What is asked for in one step keeps the server from others for as long (of the order of a hundred
/// microseconds), and each has a thirtieth of MULTI, EXEC and the proof of memory to bear then.
const MOST_SHARING: usize = 32;
