//! Queue members and their scores, as a plain client writes and reads them (queue.lua).

use std::time::Duration;

use quorumlock::Layout;
use quorumlock_tests::{Channel, Plain};

/// Waiters are ordered by steps of so many microseconds.
const STEP: u64 = 2_048;
/// The step of a waiter that comes after all others.
pub(crate) const LATE: u64 = 1 << 41;
const SLOT: u64 = 500_000;
const SLOTS: u64 = 1_024;

/// What a waiter for a lock of this layout asks for.
pub(crate) fn kind_of(layout: Layout) -> &'static str {
    match layout {
        Layout::Redisson => "hash",
        Layout::Redlock => "string",
    }
}

/// The nonce of a lock of this layout, as the server has it.
pub(crate) fn nonce(kind: &str, number: u8) -> String {
    match kind {
        "hash" => format!("00000000-0000-4000-8000-{number:012}:1"),
        "read" => format!("{number:032x}:r"),
        "write" => format!("{number:032x}:w"),
        _ => format!("{number:032x}"),
    }
}

/// The member of a waiter that accepts a handoff.
pub(crate) fn offer(id: &str, kind: &str, number: u8) -> String {
    format!("{id} {kind} {} 60000 1", nonce(kind, number))
}

/// What a waiter did last, and how long ago.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Sign {
    Asked(Duration),
    Notified(Duration),
}

impl Sign {
    pub(crate) const NOW: Self = Self::Asked(Duration::ZERO);
    /// A waiter that asked so long ago shows no life.
    pub(crate) const STALE: Self = Self::Asked(Duration::from_secs(3));
}

/// The clock of the server, in microseconds.
pub(crate) async fn server_time(plain: &Plain) -> u64 {
    let (seconds, micros): (u64, u64) = plain.ask(&["TIME"]).await;
    seconds * 1_000_000 + micros
}

/// Awaits the next step of the server's clock. Waiters of one step have no order.
pub(crate) async fn next_step(plain: &Plain) {
    let step = server_time(plain).await / STEP;
    while server_time(plain).await / STEP == step {}
}

/// The score of a waiter, at this time of the server.
pub(crate) fn score(step: u64, sign: Sign, now: u64) -> u64 {
    let (ago, told) = match sign {
        Sign::Asked(ago) => (ago, 0),
        Sign::Notified(ago) => (ago, 1),
    };
    let at = now - u64::try_from(ago.as_micros()).expect("not long");
    step * STEP + 2 * (at / SLOT % SLOTS) + told
}

/// The step in which a waiter arrived.
pub(crate) fn step_of(score: u64) -> u64 {
    score / STEP
}

/// Adds a waiter that arrived in a step of the server's clock; small numbers are long ago.
pub(crate) async fn add(plain: &Plain, queue: &str, member: &str, step: u64, sign: Sign) {
    let score = score(step, sign, server_time(plain).await);
    plain.ask::<i64>(&["ZADD", queue, &score.to_string(), member]).await;
}

/// A waiter that is only a queue member and a channel for notifications.
pub(crate) async fn waiter(
    plain: &Plain,
    queue: &str,
    member: &str,
    step: u64,
    sign: Sign,
) -> Channel {
    let messages = plain.listen(&channel_of(member)).await;
    add(plain, queue, member, step, sign).await;
    messages
}

/// As [`waiter`], with the channel for handoffs, too.
pub(crate) async fn waiter_with_offer(
    plain: &Plain,
    queue: &str,
    member: &str,
    step: u64,
    sign: Sign,
) -> (Channel, Channel) {
    let handed = plain.listen(&format!("quorumlock:handoff:{}", id_of(member))).await;
    (waiter(plain, queue, member, step, sign).await, handed)
}

fn id_of(member: &str) -> &str {
    member.split(' ').next().expect("its id")
}

/// The channel on which the waiter is notified.
pub(crate) fn channel_of(member: &str) -> String {
    format!("quorumlock:wake:{}", id_of(member))
}

/// The waiters in order. The member '' is none: it says that one of an earlier version was notified.
pub(crate) async fn all(plain: &Plain, queue: &str) -> Vec<String> {
    let members: Vec<String> = plain.ask(&["ZRANGE", queue, "0", "-1"]).await;
    members.into_iter().filter(|member| !member.is_empty()).collect()
}

/// The members that were notified and have not asked since, in order.
pub(crate) async fn notified(plain: &Plain, queue: &str) -> Vec<String> {
    let members: Vec<(String, u64)> = plain.ask(&["ZRANGE", queue, "0", "-1", "WITHSCORES"]).await;
    let told = members.into_iter().filter(|(_, score)| score % 2 == 1);
    told.map(|(member, _)| member).collect()
}

/// Whether the waiter accepts no handoff.
pub(crate) fn offers_nothing(member: &str) -> bool {
    member.split(' ').count() == 2
}
