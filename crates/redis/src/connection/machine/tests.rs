//! The machine, byte by byte.

mod ended;
mod property;
mod repeats;
mod replies;
mod transactions;

use std::time::Duration;

use quorumlock_protocol::{Instant, Layout};

use super::harness::{Harness, Pipe, Setup};
use super::session::{Disconnect, Session};
use crate::resp::{self, Value};

const REDLOCK: Setup = Setup {
    layout: Layout::Redlock,
    bound: false,
    several: false,
    replicas: 0,
    durable: false,
    all: false,
    connected: 0,
    delay: Duration::ZERO,
};
const REDISSON: Setup = Setup { layout: Layout::Redisson, ..REDLOCK };
const BOUND: Setup = Setup { bound: true, ..REDLOCK };
const SEVERAL: Setup = Setup { several: true, ..REDLOCK };
const REPLICATED: Setup = Setup { several: true, replicas: 1, ..REDLOCK };
const DURABLE: Setup = Setup { durable: true, ..REDLOCK };

const SECOND: Duration = Duration::from_secs(1);

/// A session of a machine whose driver runs, with nothing posted yet.
fn connected(setup: Setup) -> Harness {
    let harness = Harness::new(setup);
    // The first request starts the driver.
    harness.post(|_, _| crate::command::Command::NoReply);
    harness
}

/// Drives the session with `replies`. Returns the commands that it wrote, and how it ended.
fn run(
    harness: &Harness,
    session: &mut Session<'_>,
    replies: &[u8],
) -> (Vec<Vec<String>>, Result<Option<Instant>, Disconnect>) {
    let mut pipe = Pipe { to_client: replies.to_vec(), ..Pipe::default() };
    let ended = pipe.run(session, harness.now());
    (commands(&pipe.to_server), ended)
}

/// Drives the session with `replies`, which must not end it. Returns the commands that it wrote.
fn sent(harness: &Harness, session: &mut Session<'_>, replies: &[u8]) -> Vec<Vec<String>> {
    let (sent, ended) = run(harness, session, replies);
    assert!(ended.is_ok(), "{ended:?}");
    sent
}

/// The words of each command.
fn commands(mut bytes: &[u8]) -> Vec<Vec<String>> {
    let mut commands = Vec::new();
    while let Some((command, len)) = resp::decode(bytes).expect("RESP") {
        let Value::Array(words) = command else { panic!("{command:?} is no command") };
        commands.push(words.iter().map(|word| word.text().into_owned()).collect());
        bytes = &bytes[len..];
    }
    assert!(bytes.is_empty(), "half a command at the end");
    commands
}

/// The first word of each command.
fn verbs(commands: &[Vec<String>]) -> Vec<&str> {
    commands.iter().map(|words| words[0].as_str()).collect()
}
