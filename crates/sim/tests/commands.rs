//! The simulated server answers as a real server does, command by command and script by script.

#![allow(clippy::unwrap_used)] // a test: whatever cannot be is its failure

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use quorumlock_protocol::{Layout, Name};
use quorumlock_redis::simulation::{ScriptKind, admission_scripts, kind_of, texts};
use quorumlock_sim::Dice;
use quorumlock_sim::lease_command::LeaseCommand;
use quorumlock_sim::peer::Peer;
use quorumlock_sim::plan::Plan;
use quorumlock_sim::resp::Commands;
use quorumlock_sim::server::Server;
use quorumlock_sim::time::Start;
use quorumlock_testbed::servers::{ServerOptions, Servers, Source, for_test};

/// How many sequences of commands are drawn, and how long each is.
const SEQUENCES: u64 = 60;
const LENGTH: usize = 80;
/// By how much a time in milliseconds may differ on the two sides.
const SLACK: i64 = 2_000;

#[test]
fn a_simulated_server_answers_as_a_real_one() {
    if let Some(servers) = for_test(1, &ServerOptions::default()) {
        compare_on(&servers);
    }
    let cache = std::env::var_os("HOME").map(|home| std::path::Path::new(&home).join(".cache"));
    let redis = cache.map(|cache| cache.join("quorumlock/redis/redis-server"));
    if let Some(redis) = redis.filter(|redis| redis.is_file()) {
        let servers = Servers::start_with(&Source::Binary(redis), 1, &ServerOptions::default());
        compare_on(&servers.expect("a server that starts"));
    }
}

fn compare_on(servers: &Servers) {
    // A server that the test did not start may hold other data: the test must not flush it.
    let Some(address) = servers.iter().next().and_then(|server| server.addr()) else { return };
    let mut real = Real::connect(address);
    for seed in 0..SEQUENCES {
        let layout = if seed % 2 == 0 { Layout::Redlock } else { Layout::Redisson };
        compare(seed, layout, &mut real);
    }
}

/// Sends the same commands to both sides.
fn compare(seed: u64, layout: Layout, real: &mut Real) {
    let mut dice = Dice::new(seed, 7);
    real.ask(&["REPLICAOF".into(), "NO".into(), "ONE".into()]);
    real.ask(&["FLUSHALL".into()]);
    let mut simulated = Simulated::new(layout, real.has("DELIFEQ"));
    let lives = [real.life(), simulated.server.run_identity.id()];
    let mut trace = Vec::new();
    // In some sequences both become replicas half-way.
    let demoted = seed.is_multiple_of(5).then_some(LENGTH / 2);
    for number in 0..LENGTH {
        if demoted == Some(number) {
            real.ask(&["REPLICAOF".into(), "127.0.0.1".into(), "1".into()]);
            simulated.server.run_identity.demote();
        }
        let command = draw(&mut dice, layout);
        let of = |life: &str| -> Vec<Vec<u8>> {
            command.iter().map(|arg| replace(arg, b"@LIFE@", life.as_bytes())).collect()
        };
        let (one, other) = (real.ask(&of(&lives[0])), simulated.ask(&of(&lives[1])));
        trace.push(format!("{} -> {one:?} | {other:?}", shown(&command)));
        let same = same(&command, &one, &other);
        assert!(same, "seed {seed}, {layout:?}:\n{}", trace.join("\n"));
    }
}

/// A reply. Its text is decoded as far as the comparison needs it.
#[derive(Clone, Debug, PartialEq)]
enum Reply {
    Int(i64),
    Text(Vec<u8>),
    Status(String),
    Nil,
    /// The code of the error.
    Error(String),
    Array(Vec<Self>),
}

fn same(command: &[Vec<u8>], one: &Reply, other: &Reply) -> bool {
    let script = command.get(1).and_then(|text| kind_of(std::str::from_utf8(text).ok()?));
    let timed = command[0] == b"PTTL"
        || matches!(script, Some(ScriptKind::Acquire | ScriptKind::Regrant | ScriptKind::Inspect));
    match (one, other) {
        // The last one is the time.
        (Reply::Array(one), Reply::Array(other)) if script == Some(ScriptKind::Renew) => {
            one.len() == other.len() && one[..one.len() - 1] == other[..other.len() - 1]
        }
        (Reply::Array(one), Reply::Array(other)) => {
            one.len() == other.len()
                && one.iter().zip(other).all(|(one, other)| same_item(timed, one, other))
        }
        _ => same_item(timed, one, other),
    }
}

fn same_item(timed: bool, one: &Reply, other: &Reply) -> bool {
    match (one, other) {
        (Reply::Int(one), Reply::Int(other)) if timed && *one > 0 && *other > 0 => {
            one.abs_diff(*other) < SLACK.unsigned_abs()
        }
        // The end of a hold of a read-write lock is a score.
        (Reply::Text(one), Reply::Text(other)) => match (millis(one), millis(other)) {
            (Some(one), Some(other)) => (one - other).abs() < SLACK,
            _ => one == other,
        },
        _ => one == other,
    }
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

/// A time of today in milliseconds, if the text is one.
fn millis(text: &[u8]) -> Option<i64> {
    let number = std::str::from_utf8(text).ok()?.parse().ok()?;
    (1_000_000_000_000..100_000_000_000_000).contains(&number).then_some(number)
}

/// Draws a command: one that clients or scripts send, on few keys, so that they meet.
fn draw(dice: &mut Dice, layout: Layout) -> Vec<Vec<u8>> {
    if dice.chance(0.5) {
        return draw_script(dice, layout);
    }
    let key = dice.pick(&["a", "b", "c"]).to_string();
    let text = |dice: &mut Dice| dice.pick(&["x", "y", "17", "m", ""]).to_string();
    let ms = |dice: &mut Dice| dice.pick(&["60000", "90000", "1000000"]).to_string();
    let words = match dice.index(36) {
        0 => vec!["GET".into(), key],
        1 => vec!["SET".into(), key, text(dice), "NX".into(), "PX".into(), ms(dice)],
        2 => vec!["SET".into(), key, text(dice), "PX".into(), ms(dice)],
        3 => vec!["SET".into(), key, text(dice)],
        4 => vec!["DEL".into(), key],
        5 => vec!["EXISTS".into(), key],
        6 => vec!["TYPE".into(), key],
        7 => vec!["PTTL".into(), key],
        8 => vec!["PEXPIRE".into(), key, dice.pick(&["80000", "0", "70000"]).to_string()],
        9 => vec!["PERSIST".into(), key],
        10 => vec!["INCR".into(), key],
        11 => vec!["HGET".into(), key, text(dice)],
        12 => vec!["HEXISTS".into(), key, text(dice)],
        13 => vec!["HLEN".into(), key],
        14 => vec!["HKEYS".into(), key],
        15 => vec!["HMGET".into(), key, text(dice), text(dice)],
        16 => vec!["HGETALL".into(), key],
        17 | 18 => vec!["HSET".into(), key, text(dice), text(dice), text(dice), text(dice)],
        19 => vec!["HDEL".into(), key, text(dice)],
        20 => vec!["ZADD".into(), key, "GT".into(), "CH".into(), score(dice), text(dice)],
        21 => vec!["ZADD".into(), key, "NX".into(), score(dice), text(dice)],
        22 => vec!["ZADD".into(), key, score(dice), text(dice)],
        23 => vec!["ZREM".into(), key, text(dice), text(dice)],
        24 => vec!["ZSCORE".into(), key, text(dice)],
        25 => vec!["ZCARD".into(), key],
        26 => words(&["ZRANGE", &key, "1", "1", "withscores"]),
        27 => vec!["ZRANK".into(), key, text(dice)],
        29 => words(&["ZRANGE", &key, "-1", "-1", "withscores"]),
        30 => words(&["ZRANGEBYSCORE", &key, "(17", "+inf", "limit", "0", "2"]),
        28 => words(&["ZRANGEBYSCORE", &key, "(17", "+inf"]),
        31 => words(&["ZCOUNT", &key, "(17", "+inf"]),
        32 => words(&["ZREMRANGEBYSCORE", &key, "-inf", "17"]),
        33 => vec!["PEXPIREAT".into(), key, dice.pick(&["1", "99999999999999"]).to_string()],
        _ => return restore(dice, &key),
    };
    words.into_iter().map(String::into_bytes).collect()
}

fn score(dice: &mut Dice) -> String {
    dice.pick(&["0", "5", "17", "9007199253692000", "1790000000000031"]).to_string()
}

/// The payload that a server accepts for the hash `{f: "1"}` (rdb.rs of the redis crate).
fn restore(dice: &mut Dice, key: &str) -> Vec<Vec<u8>> {
    let mut payload = b"\x04\x01\x01f\x011\x06\x00".to_vec();
    payload.extend(0x08ff_957d_2a45_c862_u64.to_le_bytes());
    let ttl = dice.pick(&["60000", "90000"]).as_bytes().to_vec();
    vec![b"RESTORE".to_vec(), key.as_bytes().to_vec(), ttl, payload]
}

/// Draws a call of a script that ships, with arguments as clients send them.
fn draw_script(dice: &mut Dice, layout: Layout) -> Vec<Vec<u8>> {
    let mut all = texts(layout);
    all.extend(
        [
            admission_scripts::NOTE,
            admission_scripts::BARRIER,
            admission_scripts::ADMIT,
            admission_scripts::WRITE_TERMS,
            admission_scripts::PROVISION,
        ]
        .map(str::to_owned),
    );
    let text = dice.pick(&all).clone();
    let name = Name::new(if dice.chance(0.5) { "a" } else { "b" }).unwrap();
    let (mark, channel, waiters) = (name.mark_key().to_owned(), name.channel(), name.waiters_key());
    let record = "quorumlock:test:node".to_owned();
    let (name, nonce, other) = (name.as_str().to_owned(), nonce(dice, layout), nonce(dice, layout));
    let ttl = dice.pick(&["60000", "90000"]).to_string();
    let token = dice.pick(&["0", "63", "1000", "1790000000000031"]).to_string();
    let one = "1".to_owned();
    let (keys, args) = match kind_of(&text).unwrap() {
        ScriptKind::Acquire if dice.chance(0.5) => {
            let member = dice.pick(&["w1", "w2", "w3 n 60000 1"]).to_string();
            let waited = dice.pick(&["0", "100000000", "200000000"]).to_string();
            let yields = dice.pick(&["0", "1"]).to_string();
            (vec![name, mark, waiters], vec![nonce, ttl, one, token, member, waited, yields])
        }
        ScriptKind::Acquire | ScriptKind::Regrant => {
            (vec![name, mark], vec![nonce, ttl, one, token])
        }
        ScriptKind::Raise => (vec![name, mark], vec![nonce, token]),
        ScriptKind::Renew => {
            (vec![name, "c".to_owned()], vec![nonce, ttl.clone(), one.clone(), other, ttl, one])
        }
        ScriptKind::Release => {
            let mut args = vec![nonce];
            args.extend(["w1".to_owned(), "1000".to_owned()].into_iter().take(dice.index(3)));
            (vec![name, channel, waiters, mark], args)
        }
        ScriptKind::Inspect => (vec![name, mark, waiters], vec![]),
        ScriptKind::ForceRelease => {
            let holder = [nonce].into_iter().take(dice.index(2)).collect();
            (vec![name, mark, channel, waiters], holder)
        }
        ScriptKind::Dequeue => (vec![name, waiters, channel, mark], vec!["w1".to_owned()]),
        ScriptKind::DeleteIfOurs => (vec![name], vec![nonce]),
        kind => return admission(dice, kind, text, record),
    };
    eval(text, &keys, args)
}

fn admission(dice: &mut Dice, kind: ScriptKind, text: String, record: String) -> Vec<Vec<u8>> {
    let stamp = |dice: &mut Dice| dice.pick(&["s1", "s2", ""]).to_string();
    let (list, label) = ("n0 n1".to_owned(), dice.pick(&["n0", "n1"]).to_string());
    // The clocks always agree: the bound is a century.
    let clocks = [Start::now().micros().to_string(), "4000000000000000".to_owned()];
    let id = dice.pick(&["i1", "i2"]).to_string();
    let note = format!("@LIFE@/{id}");
    let (mut keys, args) = (
        vec![record],
        match kind {
            ScriptKind::Note => {
                let instead = if dice.chance(0.5) { String::new() } else { note };
                [clocks.to_vec(), vec![label, list, id, instead]].concat()
            }
            ScriptKind::Barrier => vec![stamp(dice)],
            ScriptKind::Admit => {
                let terms = vec!["s1".to_owned(), "1".to_owned(), list, String::new()];
                let limits = ["60000", "100", "1"].map(str::to_owned).to_vec();
                [clocks.to_vec(), vec![label, note, "0".to_owned()], terms, limits].concat()
            }
            ScriptKind::WriteTerms => {
                let phase = dice.pick(&["1", "2", "3"]).to_string();
                vec![stamp(dice), "s2".into(), phase, list, String::new(), label, "100".into()]
            }
            _ => {
                let seen = stamp(dice);
                let limits = ["60000", "100", "1"].map(str::to_owned);
                let terms = vec!["s1".to_owned(), label, "1".to_owned(), list];
                [terms, limits.to_vec(), vec![seen]].concat()
            }
        },
    );
    if kind == ScriptKind::Barrier {
        keys.extend((0..Name::SLOTS).map(|slot| Name::mark_key_of(slot).to_owned()));
    }
    eval(text, &keys, args)
}

fn eval(text: String, keys: &[String], args: Vec<String>) -> Vec<Vec<u8>> {
    let mut words = vec!["EVAL".to_owned(), text, keys.len().to_string()];
    words.extend(keys.iter().cloned());
    words.extend(args);
    words.into_iter().map(String::into_bytes).collect()
}

fn nonce(dice: &mut Dice, layout: Layout) -> String {
    let bits = quorumlock_protocol::Nonce::from_u128(1 + dice.index(3) as u128);
    match layout {
        Layout::Redlock => bits.to_string(),
        _ => format!("{}:7", bits.hyphenated()),
    }
}

/// The simulated side.
struct Simulated {
    server: Server,
    peer: Peer,
    start: Start,
}

impl Simulated {
    fn new(layout: Layout, has_delifeq: bool) -> Self {
        let plan = Plan::faultless(1, layout, None);
        let mut server = Server::new(0, &plan, None, &mut Dice::new(0, 0));
        server.has_delifeq = has_delifeq;
        Self { server, peer: Peer::new(0, 0), start: Start::now() }
    }

    fn ask(&mut self, args: &[Vec<u8>]) -> Reply {
        let (mut bytes, mut out) = (packed(args), Vec::new());
        let commands = Commands::take(&mut bytes);
        let (args, now) = (commands.args(0), self.start.micros());
        let lease_command = LeaseCommand::of(args);
        self.peer.command(&mut self.server, (args, &lease_command), now, &mut out);
        let (reply, length) = decode(&out).unwrap();
        assert_eq!(length, out.len(), "one reply");
        reply
    }
}

/// A connection to a real server.
struct Real {
    stream: TcpStream,
    buffer: Vec<u8>,
}

impl Real {
    fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        Self { stream, buffer: Vec::new() }
    }

    fn ask(&mut self, args: &[Vec<u8>]) -> Reply {
        self.stream.write_all(&packed(args)).unwrap();
        loop {
            if let Some((reply, length)) = decode(&self.buffer) {
                self.buffer.drain(..length);
                return reply;
            }
            let mut room = [0; 65_536];
            let length = self.stream.read(&mut room).unwrap();
            assert!(length > 0, "the server closed the connection");
            self.buffer.extend_from_slice(&room[..length]);
        }
    }

    fn has(&mut self, command: &str) -> bool {
        let info = self.ask(&[b"COMMAND".to_vec(), b"INFO".to_vec(), command.into()]);
        matches!(info, Reply::Array(found) if matches!(found.first(), Some(Reply::Array(_))))
    }

    /// The run identity, as the scripts compute it.
    fn life(&mut self) -> String {
        let mut field = |section: &str, name: &str| {
            let Reply::Text(info) = self.ask(&[b"INFO".to_vec(), section.into()]) else {
                panic!("no INFO")
            };
            let info = String::from_utf8_lossy(&info).into_owned();
            let line = info.lines().find_map(|line| line.strip_prefix(name).map(str::to_owned));
            line.unwrap_or_default()
        };
        format!("{}/{}", field("server", "run_id:"), field("replication", "master_replid:"))
    }
}

fn packed(args: &[Vec<u8>]) -> Vec<u8> {
    let mut out = format!("*{}\r\n", args.len()).into_bytes();
    for arg in args {
        out.extend_from_slice(format!("${}\r\n", arg.len()).as_bytes());
        out.extend_from_slice(arg);
        out.extend_from_slice(b"\r\n");
    }
    out
}

/// Decodes one whole reply.
fn decode(bytes: &[u8]) -> Option<(Reply, usize)> {
    let end = bytes.windows(2).position(|pair| pair == b"\r\n")?;
    let line = String::from_utf8_lossy(&bytes[1..end]).into_owned();
    let mut at = end + 2;
    let reply = match bytes[0] {
        b'+' => Reply::Status(line),
        b'-' => Reply::Error(line.split(' ').next().unwrap_or_default().to_owned()),
        b':' => Reply::Int(line.parse().unwrap()),
        b'$' if line == "-1" => Reply::Nil,
        b'$' => {
            let length: usize = line.parse().unwrap();
            let text = bytes.get(at..at + length)?.to_vec();
            at += length + 2;
            if bytes.len() < at {
                return None;
            }
            Reply::Text(text)
        }
        b'*' if line == "-1" => Reply::Nil,
        b'*' => {
            let mut items = Vec::new();
            for _ in 0..line.parse::<usize>().unwrap() {
                let (item, length) = decode(&bytes[at..])?;
                items.push(item);
                at += length;
            }
            Reply::Array(items)
        }
        other => panic!("no reply: {other}"),
    };
    Some((reply, at))
}

fn replace(text: &[u8], from: &[u8], to: &[u8]) -> Vec<u8> {
    match text.windows(from.len()).position(|part| part == from) {
        Some(at) => [&text[..at], to, &text[at + from.len()..]].concat(),
        None => text.to_vec(),
    }
}

fn shown(command: &[Vec<u8>]) -> String {
    let text = command.get(1).and_then(|text| std::str::from_utf8(text).ok());
    let kind = text.and_then(kind_of).map_or(String::new(), |kind| format!("{kind:?} "));
    let args = command.iter().filter(|arg| arg.len() < 80).take(16);
    let args: Vec<_> = args.map(|arg| String::from_utf8_lossy(arg).into_owned()).collect();
    format!("{kind}{}", args.join(" "))
}
