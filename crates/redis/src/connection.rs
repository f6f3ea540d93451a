//! One connection to a server, and the one task that drives it.
//!
//! Callers append requests to one buffer as bytes. The driver writes all of them at once (natural
//! batching) and answers each caller, without a channel per command. The task runs on the caller's
//! runtime: a thread hop costs more than the round trip.
//!
//! `machine` decides, `driver` moves bytes.

mod driver;
mod machine;

use std::sync::Arc;

use futures::task::AtomicWaker;
use quorumlock_protocol::{Incarnation, Instant};
use quorumlock_watchdog::Clock;
use tokio::runtime::Handle;

use self::driver::{Driver, Shared};
use self::machine::{Posted, Requests};
use super::command::{Command, NodeContext};
use super::master::MasterResolver;
use super::node_facts::NodeFacts;
use super::redirect::{Redirected, Routing};

#[cfg(fuzzing)]
pub(super) use self::machine::exercise::exercise;
pub(super) use self::machine::{AckPolicy, ConnectionRules, Redial, STALL_TIMES};

/// One connection: dialled at the first request, re-dialled when it breaks, closed on drop.
#[derive(Debug)]
pub(super) struct Connection(Arc<Shared>);

impl Connection {
    pub(super) fn new(
        addresses: Arc<MasterResolver>,
        context: Arc<NodeContext>,
        (rules, routing): (ConnectionRules, Option<Routing>),
        facts: Arc<NodeFacts>,
        clock: Clock,
    ) -> Self {
        let (requests, wake) = (Requests::new(context, rules, routing), AtomicWaker::new());
        Self(Arc::new(Shared { requests, addresses, facts, clock, wake }))
    }

    /// Queues a request, which is answered exactly once. Never blocks.
    pub(super) fn post(&self, request: Command) {
        // A lease counts from before its request enters the queue.
        let asked = self.0.clock.early();
        let network = self.0.addresses.network();
        self.start(self.0.requests.post(request, asked, || network.runtime()));
    }

    /// Queues a request that another member of the Redis Cluster did not carry out.
    pub(super) fn post_redirected(&self, request: Redirected) {
        let (asked, network) = (self.0.clock.early(), self.0.addresses.network());
        self.start(self.0.requests.post_redirected(request, asked, || network.runtime()));
    }

    fn start(&self, posted: Posted<Handle>) {
        match posted {
            Posted::Done => {}
            Posted::Wake => self.0.wake.wake(),
            Posted::Start(runtime) => {
                self.0.addresses.network().spawn(&runtime, Driver(self.0.clone()).run());
            }
        }
    }

    /// Whether requests can be sent now.
    pub(super) fn is_up(&self) -> bool {
        self.0.requests.is_up()
    }

    /// Where the server is.
    pub(super) fn addresses(&self) -> &MasterResolver {
        &self.0.addresses
    }

    /// Whether a connection was ever made.
    pub(super) fn greeted(&self) -> bool {
        self.0.requests.greeted()
    }

    /// Since when posted requests can be sent; `None` while the driver dials.
    pub(super) fn connected_since(&self) -> Option<Instant> {
        self.0.requests.connected_since()
    }

    /// Whether the node's memory is proven, as far as this connection knows.
    pub(super) fn proven(&self) -> bool {
        self.0.requests.proven()
    }

    /// The incarnation under which the node was verified, as far as this connection knows.
    pub(super) fn incarnation(&self) -> Incarnation {
        self.0.requests.incarnation()
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.0.requests.close();
        self.0.wake.wake();
    }
}
