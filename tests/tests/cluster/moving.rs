use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::future::{join, join_all};
use quorumlock::{Error, FencingToken, Guard, Locker, Servers};
use quorumlock_protocol::Name;
use quorumlock_tests::{Plain, Stopwatch, eventually, missed, within};
use tokio::task::JoinHandle;

use crate::{Fleet, MASTERS, name_in, slots_of};

/// How many slots move.
const SLOTS: usize = 1_000;
/// How many tasks lock.
const TASKS: usize = 64;
/// So many tasks want one name.
const TASKS_PER_NAME: usize = 4;

impl Fleet {
    /// Begins to move a slot from one master to another.
    pub(crate) async fn begin_move(&self, slot: usize, from: usize, to: usize) {
        let slot = slot.to_string();
        let importing = ["CLUSTER", "SETSLOT", &slot, "IMPORTING", &self.ids[from]];
        self.plain[to].ask::<String>(&importing).await;
        let migrating = ["CLUSTER", "SETSLOT", &slot, "MIGRATING", &self.ids[to]];
        self.plain[from].ask::<String>(&migrating).await;
    }

    /// Moves the keys of a slot.
    pub(crate) async fn move_keys(&self, slot: usize, from: usize, to: usize) {
        let port = self.servers[to].addr().expect("ours").port().to_string();
        loop {
            let get = ["CLUSTER", "GETKEYSINSLOT", &slot.to_string(), "100"];
            let keys: Vec<String> = self.plain[from].ask(&get).await;
            if keys.is_empty() {
                return;
            }
            let mut migrate = vec!["MIGRATE", "127.0.0.1", &port, "", "0", "5000", "KEYS"];
            migrate.extend(keys.iter().map(String::as_str));
            // `NOKEY` if they have expired meanwhile.
            self.plain[from].ask::<String>(&migrate).await;
        }
    }

    pub(crate) async fn end_move(&self, slot: usize, from: usize, to: usize) {
        let end = ["CLUSTER", "SETSLOT", &slot.to_string(), "NODE", &self.ids[to]];
        self.plain[to].ask::<String>(&end).await;
        self.plain[from].ask::<String>(&end).await;
    }
}

/// One name, and what its holders saw (SLOT1).
struct Job {
    name: String,
    held: AtomicBool,
    last: Mutex<FencingToken>,
}

impl Job {
    /// Takes the lock and releases it: no error, no other holder, no token that falls.
    async fn run(&self, locker: &Locker) {
        let guard = within("granted", locker.lock(&self.name)).await.expect("no error");
        assert!(!self.held.swap(true, Ordering::SeqCst), "{}: two holders", self.name);
        let before = std::mem::replace(&mut *self.last.lock().expect("no panic"), guard.token());
        assert!(guard.token() > before, "{}: {before} before {}", self.name, guard.token());
        tokio::task::yield_now().await;
        assert_eq!(guard.check(), Ok(()));
        self.held.store(false, Ordering::SeqCst);
        guard.unlock().await.expect("no error");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slots_move_while_tasks_lock() {
    slots_move(Fleet::start().await, one_by_one).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slots_of_the_second_kind_of_server_move_while_tasks_lock() {
    slots_move(Fleet::start_second().await, one_by_one).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slots_move_all_at_once_while_tasks_lock() {
    slots_move(Fleet::start().await, all_at_once).await;
}

/// As `redis-cli --cluster reshard` does.
async fn one_by_one(fleet: &Fleet) {
    for slot in 0..SLOTS {
        let to = 1 + slot % (MASTERS - 1);
        fleet.begin_move(slot, 0, to).await;
        fleet.move_keys(slot, 0, to).await;
        fleet.end_move(slot, 0, to).await;
    }
}

/// By the servers themselves, without a time in which a slot has two masters: since Valkey 9.
async fn all_at_once(fleet: &Fleet) {
    let last = (SLOTS - 1).to_string();
    let order = ["CLUSTER", "MIGRATESLOTS", "SLOTSRANGE", "0", &last, "NODE", &fleet.ids[1]];
    if let Err(error) = fleet.plain[0].send::<String>(&order).await {
        return missed(&format!("the server moves no slots itself: {error}"));
    }
    eventually("moved", async || {
        (fleet.master_of(&name_in(SLOTS - 1), 0).await == Some(1)).then_some(())
    })
    .await;
}

async fn slots_move(fleet: Option<Fleet>, all: impl AsyncFnOnce(&Fleet)) {
    let Some(fleet) = fleet else { return };
    let patient = || fleet.builder().answer_timeout(Duration::from_secs(2));
    let lockers =
        [0, 1].map(|at| patient().on(Servers::cluster([fleet.servers[at].url()])).expect("good"));
    let job = |i: usize| Job {
        // Among the slots that move.
        name: name_in(i * SLOTS / (TASKS / TASKS_PER_NAME)),
        held: AtomicBool::new(false),
        last: Mutex::new(FencingToken::NONE),
    };
    let jobs: Vec<_> = (0..TASKS / TASKS_PER_NAME).map(job).collect();
    let ended = AtomicBool::new(false);
    let work = async |task: usize| {
        let (job, locker) = (&jobs[task % jobs.len()], &lockers[task / jobs.len() % 2]);
        while !ended.load(Ordering::SeqCst) {
            job.run(locker).await;
        }
        // Once more, where the slot is now.
        job.run(locker).await;
    };
    let tasks = join_all((0..TASKS).map(work));
    let moves = async {
        let held = lockers[0].lock(name_in(SLOTS / 2 + 1)).await.expect("free");
        all(&fleet).await;
        ended.store(true, Ordering::SeqCst);
        held.unlock().await.expect("held");
    };
    join(tasks, moves).await;
}

/// SLOT2: a held lock goes on while its slot is on its way, and a free name is granted to nobody.
#[tokio::test]
async fn a_slot_that_stays_on_its_way() {
    let Some(fleet) = Fleet::start_with(0, Duration::from_secs(60)).await else { return };
    let (locker, other) = (fleet.locker(), fleet.locker());
    let slot = slots_of(0)[0];
    let (name, free) = (name_in(slot), format!("another{}", Name::tag_of(slot)));
    let lease = Duration::from_secs(2);
    let guard = within("a free lock", locker.lock(&name).lease(lease)).await.expect("free");
    let released = within("a free lock", locker.lock(&free)).await.expect("free");
    fleet.begin_move(slot, 0, 1).await;
    // A release has keys that do not exist, so that it is not carried out before the slot has arrived.
    assert!(released.unlock().await.is_ok(), "its one key is here still");
    assert!(other.try_lock(&free).await.expect("no error").is_none());
    let here = &fleet.plain[0];
    renewed(here, &name, lease).await;
    fleet.move_keys(slot, 0, 1).await;
    // There only requests with `ASKING` are carried out.
    let since = Stopwatch::start();
    eventually("the lease is over", async || (since.elapsed() > lease).then_some(())).await;
    assert_eq!(guard.check(), Ok(()));
    assert!(other.try_lock(&free).await.expect("no error").is_none());
    let waiter = tokio::spawn(other.lock(&free).into_future());
    fleet.end_move(slot, 0, 1).await;
    drop(within("granted", waiter).await.expect("no panic").expect("free"));
    assert_eq!(guard.check(), Ok(()));
    guard.unlock().await.expect("held");
    assert!(!fleet.plain[1].exists(&name).await);
}

/// Waits until a renewal has extended the lease.
async fn renewed(at: &Plain, name: &str, lease: Duration) {
    let before = at.pttl(name).await;
    eventually("the lease runs", async || (at.pttl(name).await < before - 100).then_some(())).await;
    let most = i64::try_from(lease.as_millis()).expect("short");
    eventually("renewed", async || (at.pttl(name).await > most * 9 / 10).then_some(())).await;
}

/// Lets another process wait for a lock that `holder` holds, at the first master, and moves its slot to the
/// second one.
async fn queued_before_a_move(
    fleet: &Fleet,
    holder: &Locker,
    name: &str,
) -> (Guard, JoinHandle<Result<Guard, Error>>) {
    let guard = within("a free lock", holder.lock(name)).await.expect("free");
    let (other, wanted) = (fleet.locker(), name.to_owned());
    let waiter = tokio::spawn(async move { other.lock(wanted).await });
    let name = Name::new(name).expect("a good name");
    let queue = name.waiters_key();
    eventually("queued", async || fleet.plain[0].exists(&queue).await.then_some(())).await;
    fleet.begin_move(name.slot(), 0, 1).await;
    fleet.move_keys(name.slot(), 0, 1).await;
    fleet.end_move(name.slot(), 0, 1).await;
    (guard, waiter)
}

/// SLOT4: a message to a waiter reaches it through another member than the one that counts who has it. It
/// grants nothing.
#[tokio::test]
async fn a_waiter_that_is_queued_where_its_slot_was() {
    let Some(fleet) = Fleet::start_with(0, Duration::from_secs(60)).await else { return };
    let holder = fleet.locker();
    let name = name_in(slots_of(0)[0]);
    let (guard, waiter) = queued_before_a_move(&fleet, &holder, &name).await;
    guard.unlock().await.expect("held");
    let guard = within("granted", waiter).await.expect("no panic").expect("free");
    assert!(fleet.plain[1].exists(&name).await, "what it holds is at the master of the slot");
    assert!(holder.try_lock(&name).await.expect("no error").is_none());
    guard.unlock().await.expect("held");
}

/// SLOT3: it is queued at the new master, under an id that it listens to there.
#[tokio::test]
async fn a_waiter_follows_its_slot() {
    let Some(fleet) = Fleet::start_with(0, Duration::from_secs(60)).await else { return };
    let holder = fleet.locker();
    let name = name_in(slots_of(0)[0]);
    let (guard, waiter) = queued_before_a_move(&fleet, &holder, &name).await;
    let queue = Name::new(&name).expect("a good name").waiters_key();
    let there = &fleet.plain[1];
    eventually("queued there", async || {
        let queued: Vec<String> = there.ask(&["ZRANGE", &queue, "0", "-1"]).await;
        for id in queued {
            let id = id.split(' ').next().expect("its id");
            let channel = format!("quorumlock:wake:{id}");
            let (_, heard): (String, i64) = there.ask(&["PUBSUB", "NUMSUB", &channel]).await;
            if heard == 1 {
                return Some(());
            }
        }
        None
    })
    .await;
    guard.unlock().await.expect("held");
    drop(within("granted", waiter).await.expect("no panic").expect("free"));
}

/// SLOT3: a release that cannot be carried out while the slot is on its way is carried out after that.
#[tokio::test]
async fn a_release_follows_its_slot() {
    let Some(fleet) = Fleet::start_with(0, Duration::from_secs(60)).await else { return };
    let locker = fleet.locker();
    let slot = slots_of(0)[0];
    let name = name_in(slot);
    let guard = within("a free lock", locker.lock(&name)).await.expect("free");
    fleet.begin_move(slot, 0, 1).await;
    fleet.move_keys(slot, 0, 1).await;
    // Whether its caller hears of that in time or not.
    let released = tokio::spawn(async move { guard.unlock().await });
    drop(within("an answer", released).await.expect("no panic"));
    fleet.end_move(slot, 0, 1).await;
    eventually("released", async || (!fleet.plain[1].exists(&name).await).then_some(())).await;
}
