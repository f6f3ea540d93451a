//! The library's locks, taken one by one by the lines of the protocol.

use std::collections::HashMap;
use std::error::Error as StdError;
use std::sync::Arc;
use std::time::Duration;

use quorumlock::Locker;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::broken_lock::{Held, Takes, locker};
use super::events::print;
use super::protocol::{
    Acquire, Checked, Feature, Granted, Greeting, Hello, Line, LockKind, Lost, PROTOCOL, Refused,
    Released, Renewed, Request, Topology,
};
use crate::history::TOGETHER;
use crate::mode::Mode;
use crate::scenario::{Locking, ReadWrite, Ring};
use crate::timestamp;

/// How often a holder looks whether its lease was renewed.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// The end of a renewed lease moves by more. Less comes from reading two clocks.
const MOVED_NS: u64 = 1_000_000;

/// What the worker says of itself.
pub(super) fn hello() -> Hello {
    Hello {
        protocol: PROTOCOL,
        library: "quorumlock".to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        topologies: vec![Topology::One, Topology::Quorum, Topology::Sentinel],
        kinds: vec![LockKind::Lock, LockKind::Read, LockKind::Write, LockKind::Permit],
        features: vec![
            Feature::Validity,
            Feature::Renewal,
            Feature::Loss,
            Feature::Tokens,
            Feature::Names,
        ],
        options: serde_json::Map::new(),
    }
}

/// What is ordered of one hold.
#[derive(Debug)]
enum Order {
    Check,
    Release,
}

/// Carries out requests until their channel is closed.
pub(super) async fn serve(
    greeting: Greeting,
    mut requests: UnboundedReceiver<Request>,
) -> Result<(), Box<dyn StdError>> {
    let locker = Arc::new(locker_for(&greeting)?);
    let mut holds = HashMap::<u64, UnboundedSender<Order>>::new();
    while let Some(request) = requests.recv().await {
        match request {
            Request::Acquire(acquire) => {
                let (orders, ordered) = unbounded_channel();
                holds.insert(acquire.id, orders);
                tokio::spawn(hold(Arc::clone(&locker), acquire, ordered));
            }
            // An attempt that was refused, or a hold that was given back, takes no more orders.
            Request::Check { id } => {
                let _ = holds.get(&id).map(|hold| hold.send(Order::Check));
            }
            Request::Release { id } => {
                let _ = holds.remove(&id).map(|hold| hold.send(Order::Release));
            }
            Request::Hello(_) | Request::Work(_) | Request::Start | Request::End => {}
        }
    }
    Ok(())
}

fn locker_for(greeting: &Greeting) -> Result<Locker, quorumlock::Error> {
    let Greeting { client, topology, servers, lease_ms, .. } = greeting;
    let mode = match topology {
        Topology::One => Mode::S,
        Topology::Quorum => Mode::Q5,
        Topology::Sentinel => Mode::RS,
    };
    let locking = Locking {
        name: String::new(),
        lease_ms: *lease_ms,
        max_lease_ms: (*lease_ms).max(10_000),
        takeover_delay_ms: 0,
        acks: 0,
        permits: None,
        strict_order: false,
    };
    locker(mode, servers.clone(), &locking, client)
}

/// One attempt, and the hold that it becomes.
async fn hold(locker: Arc<Locker>, acquire: Acquire, mut orders: UnboundedReceiver<Order>) {
    let Acquire { id, ref names, wait_ms, .. } = acquire;
    let (name, takes) = (names.join(&TOGETHER.to_string()), takes(&acquire));
    let asked_ns = timestamp::mono_ns();
    let got = take(&locker, takes, &name, wait_ms).await;
    let heard_ns = timestamp::mono_ns();
    let held = match got {
        Ok(Some(held)) => held,
        not => {
            let (held, why) = match not {
                Err(why) => (false, why),
                _ => (true, "another client holds it".to_owned()),
            };
            return print(&Line::Refused(Refused { id, asked_ns, heard_ns, held, why }));
        }
    };
    let (token, valid_for_ns) = (Some(held.token()), Some(left_ns(&held)));
    print(&Line::Granted(Granted { id, asked_ns, heard_ns, token, valid_for_ns }));
    until_released(id, held, &mut orders).await;
}

fn takes(acquire: &Acquire) -> Takes {
    match acquire.kind {
        LockKind::Lock if acquire.names.len() > 1 => Takes::Ring(Ring::AllOrNothing),
        LockKind::Lock => Takes::Lock,
        LockKind::Read => Takes::ReadWrite(ReadWrite::Read),
        LockKind::Write => Takes::ReadWrite(ReadWrite::Write),
        LockKind::Permit => Takes::Permit(acquire.permits.unwrap_or(1)),
    }
}

async fn take(
    locker: &Locker,
    takes: Takes,
    name: &str,
    wait_ms: Option<u64>,
) -> Result<Option<Held>, String> {
    let failed = |not: super::not_granted::NotGranted| not.why;
    match wait_ms {
        Some(0) => takes.try_lock(locker, name).await.map_err(failed),
        Some(ms) => {
            let waiting = takes.lock(locker, name);
            match tokio::time::timeout(Duration::from_millis(ms), waiting).await {
                Ok(got) => got.map(Some).map_err(failed),
                Err(_) => Ok(None),
            }
        }
        None => takes.lock(locker, name).await.map(Some).map_err(failed),
    }
}

async fn until_released(id: u64, held: Held, orders: &mut UnboundedReceiver<Order>) {
    let (mut told, mut until) = (false, timestamp::mono_ns() + left_ns(&held));
    loop {
        tokio::select! {
            biased;
            order = orders.recv() => match order {
                Some(Order::Check) => print(&Line::Checked(check(id, &held))),
                Some(Order::Release) | None => break,
            },
            loss = held.lost(), if !told => {
                told = true;
                let heard_ns = timestamp::mono_ns();
                print(&Line::Lost(Lost { id, heard_ns, why: loss.why }));
            }
            () = tokio::time::sleep(LOOK_EVERY), if !told => {}
        }
        let heard_ns = timestamp::mono_ns();
        let valid_for_ns = left_ns(&held);
        if heard_ns + valid_for_ns > until + MOVED_NS {
            until = heard_ns + valid_for_ns;
            print(&Line::Renewed(Renewed { id, heard_ns, valid_for_ns }));
        }
    }
    let asked_ns = timestamp::mono_ns();
    let released = held.unlock().await;
    let heard_ns = timestamp::mono_ns();
    let (ok, why) = match released {
        Ok(()) => (true, String::new()),
        Err((_, why)) => (false, why),
    };
    print(&Line::Released(Released { id, asked_ns, heard_ns, ok, why }));
}

/// Without a request to a server: the library's own clock says it.
fn check(id: u64, held: &Held) -> Checked {
    let asked_ns = timestamp::mono_ns();
    let (valid, valid_for_ns) = (held.is_valid_now(), Some(left_ns(held)));
    Checked { id, asked_ns, heard_ns: timestamp::mono_ns(), valid, valid_for_ns }
}

fn left_ns(held: &Held) -> u64 {
    u64::try_from(held.valid_for().as_nanos()).unwrap_or(u64::MAX / 2)
}
