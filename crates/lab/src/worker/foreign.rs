//! The lock of another library, which a worker process takes.

use std::collections::HashMap;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{oneshot, watch};

use super::pipe::{Group, Output, Pipe, Said};
use super::protocol::{Acquire, Granted, Greeting, Line, LockKind, Request};
use crate::timestamp;

/// The locks of another library.
#[derive(Debug)]
pub(crate) struct Foreign {
    pipe: Arc<Pipe>,
    table: Arc<Mutex<Table>>,
    next: AtomicU64,
    kind: LockKind,
    permits: Option<u32>,
    lease_ms: u64,
}

/// What waits for lines of the worker.
#[derive(Debug, Default)]
struct Table {
    attempts: HashMap<u64, oneshot::Sender<Answer>>,
    holds: HashMap<u64, Arc<State>>,
    /// The worker has ended: nothing more is answered.
    gone: bool,
}

/// The answer to an attempt.
#[derive(Debug)]
enum Answer {
    Granted(Granted, Arc<State>),
    /// Another client holds it.
    Held,
    Failed(String),
}

/// What the library said of a hold.
#[derive(Debug)]
struct State {
    /// When the lock ceases to be valid, on the judges' clock.
    until_ns: AtomicU64,
    lost: watch::Sender<Option<Loss>>,
    checked: Mutex<Option<oneshot::Sender<bool>>>,
    released: Mutex<Option<oneshot::Sender<Result<(), String>>>>,
}

/// A library told a holder that its lock is lost.
#[derive(Debug, Clone)]
pub(crate) struct Loss {
    pub(crate) why: String,
    /// When a worker heard it, on the judges' clock; `None`: just now.
    pub(crate) at_ns: Option<u64>,
}

/// A hold of another library's lock.
#[derive(Debug)]
pub(crate) struct ForeignHold {
    granted: Granted,
    state: Arc<State>,
    pipe: Arc<Pipe>,
}

/// The end of a lock of which the library says no end: later than any run.
const NO_END_NS: u64 = u64::MAX / 2;

/// The time in which a worker ends after its input has.
const ENDS_WITHIN: Duration = Duration::from_secs(1);

impl Foreign {
    /// Starts the worker and waits for its `hello`.
    pub(super) async fn start(
        command: &str,
        greeting: Greeting,
        kind: LockKind,
        permits: Option<u32>,
    ) -> io::Result<Self> {
        let (pipe, mut output) = Pipe::start(command, Group::OfParent)?;
        let lease_ms = greeting.lease_ms;
        pipe.send(&Request::Hello(greeting)).await?;
        match output.next().await {
            Some(Said::Line(line)) if matches!(*line, Line::Hello(_)) => {}
            said => return Err(io::Error::other(format!("the worker says no hello: {said:?}"))),
        }
        let (pipe, table) = (Arc::new(pipe), Arc::<Mutex<Table>>::default());
        tokio::spawn(read(output, Arc::clone(&table), Arc::clone(&pipe)));
        Ok(Self { pipe, table, next: AtomicU64::new(1), kind, permits, lease_ms })
    }

    /// `None`: another client holds it. `wait`: how long the library waits for it; `None`: until it
    /// is granted.
    pub(super) async fn acquire(
        &self,
        names: Vec<String>,
        wait: Option<Duration>,
    ) -> Result<Option<ForeignHold>, String> {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let (answered, answer) = oneshot::channel();
        {
            let mut table = locked(&self.table);
            if table.gone {
                return Err(GONE.to_owned());
            }
            table.attempts.insert(id, answered);
        }
        let wait_ms = wait.map(|wait| u64::try_from(wait.as_millis()).unwrap_or(u64::MAX));
        let Self { kind, permits, lease_ms, .. } = *self;
        let acquire = Acquire { id, names, kind, permits, lease_ms, wait_ms };
        self.pipe.send(&Request::Acquire(acquire)).await.map_err(|error| error.to_string())?;
        match answer.await {
            Ok(Answer::Granted(granted, state)) => {
                Ok(Some(ForeignHold { granted, state, pipe: Arc::clone(&self.pipe) }))
            }
            Ok(Answer::Held) => Ok(None),
            Ok(Answer::Failed(why)) => Err(why),
            Err(_) => Err(GONE.to_owned()),
        }
    }

    /// Ends the worker.
    pub(super) async fn close(&self) {
        self.pipe.close().await;
        let gone = async {
            while !locked(&self.table).gone {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        // A library that waits for a dead server may not end. The process group ends with the run.
        let _ = tokio::time::timeout(ENDS_WITHIN, gone).await;
    }
}

const GONE: &str = "the library's worker has ended";

impl ForeignHold {
    pub(super) fn token(&self) -> u64 {
        self.granted.token.unwrap_or_default()
    }

    /// When the worker asked, and when it heard of the grant.
    pub(super) fn readings(&self) -> (u64, u64) {
        (self.granted.asked_ns, self.granted.heard_ns)
    }

    pub(super) fn valid_for(&self) -> Duration {
        let until = self.state.until_ns.load(Ordering::Relaxed);
        Duration::from_nanos(until.saturating_sub(timestamp::mono_ns()))
    }

    /// Asks the library.
    pub(super) async fn is_valid(&self) -> bool {
        let (answered, answer) = oneshot::channel();
        *locked(&self.state.checked) = Some(answered);
        let asked = self.pipe.send(&Request::Check { id: self.granted.id }).await;
        asked.is_ok() && answer.await.unwrap_or(false)
    }

    pub(super) async fn lost(&self) -> Loss {
        let mut lost = self.state.lost.subscribe();
        match lost.wait_for(Option::is_some).await.map(|lost| lost.clone()) {
            Ok(Some(loss)) => loss,
            _ => std::future::pending().await,
        }
    }

    pub(super) async fn release(self) -> Result<(), String> {
        let (answered, answer) = oneshot::channel();
        *locked(&self.state.released) = Some(answered);
        let asked = self.pipe.send(&Request::Release { id: self.granted.id }).await;
        asked.map_err(|error| error.to_string())?;
        answer.await.unwrap_or_else(|_| Err(GONE.to_owned()))
    }
}

/// Reads until the worker has ended.
async fn read(mut output: Output, table: Arc<Mutex<Table>>, pipe: Arc<Pipe>) {
    while let Some(said) = output.next().await {
        let Said::Line(line) = said else { continue };
        let abandoned = locked(&table).take(*line);
        if let Some(id) = abandoned {
            let _ = pipe.send(&Request::Release { id }).await;
        }
    }
    let mut table = locked(&table);
    // The drop of a sender tells its receiver that no answer comes.
    for state in table.holds.values() {
        locked(&state.checked).take();
        locked(&state.released).take();
    }
    *table = Table { gone: true, ..Table::default() };
}

impl Table {
    /// Passes a line on to the call that waits for it. Returns the hold of a call that waits no more: the
    /// worker must release it.
    fn take(&mut self, line: Line) -> Option<u64> {
        match line {
            Line::Granted(granted) => return self.grant(granted),
            Line::Refused(refused) => {
                let answer = if refused.held { Answer::Held } else { Answer::Failed(refused.why) };
                let _ = self.attempts.remove(&refused.id)?.send(answer);
            }
            Line::Checked(checked) => {
                let state = self.holds.get(&checked.id)?;
                state.move_end(checked.heard_ns, checked.valid_for_ns);
                let waiting = locked(&state.checked).take()?;
                let _ = waiting.send(checked.valid);
            }
            Line::Renewed(renewed) => {
                let state = self.holds.get(&renewed.id)?;
                state.move_end(renewed.heard_ns, Some(renewed.valid_for_ns));
            }
            Line::Lost(lost) => {
                let state = self.holds.get(&lost.id)?;
                state.lost.send_replace(Some(Loss { why: lost.why, at_ns: Some(lost.heard_ns) }));
            }
            Line::Released(released) => {
                let state = self.holds.remove(&released.id)?;
                let waiting = locked(&state.released).take()?;
                let _ = waiting.send(if released.ok { Ok(()) } else { Err(released.why) });
            }
            Line::Hello(_) | Line::Absent { .. } | Line::Event(_) => {}
        }
        None
    }

    fn grant(&mut self, granted: Granted) -> Option<u64> {
        let id = granted.id;
        let waiting = self.attempts.remove(&id)?;
        let state = Arc::new(State {
            until_ns: AtomicU64::new(NO_END_NS),
            lost: watch::Sender::new(None),
            checked: Mutex::default(),
            released: Mutex::default(),
        });
        state.move_end(granted.heard_ns, granted.valid_for_ns);
        self.holds.insert(id, Arc::clone(&state));
        waiting.send(Answer::Granted(granted, state)).is_err().then_some(id)
    }
}

impl State {
    fn move_end(&self, heard_ns: u64, valid_for_ns: Option<u64>) {
        if let Some(valid_for_ns) = valid_for_ns {
            self.until_ns.store(heard_ns.saturating_add(valid_for_ns), Ordering::Relaxed);
        }
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
