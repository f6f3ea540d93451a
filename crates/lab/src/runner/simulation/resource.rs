use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use quorumlock::FencingToken;
use quorumlock::fencing::FenceGate;
use tokio::sync::{oneshot, watch};

use super::history::SimHistory;
use crate::history::{Event, Op, Phase};

/// The resource that the lock guards, with the library's own `FenceGate`.
#[derive(Debug)]
pub(super) struct SimResource {
    /// Whether it refuses tokens below the largest token seen.
    fenced: bool,
    values: Mutex<BTreeMap<String, FenceGate<i64>>>,
    /// Clients whose writes are held on their way, and how many of their writes are held now.
    held: watch::Sender<BTreeMap<String, usize>>,
    history: Arc<SimHistory>,
}

/// A write to the resource.
#[derive(Debug)]
pub(super) struct Write {
    pub(super) client: String,
    pub(super) hold: u64,
    pub(super) name: String,
    pub(super) token: u64,
}

/// The latency to or from the resource.
const LATENCY: Duration = Duration::from_micros(100);

impl SimResource {
    pub(super) fn new(fenced: bool, record: Arc<SimHistory>) -> Self {
        Self { fenced, values: Mutex::default(), held: watch::Sender::default(), history: record }
    }

    /// Sends a write and waits for the answer. The write arrives even if the caller is dropped.
    pub(super) async fn write(self: &Arc<Self>, write: Write) {
        let (answer, answered) = oneshot::channel();
        let register = Arc::clone(self);
        tokio::spawn(async move {
            tokio::time::sleep(LATENCY).await;
            register.pass(&write.client).await;
            register.take(write);
            tokio::time::sleep(LATENCY).await;
            let _ = answer.send(());
        });
        let _ = answered.await;
    }

    /// Sets whether a client's writes pass or are held.
    pub(super) fn set(&self, client: &str, open: bool) {
        self.held.send_modify(|held| match open {
            true => drop(held.remove(client)),
            false => drop(held.insert(client.to_owned(), 0)),
        });
    }

    /// Whether a write of this client is held on its way.
    pub(super) fn holds(&self, client: &str) -> bool {
        self.held.borrow().get(client).is_some_and(|held| *held > 0)
    }

    async fn pass(&self, client: &str) {
        self.held.send_if_modified(|held| held.get_mut(client).map(|held| *held += 1).is_some());
        let _ = self.held.subscribe().wait_for(|held| !held.contains_key(client)).await;
    }

    fn take(&self, write: Write) {
        let fence = FencingToken::new(if self.fenced { write.token } else { 1 });
        let written = {
            let mut values = self.values.lock().unwrap_or_else(PoisonError::into_inner);
            let gate = values.entry(write.name.clone()).or_insert_with(|| FenceGate::new(0));
            gate.claim(fence).and_then(|claimed| {
                claimed.with(|value| {
                    *value += 1;
                    *value
                })
            })
        };
        let (phase, value, what) = match written {
            Ok(value) => (Phase::Ok, Some(value), None),
            Err(stale) => (Phase::Fail, None, Some(stale.to_string())),
        };
        self.history.record(Event {
            client: write.client,
            hold: Some(write.hold),
            name: Some(write.name),
            token: Some(write.token),
            value,
            what,
            ..self.history.event("resource", Op::Write, phase)
        });
    }
}
