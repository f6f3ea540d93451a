//! Who a locker is, for people: the key `quorumlock:owner:ID` holds the label of the locker whose nonces
//! end with `ID`. It is advice: nothing is decided by it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use quorumlock_protocol::{
    Answer, Holder, Instant, LeaseRequest, Name, Nonce, ReplySink, Responder, Settings,
};

use crate::command::Command;
use crate::resp::Value;

/// The label of a locker, and when one server was last told.
#[derive(Debug)]
pub(crate) struct OwnerLabel {
    /// Empty: no server is told.
    label: String,
    /// In nanoseconds of the lease clock.
    written: AtomicU64,
}

/// How long a server keeps a label. Twice the time after which it is told again, so that a live locker
/// always has one.
const KEPT: Duration = Duration::from_secs(2 * 3_600);

impl OwnerLabel {
    pub(crate) fn new(settings: &Settings) -> Self {
        let label = settings.label.clone().unwrap_or_default();
        Self { label, written: AtomicU64::new(Instant::NEVER.as_nanos()) }
    }

    /// The request that writes the label, and its key: at the first lease, every hour, and on a connection
    /// that began since, because its server may have lost the label.
    pub(crate) fn due(
        &self,
        lease: Option<&LeaseRequest>,
        now: impl FnOnce() -> Instant,
        connected: impl FnOnce() -> Option<Instant>,
    ) -> Option<(Name, Command)> {
        let lease = lease.filter(|_| !self.label.is_empty())?;
        let now = now();
        let written = self.written.load(Ordering::Relaxed);
        let before = Instant::from_nanos(written);
        let recent = before != Instant::NEVER && now.since(before) < KEPT / 2;
        if recent && connected().is_none_or(|since| since <= before) {
            return None;
        }
        // One of several callers writes it.
        let (now, relaxed) = (now.as_nanos(), Ordering::Relaxed);
        self.written.compare_exchange(written, now, relaxed, relaxed).ok()?;
        let key = Name::owner(lease.nonce);
        let mut command = redis::cmd("SET");
        command.arg(key.as_str()).arg(&self.label).arg("PX").arg(KEPT.as_millis() as u64);
        Some((key, Command::Verbatim { command, to: Responder::nobody() }))
    }
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
        let (holder, nonce) = match answer {
            Answer::Yes(Some(holder)) => match Nonce::parse(&holder.id) {
                Some(nonce) => (holder, nonce),
                None => return to.send(Answer::Yes(Some(holder))),
            },
            answer => return to.send(answer),
        };
        let key = Name::owner(nonce);
        let mut command = redis::cmd("GET");
        command.arg(key.as_str());
        let sink = LabelSink(Mutex::new(Some((holder, to))));
        let to = Responder::new(Arc::new(sink), 0);
        (self.ask)(&key, Command::Verbatim { command, to });
    }
}

/// A holder whose label is asked for.
struct LabelSink(Mutex<Option<(Holder, ToAsker)>>);

impl ReplySink<Answer<Value>> for LabelSink {
    fn collect(&self, _from: usize, answer: Answer<Value>) {
        let waits = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some((mut holder, to)) = waits else { return };
        if let Answer::Yes(Value::Text(label)) = answer {
            let text = String::from_utf8_lossy(&label);
            let printable = text.chars().filter(|c| !c.is_control());
            // Anybody may have written it.
            holder.label = Some(printable.take(Settings::MAX_LABEL).collect());
        }
        to.send(Answer::Yes(Some(holder)));
    }
}
