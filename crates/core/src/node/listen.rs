//! Who waits hears of its turn: one subscription connection per node for all waiters.
//!
//! Each locker has a channel of its own on each node, on which it is told of names by name: whoever
//! frees one wakes the first in its queue alone. Programs that know of no queue are heard on the
//! name's own channel, once the wait is long enough to be worth a subscription.
//!
//! That is advice only, never safety: messages get lost, so a waiter also sleeps no longer than the
//! remaining lease; and after each (re)subscription it looks again, since a release may have come
//! in between (SAFETY.md, Waiting).
//!
//! On another channel of its own it hears of names that it was handed. That is an answer (hand.lua), to
//! what was asked under the nonce that the message names, and to nothing else.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use futures::StreamExt;
use redis::aio::{PubSub, PubSubSink};
use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::time::{Sleep, sleep};

use super::line::Line;
use super::master::Addresses;
use super::request::{Dialect, Request};
use crate::{Collect, Fence, Handed, Listening, Name, News, Nonce};

/// The subscriptions of one node.
#[derive(Debug)]
pub(super) struct Ears(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    addresses: Arc<Addresses>,
    dialect: Arc<Dialect>,
    /// This locker's own channels: of names that it may ask for, of names that it is handed.
    turns: String,
    heirs: String,
    /// Where a turn is passed on that comes to nobody.
    work: Weak<Line>,
    /// Whether programs that know of no queue free the same names.
    strangers: bool,
    state: Mutex<State>,
    /// The own channel is subscribed, as far as we know.
    up: AtomicBool,
    changed: Notify,
}

#[derive(Default)]
struct State {
    /// By the name waited for.
    ears: HashMap<Name, Vec<Ear>>,
    next_ear: u64,
    /// A task is at work.
    driven: bool,
    closed: bool,
}

struct Ear {
    id: u64,
    to: Arc<dyn Collect<News>>,
    from: usize,
}

/// How long a waiter relies on its own channel alone: most have their turn before that.
const PATIENCE: Duration = Duration::from_millis(200);

impl Ears {
    pub(super) fn new(
        addresses: Arc<Addresses>,
        dialect: Arc<Dialect>,
        work: Weak<Line>,
        strangers: bool,
    ) -> Self {
        let waiter = dialect.waiter;
        Self(Arc::new(Shared {
            addresses,
            dialect,
            turns: format!("quorumlock:waiter:{waiter}"),
            heirs: format!("quorumlock:granted:{waiter}"),
            work,
            strangers,
            state: Mutex::new(State::default()),
            up: AtomicBool::new(false),
            changed: Notify::new(),
        }))
    }

    /// Whether this locker can be told of its turn now.
    pub(super) fn hear(&self) -> bool {
        self.0.up.load(Ordering::SeqCst)
    }

    pub(super) fn listen(&self, name: &Name, to: Arc<dyn Collect<News>>, from: usize) -> Listening {
        let shared = &self.0;
        let mut state = shared.state();
        let id = state.next_ear;
        state.next_ear += 1;
        state.ears.entry(name.clone()).or_default().push(Ear { id, to: to.clone(), from });
        if !state.driven
            && let Ok(runtime) = Handle::try_current()
        {
            state.driven = true;
            runtime.spawn(drive(Driver(shared.clone())));
        }
        drop(state);
        if shared.strangers {
            shared.changed.notify_one();
        }
        if self.hear() {
            to.collect(from, News::Ask);
        }
        Box::new(Hearing { shared: shared.clone(), name: name.clone(), id })
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
    name: Name,
    id: u64,
}

impl Drop for Hearing {
    fn drop(&mut self) {
        let mut state = self.shared.state();
        if let Some(ears) = state.ears.get_mut(&self.name) {
            ears.retain(|ear| ear.id != self.id);
            if ears.is_empty() {
                state.ears.remove(&self.name);
                drop(state);
                if self.shared.strangers {
                    self.shared.changed.notify_one();
                }
            }
        }
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells whoever waits for this name; false if nobody does.
    fn tell(&self, name: &Name, news: News) -> bool {
        let ears: Vec<_> = match self.state().ears.get(name) {
            Some(ears) => ears.iter().map(|ear| (ear.to.clone(), ear.from)).collect(),
            None => return false,
        };
        for (to, from) in ears {
            to.collect(from, news);
        }
        true
    }

    /// It is this locker's turn for a name.
    fn turn(&self, name: &str) {
        let Ok(name) = Name::new(name) else { return };
        if !self.tell(&name, News::Turn)
            && let Some(work) = self.work.upgrade()
        {
            // Nobody here waits for it any more: others do (SAFETY.md e5).
            work.post(Request::Leave(name, true));
        }
    }

    /// This locker was handed a name: what hand.lua says.
    fn heir(&self, told: &str) {
        let mut parts = told.splitn(3, ' ');
        let (Some(nonce), Some(token), Some(name)) = (
            parts.next().and_then(Nonce::parse),
            parts.next().and_then(|token| token.parse().ok()),
            parts.next().and_then(|name| Name::new(name).ok()),
        ) else {
            return;
        };
        // Whoever has given up has told the node so by now, and got it back to it.
        self.tell(&name, News::Handed(Handed { nonce, fence: Fence::new(token) }));
    }

    /// Everybody who waits looks again.
    fn all_look(&self) {
        let names: Vec<_> = self.state().ears.keys().cloned().collect();
        for name in names {
            self.tell(&name, News::Ask);
        }
    }

    /// Those that have been waited for since before `ear`, and whose own channel is not heard.
    fn patient(&self, ear: u64, heard: &Heard) -> Vec<Name> {
        let state = self.state();
        let old = |ears: &Vec<Ear>| ears.iter().any(|each| each.id < ear);
        let patient = state.ears.iter().filter(|(name, ears)| old(ears) && !is_heard(heard, name));
        patient.map(|(name, _)| name.clone()).collect()
    }

    /// The next ear if somebody waits for a name whose own channel is not heard.
    fn newcomer(&self, heard: &Heard) -> Option<u64> {
        let state = self.state();
        state.ears.keys().any(|name| !is_heard(heard, name)).then_some(state.next_ear)
    }

    /// Forgets names that nobody waits for any more: says which channels nobody needs.
    fn forget_stale(&self, heard: &mut Heard) -> Vec<String> {
        let state = self.state();
        let stale = heard.extract_if(|_, names| {
            names.retain(|name| state.ears.contains_key(name));
            names.is_empty()
        });
        stale.map(|(channel, _)| channel).collect()
    }
}

/// The names that are heard on their own channel, by channel: Redisson's rule gives `x` and `{x}` the same
/// one.
type Heard = HashMap<String, Vec<Name>>;

fn is_heard(heard: &Heard, name: &Name) -> bool {
    heard.get(&name.channel()).is_some_and(|names| names.contains(name))
}

/// Dropped with its task, also when the runtime ends: then the next listener starts another.
struct Driver(Arc<Shared>);

impl Drop for Driver {
    fn drop(&mut self) {
        self.0.up.store(false, Ordering::SeqCst);
        self.0.state().driven = false;
    }
}

async fn drive(driver: Driver) {
    let shared = &driver.0;
    let mut backoff = Duration::from_millis(20);
    loop {
        let ended = hear(shared).await;
        shared.up.store(false, Ordering::SeqCst);
        match ended {
            Ok(()) => return,
            Err(why) => {
                tracing::debug!(node = %shared.addresses.label(), %why, "subscription ended");
            }
        }
        sleep(backoff.mul_f64(rand::random_range(0.5..1.0))).await;
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
    sink.subscribe(&[&shared.turns, &shared.heirs]).await.map_err(|e| e.to_string())?;
    shared.up.store(true, Ordering::SeqCst);
    // A release may have come before the subscription (SAFETY.md e3).
    shared.all_look();
    let mut strangers = Strangers::default();
    loop {
        if shared.state().closed {
            return Ok(());
        }
        if shared.strangers {
            strangers.tidy(shared, &mut sink).await?;
        }
        tokio::select! {
            message = messages.next() => match message {
                Some(message) => {
                    let text = || message.get_payload::<String>().unwrap_or_default();
                    match message.get_channel_name() {
                        channel if channel == shared.heirs => shared.heir(&text()),
                        channel if channel == shared.turns => shared.turn(&text()),
                        channel => {
                            for name in strangers.heard.get(channel).into_iter().flatten() {
                                // All of ours hear it: the first of them has its turn (SAFETY.md e8).
                                shared.tell(name, News::Freed);
                            }
                        }
                    }
                }
                None => return Err("the connection broke".into()),
            },
            () = shared.changed.notified() => {}
            // Who waits may stand at the wrong node (SAFETY.md d1).
            () = shared.dialect.identified.notified() => shared.all_look(),
            () = shared.addresses.awaits_move(at) => return Err("the master is elsewhere".into()),
            () = strangers.patience() => strangers.subscribe(shared, &mut sink).await?,
        }
    }
}

/// The channels of names, on which programs that know of no queue tell of releases.
#[derive(Default)]
struct Strangers {
    heard: Heard,
    /// When those waiters have waited for long enough that came before this ear.
    newcomers: Option<(u64, Pin<Box<Sleep>>)>,
}

impl Strangers {
    /// Nobody waits for those any more; and others have begun to wait.
    async fn tidy(&mut self, shared: &Shared, sink: &mut PubSubSink) -> Result<(), String> {
        for channel in shared.forget_stale(&mut self.heard) {
            sink.unsubscribe(&channel).await.map_err(|e| e.to_string())?;
        }
        if self.newcomers.is_none()
            && let Some(ear) = shared.newcomer(&self.heard)
        {
            self.newcomers = Some((ear, Box::pin(sleep(PATIENCE))));
        }
        Ok(())
    }

    async fn patience(&mut self) {
        match &mut self.newcomers {
            Some((_, sleep)) => sleep.as_mut().await,
            None => std::future::pending().await,
        }
    }

    async fn subscribe(&mut self, shared: &Shared, sink: &mut PubSubSink) -> Result<(), String> {
        let Some((ear, _)) = self.newcomers.take() else { return Ok(()) };
        for name in shared.patient(ear, &self.heard) {
            let channel = name.channel();
            if !self.heard.contains_key(&channel) {
                sink.subscribe(&channel).await.map_err(|e| e.to_string())?;
            }
            shared.tell(&name, News::Ask);
            self.heard.entry(channel).or_default().push(name);
        }
        Ok(())
    }
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("State").field("names", &self.ears.len()).finish_non_exhaustive()
    }
}
