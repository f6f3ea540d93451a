//! Simulated time: the world's, each client's, each node's.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use quorumlock_core::{Clock, Instant};

/// Microseconds since the world began.
pub(super) type Micros = u64;

pub(super) const MS: Micros = 1_000;
pub(super) const SECOND: Micros = 1_000_000;
/// What all clocks show when the world begins. Not zero, so that "an hour ago" exists.
pub(super) const DAY: Micros = 86_400 * SECOND;

/// The world's clock: tokio's, which the runtime moves on whenever nobody can act.
#[derive(Clone, Copy, Debug)]
pub(super) struct Start(tokio::time::Instant);

impl Start {
    // Simulated time is tokio's by design: the timers of the real client code run by it.
    #[allow(clippy::disallowed_methods)]
    pub(super) fn now() -> Self {
        Self(tokio::time::Instant::now())
    }

    pub(super) fn micros(self) -> Micros {
        self.0.elapsed().as_micros() as Micros
    }
}

pub(super) fn duration(micros: Micros) -> Duration {
    Duration::from_micros(micros)
}

pub(super) fn micros(d: Duration) -> Micros {
    u64::try_from(d.as_micros()).unwrap_or(Micros::MAX)
}

/// The lease clock of one client process, with a rate of its own.
#[derive(Debug)]
pub(super) struct ClientClock {
    start: Start,
    /// Parts per million, against the world.
    drift: i64,
    /// What it shows more than others: fencing tokens are proposed by it as well.
    ahead: Micros,
    /// While the invariants look: a paused process is judged by the time that really passes.
    observed: AtomicBool,
    hands: Mutex<Hands>,
}

#[derive(Debug, Default)]
struct Hands {
    /// The process is stopped: it cannot see time go by.
    stopped_at: Option<Duration>,
    /// Time that the clock itself never counted (a frozen virtual machine).
    missed: Duration,
}

impl ClientClock {
    pub(super) fn new(start: Start, drift: i64, ahead: Micros) -> Arc<Self> {
        let (observed, hands) = (AtomicBool::new(false), Mutex::default());
        Arc::new(Self { start, drift, ahead, observed, hands })
    }

    /// As the client's code sees it.
    pub(super) fn clock(self: &Arc<Self>) -> Clock {
        let this = self.clone();
        Clock::given(move || this.read())
    }

    /// What it would show now if the process ran.
    pub(super) fn running(&self) -> Instant {
        Instant::NEVER + self.elapsed(&self.hands())
    }

    /// Runs `look` on the running clock, also while the process is stopped.
    pub(super) fn observe<T>(&self, look: impl FnOnce() -> T) -> T {
        self.observed.store(true, Ordering::Relaxed);
        let seen = look();
        self.observed.store(false, Ordering::Relaxed);
        seen
    }

    pub(super) fn stop(&self) {
        let mut hands = self.hands();
        hands.stopped_at = Some(self.elapsed(&hands));
    }

    /// `counted`: whether the clock went on meanwhile, as a clock that counts suspend does.
    pub(super) fn go_on(&self, counted: bool) {
        let mut hands = self.hands();
        if let Some(at) = hands.stopped_at.take()
            && !counted
        {
            let now = self.elapsed(&hands);
            hands.missed += now.saturating_sub(at);
        }
    }

    fn read(&self) -> Duration {
        let hands = self.hands();
        match hands.stopped_at {
            Some(at) if !self.observed.load(Ordering::Relaxed) => at,
            _ => self.elapsed(&hands),
        }
    }

    fn elapsed(&self, hands: &Hands) -> Duration {
        duration(DAY + self.ahead + drifted(self.start.micros(), self.drift)) - hands.missed
    }

    fn hands(&self) -> MutexGuard<'_, Hands> {
        self.hands.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The wall clock of one node, by which its keys expire: it drifts, steps and freezes.
#[derive(Clone, Debug)]
pub(super) struct NodeClock {
    /// It showed `shown` at `at`, and goes on from there.
    at: Micros,
    shown: Micros,
    /// Parts per million, against the world.
    drift: i64,
    frozen: bool,
}

impl NodeClock {
    pub(super) fn new(shown: Micros, drift: i64) -> Self {
        Self { at: 0, shown, drift, frozen: false }
    }

    pub(super) fn micros(&self, now: Micros) -> Micros {
        let since = now.saturating_sub(self.at);
        self.shown + if self.frozen { 0 } else { drifted(since, self.drift) }
    }

    pub(super) fn set_drift(&mut self, now: Micros, drift: i64) {
        self.rest(now);
        self.drift = drift;
    }

    pub(super) fn freeze(&mut self, now: Micros, frozen: bool) {
        self.rest(now);
        self.frozen = frozen;
    }

    pub(super) fn step(&mut self, now: Micros, by: i64) {
        self.rest(now);
        self.shown = self.shown.saturating_add_signed(by);
    }

    fn rest(&mut self, now: Micros) {
        (self.shown, self.at) = (self.micros(now), now);
    }
}

fn drifted(micros: Micros, ppm: i64) -> Micros {
    let factor = u128::from(1_000_000u64.saturating_add_signed(ppm));
    (u128::from(micros) * factor / 1_000_000) as Micros
}
