//! The workload of the clients: tasks that take locks, hold them, write under them and release
//! them.

use std::time::Duration;

use quorumlock_core::kind::{self, Kind};
use quorumlock_core::{Guard, LockRequest, Locker};
use quorumlock_protocol::{Claim, ConfigError, Error, Instant, LossReason, Lost, Name, Owner};

use super::invariants::{
    check_exclusion, check_re_entry, check_reason, check_takeover, check_told, liveness,
};
use super::ledger::Holding;
use super::sometimes::Sometimes;
use super::time::{MS, Micros, duration, micros};
use super::trace::Who;
use super::violation::Violation;
use super::wanted::Wanted;
use super::world::{State, World};
use crate::dice::Dice;

/// One task of a client.
pub struct WorkTask {
    pub world: World,
    pub client: usize,
    pub task: usize,
    pub locker: Locker,
    owner: Owner,
    pub dice: Dice,
    pub lease: Micros,
    pub think: Micros,
    names: usize,
    /// Draws sets of names. Numbers of its own: other plans stay what they are.
    sets: Option<Dice>,
    /// Draws permits, in the same way.
    pub permits: Option<Dice>,
    /// Draws read-write locks, in the same way.
    pub read_write: Option<Dice>,
}

/// Begins the names of read-write locks.
pub const READ_WRITE: &str = "read-write/";

pub async fn run_task(world: World, client: usize, task: usize, locker: Locker) {
    let plan = world.with(|state| state.plan.clone());
    let dice = Dice::new(plan.seed, 1_000_000 + (client * 16 + task) as u64);
    let (lease, think, names) = (plan.lease, plan.think, plan.names);
    let owner = Owner::new();
    let of_task = 6_000_000 + (client * 16 + task) as u64;
    let sets = plan.kinds.sets.then(|| Dice::new(plan.seed, of_task));
    let of_task = 8_000_000 + (client * 16 + task) as u64;
    let permits = plan.kinds.permits.then(|| Dice::new(plan.seed, of_task));
    let of_task = 10_000_000 + (client * 16 + task) as u64;
    let read_write = plan.kinds.read_write.then(|| Dice::new(plan.seed, of_task));
    let mut work = WorkTask {
        world,
        client,
        task,
        locker,
        owner,
        dice,
        lease,
        think,
        names,
        sets,
        permits,
        read_write,
    };
    if let Some(work_time) = plan.short_work {
        return work.live_shortly(work_time, plan.recovered()).await;
    }
    while !work.world.with(|state| state.healed) {
        let left = plan.heals.saturating_sub(work.world.with(|state| state.now));
        let think = work.dice.within(0, work.think).min(left);
        tokio::time::sleep(duration(think)).await;
        work.acquire_once().await;
    }
    work.healing_phase(plan.recovered()).await;
    work.world.with(|state| state.busy -= 1);
}

impl WorkTask {
    async fn acquire_once(&mut self) {
        let names = self.names();
        let lease = duration(self.dice.within(self.lease / 2, self.lease * 2));
        let limit = duration(self.dice.within(self.lease / 3, self.lease * 5 / 2));
        let wait = duration(self.dice.spread(MS, self.lease * 3));
        let kind = self.dice.within(0, 9);
        if kind == 9 {
            return self.enter_twice(&names, lease).await;
        }
        let durations = (lease, limit, wait);
        if self.permits.as_mut().is_some_and(|dice| dice.chance(0.4)) {
            let claim = Wanted::Permit(names[0].clone()).claim();
            return self.take::<kind::Permit>(claim, kind, durations).await;
        }
        if self.read_write.as_mut().is_some_and(|dice| dice.chance(0.5)) {
            return self.read_or_write(&names[0], kind, durations).await;
        }
        self.take::<kind::Lock>(Claim::lock(&names), kind, durations).await;
    }

    /// Takes what is claimed, in the way that `kind` says.
    async fn take<K: Kind>(
        &mut self,
        claim: Result<Claim, ConfigError>,
        kind: u64,
        (lease, limit, wait): (Duration, Duration, Duration),
    ) {
        let mut attempt = self.locker.try_lock::<K>(claim.clone()).lease(lease);
        let mut lock = self.locker.lock::<K>(claim).lease(lease);
        let again = lock.clone();
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
            Ok(guard) => self.hold_and_return(guard, &again).await,
            Err(error) => self.failed(&error),
        }
    }

    /// Takes a read-write lock: two of three times to read, and sometimes to write and then read.
    async fn read_or_write(
        &mut self,
        name: &str,
        kind: u64,
        durations: (Duration, Duration, Duration),
    ) {
        let mixed = self.world.with(|state| state.plan.kinds.mixed);
        // A name is a lock or a read-write lock, unless kinds are mixed.
        let name = if mixed { name.to_owned() } else { format!("{READ_WRITE}{name}") };
        let Some(dice) = &mut self.read_write else { return };
        match dice.within(0, 8) {
            0..=4 => {
                let claim = Wanted::Read(name).claim();
                self.take::<kind::Read>(claim, kind, durations).await;
            }
            5..=7 => {
                let claim = Wanted::Write(name).claim();
                self.take::<kind::Write>(claim, kind, durations).await;
            }
            _ => self.write_then_read(&name, durations).await,
        }
    }

    async fn write_then_read(
        &mut self,
        name: &str,
        (lease, _, wait): (Duration, Duration, Duration),
    ) {
        let claim = Wanted::Write(name.to_owned()).claim();
        let lock = self.locker.lock::<kind::Write>(claim);
        let writer = match lock.lease(lease).wait(wait).await {
            Ok(writer) => writer,
            Err(error) => return self.failed(&error),
        };
        let (writer, attempt) = self.hold(writer).await;
        self.world.with(|state| state.reads_from_now(attempt));
        let reader = match writer.downgrade().await {
            Ok(reader) => reader,
            Err(error) => {
                self.end_hold(attempt);
                return self.failed(&error);
            }
        };
        self.world.with(|state| {
            let view = reader.view();
            state.see(Sometimes::Downgraded);
            let holders = &mut state.ledger.holders;
            if let Some(holder) = holders.iter_mut().find(|holder| holder.attempt == attempt) {
                holder.view = view;
            }
            state.see_beliefs();
            check_exclusion(state, attempt);
        });
        let pause = duration(self.dice.within(0, self.lease / 4));
        tokio::time::sleep(pause).await;
        self.release(reader, attempt).await;
    }

    /// Holds the lock. Sometimes releases it and asks for it again at once.
    async fn hold_and_return<K: Kind>(&mut self, guard: Guard<K>, request: &LockRequest<K>) {
        let (mut guard, mut attempt) = self.hold(guard).await;
        while self.dice.chance(0.2) {
            self.release(guard, attempt).await;
            let wait = duration(self.dice.spread(MS, self.lease * 3));
            let lock = request.clone();
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
        self.release(guard, attempt).await;
    }

    async fn enter_twice(&mut self, names: &[String], lease: Duration) {
        let lock =
            || self.locker.lock::<kind::Lock>(Claim::lock(names)).lease(lease).owner(&self.owner);
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
                check_re_entry(state, attempt, outer.token().get(), inner.token().get());
            });
            drop(inner);
        }
        self.release(outer, attempt).await;
    }

    /// Holds the lock in one of the ways in which users do, and writes from time to time.
    pub async fn hold<K: Kind>(&mut self, guard: Guard<K>) -> (Guard<K>, usize) {
        let attempt = self.granted(&guard);
        let token = guard.token().get();
        let (names, only_reads) =
            self.world.with(|state| (state.names_of(attempt), state.reads(attempt)));
        let long = if self.dice.chance(0.3) { self.lease * 2 } else { self.lease / 4 };
        let hold = self.dice.within(0, long);
        // In the calm phase no holder makes the others wait for long.
        let hold = if self.world.with(|state| state.healed) { hold.min(20 * MS) } else { hold };
        let style = self.dice.within(0, 2);
        let steps = 3;
        let pause = duration(hold / steps);
        let world = self.world.clone();
        // Claims the resource before it reads, and writes even if the lock is lost.
        let work = async {
            for _ in 0..steps {
                let claim = |name| {
                    world.with(|state| {
                        let register = state.workload.register(name);
                        if only_reads { register.read(token) } else { register.claim(token) }
                    })
                };
                let reads: Vec<_> = names.iter().map(claim).collect();
                tokio::time::sleep(pause).await;
                if style != 1 && guard.check().is_ok() {
                    world.with(|state| {
                        check_told(state, attempt);
                        state.read_window(attempt);
                    });
                }
                for (name, read) in names.iter().zip(reads) {
                    match read {
                        Some(read) if only_reads => {
                            world.with(|state| state.read_again(name, token, read));
                        }
                        Some(read) => world.with(|state| state.write(name, token, read)),
                        None => world.with(|state| state.see(Sometimes::StaleWriteRefused)),
                    }
                }
            }
        };
        let lost = match style {
            0 => guard.run(work).await.err(),
            1 => {
                // This holder checks nothing. Only the token protects the next holder.
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

    pub fn granted<K: Kind>(&self, guard: &Guard<K>) -> usize {
        let client = self.client;
        self.world.with(|state| {
            let Some(attempt) = state.ledger.number(guard.nonce()) else { return 0 };
            let token = guard.token().get();
            let after = state.ledger.attempts[attempt].after;
            if std::mem::replace(&mut state.ledger.attempts[attempt].granted, true) {
                state.see(Sometimes::LocalHandoff);
            }
            state.note("granted", Who::client(client).on(Some(attempt)), token);
            let view = guard.view();
            let promised_until = Instant::NEVER;
            state.ledger.holders.push(Holding { client, attempt, view, promised_until });
            state.read_window(attempt);
            check_exclusion(state, attempt);
            check_takeover(state, attempt);
            state.begin_belief(attempt, Some(token));
            state.note_overlap(attempt);
            let claim = &state.ledger.attempts[attempt].claim;
            let (several, permit) = (!claim.is_one(), claim.slots().is_some());
            if several {
                state.see(Sometimes::SetGranted);
            } else if permit {
                state.see(Sometimes::PermitGranted);
            }
            let (names, reads) = (state.names_of(attempt), state.reads(attempt));
            for name in names {
                let tokens = state.ledger.tokens.entry(name).or_default();
                let held = (attempt, guard.check().is_ok(), reads);
                if let Some(violation) = tokens.check(held, token, after) {
                    state.violate(violation);
                }
            }
            attempt
        })
    }

    /// The holder is about to release the lock. From now on its belief in the lease is not checked.
    pub fn end_hold(&self, attempt: usize) {
        let client = self.client;
        let gone = self.world.with(|state| {
            state.note("gives back", Who::client(client).on(Some(attempt)), 0);
            if let Some(attempt) = state.ledger.attempts.get(attempt) {
                state.workload.free_from(&attempt.claim, state.now);
            }
            state.remember_lost(attempt);
            state.end_belief(attempt);
            let holders = &mut state.ledger.holders;
            let place = holders.iter().position(|held| held.attempt == attempt);
            place.map(|place| holders.remove(place))
        });
        drop(gone);
    }

    pub async fn release<K: Kind>(&mut self, guard: Guard<K>, attempt: usize) {
        self.end_hold(attempt);
        if self.dice.chance(0.4) {
            drop(guard);
        } else if let Err(error @ Error::Config(_)) = guard.unlock().await {
            self.failed(&error);
        }
    }

    fn lost(&self, attempt: usize, lost: &Lost, told: bool) {
        self.world.with(|state| {
            let what = match lost.why {
                LossReason::WindowShut => "lost: window shut",
                LossReason::Gone => "lost: gone",
                LossReason::Forced => "lost: forced",
                LossReason::HoldLimit => "lost: hold limit",
                _ => "lost",
            };
            state.note(what, Who::client(self.client).on(Some(attempt)), 0);
            match lost.why {
                LossReason::WindowShut => state.see(Sometimes::Lapsed),
                LossReason::Gone | LossReason::Forced => state.see(Sometimes::LostByNo),
                LossReason::HoldLimit => state.see(Sometimes::HoldLimit),
                _ => {}
            }
            if told && lost.why != LossReason::HoldLimit {
                check_told(state, attempt);
            }
            check_reason(state, attempt, lost.why);
        });
    }

    pub fn failed(&self, error: &Error) {
        match error {
            Error::Busy(_) | Error::Refused(_) | Error::Unreachable(_) | Error::Lost(_) => {}
            other => self.world.with(|state| state.unexpected(self.client, other)),
        }
    }

    /// One name; in a plan with sets, sometimes all names.
    fn names(&mut self) -> Vec<String> {
        match self.sets.as_mut().is_some_and(|dice| dice.chance(0.4)) {
            true => (0..self.names).map(|number| self.name_of(number)).collect(),
            false => vec![self.name()],
        }
    }

    pub fn name(&mut self) -> String {
        let number = self.dice.index(self.names);
        self.name_of(number)
    }

    fn name_of(&self, number: usize) -> String {
        match self.world.with(|state| state.now.checked_div(state.plan.renames)) {
            Some(period) => format!("job/{number}/{period}"),
            None => format!("job/{number}"),
        }
    }
}

impl State {
    /// The names that the nodes hold for an attempt: of permits, its slot.
    fn names_of(&self, attempt: usize) -> Vec<Name> {
        let attempt = self.ledger.attempts.get(attempt);
        attempt.into_iter().flat_map(|attempt| attempt.claim.names()).cloned().collect()
    }

    /// The holder of an attempt reads the end of its window.
    fn read_window(&mut self, attempt: usize) {
        let holder = self.ledger.holders.iter_mut().find(|holder| holder.attempt == attempt);
        if let Some(holder) = holder {
            let process = &self.processes[holder.client];
            let left = process.clock.observe(|| holder.view.valid_for());
            if !left.is_zero() {
                holder.promised_until = process.now() + left;
            }
        }
    }

    /// Ends the attempts whose lease this client has lost by now. The next answers save none of
    /// them.
    pub fn note_losses(&mut self, client: usize) {
        let Self { ledger, processes, now, .. } = self;
        for holder in ledger.holders.iter().filter(|holder| holder.client == client) {
            let attempt = &mut ledger.attempts[holder.attempt];
            let clock = &processes[client].clock;
            if !attempt.ended && clock.observe(|| holder.view.check()).is_err() {
                attempt.end(*now);
            }
        }
    }

    /// Reports an error that nothing in the plan explains.
    pub fn unexpected(&mut self, client: usize, error: &dyn std::error::Error) {
        let why = error.to_string();
        self.violate(Violation::NotAcquired { client, after_us: 0, why });
    }

    /// Whether the attempt is for reading.
    fn reads(&self, attempt: usize) -> bool {
        self.ledger.attempts.get(attempt).is_some_and(|attempt| attempt.claim.reads())
    }

    fn note_overlap(&mut self, attempt: usize) {
        let name = |number: usize| self.ledger.attempts[number].claim.name();
        let beside =
            |other: usize| other != attempt && self.reads(other) && name(other) == name(attempt);
        let mut others = self.ledger.holders.iter().map(|holder| holder.attempt);
        if self.reads(attempt) && others.any(beside) {
            self.see(Sometimes::ReadersOverlapped);
        }
    }

    /// A writer is about to go on as a reader.
    fn reads_from_now(&mut self, attempt: usize) {
        self.end_belief(attempt);
        if let Some(attempt) = self.ledger.attempts.get_mut(attempt) {
            attempt.claim = Claim::read(attempt.claim.name().clone());
        }
        self.begin_belief(attempt, None);
    }

    /// A reader whose token still counts reads the value that it has read.
    fn read_again(&mut self, name: &Name, token: u64, read: u64) {
        match self.workload.register(name).read(token) {
            Some(again) if again != read => self.violate(Violation::LostUpdate { token }),
            Some(_) => {}
            None => self.see(Sometimes::StaleWriteRefused),
        }
    }

    fn write(&mut self, name: &Name, token: u64, read: u64) {
        match self.workload.register(name).write(token, read) {
            Ok(true) => {}
            Ok(false) => self.see(Sometimes::StaleWriteRefused),
            Err(violation) => self.violate(violation),
        }
    }

    pub fn waits(&mut self, queue: &Name, client: usize, task: usize) -> Micros {
        let now = self.now;
        let sibling =
            |(other, sibling, _): &(usize, usize, Micros)| *other == client && *sibling != task;
        if self.workload.queue(queue).waiting.iter().any(sibling) {
            self.see(Sometimes::QueuedInProcess);
        }
        self.workload.queue(queue).waiting.push((client, task, now));
        now
    }

    /// The task has got what it waited for. Returns how long that was free while a task waited for it.
    /// `None`: no task waited.
    pub fn got(&mut self, queue: &Name, client: usize, task: usize) -> Option<Micros> {
        let now = self.now;
        let place = self.workload.queue(queue);
        let first = place.waiting.iter().map(|(.., since)| *since).min();
        place.waiting.retain(|(other, waiter, _)| (*other, *waiter) != (client, task));
        first.map(|first| now.saturating_sub(first.max(place.freed)))
    }

    /// Checks the longest wait, and that all tasks have left the fault phase.
    pub fn overdue(&mut self) {
        let now = self.now;
        let waiting = self.workload.queues.values().flat_map(|place| &place.waiting);
        let oldest = waiting.map(|(client, _, since)| (now - since, *client)).max();
        match oldest {
            Some((waited, client)) => liveness::check(self, client, waited),
            None if self.busy > 0 => {
                let why = "a task never came out of the faults".to_owned();
                let client = 0;
                self.violate(Violation::NotAcquired { client, after_us: 0, why });
            }
            None => {}
        }
    }
}

/// The tolerance of the time checks, from the settings of a run.
pub fn grace(state: &State) -> Micros {
    2 * state.plan.stall()
        + 1_500 * MS
        + 20 * (state.plan.latency * 2 + state.plan.jitter)
        + micros(Duration::from_millis(50))
}
