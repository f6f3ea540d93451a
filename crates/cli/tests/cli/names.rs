//! Names of servers: a name server that hangs, and a name with an address that is silent.
//!
//! Each test has an `/etc/resolv.conf` or `/etc/hosts` of its own, in a mount namespace.

use std::fs;
use std::net::{Ipv4Addr, TcpStream, ToSocketAddrs, UdpSocket};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use quorumlock_testbed::servers::{ServerOptions, for_test};
use quorumlock_testbed::skip;
use quorumlock_watchdog::Clock;
use rustix::net::{AddressFamily, SocketType, bind, listen, socket};
use rustix::process::Signal;

use crate::common::{QUORUMLOCK, Running, finish, program};

/// The system's resolver asks twice, and waits as long each time.
const RESOLVER_WAITS: Duration = Duration::from_secs(30);

/// A program that finds `file` at the path `over`.
fn with_file(file: &Path, over: &str, words: &[&str], urls: &[String]) -> Command {
    let mut unshare = program("unshare", urls);
    unshare.args(["--map-root-user", "--mount", "--", "sh", "-c"]);
    unshare.arg(r#"mount --bind "$0" "$1" && shift && exec "$@""#);
    unshare.arg(file).arg(over).args(words);
    unshare
}

fn skip_without(what: &str) {
    skip("QUORUMLOCK_REQUIRE_NAMESPACES", &format!("no name server that hangs: {what}"));
}

/// A name server that never answers.
struct SilentNameServer {
    _socket: UdpSocket,
    dir: tempfile::TempDir,
}

impl SilentNameServer {
    /// `None` if the machine does not let the test have one.
    fn start() -> Option<Self> {
        // Of this process alone.
        let [.., high, low] = std::process::id().to_be_bytes();
        let address = Ipv4Addr::new(127, 53, high, low.max(1));
        let socket = match UdpSocket::bind((address, 53)) {
            Ok(socket) => socket,
            Err(e) => {
                skip_without(&format!("{address}: {e}"));
                return None;
            }
        };
        let dir = tempfile::tempdir().unwrap();
        let seconds = RESOLVER_WAITS.as_secs();
        let text = format!("nameserver {address}\noptions attempts:2 timeout:{seconds}\n");
        fs::write(dir.path().join("resolv.conf"), text).unwrap();
        let hangs = Self { _socket: socket, dir };
        let asked = hangs.give(&["timeout", "1", "getent", "hosts", "silent.example"]).output();
        let asked = asked.unwrap();
        if asked.status.code() != Some(124) {
            skip_without(&format!("{}, {}", asked.status, String::from_utf8_lossy(&asked.stderr)));
            return None;
        }
        Some(hangs)
    }

    fn give(&self, words: &[&str]) -> Command {
        let urls = ["redis://silent.example:6379".to_owned()];
        with_file(&self.dir.path().join("resolv.conf"), "/etc/resolv.conf", words, &urls)
    }
}

/// Far less than the resolver waits, and long enough for a busy machine.
const SOON: Duration = Duration::from_secs(20);

#[test]
fn a_name_server_that_hangs_does_not_keep_the_command_alive() {
    let Some(hangs) = SilentNameServer::start() else { return };
    let clock = Clock::system();
    for (words, code) in [
        (&["status", "job"][..], 69),
        (&["doctor", "--timeout", "1s"], 69),
        (&["run", "job", "--wait", "0", "--", "true"], 69),
    ] {
        let begun = clock.now();
        let ended = finish(hangs.give(&[&[QUORUMLOCK], words].concat())).expect(code);
        let took = clock.now().since(begun);
        assert!(took < SOON, "{words:?}: {took:?}, {ended:?}");
    }

    let begun = clock.now();
    let mut lead = Running::spawn(hangs.give(&[QUORUMLOCK, "lead", "job", "--", "true"]));
    lead.await_message("waiting");
    lead.signal(Signal::TERM);
    lead.finish().expect(143);
    assert!(clock.now().since(begun) < SOON, "lead, SIGTERM");
}

/// The system gives the silent address first: both are as far from 127.0.0.1.
#[test]
fn a_name_with_a_silent_address_is_reached_by_the_other_one() {
    const SILENT: &str = "127.0.0.4";
    const LIVE: &str = "127.0.0.5";

    let args = ["--bind", "127.0.0.1", LIVE].map(str::to_owned).to_vec();
    let Some(servers) = for_test(1, &ServerOptions { args, ..Default::default() }) else { return };
    let Some(address) = servers[0].addr() else { return };
    let silent = Silent::at((SILENT, address.port()));
    let dir = tempfile::tempdir().unwrap();
    let hosts = dir.path().join("hosts");
    fs::write(&hosts, format!("{SILENT} two.example\n{LIVE} two.example\n")).unwrap();
    let urls = [format!("redis://two.example:{}", address.port())];
    let give = |words: &[&str]| with_file(&hosts, "/etc/hosts", words, &urls);
    let order = give(&["getent", "ahosts", "two.example"]).output().unwrap();
    let order = String::from_utf8_lossy(&order.stdout).into_owned();
    if !order.starts_with(SILENT) {
        return skip("QUORUMLOCK_REQUIRE_NAMESPACES", &format!("the name is not ours: {order}"));
    }
    finish(give(&[QUORUMLOCK, "status", "job"])).expect(0);
    let words = [QUORUMLOCK, "run", "job", "--wait", "0", "--", "echo", "done"];
    assert_eq!(finish(give(&words)).expect(0).stdout, "done\n");
    drop(silent);
}

/// An address that accepts no connection and refuses none: the queue of its listener is full.
struct Silent {
    _listener: OwnedFd,
    _queued: Vec<TcpStream>,
}

impl Silent {
    fn at(address: impl ToSocketAddrs) -> Self {
        let address = address.to_socket_addrs().unwrap().next().unwrap();
        let socket = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
        bind(&socket, &address).unwrap();
        listen(&socket, 0).unwrap();
        let mut queued = Vec::new();
        while let Ok(stream) = TcpStream::connect_timeout(&address, Duration::from_millis(300)) {
            queued.push(stream);
        }
        Self { _listener: socket, _queued: queued }
    }
}
