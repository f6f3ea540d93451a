//! The environment variables, which the command and `Locker::from_env` read alike.

use std::process::{Command, Output};

use quorumlock::{Builder, Error, Locker};
use serde_json::Value;

use crate::common::{blank_servers, finish, of, quorumlock, run, start};

/// No server listens here.
const NOWHERE: &str = "redis://127.0.0.1:1";
const THREE: &str = "redis://127.0.0.1:1,redis://127.0.0.1:2,redis://127.0.0.1:3";
const REPLICATED: &str = "replicated:redis://127.0.0.1:1,redis://127.0.0.1:2,redis://127.0.0.1:3";

/// Runs in a process of its own, because a test cannot set its own environment: see [`from_env`].
#[test]
#[ignore = "the other tests run it"]
#[allow(clippy::print_stdout, reason = "the other tests read it")]
fn child() {
    let builder = format!("{:?}", Builder::from_env());
    assert!(!builder.contains("secret"), "{builder}");
    match Locker::from_env() {
        Ok(locker) => println!("built {locker:?}"),
        Err(Error::Config(error)) => println!("refused {error}"),
        Err(error) => panic!("{error:?}"),
    }
}

/// What `Locker::from_env` says in a process with these variables and no others of ours.
fn from_env(variables: &[(&str, &str)]) -> String {
    let mut child = Command::new(std::env::current_exe().expect("this test"));
    child.args(["--exact", "env::child", "--ignored", "--nocapture"]);
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("QUORUMLOCK_")) {
        child.env_remove(name);
    }
    let Output { stdout, .. } = child.envs(variables.iter().copied()).output().expect("it runs");
    let text = String::from_utf8(stdout).expect("text");
    let said = text.lines().find(|line| ["built", "refused"].iter().any(|it| line.contains(it)));
    said.unwrap_or_else(|| panic!("{text}")).to_owned()
}

#[test]
fn a_wrong_variable_is_named_with_its_value_and_what_it_must_be() {
    let wrong = [
        ("QUORUMLOCK_MAX_LEASE", "soon", "1m30s"),
        ("QUORUMLOCK_MAX_LEASE", "1ms", "10ms to"),
        ("QUORUMLOCK_ADMISSION", "lax", "strict or redlock"),
        ("QUORUMLOCK_LAYOUT", "hash", "redisson or redlock"),
        ("QUORUMLOCK_CLOCK_BOUND", "5x", "seconds, as 30"),
        ("QUORUMLOCK_REPLICAS", "-1", "number"),
        ("QUORUMLOCK_REDISSON_FENCED", "si", "neither true nor false"),
        ("QUORUMLOCK_STRICT_ORDER", "perhaps", "neither true nor false"),
        ("QUORUMLOCK_TAKEOVER_DELAY", "-5", "seconds, as 30"),
        ("QUORUMLOCK_TLS_CA", "no/such/file", "servers without rediss://"),
        ("QUORUMLOCK_TLS_CERT", "cert.pem", "without tls_key"),
        ("QUORUMLOCK_LEASE", "90s", "10ms to 60s (the most is set by max_lease)"),
        ("QUORUMLOCK_PREFIX", "quorumlock:", "prefix"),
        ("QUORUMLOCK_CONNECT_TIMEOUT", "2m", "1ms to 60s"),
        ("QUORUMLOCK_NODES", "redis://h:port", "no port"),
    ];
    for (variable, value, must) in wrong {
        let variables = [("QUORUMLOCK_NODES", NOWHERE), (variable, value)];
        let said = from_env(&variables);
        assert!(said.contains("refused"), "{variable}={value}: {said}");
        // What follows an odd colon may be a password.
        let shown = value.strip_suffix("h:port").unwrap_or(value);
        for part in [variable, shown, must] {
            assert!(said.contains(part), "{variable}={value}: {said}");
        }
        // So does the command.
        let mut command = quorumlock(&[]);
        command.envs(variables).args(["status", "x"]);
        finish(command).expect(64).says(&[variable]);
    }
    for unset in [&[][..], &[("QUORUMLOCK_NODES", "")]] {
        let said = from_env(unset);
        assert!(said.contains("refused QUORUMLOCK_NODES: it is not set: give it"), "{said}");
    }
    let gap = from_env(&[("QUORUMLOCK_NODES", "redis://:secret@a,,redis://b")]);
    assert!(gap.contains("node 2 of 3") && !gap.contains("secret"), "{gap}");
    let good = from_env(&[("QUORUMLOCK_NODES", "redis://:secret@127.0.0.1:1")]);
    assert!(good.contains("built") && !good.contains("secret"), "{good}");
}

#[test]
fn an_empty_variable_counts_as_not_set() {
    for variable in ["LEASE", "WIRE", "TLS_CA", "CLOCK_BOUND"] {
        let variable = format!("QUORUMLOCK_{variable}");
        let variables = [("QUORUMLOCK_NODES", NOWHERE), (&*variable, "")];
        let said = from_env(&variables);
        assert!(said.contains("built"), "{variable}: {said}");
        let mut command = quorumlock(&[]);
        command.envs(variables).args(["status", "x"]);
        finish(command).expect(69);
    }
}

#[test]
fn a_wrong_command_line_says_what_to_write() {
    let says = |words: &[&str], told: &[&str]| {
        let mut command = quorumlock(&[NOWHERE.to_owned()]);
        command.args(words);
        finish(command).expect(64).says(told);
    };
    let put = "Put -- before COMMAND: quorumlock run NAME -- COMMAND";
    says(&["run", "x", "echo", "hi"], &[put]);
    says(&["run", "x", "sh", "-c", "true"], &[put]);
    says(&["run", "x", "--lease", "10m", "--", "true"], &["--lease=\"10m\"", "max_lease"]);
    says(&["status", "x", "--clock-bound", "2s"], &["--clock-bound=\"2s\"", "single server"]);
    let mut nobody = quorumlock(&[]);
    nobody.args(["status", "x"]);
    finish(nobody).expect(64).says(&["--node redis://HOST:6379", "QUORUMLOCK_NODES"]);
}

#[test]
fn a_variable_with_a_slip_in_its_name_is_named() {
    let says =
        "QUORUMLOCK_REPLICA: no program of quorumlock reads it: QUORUMLOCK_REPLICAS is meant";
    let variables = [("QUORUMLOCK_NODES", NOWHERE), ("QUORUMLOCK_REPLICA", "1")];
    assert!(from_env(&variables).contains(says));
    let mut command = quorumlock(&[]);
    command.envs(variables).args(["status", "x"]);
    finish(command).expect(64).says(&[says]);
    // Kubernetes sets these for a service of our name.
    let others = [("QUORUMLOCK_NODES", NOWHERE), ("QUORUMLOCK_SERVICE_HOST", "10.0.0.1")];
    assert!(from_env(&others).contains("built"));
}

/// Each variable is taken or refused by both, and chooses the same servers.
#[test]
fn the_command_and_the_library_read_the_same_environment() {
    let cases: &[&[(&str, &str)]] = &[
        &[("NODES", NOWHERE)],
        &[("NODES", THREE)],
        &[("NODES", REPLICATED), ("REPLICAS", "2")],
        &[("NODES", REPLICATED), ("REPLICAS", "3")],
        &[("NODES", THREE), ("REPLICAS", "2")],
        &[("NODES", REPLICATED), ("ADMISSION", "strict")],
        &[("NODES", "replicated:")],
        &[("NODES", THREE), ("ADMISSION", "redlock")],
        &[("NODES", THREE), ("ADMISSION", "redlock"), ("CLOCK_BOUND", "2s")],
        &[("NODES", THREE), ("CLOCK_BOUND", "2s"), ("MAX_LEASE", "1m 30s")],
        &[("NODES", THREE), ("CLOCK_BOUND", "2"), ("MAX_LEASE", "90")],
        &[("NODES", THREE), ("CLOCK_BOUND", "1ms")],
        &[("NODES", THREE), ("CLOCK_BOUND", "2x")],
        &[("NODES", NOWHERE), ("CLOCK_BOUND", "2s")],
        &[("NODES", NOWHERE), ("REDISSON_FENCED", "yes"), ("MAX_LEASE", "10s")],
        &[("NODES", THREE), ("REDISSON_FENCED", "yes")],
        &[("NODES", NOWHERE), ("WIRE", "redlock")],
        &[("NODES", THREE), ("WIRE", "redisson")],
        &[("NODES", NOWHERE), ("WIRE", "hash")],
        &[("NODES", NOWHERE), ("WIRE", "")],
        // Tokens of Redisson's `RFencedLock` are for its layout only.
        &[("NODES", NOWHERE), ("WIRE", "redlock"), ("REDISSON_FENCED", "yes")],
        &[("NODES", NOWHERE), ("STRICT_ORDER", "yes"), ("TAKEOVER_DELAY", "5s")],
        &[("NODES", THREE), ("STRICT_ORDER", "no"), ("TAKEOVER_DELAY", "29s")],
        &[("NODES", THREE), ("STRICT_ORDER", "yes")],
        &[("NODES", NOWHERE), ("TAKEOVER_DELAY", "5m")],
        &[("NODES", NOWHERE), ("TAKEOVER_DELAY", "1.5")],
        &[("NODES", NOWHERE), ("TAKEOVER_DELAY", "1m30")],
        &[("NODES", NOWHERE), ("TLS_CA", "no/such/file")],
        &[("NODES", NOWHERE), ("MAX_LEASE", "1ms")],
        &[("NODES", "redis://a,,redis://b")],
        &[("NODES", "http://a")],
    ];
    for case in cases {
        let names = case.iter().map(|(name, value)| (format!("QUORUMLOCK_{name}"), *value));
        let names = names.collect::<Vec<_>>();
        let variables = names.iter().map(|(name, value)| (&**name, *value)).collect::<Vec<_>>();
        let said = from_env(&variables);
        let mut command = quorumlock(&[]);
        command.envs(variables).args(["status", "x"]);
        // 69: the servers do not answer, so that the variables were accepted.
        let built = said.contains("built");
        let finished = finish(command).expect(if built { 69 } else { 64 });
        if built {
            let nodes = case[0].1.split(',').count();
            let voters = if said.contains("nodes: 1,") { 1 } else { nodes };
            let quorum = finished.stderr.contains(&format!("of {nodes} needed"));
            assert_eq!(quorum, voters > 1, "{case:?}: {said} {finished:?}");
        }
    }
}

/// The prefix begins the name on the servers, and each subcommand adds it.
#[test]
fn a_prefix_begins_every_name() {
    use quorumlock_testbed::servers::ask;
    let Some(servers) = blank_servers(1) else { return };
    let urls = servers.urls();
    let mut holder = start(run(&urls, &["--prefix", "app:", "x"], "echo ready; cat"));
    let exists = ask(servers[0].addr().unwrap(), &["EXISTS", "app:x"]).unwrap();
    assert!(exists.contains('1'), "{exists}");
    let shown = |words: &[&str]| {
        let mut command = quorumlock(&urls);
        command.env("QUORUMLOCK_PREFIX", "app:").args(words).arg("--json");
        finish(command).expect(0).stdout
    };
    let status = shown(&["status", "x"]);
    assert!(status.contains(r#""held": true"#) || status.contains(r#""held":true"#), "{status}");
    let top = shown(&["top", "x"]);
    assert!(top.contains("app:x") && !top.contains("app:app:x"), "{top}");
    assert!(top.contains("remaining_ms"), "{top}");
    holder.close_stdin();
    holder.finish().expect(0);
}

/// The type of the key on the server tells the layout.
#[test]
fn the_layout_comes_from_the_environment_unless_an_option_gives_it() {
    use quorumlock_testbed::servers::ask;
    let Some(servers) = blank_servers(1) else { return };
    let type_of = |name: &str| ask(servers[0].addr().unwrap(), &["TYPE", name]).unwrap();
    for (variable, options, found) in [
        (None, &[][..], "hash"),
        (Some("redlock"), &[], "string"),
        (Some("redlock"), &["--layout", "redisson"], "hash"),
    ] {
        let mut holder = run(&servers.urls(), &[&["x"], options].concat(), "echo ready; cat");
        holder.envs(variable.map(|layout| ("QUORUMLOCK_LAYOUT", layout)));
        let mut holder = start(holder);
        assert_eq!(type_of("x"), found, "{variable:?} {options:?}");
        holder.close_stdin();
        holder.finish().expect(0);
    }
}

/// An option without a variable is one of a single call.
#[test]
fn every_option_but_those_of_one_call_has_a_variable() {
    const ONE_CALL: [&str; 19] = [
        "exit-code",
        "force",
        "grace",
        "help",
        "hold-at-least",
        "holder",
        "json",
        "metrics-file",
        "name",
        "older-than",
        "permits",
        "quiet",
        "read",
        "read-write",
        "slot",
        "timeout",
        "verbose",
        "wait",
        "write",
    ];
    let mut without = std::collections::BTreeSet::new();
    for part in ["run", "lead", "status", "list", "unlock", "doctor", "init", "members"] {
        let mut help = quorumlock(&[NOWHERE.to_owned()]);
        help.args([part, "--help"]);
        let help = finish(help).expect(0).stdout;
        // An option begins a line, after two spaces or six; what it does follows after ten.
        let begins = |line: &&str| line.starts_with("  -") || line.starts_with("      -");
        let lines = help.lines().skip_while(|line| !begins(line)).collect::<Vec<_>>();
        for option in lines.chunk_by(|_, next| !begins(next)) {
            let name = option[0].split("--").nth(1).and_then(|name| name.split(' ').next());
            if !option.iter().any(|line| line.contains("[env: QUORUMLOCK_")) {
                without.insert(name.expect("a long name").to_owned());
            }
        }
    }
    assert_eq!(without.iter().map(String::as_str).collect::<Vec<_>>(), ONE_CALL);
}

#[test]
fn doctor_heeds_that_the_nodes_are_replicated() {
    use quorumlock_testbed::servers::{ServerOptions, for_test};
    let Some(master) = blank_servers(1) else { return };
    let port = master[0].addr().unwrap().port().to_string();
    let args = ["--replicaof", "127.0.0.1", &port].map(str::to_owned).to_vec();
    let Some(replica) = for_test(1, &ServerOptions { args, ..Default::default() }) else { return };
    let doctor = |urls: &[String]| {
        let mut doctor = quorumlock(&of("replicated:", urls));
        doctor.args(["doctor", "--json"]);
        finish(doctor)
    };
    let report = doctor(&[master.urls(), replica.urls()].concat()).expect(0).json();
    assert_eq!((&report["needed"], &report["reachable"]), (&1.into(), &2.into()), "{report}");
    let checks = report["findings"].as_array().unwrap().iter().map(|it| it["check"].as_str());
    let checks = checks.flatten().collect::<Vec<_>>();
    assert!(checks.contains(&"role") && !checks.contains(&"number"), "{report}");
    assert!(!checks.contains(&"admission"), "{report}");

    let Some(other) = blank_servers(1) else { return };
    let split = doctor(&[master.urls(), other.urls()].concat()).expect(78);
    assert!(split.stdout.contains("demote the old master"), "{split:?}");
    let orphan = doctor(&replica.urls()).expect(78);
    assert!(orphan.stdout.contains("promote one of them"), "{orphan:?}");

    let mut init = quorumlock(&of("replicated:", &[master.urls(), other.urls()].concat()));
    init.arg("init");
    finish(init).expect(64).says(&["--admission strict"]);
    // Options of a quorum do not apply, here as elsewhere.
    let mut doctor = quorumlock(&of("replicated:", &master.urls()));
    doctor.args(["doctor", "--admission", "redlock"]);
    finish(doctor).expect(64).says(&["admission", "a master"]);
}

#[test]
fn doctor_says_what_makes_a_proven_master_prove_its_memory_again() {
    use quorumlock_testbed::servers::{ServerOptions, ask, for_test};
    let Some(master) = blank_servers(1) else { return };
    let address = master[0].addr().unwrap();
    let strict = |urls: &[String], command: &[&str]| {
        let mut strict = quorumlock(&of("replicated:", urls));
        strict.env("QUORUMLOCK_ADMISSION", "strict");
        strict.args(command);
        finish(strict)
    };
    let alone = strict(&master.urls(), &["doctor"]).expect(78).stdout;
    for part in ["no lock is granted", "has no replica", "repl-backlog-ttl is 3600 s"] {
        assert!(alone.contains(part), "{part}: {alone}");
    }

    let port = address.port().to_string();
    let args = ["--replicaof", "127.0.0.1", &port].map(str::to_owned).to_vec();
    let Some(replica) = for_test(1, &ServerOptions { args, ..Default::default() }) else { return };
    let urls = [master.urls(), replica.urls()].concat();
    for address in [address, replica[0].addr().unwrap()] {
        ask(address, &["CONFIG", "SET", "repl-backlog-ttl", "0"]).unwrap();
    }
    // WAIT returns once the replica is attached.
    while ask(address, &["WAIT", "1", "1000"]).unwrap() != "1" {}
    strict(&urls, &["init"]).expect(0);
    let admitted = strict(&urls, &["doctor"]).expect(0).stdout;
    for part in ["keeps its replication id", "a restart costs all locks", "admission covers"] {
        assert!(admitted.contains(part), "{part}: {admitted}");
    }
    let nodes = strict(&urls, &["top", "--json"]).json()["nodes"].clone();
    assert_eq!(
        (&nodes[0]["admitted"], &nodes[1]["admitted"]),
        (&true.into(), &Value::Null),
        "{nodes}"
    );
}

/// A cluster of one member, which has all slots.
#[test]
fn a_redis_cluster_is_taken_by_every_command() {
    use std::io::{BufRead as _, BufReader, Write as _};
    use std::net::TcpStream;

    use quorumlock_testbed::servers::{ServerOptions, for_test};
    let options = ServerOptions { cluster: true, ..Default::default() };
    let (Some(member), Some(other)) = (for_test(1, &options), blank_servers(1)) else { return };
    let command = |args: &[&str]| {
        let mut command = quorumlock(&of("cluster:", &member.urls()));
        command.args(args);
        finish(command)
    };
    let report = command(&["doctor"]).expect(78);
    assert!(report.stdout.contains("0 of 16384 slots have a master"), "{report:?}");
    let mut stream = TcpStream::connect(member[0].addr().unwrap()).unwrap();
    write!(stream, "CLUSTER ADDSLOTSRANGE 0 16383\r\n").unwrap();
    let mut reply = String::new();
    BufReader::new(stream).read_line(&mut reply).unwrap();
    assert_eq!(reply, "+OK\r\n");
    let patient = ["run", "--name", "x", "--wait", "20s", "--", "true"];
    command(&patient).expect(0);
    assert_eq!(command(&["status", "x", "--json"]).expect(0).json()["held"], false);
    command(&["status", "a{"]).expect(64).says(&["a{", "{user}"]);
    let report = command(&["doctor", "--json"]).expect(0).json();
    assert_eq!((&report["needed"], &report["reachable"]), (&1.into(), &1.into()), "{report}");
    let findings = report["findings"].to_string();
    assert!(findings.contains("every slot has a master"), "{report}");
    command(&["init"]).expect(64).says(&["cluster:"]);

    // Without that word, and servers that are no members.
    finish(run(&member.urls(), &["--name", "x"], "true")).expect(78).says(&["cluster:"]);
    let mut single = quorumlock(&of("cluster:", &other.urls()));
    single.args(["status", "x"]);
    finish(single).expect(78).says(&["without a Redis Cluster"]);
}

/// One URL with commas in it, from the environment as from the command line.
#[test]
fn one_url_of_sentinels_is_taken_by_every_command() {
    use std::io::{BufRead as _, BufReader, Write as _};
    use std::net::TcpStream;

    use quorumlock_testbed::servers::{ServerOptions, for_test};
    let Some(master) = blank_servers(1) else { return };
    let options = ServerOptions { sentinel: true, ..Default::default() };
    let Some(sentinels) = for_test(1, &options) else { return };
    let sentinel = sentinels[0].addr().unwrap();
    let mut stream = TcpStream::connect(sentinel).unwrap();
    let port = master[0].addr().unwrap().port();
    write!(stream, "SENTINEL MONITOR m 127.0.0.1 {port} 1\r\n").unwrap();
    let mut reply = String::new();
    BufReader::new(stream).read_line(&mut reply).unwrap();
    assert_eq!(reply, "+OK\r\n");

    let dead = "127.0.0.1:1";
    let url = format!("redis-sentinel://{sentinel},{dead}/m");
    finish(run(std::slice::from_ref(&url), &["--name", "x"], "true")).expect(0);
    let mut status = quorumlock(&[]);
    status.env_remove("QUORUMLOCK_NODES").args(["status", "x", "--json", "--node", &url]);
    assert_eq!(finish(status).expect(0).json()["held"], false);
    let doctor = |url: &str| {
        let mut doctor = quorumlock(&[url.to_owned()]);
        doctor.args(["doctor", "--json"]);
        finish(doctor)
    };
    let report = doctor(&url).expect(0).json();
    let nodes = report["nodes"].to_string();
    assert!(nodes.contains(&port.to_string()) && !nodes.contains(dead), "{report}");

    doctor(&format!("redis-sentinel://{sentinel}/other")).expect(78).says(&["no master", "other"]);
    doctor(&format!("redis-sentinel://{dead}/m")).expect(69).says(&["none of its sentinels"]);
    doctor(&format!("redis-sentinel://{sentinel}")).expect(64).says(&["name of the master"]);
    let mut init = quorumlock(&[url]);
    init.arg("init");
    finish(init).expect(64);
}
