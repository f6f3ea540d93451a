use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use quorumlock::Fence;
use quorumlock::fencing::FenceGate;
use tokio::sync::{oneshot, watch};

use super::record::Record;
use crate::history::{Event, Op, Phase};

/// What the lock guards, behind the library's own gate.
#[derive(Debug)]
pub(super) struct Register {
    /// It refuses tokens below the largest that it has seen.
    fenced: bool,
    values: Mutex<BTreeMap<String, FenceGate<i64>>>,
    /// Clients whose writes are held on their way, and how many are.
    held: watch::Sender<BTreeMap<String, usize>>,
    record: Arc<Record>,
}

/// One effect.
#[derive(Debug)]
pub(super) struct Write {
    pub(super) client: String,
    pub(super) hold: u64,
    pub(super) name: String,
    pub(super) token: u64,
}

/// To the resource, or back.
const WAY: Duration = Duration::from_micros(100);

impl Register {
    pub(super) fn new(fenced: bool, record: Arc<Record>) -> Self {
        Self { fenced, values: Mutex::default(), held: watch::Sender::default(), record }
    }

    /// Sends a write, which arrives whatever becomes of its writer, and waits for the answer.
    pub(super) async fn write(self: &Arc<Self>, write: Write) {
        let (answer, answered) = oneshot::channel();
        let register = Arc::clone(self);
        tokio::spawn(async move {
            tokio::time::sleep(WAY).await;
            register.pass(&write.client).await;
            register.take(write);
            tokio::time::sleep(WAY).await;
            let _ = answer.send(());
        });
        let _ = answered.await;
    }

    /// Whether a client's writes pass from now on.
    pub(super) fn set(&self, client: &str, open: bool) {
        self.held.send_modify(|held| match open {
            true => drop(held.remove(client)),
            false => drop(held.insert(client.to_owned(), 0)),
        });
    }

    /// Whether a write of this client is on its way, and held.
    pub(super) fn holds(&self, client: &str) -> bool {
        self.held.borrow().get(client).is_some_and(|held| *held > 0)
    }

    async fn pass(&self, client: &str) {
        self.held.send_if_modified(|held| held.get_mut(client).map(|held| *held += 1).is_some());
        let _ = self.held.subscribe().wait_for(|held| !held.contains_key(client)).await;
    }

    fn take(&self, write: Write) {
        let fence = Fence::new(if self.fenced { write.token } else { 1 });
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
        self.record.tell(Event {
            client: write.client,
            hold: Some(write.hold),
            name: Some(write.name),
            token: Some(write.token),
            value,
            what,
            ..self.record.event("resource", Op::Write, phase)
        });
    }
}
