//! Servers that are far away: a round trip takes 400 ms, and the connect timeout is 1 s.

use std::net::SocketAddr;
use std::time::Duration;

use quorumlock::{Admission, Builder, Servers};
use quorumlock_testbed::proxy::Proxy;
use quorumlock_testbed::servers::{self, ServerOptions};

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
