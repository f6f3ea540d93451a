//! What the clients want: a task that takes locks, holds them, writes under them, gives them back.

use std::collections::BTreeMap;
use std::time::Duration;

use quorumlock_core::{Error, Guard, Instant, Locker, Loss, Lost, Name, Owner};

use super::invariants::{
    Register, check_exclusion, check_re_entry, check_reason, check_told, liveness,
};
use super::ledger::Holding;
use super::sometimes::Sometimes;
use super::time::{MS, Micros, duration, micros};
use super::trace::Who;
use super::world::{State, World};
use crate::dice::Dice;

/// What is shared outside of the locks, and who waits for what in the calm.
#[derive(Debug, Default)]
pub(super) struct Bench {
    places: BTreeMap<Name, Place>,
}

#[derive(Debug, Default)]
struct Place {
    register: Register,
    /// When it was last given back, or who waits could have had it at the soonest.
    freed: Micros,
    /// Who waits, and since when.
    waiting: Vec<(usize, usize, Micros)>,
}

/// One task of a client.
pub(super) struct Hand {
    pub(super) world: World,
    pub(super) client: usize,
    pub(super) hand: usize,
    pub(super) locker: Locker,
    owner: Owner,
    pub(super) dice: Dice,
    pub(super) lease: Micros,
    think: Micros,
    names: usize,
}

pub(super) async fn hand(world: World, client: usize, hand: usize, locker: Locker) {
    let plan = world.with(|state| state.plan.clone());
    let dice = Dice::new(plan.seed, 1_000_000 + (client * 16 + hand) as u64);
    let (lease, think, names) = (plan.lease, plan.think, plan.names);
    let owner = Owner::new();
    let mut hand = Hand { world, client, hand, locker, owner, dice, lease, think, names };
    while !hand.world.with(|state| state.healed) {
        let think = hand.dice.within(0, hand.think);
        tokio::time::sleep(duration(think)).await;
        hand.take_turn().await;
    }
    hand.calm(plan.recovered()).await;
    hand.world.with(|state| state.busy -= 1);
}

impl Hand {
    async fn take_turn(&mut self) {
        let name = self.name();
        let lease = duration(self.dice.within(self.lease / 2, self.lease * 2));
        let limit = duration(self.dice.within(self.lease / 3, self.lease * 5 / 2));
        let wait = duration(self.dice.spread(MS, self.lease * 3));
        let kind = self.dice.within(0, 9);
        if kind == 9 {
            return self.enter_twice(&name, lease).await;
        }
        let mut lock = self.locker.lock(&name).lease(lease);
        let mut attempt = self.locker.try_lock(&name).lease(lease);
        let who = Who::client(self.client);
        self.world.with(|state| state.note("wants a lease of", who, micros(lease)));
        if self.dice.chance(0.25) {
            self.world.with(|state| state.note("and to hold at most", who, micros(limit)));
            lock = lock.hold_at_most(limit);
            attempt = attempt.hold_at_most(limit);
        }
        let got = match kind {
            0..=3 => lock.wait(wait).await,
            4 | 5 => lock.await,
            6 => match attempt.await {
                Ok(Some(guard)) => Ok(guard),
                Ok(None) => return,
                Err(error) => Err(error),
            },
            _ => match tokio::time::timeout(wait, lock).await {
                Ok(got) => got,
                Err(_) => return self.world.with(|state| state.see(Sometimes::Cancelled)),
            },
        };
        match got {
            Ok(guard) => self.hold_and_bump(guard, lease).await,
            Err(error) => self.failed(&error),
        }
    }

    /// Holds it once, or again and again, with others in between.
    async fn hold_and_bump(&mut self, guard: Guard, lease: Duration) {
        let (mut guard, mut attempt) = self.hold(guard).await;
        while self.dice.chance(0.2) {
            self.lets_go(attempt);
            let wait = duration(self.dice.spread(MS, self.lease * 3));
            let lock = guard.bump().lease(lease);
            let got = match self.dice.chance(0.5) {
                true => lock.wait(wait).await,
                false => match tokio::time::timeout(wait, lock).await {
                    Ok(got) => got,
                    Err(_) => return self.world.with(|state| state.see(Sometimes::Cancelled)),
                },
            };
            match got {
                Ok(again) => (guard, attempt) = self.hold(again).await,
                Err(error) => return self.failed(&error),
            }
        }
        self.give_back(guard, attempt).await;
    }

    async fn enter_twice(&mut self, name: &str, lease: Duration) {
        let lock = || self.locker.lock(name).lease(lease).owner(&self.owner);
        let outer = match lock().wait(duration(self.lease * 3)).await {
            Ok(guard) => guard,
            Err(error) => return self.failed(&error),
        };
        let attempt = self.granted(&outer);
        let pause = self.dice.within(0, self.lease);
        let pause = if self.world.with(|state| state.healed) { 0 } else { pause };
        tokio::time::sleep(duration(pause)).await;
        if let Ok(inner) = lock().wait(duration(self.lease)).await {
            self.world.with(|state| {
                state.see(Sometimes::ReEntered);
                check_re_entry(state, attempt, outer.fence().get(), inner.fence().get());
            });
            drop(inner);
        }
        self.give_back(outer, attempt).await;
    }

    /// Holds it in one of the ways users do, writing now and then.
    async fn hold(&mut self, guard: Guard) -> (Guard, usize) {
        let attempt = self.granted(&guard);
        let (token, name) = (guard.fence().get(), Name::new(guard.name()));
        let Ok(name) = name else { return (guard, attempt) };
        let long = if self.dice.chance(0.3) { self.lease * 2 } else { self.lease / 4 };
        let hold = self.dice.within(0, long);
        // In the calm nobody makes the others wait for long.
        let hold = if self.world.with(|state| state.healed) { hold.min(20 * MS) } else { hold };
        let style = self.dice.within(0, 2);
        let steps = 3;
        let pause = duration(hold / steps);
        let world = self.world.clone();
        // Claims before it reads, and writes whether or not it still holds the lock.
        let work = async {
            for _ in 0..steps {
                let read = world.with(|state| state.bench.register(&name).claim(token));
                tokio::time::sleep(pause).await;
                if style != 1 && guard.check().is_ok() {
                    world.with(|state| {
                        check_told(state, attempt);
                        state.looks(attempt);
                    });
                }
                match read {
                    Some(read) => world.with(|state| state.write(&name, token, read)),
                    None => world.with(|state| state.see(Sometimes::StaleWriteRefused)),
                }
            }
        };
        let lost = match style {
            0 => guard.run(work).await.err(),
            1 => {
                // It looks at nothing: whoever comes next is protected by the token alone.
                work.await;
                guard.check().err()
            }
            _ => tokio::select! {
                biased;
                lost = guard.lost() => Some(lost),
                () = work => None,
            },
        };
        if let Some(lost) = lost {
            self.lost(attempt, &lost, style != 1);
        }
        (guard, attempt)
    }

    pub(super) fn granted(&self, guard: &Guard) -> usize {
        let Ok(name) = Name::new(guard.name()) else { return 0 };
        let client = self.client;
        self.world.with(|state| {
            let Some(attempt) = state.ledger.number(guard.nonce()) else { return 0 };
            let token = guard.fence().get();
            let after = state.ledger.attempts[attempt].after;
            if std::mem::replace(&mut state.ledger.attempts[attempt].granted, true) {
                state.see(Sometimes::HandedOver);
            }
            state.note("granted", Who::client(client).on(Some(attempt)), token);
            let watch = guard.watch();
            let told = Instant::NEVER;
            state.ledger.holders.push(Holding { client, attempt, watch, told });
            state.looks(attempt);
            check_exclusion(state, attempt);
            let tokens = state.ledger.tokens.entry(name.clone()).or_default();
            if let Some(violation) = tokens.check((attempt, guard.check().is_ok()), token, after) {
                state.violate(violation);
            }
            attempt
        })
    }

    /// It is about to be given back: whatever it still believes then matters to nobody.
    pub(super) fn lets_go(&self, attempt: usize) {
        let client = self.client;
        let gone = self.world.with(|state| {
            state.note("gives back", Who::client(client).on(Some(attempt)), 0);
            if let Some(name) = state.ledger.attempts.get(attempt).map(|a| a.name.clone()) {
                state.bench.free_from(&name, state.now);
            }
            let holders = &mut state.ledger.holders;
            let place = holders.iter().position(|held| held.attempt == attempt);
            place.map(|place| holders.remove(place))
        });
        drop(gone);
    }

    pub(super) async fn give_back(&mut self, guard: Guard, attempt: usize) {
        self.lets_go(attempt);
        if self.dice.chance(0.4) {
            drop(guard);
        } else if let Err(error @ Error::Config(_)) = guard.unlock().await {
            self.failed(&error);
        }
    }

    fn lost(&self, attempt: usize, lost: &Lost, told: bool) {
        self.world.with(|state| {
            let what = match lost.why {
                Loss::WindowShut => "lost: window shut",
                Loss::Gone => "lost: gone",
                Loss::HoldLimit => "lost: hold limit",
                _ => "lost",
            };
            state.note(what, Who::client(self.client).on(Some(attempt)), 0);
            match lost.why {
                Loss::WindowShut => state.see(Sometimes::Lapsed),
                Loss::Gone => state.see(Sometimes::LostByNo),
                Loss::HoldLimit => state.see(Sometimes::HoldLimit),
                _ => {}
            }
            if told && lost.why != Loss::HoldLimit {
                check_told(state, attempt);
            }
            check_reason(state, attempt, lost.why);
        });
    }

    fn failed(&self, error: &Error) {
        match error {
            Error::Busy(_) | Error::Refused(_) | Error::Unreachable(_) | Error::Lost(_) => {}
            other => self.world.with(|state| state.unexpected(self.client, other)),
        }
    }

    pub(super) fn name(&mut self) -> String {
        let number = self.dice.index(self.names);
        match self.world.with(|state| state.now.checked_div(state.plan.renames)) {
            Some(term) => format!("job/{number}/{term}"),
            None => format!("job/{number}"),
        }
    }
}

impl Bench {
    pub(super) fn names(&self) -> impl Iterator<Item = &Name> {
        self.places.keys()
    }

    /// Nobody who waits could have had the name sooner.
    pub(super) fn free_from(&mut self, name: &Name, at: Micros) {
        self.place(name).freed = at;
    }

    fn register(&mut self, name: &Name) -> &mut Register {
        &mut self.place(name).register
    }

    fn place(&mut self, name: &Name) -> &mut Place {
        self.places.entry(name.clone()).or_default()
    }
}

impl State {
    /// The holder of an attempt reads how long it stands.
    fn looks(&mut self, attempt: usize) {
        let holder = self.ledger.holders.iter_mut().find(|holder| holder.attempt == attempt);
        if let Some(holder) = holder {
            let process = &self.processes[holder.client];
            holder.told = process.now() + process.clock.observe(|| holder.watch.valid_for());
        }
    }

    /// What this client has lost by now ended no later: what it is told next saves nothing.
    pub(super) fn note_losses(&mut self, client: usize) {
        let Self { ledger, processes, now, .. } = self;
        for holder in ledger.holders.iter().filter(|holder| holder.client == client) {
            let attempt = &mut ledger.attempts[holder.attempt];
            let clock = &processes[client].clock;
            if !attempt.ended && clock.observe(|| holder.watch.check()).is_err() {
                attempt.end(*now);
            }
        }
    }

    /// Nothing in the plan explains this error.
    pub(super) fn unexpected(&mut self, client: usize, error: &dyn std::error::Error) {
        let why = error.to_string();
        self.violate(super::invariants::Violation::NotAcquired { client, after_us: 0, why });
    }

    fn write(&mut self, name: &Name, token: u64, read: u64) {
        match self.bench.register(name).write(token, read) {
            Ok(true) => {}
            Ok(false) => self.see(Sometimes::StaleWriteRefused),
            Err(violation) => self.violate(violation),
        }
    }

    pub(super) fn waits(&mut self, name: &Name, client: usize, hand: usize) -> Micros {
        let now = self.now;
        let twin = |(other, task, _): &(usize, usize, Micros)| *other == client && *task != hand;
        if self.bench.place(name).waiting.iter().any(twin) {
            self.see(Sometimes::QueuedInProcess);
        }
        self.bench.place(name).waiting.push((client, hand, now));
        now
    }

    /// For how long it was free and somebody waited, if it was held in the calm before.
    pub(super) fn got(&mut self, name: &Name, client: usize, hand: usize) -> Option<Micros> {
        let now = self.now;
        let place = self.bench.place(name);
        let first = place.waiting.iter().map(|(.., since)| *since).min();
        place.waiting.retain(|(other, task, _)| (*other, *task) != (client, hand));
        first.map(|first| now.saturating_sub(first.max(place.freed)))
    }

    /// Waits that have gone on for too long by now.
    pub(super) fn overdue(&mut self) {
        let now = self.now;
        let waiting = self.bench.places.values().flat_map(|place| &place.waiting);
        let oldest = waiting.map(|(client, _, since)| (now - since, *client)).max();
        match oldest {
            Some((waited, client)) => liveness::check(self, client, waited),
            None if self.busy > 0 => {
                let why = "a task never came out of the faults".to_owned();
                let client = 0;
                self.violate(super::invariants::Violation::NotAcquired {
                    client,
                    after_us: 0,
                    why,
                });
            }
            None => {}
        }
    }
}

/// For the settings of a run.
pub(super) fn grace(state: &State) -> Micros {
    2 * state.plan.stall()
        + 1_500 * MS
        + 20 * (state.plan.latency * 2 + state.plan.jitter)
        + micros(Duration::from_millis(50))
}
