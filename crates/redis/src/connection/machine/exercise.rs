//! Feeds arbitrary replies to the machine: the body of the fuzz target, and of a property test.

use std::collections::HashSet;
use std::time::Duration;

use quorumlock_protocol::Layout;

use super::harness::{Harness, Pipe, Setup, Told};
use super::session::Session;

/// Posts requests, and answers them with arbitrary bytes in arbitrary pieces. Panics if a session
/// neither waits nor ends, or if a request is not answered exactly once.
///
/// The first byte chooses the setup, the second how many of the next bytes choose requests and
/// pieces. The rest are replies.
pub(crate) fn exercise(data: &[u8]) {
    let [setup, choices, rest @ ..] = data else { return };
    let (choices, mut replies) = rest.split_at(rest.len().min(usize::from(*choices)));
    let mut choices = choices.iter().copied().cycle();
    let mut choose = || choices.next().unwrap_or(7);
    let harness = Harness::new(setup_of(*setup));
    let mut releases = HashSet::new();
    post(&harness, choose(), &mut releases);
    while !replies.is_empty() {
        replies = session(&harness, &mut choose, &mut releases, replies);
        harness.advance(Duration::from_secs(1));
    }
    settle(harness, &releases);
}

/// One session, until it ends or the replies are used up. Returns the remaining replies.
fn session<'a>(
    harness: &Harness,
    choose: &mut impl FnMut() -> u8,
    releases: &mut HashSet<usize>,
    mut replies: &'a [u8],
) -> &'a [u8] {
    let mut session = match choose() % 16 {
        0 => Session::begin(&harness.requests, harness.unproven(), harness.now()),
        _ => harness.begin(),
    };
    let mut pipe = Pipe::default();
    while !replies.is_empty() {
        for _ in 0..choose() % 16 {
            post(harness, choose(), releases);
        }
        let choice = choose();
        pipe.takes = choice.is_multiple_of(8).then_some(usize::from(choice));
        let (now, later) = replies.split_at(replies.len().min(usize::from(choice) * 2 + 1));
        pipe.to_client.extend_from_slice(now);
        replies = later;
        if pipe.run(&mut session, harness.now()).is_err() {
            break;
        }
        session.on_deadline(harness.now() + Duration::from_secs(u64::from(choice) / 64));
    }
    session.end(harness.now());
    replies
}

fn post(harness: &Harness, kind: u8, releases: &mut HashSet<usize>) {
    match kind % 16 {
        0..4 => harness.acquire(),
        4 => harness.unfenced(),
        5 => harness.acquire_by_script(None),
        6 => harness.raise(),
        7 => harness.regrant(),
        8 | 9 => harness.renew(usize::from(kind / 16) % 4),
        10..13 => {
            let release = harness.release();
            releases.insert(release);
            release
        }
        13 => harness.inspect(),
        14 => harness.force_release(),
        _ => harness.admission(),
    };
}

fn setup_of(byte: u8) -> Setup {
    Setup {
        layout: if byte & 1 == 0 { Layout::Redlock } else { Layout::Redisson },
        bound: byte & 2 != 0,
        several: byte & 4 != 0,
        replicas: usize::from(byte & 8 != 0),
        durable: byte & 16 != 0,
        all: byte & 32 != 0,
        connected: usize::from(byte & 64 != 0),
        delay: Duration::ZERO,
    }
}

/// The driver ends: then each request was answered once. Only a release may be given up.
fn settle(harness: Harness, releases: &HashSet<usize>) {
    let (posted, now) = (harness.posted(), harness.now());
    let Harness { context, requests, answers, .. } = harness;
    requests.close();
    requests.abandoned(now);
    drop(requests);
    // Releases whose answers are still awaited.
    drop(context);
    for request in 0..posted {
        let told = answers.of(request);
        assert_eq!(told.len(), 1, "request {request} was told {told:?}");
        let given_up = told == [Told::Dropped];
        assert!(!given_up || releases.contains(&request), "request {request} was dropped");
    }
}
