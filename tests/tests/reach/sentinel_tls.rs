//! Sentinels and servers that do not both speak TLS, and certificates for names that sentinels do not
//! tell.

use quorumlock::{Builder, Error};
use quorumlock_testbed::servers::{ServerOptions, Servers, TlsFiles, for_test};
use quorumlock_tests::{Plain, within};

use crate::{certificates, certificates_for, with_tls, works};

/// A server and a sentinel that monitors it under the name `m`, each at a port with TLS and at one
/// without.
struct Pair {
    servers: Servers,
    sentinels: Servers,
    ca: Vec<u8>,
    _dir: tempfile::TempDir,
}

impl Pair {
    /// `over_tls`: whether the sentinel tells the port with TLS.
    async fn start(san: Option<&str>, over_tls: bool) -> Option<Self> {
        let dir = tempfile::tempdir().expect("a directory");
        let tls = match san {
            Some(san) => certificates_for(dir.path(), san)?,
            None => certificates(dir.path())?,
        };
        for_test(0, &ServerOptions::default())?;
        let ca = std::fs::read(&tls.ca).expect("read");
        let tls = Some(TlsFiles { wants_clients: false, ..tls });
        let options = ServerOptions { tls: tls.clone(), ..Default::default() };
        let servers = with_tls(&options)?;
        let args = match over_tls {
            true => vec!["--tls-replication".to_owned(), "yes".to_owned()],
            false => Vec::new(),
        };
        let sentinels = with_tls(&ServerOptions { sentinel: true, tls, args, ..options })?;
        let pair = Self { servers, sentinels, ca, _dir: dir };
        let port = if over_tls { Self::tls_port(&pair.servers) } else { pair.port() };
        let plain = Plain::to(&format!("redis://{}", pair.plain_sentinel())).await;
        plain.ask::<String>(&["SENTINEL", "MONITOR", "m", "127.0.0.1", &port, "1"]).await;
        Some(pair)
    }

    fn tls_port(servers: &Servers) -> String {
        servers[0].url().rsplit_once(':').expect("a port").1.to_owned()
    }

    fn port(&self) -> String {
        self.servers[0].addr().expect("ours").port().to_string()
    }

    fn plain_sentinel(&self) -> String {
        self.sentinels[0].addr().expect("ours").to_string()
    }

    fn tls_sentinel(&self) -> String {
        format!("127.0.0.1:{}", Self::tls_port(&self.sentinels))
    }
}

#[tokio::test]
async fn sentinels_speak_plain_and_servers_tls() {
    let Some(pair) = Pair::start(None, true).await else { return };
    let sentinel = pair.plain_sentinel();
    let builder = || Builder::without_servers().tls_ca(pair.ca.clone());
    let url = format!("rediss-sentinel://{sentinel}/m?sentinel_tls=no");
    works(&builder().on(quorumlock::Servers::single(&url)).expect("a good URL")).await;
    let two =
        builder().on(quorumlock::Servers::sentinel([format!("redis://{sentinel}")], "rediss://m"));
    works(&two.expect("good URLs")).await;
}

#[tokio::test]
async fn sentinels_speak_tls_and_servers_plain() {
    let Some(pair) = Pair::start(None, false).await else { return };
    let sentinel = pair.tls_sentinel();
    let builder = || Builder::without_servers().tls_ca(pair.ca.clone());
    let url = format!("redis-sentinel://{sentinel}/m?sentinel_tls=yes");
    works(&builder().on(quorumlock::Servers::single(&url)).expect("a good URL")).await;
    let two =
        builder().on(quorumlock::Servers::sentinel([format!("rediss://{sentinel}")], "redis://m"));
    works(&two.expect("good URLs")).await;
}

#[tokio::test]
async fn sentinels_tell_addresses_and_the_certificate_is_for_a_host() {
    let Some(pair) = Pair::start(Some("DNS:servers.example"), true).await else { return };
    let url = format!("rediss-sentinel://{}/m?sentinel_tls=no", pair.plain_sentinel());
    let builder = || Builder::without_servers().tls_ca(pair.ca.clone());
    let by_address = builder().on(quorumlock::Servers::single(&url)).expect("a good URL");
    let error = within("an answer", by_address.try_lock("x")).await.expect_err("not its name");
    let told = error.to_string();
    let announced = format!("rediss://127.0.0.1:{}", Pair::tls_port(&pair.servers));
    for part in [&*announced, "servers.example", "announce-hostnames", "tls_server_name"] {
        assert!(told.contains(part), "{part}: {told}");
    }
    assert!(matches!(error, Error::Refused(_)), "{error:?}");
    let named = builder()
        .tls_server_name("servers.example")
        .on(quorumlock::Servers::single(&url))
        .expect("a good name");
    works(&named).await;
}
