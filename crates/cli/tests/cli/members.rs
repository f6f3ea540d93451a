//! `quorumlock members` against real servers: what it shows, and how nodes come back.

use std::time::Duration;

use quorumlock_protocol::Instant;
use quorumlock_testbed::servers::{Faketime, ServerOptions, Servers, Shift, Source};
use quorumlock_watchdog::Clock;
use serde_json::{Value, json};

use crate::common::{Finished, blank_servers, finish, labels, quorumlock};

/// `quorumlock` with a longest lease and a clock bound that keep the tests short. On a loaded machine
/// an answer that is late by the clock bound makes the clocks differ.
pub(crate) fn quick(urls: &[String], arguments: &[&str]) -> Finished {
    finish(quick_command(urls, arguments))
}

pub(crate) fn quick_command(urls: &[String], arguments: &[&str]) -> std::process::Command {
    let mut command = quorumlock(urls);
    command.env("QUORUMLOCK_MAX_LEASE", "500ms").env("QUORUMLOCK_CLOCK_BOUND", "250ms");
    command.args(arguments);
    command
}

/// Admitted servers of such a cluster.
pub(crate) fn quick_servers(count: usize) -> Option<Servers> {
    let servers = blank_servers(count)?;
    quick(&servers.urls(), &["init"]).expect(0);
    Some(servers)
}

/// What servers need whose clocks can be set; `None` on a machine without.
pub(crate) fn faketime() -> Option<(Faketime, Source)> {
    match (Faketime::discover(0), Faketime::source()) {
        (Ok(faketime), Ok(source)) => Some((faketime, source)),
        (Err(why), _) | (_, Err(why)) => {
            quorumlock_testbed::skip("QUORUMLOCK_REQUIRE_FAKETIME", &why.to_string());
            None
        }
    }
}

/// A cron job that is started every 200 ms, under the longest lease of 500 ms and a clock bound of
/// 50 ms.
struct Cron(Vec<String>);

impl Cron {
    /// Servers of a cluster of such jobs.
    fn servers() -> Option<(Servers, Self)> {
        let servers = blank_servers(3)?;
        let cron = Self(servers.urls());
        cron.ask(&["init"]).expect(0);
        Some((servers, cron))
    }

    fn ask(&self, arguments: &[&str]) -> Finished {
        let mut command = quick_command(&self.0, arguments);
        command.env("QUORUMLOCK_CLOCK_BOUND", "50ms");
        finish(command)
    }

    fn run_once(&self) -> Finished {
        self.ask(&["run", "--name", "cron", "--lease", "500ms", "--wait", "0s", "--", "true"])
    }

    /// Runs the job until all nodes vote: for the longest lease and twice the clock bound since `restart`,
    /// after which the first job wrote a note. There is much slack: each round starts two processes on a
    /// loaded machine.
    #[track_caller]
    fn heals(&self, restart: Instant) {
        const LIMIT: Duration = Duration::from_secs(20);

        let clock = Clock::system();
        loop {
            let last = self.run_once();
            let members = self.ask(&["members", "--json"]).json();
            let took = clock.now().since(restart);
            if members["votes"] == self.0.len() {
                assert!(took > Duration::from_millis(600), "{took:?}");
                break;
            }
            assert!(took < LIMIT, "{last:?} {members:#}");
            std::thread::sleep(Duration::from_millis(200));
        }
    }
}

fn node(members: &Value, index: usize) -> &Value {
    &members["nodes"][index]
}

#[test]
fn members_shows_who_votes_for_which_list() {
    let Some(servers) = quick_servers(3) else { return };
    let urls = servers.urls();
    let members = quick(&urls, &["members", "--json"]).expect(0).json();
    let list = labels(&servers);
    assert_eq!(members["lists"], json!([list]));
    assert_eq!((&members["votes"], &members["needed"]), (&json!(3), &json!(2)));
    assert_eq!((&members["heals"], &members["operator"]), (&json!([]), &json!([])));
    for (index, server) in servers.iter().enumerate() {
        let node = node(&members, index);
        assert_eq!(node["label"], format!("{}/0", server.addr().unwrap()));
        assert_eq!((&node["votes"], &node["state"]), (&json!(true), &json!("admitted")));
        assert_eq!((&node["phase"], &node["lists"]), (&members["phase"], &json!([list])));
        assert_eq!(node["note"], Value::Null);
    }
    let text = quick(&urls, &["members"]).expect(0).stdout;
    assert!(text.contains(&format!("votes for [{}]", list.join(", "))), "{text}");
    assert!(text.contains("3 of 3 nodes vote; a lock needs 2"), "{text}");
}

/// What a script asks that restarts one node after the other.
#[test]
fn members_waits_until_every_node_votes() {
    let Some((servers, cron)) = Cron::servers() else { return };
    let wait = |time: &str| cron.ask(&["members", "--wait", time]);
    assert!(wait("0s").expect(0).stdout.contains("3 of 3 nodes vote"));
    let restart = Clock::system().now();
    servers[2].restart_empty().unwrap();
    // Without the option a majority is enough.
    cron.ask(&["members"]).expect(0);
    assert!(wait("0s").expect(82).stdout.contains("2 of 3 nodes vote"));
    let waiting = std::thread::spawn({
        let urls = servers.urls();
        move || Cron(urls).ask(&["members", "--wait", "60s"])
    });
    cron.heals(restart);
    waiting.join().unwrap().expect(0).says(&["2 of 3 nodes vote; a lock needs 2"]);
    servers[0].kill().unwrap();
    servers[1].kill().unwrap();
    assert!(wait("0s").expect(82).stdout.contains("1 of 3 nodes vote"));
}

#[test]
fn members_of_new_servers_says_what_to_do() {
    let Some(servers) = blank_servers(3) else { return };
    // Under the usual clock bound: beside it an answer may be late on a loaded machine.
    let ask = |arguments: &[&str]| {
        let mut command = quorumlock(&servers.urls());
        command.args(arguments);
        finish(command)
    };
    let members = ask(&["members", "--json"]).expect(78).json();
    assert_eq!((&members["votes"], &members["lists"]), (&json!(0), &json!([])));
    for index in 0..3 {
        assert_eq!(node(&members, index)["state"], "new");
        assert_eq!(node(&members, index)["note"]["step"], "none");
    }
    assert!(members["heals"][0]["within_ms"].as_u64().unwrap() >= 70_000, "{members:#}");
    servers[0].kill().unwrap();
    let members = ask(&["members", "--json"]).expect(78).json();
    let states = [0, 1].map(|index| node(&members, index)["state"].clone());
    assert_eq!(states, ["silent", "new"]);
    let reason = node(&members, 0)["reason"].as_str().unwrap();
    assert!(reason.contains("not connected"), "{reason}");
    assert_eq!(node(&members, 1)["reason"], Value::Null);
    let actions = members["operator"].as_array().unwrap();
    assert_eq!((actions.len(), &actions[1]["nodes"][1]), (2, &node(&members, 2)["label"]));
    assert!(actions[1]["do"].as_str().unwrap().contains("quorumlock init"), "{members:#}");
    servers[1].kill().unwrap();
    ask(&["members"]).expect(69);
}

#[test]
fn members_shows_the_note_of_a_server_that_restarted_empty_and_its_age() {
    let Some(servers) = blank_servers(3) else { return };
    let urls = servers.urls();
    let ask = |arguments: &[&str]| {
        let mut command = quorumlock(&urls);
        command.args(arguments);
        finish(command)
    };
    ask(&["init"]).expect(0);
    servers.iter().for_each(|server| server.restart_empty().unwrap());
    ask(&["run", "--name", "x", "--", "true"]).expect(78);
    let members = ask(&["members", "--json"]).expect(78).json();
    for index in 0..3 {
        let note = &node(&members, index)["note"];
        assert_eq!(note["step"], "wait", "{members:#}");
        let (age, left) =
            (note["age_ms"].as_u64().unwrap(), note["mature_in_ms"].as_u64().unwrap());
        assert!(age < 20_000 && age + left > 71_000, "{note}");
    }
    assert!(!members["heals"].as_array().unwrap().is_empty(), "{members:#}");
    assert_eq!(members["operator"], json!([]), "{members:#}");
    let text = ask(&["members"]).expect(78).stdout;
    assert!(
        text.contains("old, mature in 1m") && text.contains("heals by itself within"),
        "{text}"
    );
    let doctor = ask(&["doctor"]).expect(78).stdout;
    assert!(doctor.contains("votes within 1m"), "{doctor}");
}

#[test]
fn short_jobs_bring_all_servers_back() {
    let Some((servers, cron)) = Cron::servers() else { return };
    let restart = Clock::system().now();
    servers.iter().for_each(|server| server.restart_empty().unwrap());
    cron.run_once().expect(78);
    cron.heals(restart);
    cron.run_once().expect(0);
}

/// The jobs are granted their locks by the other two, and no process lives for long.
#[test]
fn short_jobs_bring_one_server_of_three_back() {
    let Some((servers, cron)) = Cron::servers() else { return };
    let restart = Clock::system().now();
    servers[1].restart_empty().unwrap();
    cron.run_once().expect(0);
    cron.heals(restart);
}

#[test]
fn members_and_doctor_name_both_lists_to_a_stranger() {
    let (Some(servers), Some(other)) = (quick_servers(3), blank_servers(1)) else { return };
    let urls = [&servers.urls()[1..], &other.urls()].concat();
    let members = quick(&urls, &["members", "--json"]).expect(78).json();
    assert_eq!(node(&members, 0)["state"], "other_members");
    assert_eq!(node(&members, 0)["lists"], json!([labels(&servers)]));
    for command in ["members", "doctor"] {
        let text = quick(&urls, &[command]).expect(78).stdout;
        assert!(text.contains(&labels(&servers).join(", ")), "{text}");
        assert!(text.contains(&labels(&other)[0]), "{text}");
        assert!(text.contains("give all programs the same nodes"), "{text}");
    }
}

#[test]
fn members_and_doctor_say_whose_clock_differs() {
    let Some((faketime, source)) = faketime() else { return };
    let options = ServerOptions { faketime: Some(faketime), ..ServerOptions::default() };
    let servers = Servers::start_with(&source, 3, &options).unwrap();
    let urls = servers.urls();
    quick(&urls, &["init"]).expect(0);
    servers[2].set_clock(Shift::ByMs(60_000)).unwrap();
    servers[2].restart_empty().unwrap();
    let members = quick(&urls, &["members", "--json"]).expect(0).json();
    assert_eq!(node(&members, 2)["state"], "clock_differs");
    assert!((59_000..61_000).contains(&node(&members, 2)["clock_ahead_ms"].as_i64().unwrap()));
    let doctor = quick(&urls, &["doctor"]).expect(78).stdout;
    assert!(doctor.contains("ahead of") && doctor.contains("the server's"), "{doctor}");
    for server in &servers {
        server.set_clock(Shift::ByMs(60_000)).unwrap();
        server.restart_empty().unwrap();
    }
    for command in ["members", "doctor"] {
        let text = quick(&urls, &[command]).expect(78).stdout;
        assert!(text.contains("set the clock of this machine"), "{text}");
    }
}
