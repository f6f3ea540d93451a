//! Servers that are far away: a round trip takes 400 ms, and the connect timeout is 1 s. One that is farther
//! than the others.

use std::net::SocketAddr;
use std::time::Duration;

use quorumlock::{Admission, Builder, Error, LossReason, Servers};
use quorumlock_testbed::proxy::Proxy;
use quorumlock_testbed::servers::{self, ServerOptions};
use quorumlock_tests::{Plain, eventually, within};

use crate::{certificates, with_tls, works};

const ONE_WAY: Duration = Duration::from_millis(200);

/// The default connect timeout, and a machine that may be busy otherwise.
fn builder() -> Builder {
    Builder::without_servers().answer_timeout(Duration::from_secs(20))
}

#[tokio::test]
async fn a_far_server_is_connected() {
    let Some(servers) = servers::for_test(1, &ServerOptions::default()) else { return };
    let link = Proxy::delayed(servers[0].addr().expect("ours"), ONE_WAY);
    works(&builder().on(Servers::single(link.url())).expect("a good URL")).await;
}

#[tokio::test]
async fn a_far_server_that_must_prove_its_memory_is_connected() {
    let Some(servers) = servers::for_test(1, &ServerOptions::default()) else { return };
    let link = Proxy::delayed(servers[0].addr().expect("ours"), ONE_WAY);
    let strict = builder().admission(Admission::Strict);
    let locker = strict.on(Servers::single(link.url())).expect("a good URL");
    locker.admit_nodes().await.expect("admitted");
    works(&locker).await;
}

#[tokio::test]
async fn a_far_server_with_tls_is_connected() {
    let dir = tempfile::tempdir().expect("a directory");
    let Some(tls) = certificates(dir.path()) else { return };
    let Some(_) = servers::for_test(0, &ServerOptions::default()) else { return };
    let ca = std::fs::read(&tls.ca).expect("read");
    let Some(servers) = with_tls(&ServerOptions { tls: Some(tls), ..Default::default() }) else {
        return;
    };
    let address = servers[0].url().strip_prefix("rediss://").expect("TLS");
    let link = Proxy::delayed(address.parse::<SocketAddr>().expect("an address"), ONE_WAY);
    let url = format!("rediss://{}", link.addr());
    works(&builder().tls_ca(ca).on(Servers::single(&url)).expect("a good URL")).await;
}

/// The answer that decides comes last, and another node refuses connections at once.
#[tokio::test]
async fn a_ticket_that_has_ended_is_lost_though_a_node_is_far_and_another_one_down() {
    let Some(servers) = servers::for_test(3, &ServerOptions::default()) else { return };
    let link = Proxy::delayed(servers[1].addr().expect("ours"), Duration::from_millis(50));
    let urls = [servers[0].url().to_owned(), link.url(), servers[2].url().to_owned()];
    let locker = builder()
        .admission(Admission::Redlock)
        .on(Servers::quorum(urls))
        .expect("a good configuration");
    let guard = within("free", locker.lock("x").lease(Duration::from_secs(1))).await;
    let ticket = guard.expect("granted").into_ticket().expect("still held");
    for server in &servers {
        let plain = Plain::to(server.url()).await;
        eventually("its end", async || (!plain.exists("x").await).then_some(())).await;
    }
    servers[2].kill().expect("ours");
    let late = within("an answer", locker.resume(&ticket)).await;
    assert!(matches!(&late, Err(Error::Lost(lost)) if lost.why == LossReason::Gone), "{late:?}");
}
