//! Servers that the test starts: they start, stop, restart, and never outlive the process.

use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use quorumlock_testbed::servers::{
    ControlError, ServerOptions, Servers, Source, StartError, for_test,
};

/// The limit for events that must happen, however loaded the machine is.
const MAX_WAIT: Duration = Duration::from_secs(10);
/// How long to wait for events that must not happen.
const BRIEFLY: Duration = Duration::from_millis(300);

/// Sends one inline command on a new connection and returns the first line of the answer.
fn ask(address: SocketAddr, command: &str) -> io::Result<String> {
    let mut stream = TcpStream::connect_timeout(&address, MAX_WAIT)?;
    answer(&mut stream, command, MAX_WAIT)
}

fn answer(stream: &mut TcpStream, command: &str, patience: Duration) -> io::Result<String> {
    stream.set_read_timeout(Some(patience))?;
    stream.write_all(format!("{command}\r\n").as_bytes())?;
    let mut buffer = [0; 256];
    let length = stream.read(&mut buffer)?;
    let text = String::from_utf8_lossy(&buffer[..length]).into_owned();
    Ok(text.lines().next().unwrap_or_default().to_owned())
}

fn refused(address: SocketAddr) -> bool {
    ask(address, "PING").is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
}

#[test]
fn several_servers_start_and_all_differ() {
    let Some(servers) = for_test(3, &ServerOptions::default()) else { return };
    assert_eq!(servers.len(), 3);
    for (server, url) in servers.iter().zip(servers.urls()) {
        let address = server.addr().unwrap();
        assert_eq!(url, format!("redis://{address}"));
        assert_eq!(ask(address, "PING").unwrap(), "+PONG");
        assert!(server.is_running());
        let version = server.version().unwrap();
        assert!(["redis", "valkey"].contains(&version.product.as_str()), "{version}");
    }
    let mut pids = servers.iter().map(|server| server.pid().unwrap()).collect::<Vec<_>>();
    pids.dedup();
    assert_eq!(pids.len(), 3);
}

#[test]
fn a_paused_server_answers_late() {
    let Some(servers) = for_test(1, &ServerOptions::default()) else { return };
    let address = servers[0].addr().unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    assert_eq!(answer(&mut stream, "PING", MAX_WAIT).unwrap(), "+PONG");

    servers[0].pause().unwrap();
    assert!(servers[0].is_running());
    let silence = answer(&mut stream, "PING", BRIEFLY).unwrap_err();
    assert_eq!(silence.kind(), io::ErrorKind::WouldBlock);

    servers[0].resume().unwrap();
    assert_eq!(answer(&mut stream, "SET late 1", MAX_WAIT).unwrap(), "+PONG");
}

#[test]
fn a_killed_server_comes_back_empty_at_the_same_port() {
    let Some(servers) = for_test(1, &ServerOptions::default()) else { return };
    let server = &servers[0];
    let (address, pid) = (server.addr().unwrap(), server.pid().unwrap());
    ask(address, "SET x 1").unwrap();

    server.pause().unwrap(); // a stopped process can be killed, too
    server.kill().unwrap();
    assert!(refused(address));
    assert!(!server.is_running());
    assert_eq!(server.pid(), None);
    assert!(matches!(server.kill(), Err(ControlError::NotRunning { .. })));
    assert!(matches!(server.pause(), Err(ControlError::NotRunning { .. })));

    server.restart_empty().unwrap();
    assert_ne!(server.pid().unwrap(), pid);
    assert_eq!(ask(address, "EXISTS x").unwrap(), ":0");
}

#[test]
fn a_server_that_ends_by_itself_is_noticed() {
    let Some(servers) = for_test(1, &ServerOptions::default()) else { return };
    let _ = ask(servers[0].addr().unwrap(), "SHUTDOWN NOSAVE");
    eventually("it has ended", || !servers[0].is_running());
    assert!(matches!(servers[0].kill(), Err(ControlError::NotRunning { .. })));
    servers[0].restart().unwrap();
    assert!(servers[0].is_running());
}

#[test]
fn data_on_disk_survives_a_restart_but_not_an_empty_one() {
    let options = ServerOptions { appendonly: true, ..ServerOptions::default() };
    let Some(servers) = for_test(1, &options) else { return };
    let address = servers[0].addr().unwrap();
    ask(address, "SET x 1").unwrap();
    servers[0].restart().unwrap();
    assert_eq!(ask(address, "EXISTS x").unwrap(), ":1");
    servers[0].restart_empty().unwrap();
    assert_eq!(ask(address, "EXISTS x").unwrap(), ":0");
}

#[test]
fn password_socket_and_arguments_are_passed_on() {
    let options = ServerOptions {
        password: Some("p@ss word".to_owned()),
        unix_socket: true,
        args: ["--maxmemory-policy", "allkeys-lru"].map(str::to_owned).to_vec(),
        ..ServerOptions::default()
    };
    let Some(servers) = for_test(1, &options) else { return };
    let address = servers[0].addr().unwrap();
    assert_eq!(servers[0].url(), format!("redis://:p%40ss%20word@{address}"));
    assert!(ask(address, "PING").unwrap().starts_with("-NOAUTH"));
    let mut stream = TcpStream::connect(address).unwrap();
    assert_eq!(answer(&mut stream, "AUTH \"p@ss word\"", MAX_WAIT).unwrap(), "+OK");
    assert_eq!(answer(&mut stream, "CONFIG GET maxmemory-policy", MAX_WAIT).unwrap(), "*2");
    std::os::unix::net::UnixStream::connect(servers[0].socket().unwrap()).unwrap();
}

#[test]
fn a_server_that_cannot_start_shows_its_log() {
    let Some(servers) = for_test(0, &ServerOptions::default()) else { return };
    assert!(servers.is_empty());
    let options = ServerOptions {
        args: ["--no-such-setting", "1"].map(str::to_owned).to_vec(),
        ..ServerOptions::default()
    };
    let Ok(source @ Source::Binary(_)) = Source::discover() else { return };
    let error = Servers::start_with(&source, 2, &options).unwrap_err();
    assert!(error.to_string().contains("no-such-setting"), "{error}");
}

#[test]
fn given_servers_are_used_but_never_stopped() {
    let Some(servers) = for_test(1, &ServerOptions::default()) else { return };
    let source = Source::Urls(servers.urls());
    let given = Servers::start_with(&source, 1, &ServerOptions::default()).unwrap();
    assert_eq!(given[0].version(), servers[0].version());
    let error = given[0].kill().unwrap_err();
    assert!(matches!(error, ControlError::Unsupported { .. }), "{error}");
    drop(given);
    assert!(servers[0].is_running());

    let error = Servers::start_with(&source, 2, &ServerOptions::default()).unwrap_err();
    assert!(matches!(error, StartError::TooFewUrls { given: 1, wanted: 2 }), "{error}");
}

/// Not a test by itself: the process that the next test kills.
#[test]
fn helper_which_is_killed() {
    if std::env::var_os("QUORUMLOCK_TEST_HELPER").is_none() {
        return;
    }
    let servers = for_test(2, &ServerOptions::default()).unwrap();
    servers[1].pause().unwrap();
    for server in &servers {
        let dir = server.dir().unwrap().display();
        let (port, pid) = (server.addr().unwrap().port(), server.pid().unwrap());
        writeln!(io::stdout(), "server {port} {pid} {dir}").unwrap();
    }
    std::thread::sleep(Duration::from_secs(60));
}

#[test]
fn servers_die_with_a_parent_that_is_killed() {
    if for_test(0, &ServerOptions::default()).is_none() {
        return;
    }
    let mut helper = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "helper_which_is_killed", "--nocapture"])
        .env("QUORUMLOCK_TEST_HELPER", "1")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(helper.stdout.take().unwrap()).lines().map(Result::unwrap);
    let servers = lines
        .filter_map(|line| {
            let (_, line) = line.split_once("server ")?;
            let mut words = line.split(' ').map(str::to_owned);
            let (port, pid) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
            Some((SocketAddr::from((Ipv4Addr::LOCALHOST, port)), pid, words.next()?))
        })
        .take(2)
        .collect::<Vec<(_, i32, _)>>();
    assert_eq!(servers.len(), 2);
    assert_eq!(ask(servers[0].0, "PING").unwrap(), "+PONG");

    helper.kill().unwrap(); // SIGKILL: nothing in the helper runs any more
    helper.wait().unwrap();
    for (address, pid, dir) in servers {
        let pid = rustix::process::Pid::from_raw(pid).unwrap();
        let is_gone = || rustix::process::test_kill_process(pid).is_err();
        eventually("its process is gone", is_gone);
        eventually("its port is free", || refused(address) && TcpListener::bind(address).is_ok());
        eventually("its directory is gone", || !Path::new(&dir).exists());
    }
}

fn eventually(what: &str, is_so: impl Fn() -> bool) {
    let so = (0..1000).any(|_| {
        is_so() || {
            std::thread::sleep(Duration::from_millis(10));
            false
        }
    });
    assert!(so, "not within 10 s: {what}");
}
