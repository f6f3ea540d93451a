//! Of a release the waiter that it wakes hears before its sender does (decision 22). Speed only: a server that
//! writes in another order wakes waiters all the same.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use quorumlock::Wire;
use quorumlock_lab::servers::{self, ServerOptions};

use crate::{LONG, Node, slow_log};

#[tokio::test]
async fn a_release_goes_behind_a_command_where_the_last_one_woke_somebody() {
    for wire in [Wire::Redisson, Wire::Redlock] {
        let Some(node) = Node::start(wire).await else { return };
        let (locker, plain) = node.clients();
        plain.ask::<String>(&["CONFIG", "SET", "slowlog-log-slower-than", "0"]).await;
        for (waiter, ahead) in [("a", false), ("b", true)] {
            let guard = locker.lock("x").lease(LONG).await.expect("free");
            let mut woken = plain.listen(&format!("quorumlock:waiter:{waiter}")).await;
            plain.ask::<i64>(&["ZADD", "quorumlock:waiters:{x}", "1", waiter]).await;
            plain.ask::<String>(&["SLOWLOG", "RESET"]).await;
            guard.unlock().await.expect("held");
            assert_eq!(woken.next().await, "x");
            let sent = slow_log(&plain).await;
            let at = sent.iter().position(|command| *command == ["EXISTS", "x"]);
            assert_eq!(at.is_some(), ahead, "{sent:?}");
            // What a script calls is logged before the script.
            let script = sent.iter().position(|command| command[0] == "EVALSHA");
            assert!(at.is_none() || at < script, "{sent:?}");
        }
    }
}

/// What the command ahead is for.
#[test]
fn whoever_was_told_something_last_is_written_to_first() {
    let Some(server) = servers::for_test(1, &ServerOptions::default()) else { return };
    let connect = || {
        let address = server[0].url().trim_start_matches("redis://");
        let socket = TcpStream::connect(address).expect("it answers");
        socket.set_nodelay(true).expect("a socket");
        socket.set_read_timeout(Some(LONG)).expect("a socket");
        socket
    };
    let (mut waiter, mut releaser) = (connect(), connect());
    let mut heard = [0; 256];
    waiter.write_all(b"SUBSCRIBE turn\r\n").expect("a socket");
    let _ = waiter.read(&mut heard).expect("subscribed");
    for _ in 0..200 {
        releaser.write_all(b"EXISTS x\r\nPUBLISH turn x\r\n").expect("a socket");
        releaser.read_exact(&mut heard[..b":0\r\n:1\r\n".len()]).expect("both replies");
        waiter.set_nonblocking(true).expect("a socket");
        let told = waiter.read(&mut heard);
        assert!(matches!(told, Ok(1..)), "the sender heard first: {told:?}");
        waiter.set_nonblocking(false).expect("a socket");
    }
}
