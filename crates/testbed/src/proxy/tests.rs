use std::io::Read as _;

use super::*;

/// A server that echoes everything, and a client's connection to it through a proxy.
fn echo() -> (Proxy, TcpStream) {
    let proxy = Proxy::to(echo_server());
    let client = connect(&proxy);
    (proxy, client)
}

fn echo_server() -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    let address = listener.local_addr().expect("bound");
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            thread::spawn(move || io::copy(&mut &stream, &mut &stream));
        }
    });
    address
}

fn connect(proxy: &Proxy) -> TcpStream {
    let client = TcpStream::connect(proxy.address).expect("somebody listens");
    client.set_read_timeout(Some(MAX_WAIT)).expect("not zero");
    client
}

fn send(mut client: &TcpStream, text: &str) {
    client.write_all(text.as_bytes()).expect("connected");
}

fn receive(mut client: &TcpStream, text: &str) {
    let mut heard = vec![0; text.len()];
    client.read_exact(&mut heard).expect("an answer");
    assert_eq!(heard, text.as_bytes());
}

#[tokio::test]
async fn what_was_held_comes_first_and_new_connections_may_overtake_it() {
    let (proxy, client) = echo();
    send(&client, "a");
    receive(&client, "a");
    proxy.hold_old_connections();
    send(&client, "b");
    proxy.awaits("held", |state| state.held > 0).await;
    let other = connect(&proxy);
    send(&other, "new");
    receive(&other, "new");
    proxy.heal();
    send(&client, "c");
    receive(&client, "bc");
}

#[tokio::test]
async fn a_connection_with_a_lost_reply_ends_when_the_way_heals() {
    let (proxy, mut client) = echo();
    send(&client, "a");
    receive(&client, "a");
    proxy.lose(Way::Replies);
    send(&client, "b");
    proxy.awaits_lost().await;
    proxy.heal();
    assert_eq!(client.read(&mut [0; 9]).expect("closed, not broken"), 0);
    let other = connect(&proxy);
    send(&other, "c");
    receive(&other, "c");
}

#[tokio::test]
async fn a_switch_is_seen_by_nobody_and_what_was_asked_is_answered_by_the_old_server() {
    let (proxy, client) = echo();
    send(&client, "a");
    receive(&client, "a");
    let other = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    proxy.switch_to(other.local_addr().expect("bound")).expect("it listens");
    let (mut there, _) = other.accept().expect("the proxy");
    send(&client, "b");
    let mut heard = [0];
    there.read_exact(&mut heard).expect("a request");
    assert_eq!(&heard, b"b", "on the connection that there was");
    there.write_all(b"B").expect("connected");
    receive(&client, "B");
}

#[test]
fn pieces_of_a_delayed_way_are_under_way_together() {
    let delay = Duration::from_secs(1);
    let proxy = Proxy::delayed(echo_server(), delay);
    let client = connect(&proxy);
    let clock = Clock::system();
    let begin = clock.now();
    send(&client, "a");
    thread::sleep(delay / 20);
    send(&client, "b");
    receive(&client, "a");
    let first = clock.now();
    assert!(first.since(begin) >= 2 * delay, "{:?}", first.since(begin));
    receive(&client, "b");
    let later = clock.now().since(first);
    assert!(later < delay * 4 / 5, "{later:?}: the second waited for the first");
}
