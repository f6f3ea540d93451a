//! What is queued on a connection: the requests and, once the connection is up, their bytes.

use std::collections::VecDeque;

use super::in_flight::{InFlight, Transaction};
use super::txn_acquire::TxnAcquire;
use crate::command::{Command, NodeContext};
use crate::server_info::ServerInfo;

#[derive(Debug, Default)]
pub(super) struct SendQueue {
    bytes: Vec<u8>,
    queued: VecDeque<InFlight>,
    /// How many acquisitions share the transaction at the end of `bytes`, which no EXEC has ended
    /// yet.
    open_transaction: usize,
}

impl SendQueue {
    /// How many requests are queued.
    pub(super) fn len(&self) -> usize {
        self.queued.len()
    }

    /// Whether there is something to be sent.
    pub(super) fn has_bytes(&self) -> bool {
        !self.bytes.is_empty()
    }

    /// Queues a request until the connection is up.
    pub(super) fn push_unencoded(&mut self, pending: InFlight) {
        self.queued.push_back(pending);
    }

    /// Queues requests of which nothing was written, ahead of later requests, until the connection
    /// is up.
    pub(super) fn put_back(&mut self, mut unwritten: VecDeque<InFlight>) {
        unwritten.append(&mut self.queued);
        self.queued = unwritten;
    }

    /// Queues a request to a server that is connected.
    pub(super) fn push(&mut self, context: &NodeContext, to: &ServerInfo, mut pending: InFlight) {
        let plain = TxnAcquire::of(&pending.request, context, &to.scripts);
        let joins = plain.as_ref().is_some_and(|plain| !plain.is_bare());
        if !joins {
            self.end_transaction();
        }
        if pending.asking {
            self.push_fire_and_forget(&redis::cmd("ASKING"), &pending);
        }
        let begins = self.bytes.len();
        let replies = match plain {
            Some(plain) if joins => {
                let begun = match self.open_transaction {
                    0 => plain.begin(&mut self.bytes),
                    _ => 0,
                };
                begun + plain.join(context, &mut self.bytes)
            }
            Some(bare) => {
                bare.take(context, &mut self.bytes);
                1
            }
            None => {
                let how = (pending.resent, pending.as_text);
                context.encode(&pending.request, how, to, &mut self.bytes)
            }
        };
        pending.expect(replies, if joins { Transaction::Joined } else { Transaction::No });
        pending.span = (begins, self.bytes.len());
        self.queued.push_back(pending);
        self.open_transaction += usize::from(joins);
        let most = if context.redis_cluster { 1 } else { MAX_SHARED };
        if self.open_transaction == most {
            self.end_transaction();
        }
    }

    /// Queues a command whose reply nobody reads.
    pub(super) fn push_fire_and_forget(&mut self, command: &redis::Cmd, pending: &InFlight) {
        self.end_transaction();
        self.bytes.extend_from_slice(&command.get_packed_command());
        self.queued.push_back(InFlight::new(Command::NoReply, pending.asked));
    }

    /// Moves the bytes to `bytes`, which is empty before, and the requests to `sent`.
    pub(super) fn move_to(&mut self, bytes: &mut Vec<u8>, sent: &mut VecDeque<InFlight>) {
        self.end_transaction();
        std::mem::swap(bytes, &mut self.bytes);
        sent.append(&mut self.queued);
    }

    /// Takes the requests and discards their bytes, which were encoded for a connection that is
    /// gone.
    pub(super) fn take(&mut self) -> VecDeque<InFlight> {
        self.bytes.clear();
        self.open_transaction = 0;
        std::mem::take(&mut self.queued)
    }

    /// Keeps at most `room` bytes of capacity for the bytes, and as much for the requests.
    pub(super) fn shrink_to(&mut self, room: usize) {
        self.bytes.shrink_to(room);
        self.queued.shrink_to(room / size_of::<InFlight>());
    }

    /// Ends the open transaction, if there is one. Only acquisitions go into a transaction: an
    /// abort must not stop a release.
    fn end_transaction(&mut self) {
        if std::mem::take(&mut self.open_transaction) > 0
            && let Some(last) = self.queued.back_mut()
        {
            TxnAcquire::end(&mut self.bytes);
            last.ends_transaction();
        }
    }
}

/// The most acquisitions in one transaction. A transaction blocks the server's other clients while
/// it runs (of the order of a hundred microseconds at this size), and each acquisition then bears a
/// thirtieth of the cost of MULTI, EXEC and the proof of memory.
const MAX_SHARED: usize = 32;
