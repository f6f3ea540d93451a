//! Notifies waiters: one subscription connection per node serves all waiters of a locker.
//!
//! Each locker subscribes to one private channel per node. A message is the name of a lock that may
//! be free: a release notifies the head of the name's queue, and no other waiter. Programs without
//! our queue publish on the name's own channel. A locker subscribes to that one only for waits that
//! are long enough to be worth it.
//!
//! Notifications are advice, never safety. Messages get lost, so a waiter sleeps no longer than the
//! remaining lease. After each (re)subscription it asks again, since a release may have come in
//! between (PROTOCOL.md, Waiting).
//!
//! A second private channel carries handoffs. Such a message is an answer (handoff.lua) to the request
//! whose nonce it names, and to no other.
//!
//! A third one tells holders of forced releases. It has the end of the holders' nonces in its name, so that
//! the script finds it. It is subscribed once the locker has held a lock for a while.

use std::collections::BTreeMap;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use futures::StreamExt;
use redis::RedisConnectionInfo;
use redis::aio::{PubSub, PubSubSink};
use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::time::{Sleep, sleep};

use super::command::{Command, NodeContext};
use super::connection::{Connection, Redial};
use super::dial::Dialer;
use super::master::MasterResolver;
use super::node_facts::NodeFacts;
use super::permissions::is_forbidden;
use super::resp::Value;
use quorumlock_protocol::waiting::TUNING;
use quorumlock_protocol::{
    Answer, Claim, Credentials, FencingToken, HeldInterval, LeaseRequest, Name, Nonce, RemoteGrant,
    ReplyFuture, ReplySink, Responder, Subscription, WaitEvent,
};

/// The subscriptions of one node.
#[derive(Debug)]
pub(super) struct Subscriptions(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    addresses: Arc<MasterResolver>,
    facts: Arc<NodeFacts>,
    context: Arc<NodeContext>,
    /// The private channels of this locker: for notifications, and for handoffs.
    wake_channel: String,
    handoff_channel: String,
    /// Carries the request that passes on a notification for which no task here waits.
    callers: Weak<Connection>,
    /// Whether programs without our queue may release the same names.
    name_channels: bool,
    /// Whether a release may hand a name off, which rests on the server's count of subscribers.
    relies_on_counts: bool,
    /// The longest lease that a waiter of this locker can have been handed.
    longest: Duration,
    /// Whether the server counts this locker among the subscribers of its channel, as far as we know.
    counts_are_true: AtomicBool,
    state: Mutex<State>,
    /// Whether the private channels are subscribed, as far as we know.
    up: AtomicBool,
    changed: Notify,
}

#[derive(Default)]
struct State {
    /// The subscribers, by the name that they wait for.
    subscribers: BTreeMap<Name, Vec<Subscriber>>,
    next_id: u64,
    /// The channel of forced releases, and who hears of them.
    forced: Option<(String, Arc<dyn ReplySink<Nonce>>)>,
    /// Whether a driver task runs.
    driven: bool,
    closed: bool,
}

struct Subscriber {
    id: u64,
    to: Arc<dyn ReplySink<WaitEvent>>,
    from: usize,
}

/// How long a waiter relies on the private channel alone. Most waiters are notified before that.
const CHANNEL_DELAY: Duration = TUNING.name_channel_delay;

impl Subscriptions {
    pub(super) fn new(
        addresses: Arc<MasterResolver>,
        facts: Arc<NodeFacts>,
        context: Arc<NodeContext>,
        callers: Weak<Connection>,
        (name_channels, relies_on_counts): (bool, bool),
        longest: Duration,
    ) -> Self {
        let waiter = context.waiter;
        Self(Arc::new(Shared {
            addresses,
            facts,
            context,
            wake_channel: format!("quorumlock:wake:{waiter}"),
            handoff_channel: format!("quorumlock:handoff:{waiter}"),
            callers,
            name_channels,
            relies_on_counts,
            longest,
            counts_are_true: AtomicBool::new(true),
            state: Mutex::new(State::default()),
            up: AtomicBool::new(false),
            changed: Notify::new(),
        }))
    }

    /// Whether the node can notify this locker now.
    pub(super) fn is_up(&self) -> bool {
        self.0.up.load(Ordering::SeqCst)
    }

    /// Whether the server's count of subscribers can be relied upon: a handoff that nobody has heard is
    /// undone, so a message that reaches the waiter uncounted would grant what the server does not hold.
    pub(super) fn counts_are_true(&self) -> bool {
        self.0.counts_are_true.load(Ordering::SeqCst)
    }

    /// Sends `to` the events of a name until the result is dropped.
    pub(super) fn subscribe(
        &self,
        name: &Name,
        to: Arc<dyn ReplySink<WaitEvent>>,
        from: usize,
    ) -> Subscription {
        let shared = &self.0;
        let mut state = shared.state();
        let id = state.next_id;
        state.next_id += 1;
        state.subscribers.entry(name.clone()).or_default().push(Subscriber {
            id,
            to: to.clone(),
            from,
        });
        shared.start(&mut state);
        drop(state);
        if shared.name_channels {
            shared.changed.notify_one();
        }
        if self.is_up() {
            to.collect(from, WaitEvent::Retry);
        }
        Box::new(SubscriptionGuard { shared: shared.clone(), name: name.clone(), id })
    }

    /// Tells `to` of forced releases, of the locker whose nonces end as `locker` does.
    pub(super) fn hear_forced(&self, locker: Nonce, to: Arc<dyn ReplySink<Nonce>>) {
        let mut state = self.0.state();
        if state.forced.is_none() {
            state.forced = Some((format!("quorumlock:forced:{}", locker.locker_id()), to));
            self.0.changed.notify_one();
        }
        self.0.start(&mut state);
    }
}

impl Drop for Subscriptions {
    fn drop(&mut self) {
        self.0.state().closed = true;
        self.0.changed.notify_one();
    }
}

struct SubscriptionGuard {
    shared: Arc<Shared>,
    name: Name,
    id: u64,
}

impl Drop for SubscriptionGuard {
    fn drop(&mut self) {
        let mut state = self.shared.state();
        if let Some(subscribers) = state.subscribers.get_mut(&self.name) {
            subscribers.retain(|subscriber| subscriber.id != self.id);
            if subscribers.is_empty() {
                state.subscribers.remove(&self.name);
                drop(state);
                if self.shared.name_channels {
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

    /// Starts the driver task on this runtime, unless there is one.
    fn start(self: &Arc<Self>, state: &mut State) {
        if !state.driven
            && let Ok(runtime) = Handle::try_current()
        {
            state.driven = true;
            self.addresses.network().spawn(&runtime, drive(Driver(self.clone())));
        }
    }

    /// The subscribers of names.
    fn subscribers(
        &self,
        names: impl Iterator<Item = Name>,
    ) -> Vec<(Arc<dyn ReplySink<WaitEvent>>, usize)> {
        let state = self.state();
        let subscribers = names.filter_map(|name| state.subscribers.get(&name)).flatten();
        subscribers.map(|subscriber| (subscriber.to.clone(), subscriber.from)).collect()
    }

    /// Sends an event to all subscribers of names; false if there are none.
    fn notify(&self, names: impl Iterator<Item = Name>, event: WaitEvent) -> bool {
        let subscribers = self.subscribers(names);
        subscribers.iter().for_each(|(to, from)| to.collect(*from, event));
        !subscribers.is_empty()
    }

    /// The node notified this locker: a name is free, or the locker is second in its queue now.
    fn on_wake(&self, text: &str) {
        let second = text.strip_prefix("quorumlock:second:");
        let Ok(claim) = Claim::of_message(second.unwrap_or(text)) else { return };
        let event = match second {
            Some(_) => WaitEvent::Released,
            None => WaitEvent::Head(claim.slot()),
        };
        if !self.notify(claim.subscribed_names(), event)
            && let (None, Some(callers)) = (second, self.callers.upgrade())
        {
            // No task here waits for the name any more: pass the notification on (PROTOCOL.md W3).
            callers.post(Command::Dequeue(claim, true));
        }
    }

    /// A name was handed off to this locker. `told` is the message of handoff.lua.
    fn on_handoff(&self, message: &str) {
        let mut parts = message.splitn(3, ' ');
        let (Some(nonce), Some(token), Some(claim)) = (
            parts.next().and_then(Nonce::parse),
            parts.next().and_then(|token| token.parse().ok()),
            parts.next().and_then(|name| Claim::of_message(name).ok()),
        ) else {
            return;
        };
        // In this order: a task that subscribes once the attempt was taken up is not asked for it.
        let subscribers = self.subscribers(claim.subscribed_names());
        if self.context.taken_up.take(nonce) {
            return;
        }
        let grant = RemoteGrant { nonce, token: FencingToken::new(token) };
        subscribers.iter().for_each(|(to, from)| to.collect(*from, WaitEvent::Granted(grant)));
        if subscribers.is_empty()
            && let Some(callers) = self.callers.upgrade()
        {
            // The waiter has given up.
            // The message does not say for how long the node keeps the name for it.
            let lease = LeaseRequest::new(claim, nonce, self.longest);
            let held = HeldInterval::UNKNOWN;
            callers.post(Command::release(lease, held, None, Responder::nobody()));
        }
    }

    /// Somebody released by force what has this holder on the node.
    fn on_forced(&self, holder: &str) {
        let to = self.state().forced.as_ref().map(|(_, to)| to.clone());
        if let (Some(nonce), Some(to)) = (Nonce::parse(holder), to) {
            to.collect(0, nonce);
        }
    }

    /// Subscribes to the channel of forced releases once somebody wants to hear of them, and returns it. A
    /// user that may not is told nothing.
    async fn open_forced(&self, sink: &mut PubSubSink) -> Option<String> {
        let (channel, _) = self.state().forced.clone()?;
        if let Err(why) = sink.subscribe(&channel).await {
            tracing::debug!(node = %self.addresses.label(), %why, "forced releases are not heard of");
        }
        Some(channel)
    }

    /// Subscribes to the private channels.
    async fn open(&self, sink: &mut PubSubSink, dialer: &Dialer) -> Result<(), String> {
        let subscribed = sink.subscribe(&[&self.wake_channel, &self.handoff_channel]).await;
        subscribed.map_err(|e| {
            if e.code() == Some("NOPERM") || is_forbidden(&e.to_string()) {
                dialer.warn_of("subscribe");
            }
            e.to_string()
        })?;
        if self.relies_on_counts { self.try_count().await } else { Ok(()) }
    }

    /// Publishes an empty message to this locker, which is subscribed. Where messages pass through a proxy
    /// or between the members of a cluster, the server that runs a script may not count this locker.
    async fn try_count(&self) -> Result<(), String> {
        let Some(callers) = self.callers.upgrade() else { return Ok(()) };
        let (counted, to) = ReplyFuture::new();
        let command = redis::cmd("PUBLISH").arg(&self.wake_channel).arg("").to_owned();
        callers.post(Command::Raw { command, to });
        drop(callers);
        let counts_are_true = match counted.await {
            Answer::Yes(reply) => reply != Value::Int(0),
            // A user that may not publish is handed nothing off.
            Answer::No(_) => true,
            Answer::NoAnswer(_) => return Err("no request is answered".into()),
        };
        let before = self.counts_are_true.swap(counts_are_true, Ordering::SeqCst);
        if before && !counts_are_true {
            let node = self.addresses.label();
            tracing::warn!(%node, "counts no subscriber of a channel: no release hands a lock off there");
        }
        Ok(())
    }

    /// Lets all waiters ask again.
    fn notify_all(&self) {
        let names: Vec<_> = self.state().subscribers.keys().cloned().collect();
        for name in names {
            self.notify([name].into_iter(), WaitEvent::Retry);
        }
    }

    /// The names with a subscriber older than `before`, and whose own channel is not subscribed.
    fn long_waiting(&self, before: u64, heard: &Channels) -> Vec<Name> {
        let state = self.state();
        let old = |subscribers: &Vec<Subscriber>| subscribers.iter().any(|each| each.id < before);
        let patient = state
            .subscribers
            .iter()
            .filter(|(name, subscribers)| old(subscribers) && !is_subscribed(heard, name));
        patient.map(|(name, _)| name.clone()).collect()
    }

    /// The next subscriber id if a waiter waits for a name whose own channel is not subscribed.
    fn newcomer(&self, heard: &Channels) -> Option<u64> {
        let state = self.state();
        state.subscribers.keys().any(|name| !is_subscribed(heard, name)).then_some(state.next_id)
    }

    /// Forgets the names without waiters. Returns the channels that no name needs any more.
    fn forget_stale(&self, heard: &mut Channels) -> Vec<String> {
        let state = self.state();
        let mut stale = Vec::new();
        heard.retain(|channel, names| {
            names.retain(|name| state.subscribers.contains_key(name));
            if names.is_empty() {
                stale.push(channel.clone());
            }
            !names.is_empty()
        });
        stale
    }
}

/// The names whose own channel is subscribed, by channel: Redisson's rule gives `x` and `{x}` the
/// same one.
type Channels = BTreeMap<String, Vec<Name>>;

fn is_subscribed(heard: &Channels, name: &Name) -> bool {
    heard.get(&name.channel()).is_some_and(|names| names.contains(name))
}

/// Dropped with its task, also when the runtime ends. Then the next waiter starts another task. If
/// waiters are there already, the standby thread takes over.
struct Driver(Arc<Shared>);

impl Drop for Driver {
    fn drop(&mut self) {
        let shared = &self.0;
        shared.up.store(false, Ordering::SeqCst);
        let (network, mut state) = (shared.addresses.network(), shared.state());
        let awaited = !state.closed && !state.subscribers.is_empty();
        // A task that panics would do so again.
        let standby = awaited.then(|| network.standby()).flatten();
        state.driven = standby.is_some() && !std::thread::panicking();
        let driven = state.driven;
        drop(state);
        if let (Some(runtime), true) = (standby, driven) {
            network.spawn(runtime, drive(Self(shared.clone())));
        }
    }
}

async fn drive(driver: Driver) {
    let shared = &driver.0;
    let mut redial = Redial::new();
    loop {
        let ended = serve(shared).await;
        let subscribed = shared.up.swap(false, Ordering::SeqCst);
        match ended {
            Ok(()) => return,
            Err(why) => {
                tracing::debug!(node = %shared.addresses.label(), %why, "subscription ended");
            }
        }
        if subscribed {
            redial = Redial::new();
        }
        sleep(redial.refused(shared.addresses.network().pause_share())).await;
    }
}

/// Serves the subscriptions on one connection until it breaks (error) or the node is dropped.
async fn serve(shared: &Shared) -> Result<(), String> {
    let dialer = shared.addresses.current().await.map_err(|problem| problem.to_string())?;
    let credentials = dialer.credentials().await.map_err(|problem| problem.to_string())?;
    let stream =
        dialer.dial(&mut dialer.progress()).await.map_err(|problem| problem.to_string())?;
    let mut redis = dialer.target.redis().clone();
    if let Some((user, password)) = credentials.as_ref().map(Credentials::parts) {
        redis = redis.set_password(password);
        redis = user.into_iter().fold(redis, RedisConnectionInfo::set_username);
    }
    let pubsub = PubSub::new(&redis, stream).await.map_err(|e| e.to_string())?;
    let replace_after = credentials.and_then(|credentials| credentials.replace_after());
    let mut replace = pin!(async {
        match replace_after {
            Some(time) => sleep(time).await,
            None => std::future::pending().await,
        }
    });
    let (mut sink, mut messages) = pubsub.split();
    shared.context.taken_up.clear();
    shared.open(&mut sink, &dialer).await?;
    shared.up.store(true, Ordering::SeqCst);
    // A release may have come before the subscription (PROTOCOL.md W1).
    shared.notify_all();
    let (mut name_channels, mut forced) = (NameChannels::default(), None);
    loop {
        if shared.state().closed {
            return Ok(());
        }
        if shared.name_channels {
            name_channels.tidy(shared, &mut sink).await?;
        }
        if forced.is_none() {
            forced = shared.open_forced(&mut sink).await;
        }
        // In a fixed order, so that a simulation can repeat a run.
        tokio::select! {
            biased;
            message = messages.next() => match message {
                Some(message) => {
                    let text = || message.get_payload::<String>().unwrap_or_default();
                    match message.get_channel_name() {
                        channel if channel == shared.handoff_channel => shared.on_handoff(&text()),
                        channel if channel == shared.wake_channel => shared.on_wake(&text()),
                        channel if Some(channel) == forced.as_deref() => shared.on_forced(&text()),
                        channel => {
                            for name in name_channels.channels.get(channel).into_iter().flatten() {
                                // All waiters here ask, and yield to the waiters before them
                                // (PROTOCOL.md W6).
                                shared.notify([name.clone()].into_iter(), WaitEvent::Released);
                            }
                        }
                    }
                }
                None => return Err("the connection broke".into()),
            },
            () = shared.changed.notified() => {}
            // The home nodes may change, and waiters may be queued at another node (PROTOCOL.md W7).
            () = shared.facts.identified() => shared.notify_all(),
            () = &mut replace => return Err("its credentials end soon".into()),
            () = shared.addresses.awaits_move(&dialer) => return Err("the master is elsewhere".into()),
            () = name_channels.delay() => name_channels.subscribe(shared, &mut sink).await?,
        }
    }
}

/// The names' own channels, on which programs without our queue publish releases.
#[derive(Default)]
struct NameChannels {
    channels: Channels,
    /// A subscriber id, and the timer after which waiters with lower ids have waited long enough.
    newcomers: Option<(u64, Pin<Box<Sleep>>)>,
}

impl NameChannels {
    /// Unsubscribes from channels without waiters, and starts the timer for new waiters.
    async fn tidy(&mut self, shared: &Shared, sink: &mut PubSubSink) -> Result<(), String> {
        for channel in shared.forget_stale(&mut self.channels) {
            sink.unsubscribe(&channel).await.map_err(|e| e.to_string())?;
        }
        if self.newcomers.is_none()
            && let Some(subscriber) = shared.newcomer(&self.channels)
        {
            self.newcomers = Some((subscriber, Box::pin(sleep(CHANNEL_DELAY))));
        }
        Ok(())
    }

    async fn delay(&mut self) {
        match &mut self.newcomers {
            Some((_, sleep)) => sleep.as_mut().await,
            None => std::future::pending().await,
        }
    }

    async fn subscribe(&mut self, shared: &Shared, sink: &mut PubSubSink) -> Result<(), String> {
        let Some((subscriber, _)) = self.newcomers.take() else { return Ok(()) };
        for name in shared.long_waiting(subscriber, &self.channels) {
            let channel = name.channel();
            if !self.channels.contains_key(&channel) {
                sink.subscribe(&channel).await.map_err(|e| e.to_string())?;
            }
            shared.notify([name.clone()].into_iter(), WaitEvent::Retry);
            self.channels.entry(channel).or_default().push(name);
        }
        Ok(())
    }
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("State").field("names", &self.subscribers.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use quorumlock_protocol::{Layout, Settings};
    use quorumlock_watchdog::Clock;

    use super::*;
    use crate::redis_master;

    /// Also of the longest lease that this locker asks for (SAFETY.md G7).
    #[test]
    fn a_handoff_that_nobody_takes_is_given_back_until_its_lease_has_ended() {
        let (clock, settings) = (Clock::manual(), Settings::default());
        let one = (Layout::Redlock, None);
        let node = redis_master(&["redis://127.0.0.1:1"], one, &settings, &clock).expect("a node");
        let nonce = Nonce::from_u128(7);
        // Outside a runtime nothing can be sent.
        node.subscriptions.0.on_handoff(&format!("{nonce} 31 x"));
        clock.advance(settings.max_lease);
        let releases = node.context.unconfirmed.collect(clock.now());
        let [release] = &releases[..] else { panic!("{releases:?}") };
        assert_eq!(release.lease.nonce, nonce);
    }
}
