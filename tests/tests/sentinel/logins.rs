//! Users, passwords and databases: the sentinels' own, and those of the servers.

use quorumlock::{Error, Locker, NodeProblem, Servers};
use quorumlock_testbed::servers::ServerOptions;
use quorumlock_tests::{Plain, within};

use crate::{Fleet, MASTER, NAME};

const PASSWORD: &str = "p/w@1";
const SENTINEL_PASSWORD: &str = "s:2%";

async fn start() -> Option<Fleet> {
    let servers = ServerOptions { password: Some(PASSWORD.into()), ..Default::default() };
    Fleet::start_with(1, &servers, Some(SENTINEL_PASSWORD)).await
}

fn hosts(fleet: &Fleet) -> String {
    let hosts = fleet.sentinels.iter().map(|sentinel| sentinel.addr().expect("ours").to_string());
    hosts.collect::<Vec<_>>().join(",")
}

#[tokio::test]
async fn each_side_has_its_own_password_and_the_servers_a_database() {
    let Some(fleet) = start().await else { return };
    let one = Locker::new(Servers::sentinel(
        fleet.sentinels.urls(),
        format!("redis://:p%2Fw%401@{MASTER}/3"),
    ));
    let url = format!(
        "redis-sentinel://default:p%2Fw%401@{}/{MASTER}/3?sentinel_password=s%3A2%25",
        hosts(&fleet)
    );
    let other = Locker::single(url).expect("a good URL");
    let guard = within("a free lock", one.expect("good").lock(NAME)).await.expect("free");
    assert!(within("an answer", other.try_lock(NAME)).await.expect("granted or not").is_none());
    let there = Plain::to(&format!("{}/3", fleet.servers[0].url())).await;
    assert!(there.exists(NAME).await, "in the database of the URL");
    guard.unlock().await.expect("held");
}

/// The error tells whose password is wrong, and shows none.
#[tokio::test]
async fn a_wrong_password_is_told_by_whom_it_was_refused() {
    let Some(fleet) = start().await else { return };
    let hosts = hosts(&fleet);
    let problem = async |url: String| {
        let locker = Locker::single(url).expect("a good URL");
        let error = within("an answer", locker.try_lock(NAME)).await.expect_err("refused");
        let text = error.to_string();
        assert!(!text.contains("geheim") && text.contains(MASTER), "{text}");
        let Error::Refused(none) = error else { panic!("{error:?}") };
        none.nodes[0].problem.clone()
    };
    let sentinel = problem(format!("redis-sentinel://:p%2Fw%401@{hosts}/{MASTER}")).await;
    assert!(matches!(sentinel, NodeProblem::Authentication(_)), "{sentinel:?}");
    let login = "sentinel_password=s%3A2%25";
    let server = problem(format!("redis-sentinel://:geheim@{hosts}/{MASTER}?{login}")).await;
    let NodeProblem::NoMaster(servers) = server else { panic!("{server:?}") };
    assert!(matches!(servers[0].problem, NodeProblem::Authentication(_)), "{servers:?}");
}
