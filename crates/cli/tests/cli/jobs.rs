//! The crontab, the units and the manifests of docs/COMMANDS.md: what of them this machine can run.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::{env, fs};

use quorumlock_testbed::command::{Finished, finish};
use quorumlock_testbed::skip;
use rustix::process::Signal;
use serde_json::Value;
use tempfile::tempdir;

use crate::common::{
    QUORUMLOCK, Running, await_end, blank_servers, program, quorumlock, run, servers,
};

const PAGE: &str = include_str!("../../../../docs/COMMANDS.md");

/// The blocks of the page in this language.
fn blocks(language: &str) -> Vec<&'static str> {
    blocks_of(PAGE, language)
}

fn blocks_of(page: &'static str, language: &str) -> Vec<&'static str> {
    let fence = format!("\n```{language}\n");
    let ends = |block: &'static str| block.split_once("```").expect("an end").0;
    page.split(&fence).skip(1).map(ends).collect()
}

/// The text, with this program instead of the page's.
fn with(other: &str, text: &str) -> String {
    let text = text.replace("/usr/local/bin/quorumlock", QUORUMLOCK);
    ["report", "scheduler"]
        .iter()
        .fold(text, |text, name| text.replace(&format!("/usr/local/bin/{name}"), other))
}

#[test]
fn of_two_hosts_with_the_crontab_line_one_runs_the_job() {
    let Some(servers) = servers(3) else { return };
    let [crontab] = blocks("crontab")[..] else { panic!("one crontab") };
    let (nodes, line) = crontab.trim_end().split_once('\n').expect("two lines");
    assert_eq!(nodes.matches("redis://").count(), 3);
    // Five fields of time.
    let line = with("sh -c 'echo $$'", line);
    let line = line.splitn(6, ' ').nth(5).expect("a command");
    let cron = || {
        let mut shell = program("sh", &servers.urls());
        // `exec`: a signal to the shell is one to quorumlock.
        shell.args(["-c", &format!("exec {line}")]);
        shell
    };
    let mut first = Running::spawn(cron());
    await_end(&first.next_line());
    let second = finish(cron()).expect(75);
    assert_eq!((second.stdout.lines().count(), second.stderr.lines().count()), (0, 1), "the mail");
    first.signal(Signal::TERM);
    assert_eq!(first.finish().expect(0).stderr, "");
}

#[test]
fn the_script_for_prometheus_writes_the_exit_code_of_doctor() {
    let Some(servers) = blank_servers(3) else { return };
    let page = include_str!("../../../../docs/MONITORING.md");
    let mut blocks = blocks_of(page, "sh").into_iter();
    let script = blocks.find(|block| block.contains("quorumlock_doctor"));
    let dir = tempdir().unwrap();
    let mut path = vec![Path::new(QUORUMLOCK).parent().expect("a directory").to_owned()];
    path.extend(env::split_paths(&env::var_os("PATH").unwrap_or_default()));
    let written = |expected: &str| {
        let mut shell = program("sh", &servers.urls());
        shell.args(["-c", script.expect("it is there")]).env("DIR", dir.path());
        shell.env("PATH", env::join_paths(&path).unwrap());
        finish(shell).expect(0);
        let metrics = fs::read_to_string(dir.path().join("quorumlock_doctor.prom")).unwrap();
        assert_eq!(metrics, expected);
        assert!(!dir.path().join("quorumlock_doctor.new").exists());
        let report = fs::read_to_string(dir.path().join("quorumlock_doctor.json")).unwrap();
        assert!(serde_json::from_str::<Value>(&report).unwrap()["findings"].is_array());
    };
    written("quorumlock_doctor 78\n");
    let mut init = quorumlock(&servers.urls());
    init.arg("init");
    finish(init).expect(0);
    written("quorumlock_doctor 0\n");
    servers[1].restart_empty().unwrap();
    written("quorumlock_doctor 82\n");
}

#[test]
fn systemd_takes_the_units() {
    let systemd_analyze = || Command::new("systemd-analyze");
    if systemd_analyze().arg("--version").output().is_err() {
        return skip("QUORUMLOCK_REQUIRE_SYSTEMD", "systemd-analyze is not installed");
    }
    let dir = tempdir().unwrap();
    let units = blocks("ini").into_iter().filter(|unit| unit.starts_with("[Unit]"));
    let names = ["report.service", "report.timer", "scheduler.service"];
    assert_eq!(units.clone().count(), names.len());
    for (name, unit) in names.into_iter().zip(units) {
        fs::write(dir.path().join(name), with("/bin/true", unit)).unwrap();
    }
    for name in names {
        let mut verify = systemd_analyze();
        verify.args(["verify", "--man=no"]).arg(dir.path().join(name));
        let done = finish(verify).expect(0);
        // It tells of the machine's own units, too.
        assert!(!done.stderr.contains(&dir.path().display().to_string()), "{done:?}");
    }
}

/// The documents of the page's manifests.
fn manifests() -> Option<Vec<Value>> {
    let read = "import json, sys, yaml; print(json.dumps(list(yaml.safe_load_all(sys.stdin))))";
    let mut python = Command::new("python3");
    python.args(["-c", read]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut python = python.spawn().ok()?;
    let text = blocks("yaml").join("---\n");
    let given = python.stdin.take().unwrap().write_all(text.as_bytes());
    let done = python.wait_with_output().unwrap();
    if String::from_utf8_lossy(&done.stderr).contains("No module named 'yaml'") {
        return None;
    }
    given.unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    Some(serde_json::from_slice(&done.stdout).unwrap())
}

/// Runs what the container of this pod runs, with `true` instead of the program.
fn run_pod(pod: &Value, nodes: &[String]) -> Finished {
    let container = &pod["spec"]["containers"][0];
    let words = |key: &str| {
        let words = container[key].as_array().unwrap_or_else(|| panic!("{key}: {container}"));
        words.iter().map(|word| word.as_str().expect("a text").to_owned()).collect::<Vec<_>>()
    };
    let [command, args] = [words("command"), words("args")];
    assert_eq!(command[0], "quorumlock");
    assert_eq!(args.len(), 1, "the program");
    assert_eq!(container["env"][0]["name"], "QUORUMLOCK_NODES");
    let mut run = quorumlock(nodes);
    run.args(command[1..].iter().map(|word| if word == "60" { "1" } else { word }));
    run.arg("true");
    finish(run)
}

#[test]
fn the_containers_of_the_manifests_run() {
    let Some(servers) = servers(3) else { return };
    let Some(manifests) = manifests() else {
        return skip("QUORUMLOCK_REQUIRE_YAML", "python3 has no module yaml, or is not installed");
    };
    let [job, leader] = &manifests[..] else { panic!("{manifests:?}") };
    assert_eq!((&job["kind"], &job["apiVersion"]), (&"CronJob".into(), &"batch/v1".into()));
    let pod = &job["spec"]["jobTemplate"]["spec"]["template"];
    assert_eq!(pod["spec"]["restartPolicy"], "Never");
    run_pod(pod, &servers.urls()).expect(0);

    assert_eq!((&leader["kind"], &leader["apiVersion"]), (&"Deployment".into(), &"apps/v1".into()));
    let spec = &leader["spec"];
    assert_eq!(spec["selector"]["matchLabels"], spec["template"]["metadata"]["labels"]);
    run_pod(&spec["template"], &servers.urls()).expect(0);
}

/// The textfile collector of the node exporter reads the files of several jobs.
#[test]
fn a_job_writes_its_metrics_for_a_textfile_collector() {
    let Some(servers) = servers(1) else { return };
    let dir = tempdir().unwrap();
    let file = dir.path().join("job.prom");
    let option = ["--metrics-file", file.to_str().unwrap()];
    let job = |options: &[&str], script: &str| {
        run(
            &servers.urls(),
            &[&["--name", "a \"job\"", "--layout", "redlock"], options].concat(),
            script,
        )
    };
    finish(job(&option, "true")).expect(0);
    let text = fs::read_to_string(&file).unwrap();
    for line in [
        "quorumlock_held{lock=\"a \\\"job\\\"\",mode=\"single\",kind=\"lock\"} 0",
        "quorumlock_lost{lock=\"a \\\"job\\\"\",mode=\"single\",kind=\"lock\",reason=\"gone\"} 0",
    ] {
        assert!(text.lines().any(|found| found == line), "{line} in {text}");
    }
    assert!(text.contains("quorumlock_hold_duration_bucket{"), "{text}");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    let nowhere = ["--metrics-file", "/no/such/dir/job.prom"];
    finish(job(&nowhere, "echo never")).expect(64).says(&["--metrics-file /no/such/dir/job.prom"]);
}
