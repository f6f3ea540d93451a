//! Who waits hears of releases: one subscription connection per node for all waiters.
//!
//! Advice only, never safety: messages get lost, so a waiter also sleeps no longer than the
//! remaining lease; and after each (re)subscription it looks again, since a release may have come
//! in between (SAFETY.md, Waiting).

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::StreamExt;
use redis::aio::{PubSub, PubSubSink};
use tokio::runtime::Handle;
use tokio::sync::Notify;

use super::master::Addresses;
use crate::{Collect, Listening, Name};

/// The subscriptions of one node.
#[derive(Debug)]
pub(super) struct Ears(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    addresses: Arc<Addresses>,
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Default)]
struct State {
    channels: HashMap<String, Vec<Ear>>,
    next_ear: u64,
    /// A task is at work.
    driven: bool,
    closed: bool,
}

struct Ear {
    id: u64,
    to: Arc<dyn Collect<()>>,
    from: usize,
}

impl Ears {
    pub(super) fn new(addresses: Arc<Addresses>) -> Self {
        let state = Mutex::new(State::default());
        Self(Arc::new(Shared { addresses, state, changed: Notify::new() }))
    }

    pub(super) fn listen(&self, name: &Name, to: Arc<dyn Collect<()>>, from: usize) -> Listening {
        let shared = &self.0;
        let channel = name.channel();
        let mut state = shared.state();
        let id = state.next_ear;
        state.next_ear += 1;
        state.channels.entry(channel.clone()).or_default().push(Ear { id, to, from });
        if !state.driven
            && let Ok(runtime) = Handle::try_current()
        {
            state.driven = true;
            runtime.spawn(drive(Driver(shared.clone())));
        }
        drop(state);
        shared.changed.notify_one();
        Box::new(Hearing { shared: shared.clone(), channel, id })
    }
}

impl Drop for Ears {
    fn drop(&mut self) {
        self.0.state().closed = true;
        self.0.changed.notify_one();
    }
}

struct Hearing {
    shared: Arc<Shared>,
    channel: String,
    id: u64,
}

impl Drop for Hearing {
    fn drop(&mut self) {
        let mut state = self.shared.state();
        if let Some(ears) = state.channels.get_mut(&self.channel) {
            ears.retain(|ear| ear.id != self.id);
            if ears.is_empty() {
                state.channels.remove(&self.channel);
                drop(state);
                self.shared.changed.notify_one();
            }
        }
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tell(&self, channel: &str) {
        let ears: Vec<_> = match self.state().channels.get(channel) {
            Some(ears) => ears.iter().map(|ear| (ear.to.clone(), ear.from)).collect(),
            None => return,
        };
        for (to, from) in ears {
            to.collect(from, ());
        }
    }

    /// Channels wanted and not yet subscribed, and the other way round.
    fn differences(&self, subscribed: &HashMap<String, u64>) -> Option<(Vec<String>, Vec<String>)> {
        let state = self.state();
        if state.closed {
            return None;
        }
        let newest = |ears: &Vec<Ear>| ears.last().map_or(0, |ear| ear.id);
        // A newcomer on a subscribed channel is told to look again, so it counts as wanted too.
        let wanted = state
            .channels
            .iter()
            .filter(|(channel, ears)| subscribed.get(*channel).is_none_or(|at| *at < newest(ears)))
            .map(|(channel, _)| channel.clone())
            .collect();
        let stale = subscribed
            .keys()
            .filter(|channel| !state.channels.contains_key(*channel))
            .cloned()
            .collect();
        Some((wanted, stale))
    }

    fn newest(&self, channel: &str) -> u64 {
        let state = self.state();
        state.channels.get(channel).and_then(|ears| ears.last()).map_or(0, |ear| ear.id)
    }
}

/// Dropped with its task, also when the runtime ends: then the next listener starts another.
struct Driver(Arc<Shared>);

impl Drop for Driver {
    fn drop(&mut self) {
        self.0.state().driven = false;
    }
}

async fn drive(driver: Driver) {
    let shared = &driver.0;
    let mut backoff = Duration::from_millis(20);
    loop {
        match hear(shared).await {
            Ok(()) => return,
            Err(why) => {
                tracing::debug!(node = %shared.addresses.label(), %why, "subscription ended");
            }
        }
        tokio::time::sleep(backoff.mul_f64(rand::random_range(0.5..1.0))).await;
        backoff = (backoff * 2).min(Duration::from_secs(1));
    }
}

/// Serves subscriptions on one connection until it breaks (error) or nobody is left.
async fn hear(shared: &Shared) -> Result<(), String> {
    let (at, dialer) = shared.addresses.current();
    let stream = dialer.dial().await.map_err(|trouble| trouble.to_string())?;
    let redis = dialer.target.redis();
    let pubsub = PubSub::new(redis, stream).await.map_err(|e| e.to_string())?;
    let (mut sink, mut messages) = pubsub.split();
    // Channel -> the newest listener that was told to look again.
    let mut subscribed = HashMap::new();
    loop {
        let Some((wanted, stale)) = shared.differences(&subscribed) else { return Ok(()) };
        for channel in stale {
            sink.unsubscribe(&channel).await.map_err(|e| e.to_string())?;
            subscribed.remove(&channel);
        }
        for channel in wanted {
            subscribe(shared, &mut sink, &mut subscribed, channel).await?;
        }
        tokio::select! {
            message = messages.next() => match message {
                Some(message) => shared.tell(message.get_channel_name()),
                None => return Err("the connection broke".into()),
            },
            () = shared.changed.notified() => {}
            () = shared.addresses.awaits_move(at) => return Err("the master is elsewhere".into()),
        }
    }
}

async fn subscribe(
    shared: &Shared,
    sink: &mut PubSubSink,
    subscribed: &mut HashMap<String, u64>,
    channel: String,
) -> Result<(), String> {
    let newest = shared.newest(&channel);
    if !subscribed.contains_key(&channel) {
        sink.subscribe(&channel).await.map_err(|e| e.to_string())?;
    }
    // A release may have come before the subscription: everybody looks again (SAFETY.md e3).
    shared.tell(&channel);
    subscribed.insert(channel, newest);
    Ok(())
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("State").field("channels", &self.channels.len()).finish_non_exhaustive()
    }
}
