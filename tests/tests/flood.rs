//! A server that never stops sending.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use quorumlock::{Error, Locker};
use quorumlock_testbed::servers::{self, ServerOptions};
use quorumlock_tests::{Stopwatch, eventually, within};

const LEASE: Duration = Duration::from_secs(60);

/// Leads each connection to a server, until it sends `+OK` for ever in place of the server's replies.
fn flood(server: std::net::SocketAddr, floods: Arc<AtomicBool>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("redis://{}", listener.local_addr().expect("bound"));
    thread::spawn(move || {
        for client in listener.incoming() {
            let Ok(mut client) = client else { return };
            let Ok(mut upstream) = TcpStream::connect(server) else { return };
            let (mut requests, mut forward) =
                (client.try_clone().expect("ours"), upstream.try_clone().expect("ours"));
            thread::spawn(move || {
                drop(std::io::copy(&mut requests, &mut forward));
                drop(forward.shutdown(Shutdown::Both));
            });
            let floods = floods.clone();
            thread::spawn(move || {
                upstream.set_read_timeout(Some(Duration::from_millis(5))).expect("ours");
                let noise = b"+OK\r\n".repeat(10_000);
                let mut buffer = [0; 4096];
                loop {
                    if floods.load(Ordering::Relaxed) {
                        if client.write_all(&noise).is_err() {
                            return;
                        }
                        continue;
                    }
                    match upstream.read(&mut buffer) {
                        Ok(0) => return,
                        Ok(n) => {
                            if client.write_all(&buffer[..n]).is_err() {
                                return;
                            }
                        }
                        Err(_) => {}
                    }
                }
            });
        }
    });
    url
}

/// From the first byte, and on a connection that has served a request.
#[tokio::test]
async fn a_server_that_never_stops_sending_holds_no_caller_past_its_wait() {
    for connected in [false, true] {
        let Some(servers) = servers::for_test(1, &ServerOptions::default()) else { return };
        let floods = Arc::new(AtomicBool::new(!connected));
        let url = flood(servers[0].addr().expect("ours"), floods.clone());
        let locker = Locker::single(&url).expect("a good URL");
        if connected {
            let guard = within("free", locker.lock("x").lease(LEASE)).await.expect("granted");
            floods.store(true, Ordering::Relaxed);
            drop(guard);
        }
        // A reply that is on its way already may be the last one.
        let flooded = async || locker.try_lock("y").await.is_err().then_some(());
        eventually("the flood has begun", flooded).await;
        let watch = Stopwatch::start();
        let error = locker.lock("x").wait(Duration::from_millis(300)).await.expect_err("no answer");
        assert!(watch.elapsed() < Duration::from_secs(5), "{connected}: {:?}", watch.elapsed());
        assert!(matches!(error, Error::Unreachable(_)), "{connected}: {error:?}");
    }
}
