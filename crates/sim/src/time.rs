//! Simulated time: of the world, of each client and of each node.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use quorumlock_protocol::Instant;
use quorumlock_watchdog::Clock;

/// Microseconds since the world began.
pub type Micros = u64;

pub const MS: Micros = 1_000;
pub const SECOND: Micros = 1_000_000;
/// The time that clocks show when the world begins. It is not zero, so that "an hour ago" exists.
pub const DAY: Micros = 86_400 * SECOND;

/// The world's clock: tokio's paused clock, which the runtime advances when no task can run.
#[derive(Clone, Copy, Debug)]
pub struct Start(tokio::time::Instant);

impl Start {
    // Simulated time is tokio's by design: the timers of the real client code run by it.
    #[allow(clippy::disallowed_methods)]
    pub fn now() -> Self {
        Self(tokio::time::Instant::now())
    }

    pub fn micros(self) -> Micros {
        self.0.elapsed().as_micros() as Micros
    }
}

pub fn duration(micros: Micros) -> Duration {
    Duration::from_micros(micros)
}

pub fn micros(d: Duration) -> Micros {
    u64::try_from(d.as_micros()).unwrap_or(Micros::MAX)
}

/// The lease clock of one client process, with a rate of its own.
#[derive(Debug)]
pub struct ClientClock {
    start: Start,
    /// The drift against the world's clock, in parts per million.
    drift: i64,
    /// By how much the clock is ahead of the world's. Clients also propose fencing tokens by this
    /// clock.
    ahead: Micros,
    /// Set while the invariants read the clock: a paused process is judged by the time that really
    /// passes.
    observed: AtomicBool,
    offset: Mutex<ClockOffset>,
}

#[derive(Debug, Default)]
struct ClockOffset {
    /// The time at which the process stopped. While it is set, the process reads this time.
    stopped_at: Option<Duration>,
    /// The time that the clock never counted (a frozen virtual machine).
    missed: Duration,
}

impl ClientClock {
    pub fn new(start: Start, drift: i64, ahead: Micros) -> Arc<Self> {
        let (observed, offset) = (AtomicBool::new(false), Mutex::default());
        Arc::new(Self { start, drift, ahead, observed, offset })
    }

    /// The clock as the client's code reads it.
    pub fn clock(self: &Arc<Self>) -> Clock {
        let this = self.clone();
        Clock::given(move || this.read())
    }

    /// The time that the clock would show now if the process ran.
    pub fn running(&self) -> Instant {
        Instant::NEVER + self.elapsed(&self.offset())
    }

    /// Runs `look` while the clock shows the running time, also if the process is stopped.
    pub fn observe<T>(&self, look: impl FnOnce() -> T) -> T {
        self.observed.store(true, Ordering::Relaxed);
        let seen = look();
        self.observed.store(false, Ordering::Relaxed);
        seen
    }

    pub fn stop(&self) {
        let mut offset = self.offset();
        offset.stopped_at = Some(self.elapsed(&offset));
    }

    /// Resumes the clock. `counted`: whether the clock counted the time of the stop, as a clock
    /// that counts suspend does.
    pub fn go_on(&self, counted: bool) {
        let mut offset = self.offset();
        if let Some(at) = offset.stopped_at.take()
            && !counted
        {
            let now = self.elapsed(&offset);
            offset.missed += now.saturating_sub(at);
        }
    }

    fn read(&self) -> Duration {
        let offset = self.offset();
        match offset.stopped_at {
            Some(at) if !self.observed.load(Ordering::Relaxed) => at,
            _ => self.elapsed(&offset),
        }
    }

    fn elapsed(&self, offset: &ClockOffset) -> Duration {
        duration(DAY + self.ahead + drifted(self.start.micros(), self.drift)) - offset.missed
    }

    fn offset(&self) -> MutexGuard<'_, ClockOffset> {
        self.offset.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The wall clock of one node, by which its keys expire: it drifts, steps and freezes.
#[derive(Clone, Debug)]
pub struct NodeClock {
    /// The clock showed `shown` at `at`, and continues from there.
    at: Micros,
    shown: Micros,
    /// The drift against the world's clock, in parts per million.
    drift: i64,
    frozen: bool,
}

impl NodeClock {
    pub fn new(shown: Micros, drift: i64) -> Self {
        Self { at: 0, shown, drift, frozen: false }
    }

    pub fn micros(&self, now: Micros) -> Micros {
        let since = now.saturating_sub(self.at);
        self.shown + if self.frozen { 0 } else { drifted(since, self.drift) }
    }

    pub fn set_drift(&mut self, now: Micros, drift: i64) {
        self.rest(now);
        self.drift = drift;
    }

    pub fn freeze(&mut self, now: Micros, frozen: bool) {
        self.rest(now);
        self.frozen = frozen;
    }

    pub fn step(&mut self, now: Micros, by: i64) {
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

/// A client's lease clock, beside a wall clock that agrees with a node's where no fault has set or
/// stopped it.
pub fn node_wall_clock(
    clock: &Arc<ClientClock>,
    right: Arc<Mutex<NodeClock>>,
    start: Start,
) -> Clock {
    clock.clock().with_wall(move || {
        right.lock().unwrap_or_else(PoisonError::into_inner).micros(start.micros())
    })
}
