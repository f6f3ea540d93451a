//! The durations and counts of waiting, with what moving each costs.

use std::time::Duration;

/// See [`TUNING`].
#[derive(Clone, Copy, Debug)]
pub struct Tuning {
    /// The longest sleep of a waiter that was refused, before it polls: the waiter that was notified
    /// instead of this one may have died. Shorter: more requests. Longer: a lock that nobody
    /// announced stays free for longer.
    pub min_probe: Duration,
    /// After a long wait a poll may wait this part of it, `1 / probe_share`, so that many waiters do
    /// not keep the node busy with polls.
    pub probe_share: u32,
    /// The longest sleep of the first and the second in a queue: a release serves a waiter that asked
    /// within the last two seconds (queue.lua).
    pub max_head_probe: Duration,
    /// A waiter behind the second one sleeps this long for each place in the queue, at most for its lease.
    /// Shorter: a long queue keeps the node busy with polls. Longer: where those before it are stopped, it
    /// comes later.
    pub place_probe: Duration,
    /// No other sleep is longer than this part of the waiter's lease, `1 / lease_share`: a waiter that
    /// polls renews its place in the queue, and the lease that it offers.
    pub lease_share: u32,
    /// As `lease_share`, where only the home node refused: the client that has the home node may
    /// have died before it had the others.
    pub home_lease_share: u32,
    /// The first turn of a call for several names; each further one is twice as long, up to a third of its
    /// lease. Shorter: the names are seldom free together. Longer: each name lies idle while another one is
    /// held for long.
    pub min_turn: Duration,
    /// How often it doubles.
    pub max_turn_doublings: u32,
    /// How exactly a waiter knows the end of another client's lease. Smaller: a slow answer looks
    /// like a renewal. Larger: a renewal that gains less goes unseen.
    pub lease_precision: Duration,
    /// The backoff of a `try_lock` after its first split vote, and half of that of a waiter; it
    /// doubles with each further one. Shorter: equal contenders split the votes again. Longer: the
    /// lock stays free meanwhile.
    pub min_split_backoff: Duration,
    /// How often it doubles.
    pub max_split_doublings: u32,
    /// How often a `try_lock` asks again because votes were split. More: it takes longer to say
    /// busy. Fewer: it says busy though nobody holds the lock.
    pub max_try_splits: u32,
    /// How often one attempt for permits asks for another slot, because the nodes refused one and told
    /// which are free. More: more requests while other clients take the free slots first. Fewer: a
    /// caller waits though a slot is free.
    pub max_slot_tries: u32,
    /// How long a message of a node other than the home node waits for a second one. About a round
    /// trip within a data centre; longer delays every lock whose home node is down.
    pub message_grace: Duration,
    /// How often an attempt without a result is begun again. Each repair of a node fails one round,
    /// so more failures than nodes that can be repaired at once are no coincidence.
    pub max_retries: u32,
    /// How long a call without a deadline waits for nodes that do not answer.
    pub max_outage: Duration,
    /// The sleep after the first attempt that no majority answered; it doubles each time.
    pub min_outage_backoff: Duration,
    /// The longest of these sleeps. Longer: less load on nodes that come back, and a later return.
    pub max_outage_backoff: Duration,
    /// For this long after our own release programs that know of no queue may take the lock first.
    pub head_start: Duration,
    /// For this long after a release that notified a waiter this process lets that waiter go first.
    pub courtesy: Duration,
    /// A name counts as contended for this long after another process was seen to want it.
    pub contended_for: Duration,
    /// From this many remembered names on, outdated ones are forgotten: a bound on memory.
    pub max_remembered: usize,
    /// How often a lease is handed off inside a process. More: other processes wait for longer.
    /// Fewer: more requests. Less than the block of tokens ([`FencingToken::BLOCK`](crate::FencingToken::BLOCK)).
    pub max_local_handoffs: u32,
    /// For how long a lease is handed off inside a process.
    pub max_local_handoff_time: Duration,
    /// How long a release of a contended name waits for the home node's answer after enough others,
    /// so that the waiter that it notifies is not met by this caller's next request.
    pub release_grace: Duration,
    /// How long a client waits for the home node before it asks the others: three times its usual
    /// time to answer, but not less. Less: a busy home node is passed by, and votes split.
    pub min_home_timeout: Duration,
    /// And not more: a dead home node delays each attempt by this.
    pub max_home_timeout: Duration,
    /// How long a waiter relies on its private channel alone, before it subscribes to the channel of
    /// the name as well (Redisson's layout). Shorter: more subscriptions that nobody needs.
    pub name_channel_delay: Duration,
}

/// The values that the library uses. They are advice: no promise of SAFETY.md rests on them.
///
/// Two places have values of their own. `notify_next.lua` and `queue.lua`: how many waiters a release looks
/// at (64) and notifies (8), when a waiter is stale (2 s), for how long one that was notified is awaited (1 s)
/// and then kept (2 s), and which releases notify the name's channel as well (one in eight). The connections of a node: the backoff after one broke, 20 ms to 1 s. A
/// connection that subscribed, or answered, resets it.
pub const TUNING: Tuning = Tuning {
    min_probe: Duration::from_millis(250),
    probe_share: 4,
    max_head_probe: Duration::from_secs(1),
    place_probe: Duration::from_millis(500),
    lease_share: 3,
    home_lease_share: 8,
    min_turn: Duration::from_millis(50),
    max_turn_doublings: 16,
    lease_precision: Duration::from_millis(50),
    min_split_backoff: Duration::from_millis(4),
    max_split_doublings: 9,
    max_try_splits: 5,
    max_slot_tries: 2,
    message_grace: Duration::from_millis(1),
    max_retries: 8,
    max_outage: Duration::from_secs(30),
    min_outage_backoff: Duration::from_millis(50),
    max_outage_backoff: Duration::from_secs(1),
    head_start: Duration::from_millis(5),
    courtesy: Duration::from_millis(20),
    contended_for: Duration::from_secs(1),
    max_remembered: 1_024,
    max_local_handoffs: 16,
    max_local_handoff_time: Duration::from_millis(50),
    release_grace: Duration::from_millis(1),
    min_home_timeout: Duration::from_millis(3),
    max_home_timeout: Duration::from_millis(250),
    name_channel_delay: Duration::from_millis(200),
};
