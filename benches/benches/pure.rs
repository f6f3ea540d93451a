//! The pure parts: one round of acquisition, the window, the watchdog's schedule.

#![allow(missing_docs, reason = "criterion's macros make undocumented items")]

use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use quorumlock_protocol::round::Round;
use quorumlock_protocol::{Acceptance, Answer, FencingToken, LeaseTiming, Nonce, Vote, Window};
use quorumlock_watchdog::Clock;
use quorumlock_watchdog::schedule::Schedule;
use quorumlock_watchdog::{LeaseState, WatchedLease};

const LEASE: Duration = Duration::from_secs(30);

fn round(c: &mut Criterion) {
    let now = Clock::manual().now();
    for nodes in [1, 3, 5, 7] {
        c.bench_function(&format!("round/{nodes} nodes, all grant"), |b| {
            b.iter(|| {
                let mut round = Round::new(nodes, 0, FencingToken::new(31));
                for node in 0..nodes {
                    let vote = Vote { until: now + LEASE, token: Acceptance::Accepted };
                    black_box(round.on_answer(node, Answer::Yes(vote), now));
                }
            });
        });
    }
}

fn window(c: &mut Criterion) {
    let now = Clock::manual().now();
    let mut window = Window::shut(5);
    for node in 0..5 {
        window.record_held(node, now + LEASE);
    }
    c.bench_function("window/until of 5", |b| b.iter(|| black_box(&window).until()));
}

struct Lease(u64, LeaseState);

impl WatchedLease for Lease {
    fn id(&self) -> u64 {
        self.0
    }

    fn nonce(&self) -> Nonce {
        Nonce::from_u128(self.0.into())
    }

    fn state(&self) -> &LeaseState {
        &self.1
    }
}

fn schedule(c: &mut Criterion) {
    let clock = Clock::manual();
    let now = clock.now();
    let terms = LeaseTiming { lease: LEASE, until: now + LEASE, hold_until: None };
    let lease = |id| Arc::new(Lease(id, LeaseState::new(clock.clone(), terms)));
    let full = || {
        let mut schedule = Schedule::default();
        (0..10_000).for_each(|id| schedule.add(lease(id), now));
        schedule
    };
    let (mut kept, more) = (full(), lease(10_000));
    c.bench_function("schedule/add and remove beside 10,000", |b| {
        b.iter(|| {
            kept.add(more.clone(), now);
            kept.remove(10_000)
        });
    });
    c.bench_function("schedule/10,000 due in batches of 100", |b| {
        b.iter_batched(
            full,
            |mut schedule| while !schedule.due(now + LEASE / 3, 100).is_empty() {},
            BatchSize::LargeInput,
        );
    });
}

criterion_group!(benches, round, window, schedule);
criterion_main!(benches);
