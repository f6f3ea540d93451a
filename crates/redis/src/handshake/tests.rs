//! Handshakes with a server that is far away, in virtual time: how many round trips they take, and
//! where they stop.

use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use quorumlock_protocol::{BoxFuture, Layout, NodeProblem, Nonce, Settings};
use quorumlock_watchdog::Clock;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::time::sleep;

use super::{refuse_role, refuse_version};
use crate::dial::RunIdRegistry;
use crate::network::{Network, SimulatedNetwork};
use crate::node_factory::NodeFactory;
use crate::resp::{Value, decode};
use crate::stream::Stream;
use crate::targets::{Targets, parse};

const TIMEOUT: Duration = Duration::from_secs(1);

/// A server at the end of a link.
#[derive(Debug)]
struct FarServer {
    /// From a command to the first byte of its reply.
    round_trip: Duration,
    /// The pause before each byte of replies after the first, if they come one by one.
    trickle: Option<Duration>,
    loads_scripts: bool,
    clock: Clock,
    /// The names of all commands, one text for each trip.
    trips: Mutex<Vec<String>>,
}

/// Larger than all scripts together.
const BUFFER: usize = 1 << 22;

impl FarServer {
    fn at(round_trip: Duration) -> Self {
        let (clock, trips) = (Clock::manual(), Mutex::default());
        Self { round_trip, trickle: None, loads_scripts: true, clock, trips }
    }

    async fn serve(self: Arc<Self>, mut stream: DuplexStream) -> io::Result<()> {
        let (mut asked, mut part) = (Vec::new(), vec![0; BUFFER]);
        loop {
            let read = stream.read(&mut part).await?;
            if read == 0 {
                return Ok(());
            }
            asked.extend_from_slice(&part[..read]);
            let (mut names, mut replies) = (Vec::new(), String::new());
            while let Ok(Some((command, len))) = decode(&asked) {
                asked.drain(..len);
                let Value::Array(words) = command else { panic!("{command:?}") };
                replies.push_str(&self.reply(&words[0].text()));
                names.push(words[0].text().into_owned());
            }
            self.trips.lock().unwrap().push(names.join(" "));
            sleep(self.round_trip).await;
            match self.trickle {
                None => stream.write_all(replies.as_bytes()).await?,
                Some(pause) => {
                    for byte in replies.bytes() {
                        stream.write_all(&[byte]).await?;
                        sleep(pause).await;
                    }
                }
            }
        }
    }

    fn reply(&self, command: &str) -> String {
        let bulk = |text: &str| format!("${}\r\n{text}\r\n", text.len());
        match command {
            "INFO" => bulk("run_id:a\r\nrole:master\r\n"),
            "SCRIPT" if !self.loads_scripts => "-NOPERM no permissions\r\n".into(),
            "EVALSHA" => "*1\r\n:1\r\n".into(),
            "TIME" => format!("*2\r\n{}{}", bulk("1"), bulk("2")),
            "DEL" | "HSET" | "PEXPIRE" => ":1\r\n".into(),
            _ => "+OK\r\n".into(),
        }
    }

    /// Connects to it, and returns the virtual time that this took.
    async fn connect(self) -> (Result<(), NodeProblem>, Duration, Vec<String>) {
        let (server, settings) = (Arc::new(self), Settings::default());
        let link = Link(server.clone());
        assert_eq!(settings.connect_timeout, TIMEOUT);
        let factory = NodeFactory {
            layout: Layout::Redlock,
            cluster: None,
            settings: &settings,
            clock: &server.clock,
            run_ids: RunIdRegistry::default(),
            waiter: Nonce::from_u128(1),
            name_channels: false,
            supports_handoff: false,
            network: Network::Simulated(Arc::new(link)),
            router: None,
        };
        let targets = Targets::Listed(parse(&["redis://far:1"]).expect("a URL"));
        let resolver = Arc::new(factory.resolver(targets).expect("good settings"));
        tokio::spawn(tick(server.clock.clone()));
        let begun = server.clock.now();
        let opened = resolver.open().await.map(drop);
        let took = server.clock.now().since(begun);
        let trips = server.trips.lock().unwrap().clone();
        (opened, took, trips)
    }
}

/// Lets the clock show the virtual time, at whole tenths of a second.
async fn tick(clock: Clock) {
    const TENTH: Duration = Duration::from_millis(100);

    sleep(TENTH / 2).await;
    loop {
        clock.advance(TENTH);
        sleep(TENTH).await;
    }
}

#[derive(Debug)]
struct Link(Arc<FarServer>);

impl SimulatedNetwork for Link {
    fn open(&self) -> BoxFuture<io::Result<Box<dyn Stream>>> {
        let (client, server) = duplex(BUFFER);
        tokio::spawn(self.0.clone().serve(server));
        Box::pin(async { Ok(Box::new(client) as Box<dyn Stream>) })
    }

    fn spawn(&self, task: BoxFuture<()>) {
        tokio::spawn(task);
    }

    fn pause_share(&self) -> f64 {
        1.0
    }
}

#[tokio::test(start_paused = true)]
async fn a_handshake_takes_two_round_trips_which_do_not_share_the_timeout() {
    let round_trip = Duration::from_millis(900);
    let (opened, took, trips) = FarServer::at(round_trip).connect().await;
    assert_eq!((opened, took), (Ok(()), 2 * round_trip), "{trips:?}");
    let [who, rest] = &trips[..] else { panic!("{trips:?}") };
    assert!(who.starts_with("CLIENT INFO") && rest.starts_with("SCRIPT"), "{trips:?}");
}

#[tokio::test(start_paused = true)]
async fn scripts_that_must_be_loaded_by_eval_take_one_round_trip_more() {
    let round_trip = Duration::from_millis(900);
    let server = FarServer { loads_scripts: false, ..FarServer::at(round_trip) };
    let (opened, took, trips) = server.connect().await;
    assert_eq!((opened, took), (Ok(()), 3 * round_trip), "{trips:?}");
    assert!(trips[2].starts_with("EVAL") && trips[2].ends_with("DEL"), "{trips:?}");
}

#[tokio::test(start_paused = true)]
async fn a_server_that_stays_silent_is_given_up_after_the_timeout() {
    let (opened, took, _) = FarServer::at(3 * TIMEOUT).connect().await;
    let Err(NodeProblem::NotConnected(why)) = opened else { panic!("{opened:?}") };
    assert!(why.contains("within 1s") && why.contains("connect_timeout"), "{why}");
    assert_eq!(took, TIMEOUT);
}

#[tokio::test(start_paused = true)]
async fn replies_that_trickle_are_a_slow_link_and_end_after_five_timeouts() {
    let pause = Duration::from_millis(300);
    let server = FarServer { trickle: Some(pause), ..FarServer::at(TIMEOUT / 2) };
    let (opened, took, _) = server.connect().await;
    let slow = NodeProblem::SlowLink { within: 5 * TIMEOUT, step: TIMEOUT / 2 };
    assert_eq!((opened, took), (Err(slow), 5 * TIMEOUT));
}

#[test]
fn a_server_before_6_2_is_refused_by_its_version() {
    let refused = |version: &str| {
        refuse_version(&format!("# Server\r\nredis_version:{version}\r\nos:Linux\r\n")).err()
    };
    for old in ["2.8.24", "5.0.14", "6.0.16", "6.1.240"] {
        let Some(NodeProblem::Unfit(what)) = refused(old) else { panic!("{old}") };
        assert_eq!(what.to_string(), format!("version is {old}, expected 6.2 or later"));
    }
    for good in ["6.2.0", "6.2.14", "7.0.15", "10.0.0", "255.255.255", "", "unstable"] {
        assert_eq!(refused(good), None, "{good}");
    }
}

#[test]
fn only_a_master_is_taken_and_an_unknown_role_is_named() {
    let of = |role: &str, redis_cluster| {
        let info = format!("# Replication\r\n{role}master_host:a\r\nmaster_port:1\r\n");
        refuse_role(&info, redis_cluster)
    };
    for redis_cluster in [false, true] {
        for master in ["role:master\r\n", ""] {
            assert_eq!(of(master, redis_cluster), Ok(()));
        }
        let active = of("role:active-replica\r\n", redis_cluster).expect_err("no master");
        assert_eq!(active, NodeProblem::UnknownRole("active-replica".into()));
        assert!(active.to_string().contains("\"active-replica\"") && !active.may_pass());
    }
    assert_eq!(of("role:slave\r\n", false), Err(NodeProblem::Replica("a:1".into())));
    assert_eq!(of("role:slave\r\n", true), Ok(()));
}
