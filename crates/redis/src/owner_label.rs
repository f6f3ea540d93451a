//! Who holds a lock, for people: the key `quorumlock:owner:ID` holds the label of the locker whose nonces
//! end with `ID`, and `quorumlock:owner:NONCE` that of one hold. They are advice: nothing is decided by
//! them.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use quorumlock_protocol::{
    Answer, Holder, Instant, LeaseRequest, Name, Nonce, OnDropped, ReplySink, Responder, Settings,
    Vote,
};

use crate::command::Command;
use crate::gather::Gather;
use crate::resp::Value;

/// The label of a locker, and when one server was last told.
#[derive(Debug)]
pub(crate) struct OwnerLabel {
    /// Empty: no server is told.
    label: String,
    /// In nanoseconds of the lease clock.
    written: AtomicU64,
    /// Until when the server keeps it.
    until: AtomicU64,
}

/// How long a server keeps a label at least: a process that takes a lock and ends leaves it behind.
const KEPT: Duration = Duration::from_secs(120);

/// How long a server keeps the label that is written beside this lease: twice the time after which it is
/// written again. A lease is renewed every third of it, so a live holder always has a label.
fn kept(lease: &LeaseRequest) -> Duration {
    KEPT.max(lease.ttl * 2)
}

impl OwnerLabel {
    pub(crate) fn new(settings: &Settings) -> Self {
        let label = settings.label.clone().unwrap_or_default();
        let never = || AtomicU64::new(Instant::NEVER.as_nanos());
        Self { label, written: never(), until: never() }
    }

    /// The request that writes the label, and its key: at the first lease, when half of its time is over, and
    /// on a connection that began since, because its server may have lost the label.
    pub(crate) fn due(
        &self,
        lease: Option<&LeaseRequest>,
        now: impl FnOnce() -> Instant,
        connected: impl FnOnce() -> Option<Instant>,
    ) -> Option<(Name, Command)> {
        let lease = lease.filter(|_| !self.label.is_empty())?;
        let now = now();
        let (kept, relaxed) = (kept(lease), Ordering::Relaxed);
        let written = self.written.load(relaxed);
        let left = Instant::from_nanos(self.until.load(relaxed)).since(now);
        let before = Instant::from_nanos(written);
        if left >= kept / 2 && connected().is_none_or(|since| since <= before) {
            return None;
        }
        let kept = kept.max(left);
        // One of several callers writes it.
        self.written.compare_exchange(written, now.as_nanos(), relaxed, relaxed).ok()?;
        self.until.store((now + kept).as_nanos(), relaxed);
        let key = Name::owner(lease.nonce);
        let mut command = redis::cmd("SET");
        command.arg(key.as_str()).arg(&self.label).arg("PX").arg(kept.as_millis() as u64);
        Some((key, Command::Raw { command, to: Responder::nobody() }))
    }
}

/// The request that writes the label of a hold, and its key; `None` if the hold has none of its own.
pub(crate) fn of_hold(lease: &LeaseRequest) -> Option<(Name, Command)> {
    let label = lease.label.as_deref()?;
    let key = Name::hold_label(lease.nonce);
    let mut command = redis::cmd("SET");
    // Each renewal writes it again.
    command.arg(key.as_str()).arg(label).arg("PX").arg((lease.ttl * 2).as_millis() as u64);
    Some((key, Command::Raw { command, to: Responder::nobody() }))
}

/// The request that deletes the label of a hold, and its key; `None` if the hold has none of its own.
pub(crate) fn end_of_hold(lease: &LeaseRequest) -> Option<(Name, Command)> {
    lease.label.as_ref()?;
    let key = Name::hold_label(lease.nonce);
    let mut command = redis::cmd("DEL");
    command.arg(key.as_str());
    Some((key, Command::Raw { command, to: Responder::nobody() }))
}

/// Writes the label of a hold once its server has granted it. A refused request leaves no key.
pub(crate) fn once_granted(
    lease: &LeaseRequest,
    to: Responder<Answer<Vote>>,
    ask: impl FnOnce(&Name, Command) + Send + 'static,
) -> Responder<Answer<Vote>> {
    let Some((key, request)) = of_hold(lease) else { return to };
    let write = move |mut answers: Vec<Answer<Vote>>| {
        let answer = answers.pop().unwrap_or_else(Answer::missing);
        if matches!(answer, Answer::Yes(_)) {
            ask(&key, request);
        }
        answer
    };
    Responder::new(Gather::new(1, write, to), 0)
}

/// Asks a server who a holder is before `to` learns of the holder. `ask` posts a request about a key to the
/// server that has it.
pub(crate) fn with_label(
    to: Responder<Answer<Option<Holder>>>,
    ask: impl Fn(&Name, Command) + Send + Sync + 'static,
) -> Responder<Answer<Option<Holder>>> {
    Responder::new(Arc::new(HolderSink { to: Mutex::new(Some(to)), ask }), 0)
}

/// Where the answer about a holder goes.
type ToAsker = Responder<Answer<Option<Holder>>>;

struct HolderSink<A> {
    to: Mutex<Option<ToAsker>>,
    ask: A,
}

impl<A: Fn(&Name, Command) + Send + Sync> ReplySink<Answer<Option<Holder>>> for HolderSink<A> {
    fn collect(&self, _from: usize, answer: Answer<Option<Holder>>) {
        let Some(to) = self.to.lock().unwrap_or_else(PoisonError::into_inner).take() else {
            return;
        };
        let (mut holder, nonce) = match answer {
            Answer::Yes(Some(holder)) => match Nonce::parse(&holder.id) {
                Some(nonce) => (holder, nonce),
                None => return to.send(Answer::Yes(Some(holder))),
            },
            answer => return to.send(answer),
        };
        let keys = [Name::hold_label(nonce), Name::owner(nonce)];
        let labelled = move |labels: Vec<Answer<Value>>| {
            holder.label = labels.into_iter().find_map(label);
            Answer::Yes(Some(holder))
        };
        let gather = Gather::new(keys.len(), labelled, to);
        for (at, key) in keys.iter().enumerate() {
            let mut command = redis::cmd("GET");
            command.arg(key.as_str());
            (self.ask)(key, Command::Raw { command, to: Responder::new(gather.clone(), at) });
        }
    }
}

/// The label that a server keeps, if it keeps one. Anybody may have written it.
fn label(answer: Answer<Value>) -> Option<String> {
    let Answer::Yes(Value::Text(label)) = answer else { return None };
    let text = String::from_utf8_lossy(&label);
    let printable = text.chars().filter(|c| !c.is_control());
    Some(printable.take(Settings::MAX_LABEL).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_outlives_each_lease_and_no_short_process_for_long() {
        let mut settings = Settings::default();
        settings.label = Some("web".into());
        let label = OwnerLabel::new(&settings);
        let nonce = Nonce::parse("0123456789abcdef0123456789abcdef").expect("32 digits");
        let name = Name::new("x").expect("a good name");
        let lease = |ttl| LeaseRequest::new(name.clone(), nonce, Duration::from_secs(ttl));
        let start = Instant::from_nanos(1);
        let at = |secs| start + Duration::from_secs(secs);
        let due = |now: u64, ttl, connected: Option<u64>| {
            label.due(Some(&lease(ttl)), || at(now), || connected.map(at)).is_some()
        };
        assert!(due(0, 30, None) && !due(59, 30, None) && due(61, 30, None));
        // A longer lease is renewed more seldom.
        assert!(
            due(62, 3_600, None) && !due(62 + 1_200, 30, None) && !due(62 + 3_599, 3_600, None)
        );
        assert!(due(62 + 3_601, 3_600, None));
        // A server that restarted has lost it.
        assert!(due(4_000, 30, Some(3_990)) && !due(4_001, 30, Some(3_990)));
    }
}
