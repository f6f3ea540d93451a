//! Servers in containers: each fault looks as it should from outside, and nothing is left behind.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use quorumlock_testbed::containers::for_test;
use testcontainers::core::client::docker_client_instance;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// The limit for events that must happen, however loaded the machine is.
const MAX_WAIT: Duration = Duration::from_secs(20);
/// How long to wait for events that must not happen.
const BRIEFLY: Duration = Duration::from_millis(500);
/// The answer to GET.
const DATA: &str = "$1\r\n1";

/// Sends one inline command on a new connection.
async fn ask(address: SocketAddr, command: &str) -> io::Result<String> {
    let asked = async { answer(&mut TcpStream::connect(address).await?, command).await };
    timeout(MAX_WAIT, asked).await?
}

async fn answer(stream: &mut TcpStream, command: &str) -> io::Result<String> {
    stream.write_all(format!("{command}\r\n").as_bytes()).await?;
    let mut buffer = [0; 256];
    let length = stream.read(&mut buffer).await?;
    Ok(String::from_utf8_lossy(&buffer[..length]).trim_end().to_owned())
}

async fn is_silent(address: SocketAddr) -> bool {
    timeout(BRIEFLY, ask(address, "PING")).await.is_err()
}

async fn is_refused(address: SocketAddr) -> bool {
    ask(address, "PING").await.is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_paused_container_is_silent() {
    let Some(nodes) = for_test(3).await else { return };
    for node in &nodes {
        assert_eq!(ask(node.addr(), "PING").await.unwrap(), "+PONG");
        assert_eq!(ask(node.ip_addr(), "PING").await.unwrap(), "+PONG");
    }
    nodes[1].pause().await.unwrap();
    assert!(is_silent(nodes[1].addr()).await);
    assert!(is_silent(nodes[1].ip_addr()).await);
    assert_eq!(ask(nodes[2].addr(), "PING").await.unwrap(), "+PONG");
    nodes[1].unpause().await.unwrap();
    assert_eq!(ask(nodes[1].addr(), "PING").await.unwrap(), "+PONG");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_container_comes_back_empty_at_the_same_addresses() {
    let Some(nodes) = for_test(2).await else { return };
    for node in &nodes {
        ask(node.addr(), "SET x 1").await.unwrap();
        node.kill().await.unwrap();
        assert!(is_refused(node.addr()).await);
    }
    // In reverse order: no node may get the address of another node.
    for node in [&nodes[1], &nodes[0]] {
        node.start_again().await.unwrap();
        assert_eq!(ask(node.addr(), "EXISTS x").await.unwrap(), ":0");
        ask(node.addr(), &format!("SET me {}", node.ip_addr())).await.unwrap();
    }
    for node in &nodes {
        let me = node.ip_addr().to_string();
        let answer = ask(node.ip_addr(), "GET me").await.unwrap();
        assert!(answer.ends_with(&me), "{answer}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_disconnected_container_is_partitioned_and_heals() {
    let Some(nodes) = for_test(1).await else { return };
    let node = &nodes[0];
    let mut stream = TcpStream::connect(node.ip_addr()).await.unwrap();
    assert_eq!(answer(&mut stream, "SET x 1").await.unwrap(), "+OK");

    node.disconnect().await.unwrap();
    timeout(BRIEFLY, answer(&mut stream, "GET x")).await.expect_err("it hangs");
    assert!(is_refused(node.addr()).await, "the published port shows a crash");

    node.reconnect().await.unwrap();
    for address in [node.ip_addr(), node.addr()] {
        let healed = async {
            let get = || timeout(BRIEFLY, ask(address, "GET x"));
            while !matches!(get().await, Ok(Ok(answer)) if answer == DATA) {}
        };
        timeout(MAX_WAIT, healed).await.expect("it has healed");
    }
    // A request sent during the partition is answered late, on the same connection.
    let mut late = [0; 7];
    let read = timeout(MAX_WAIT, stream.read_exact(&mut late)).await;
    assert_eq!((read.unwrap().unwrap(), &late), (7, b"$1\r\n1\r\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_left_after_a_panic() {
    let Some(nodes) = for_test(2).await else { return };
    let docker = docker_client_instance().await.unwrap();
    let network = nodes.network().to_owned();
    let ids = nodes.iter().map(|node| node.id().to_owned()).collect::<Vec<_>>();
    nodes[0].pause().await.unwrap(); // a paused container is removed, too
    docker.inspect_network(&network, None).await.unwrap();

    let panicked = tokio::spawn(async move {
        let _nodes = nodes;
        panic!("on purpose");
    });
    assert!(panicked.await.unwrap_err().is_panic());
    for id in ids {
        docker.inspect_container(&id, None).await.unwrap_err();
    }
    docker.inspect_network(&network, None).await.unwrap_err();
}
