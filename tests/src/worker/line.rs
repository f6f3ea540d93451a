//! quorumlock's own client, driven by lines like the clients of other languages (tests/interop).
//! Its arguments are `LAYOUT HOST:PORT[,HOST:PORT...] LEASE_MS`, where LAYOUT is `redisson`,
//! `fenced` (counts tokens as `RFencedLock` does) or `redlock`.
//!
//! It prints `ready`, then reads `ID WHO COMMAND NAME [MS [MS]]` and prints `ID TOOK_MS ok
//! [VALUE]`, `ID TOOK_MS no [WHY]` or `ID TOOK_MS error TEXT`. WHO is an owner, which may lock a
//! name again.

use std::collections::HashMap;
use std::io::Write as _;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use quorumlock::{Admission, Error, Guard, Layout, Locker, Owner, Servers};
use tokio::io::{AsyncBufReadExt as _, BufReader};

use crate::Stopwatch;
use crate::builder::patient_builder;

/// The first argument of the program that selects this task.
pub const TASK: &str = "line";

pub(super) async fn work(arguments: &[String]) {
    let [layout, servers, lease] = arguments else { panic!("layout, servers and lease") };
    let driver = Driver {
        locker: locker(layout, servers, lease),
        callers: Arc::new(Mutex::new(HashMap::new())),
    };
    say("ready");
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    while let Some(line) = lines.next_line().await.expect("read") {
        let driver = driver.clone();
        tokio::spawn(async move {
            let (id, order) = line.split_once(' ').expect("an id");
            let watch = Stopwatch::start();
            let answer = match driver.carry_out(order).await {
                Ok(answer) => answer,
                Err(error @ (Error::Busy(_) | Error::Lost(_))) => format!("no {error}"),
                Err(error) => format!("error {error}"),
            };
            say(&format!("{id} {} {answer}", watch.elapsed().as_millis()));
        });
    }
}

fn locker(kind: &str, servers: &str, lease: &str) -> Locker {
    let layout = if kind == "redlock" { Layout::Redlock } else { Layout::Redisson };
    let lease = Duration::from_millis(lease.parse().expect("milliseconds"));
    let builder = patient_builder(layout).lease(lease).redisson_fenced(kind == "fenced");
    let urls: Vec<_> = servers.split(',').map(|server| format!("redis://{server}")).collect();
    let locker = match urls.as_slice() {
        [url] => builder.on(Servers::single(url)),
        urls => builder.admission(Admission::Redlock).on(Servers::quorum(urls)),
    };
    locker.expect("a good configuration")
}

fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}").and_then(|()| out.flush()).expect("the test listens");
}

#[derive(Clone)]
struct Driver {
    locker: Locker,
    callers: Arc<Mutex<HashMap<String, Caller>>>,
}

/// The locks that one WHO holds.
#[derive(Clone, Default)]
struct Caller {
    owner: Owner,
    guards: Arc<Mutex<HashMap<String, Vec<Guard>>>>,
}

impl Driver {
    async fn carry_out(&self, order: &str) -> Result<String, Error> {
        let parts: Vec<_> = order.split(' ').collect();
        let [who, command, name, times @ ..] = parts.as_slice() else { panic!("{order}") };
        let time = |at: usize| {
            times.get(at).map(|ms| Duration::from_millis(ms.parse().expect("milliseconds")))
        };
        let caller = self.caller(who);
        match *command {
            "lock" => {
                let guard = self.locker.lock(name).owner(&caller.owner).await?;
                Ok(caller.push(name, guard))
            }
            "try" => {
                let lock = self.locker.lock(name).owner(&caller.owner);
                let lock = lock.wait(time(0).unwrap_or_default());
                let guard = match time(1) {
                    Some(limit) => lock.hold_at_most(limit).await?,
                    None => lock.await?,
                };
                Ok(caller.push(name, guard))
            }
            "unlock" => match caller.pop(name) {
                Some(guard) => guard.unlock().await.map(|()| "ok".into()),
                None => Ok("error never held".into()),
            },
            "held" => Ok(caller.held(name)),
            "force" => Ok(yes(self.locker.mutex(name).force_unlock().await?)),
            _ => Ok("error no such command".into()),
        }
    }

    fn caller(&self, who: &str) -> Caller {
        let mut callers = self.callers.lock().unwrap_or_else(PoisonError::into_inner);
        callers.entry(who.to_owned()).or_default().clone()
    }
}

impl Caller {
    fn push(&self, name: &str, guard: Guard) -> String {
        let answer = format!("ok {}", guard.token());
        self.guards().entry(name.to_owned()).or_default().push(guard);
        answer
    }

    fn pop(&self, name: &str) -> Option<Guard> {
        self.guards().get_mut(name)?.pop()
    }

    fn held(&self, name: &str) -> String {
        match self.guards().get(name).and_then(|guards| guards.last()) {
            Some(guard) => yes(guard.check().is_ok()),
            None => "no".into(),
        }
    }

    fn guards(&self) -> std::sync::MutexGuard<'_, HashMap<String, Vec<Guard>>> {
        self.guards.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn yes(yes: bool) -> String {
    if yes { "ok".into() } else { "no".into() }
}
