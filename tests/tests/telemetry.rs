//! The metrics and the log of a real locker, and what docs/ says of them.

use std::collections::BTreeSet;
use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, LazyLock, Mutex};
use std::time::Duration;

use metrics_exporter_prometheus::PrometheusBuilder;
use quorumlock::Layout;
use quorumlock::telemetry::{
    ClockAnomaly, Event, METRICS, Metric, MetricKind, describe_metrics, record_metrics,
};
use quorumlock_testbed::servers::cache;
use quorumlock_tests::{Log, Testbed, Told, Topology, eventually, within};
use serde_json::Value;

/// A loaded machine renews it in time.
const LEASE: Duration = Duration::from_secs(3);

/// The only test of this program that installs a recorder.
#[tokio::test(flavor = "multi_thread")]
async fn a_locker_records_every_metric_with_its_labels() {
    let Some(bed) = Testbed::start(Topology::Single, Layout::Redisson, "") else { return };
    let builder = PrometheusBuilder::new().set_buckets(&[0.001, 1.0, 60.0]).expect("buckets");
    let recorder = builder.install_recorder().expect("the first one");
    describe_metrics();
    let locker = bed.build(bed.builder().on_event(record_metrics));

    // A lease passes on for a short time only, which a loaded machine may miss.
    eventually("a handoff", async || {
        let first = within("free", locker.lock("a")).await.expect("granted");
        let mut waiter = locker.lock("a").into_future();
        assert!(futures::poll!(&mut waiter).is_pending());
        assert!(shows(&recorder.render(), "quorumlock_waiting{mode=\"single\",kind=\"lock\"} 1"));
        assert!(shows(&recorder.render(), "quorumlock_held{mode=\"single\",kind=\"lock\"} 1"));
        first.unlock().await.expect("held");
        let next = within("the handoff", waiter).await.expect("granted");
        next.unlock().await.expect("held");
        shows(&recorder.render(), "quorumlock_handoff{mode=\"single\",kind=\"lock\"} 1")
            .then_some(())
    })
    .await;
    let gone = within("free", locker.lock("b").lease(LEASE)).await.expect("granted");
    eventually("a renewal", async || (locker.stats().renewed > 0).then_some(())).await;
    bed.plain(0).await.ask::<i64>(&["DEL", "b"]).await;
    within("the loss", gone.lost()).await;
    eventually("its count", async || (locker.stats().lost == 1).then_some(())).await;
    bed.plain(0).await.ask::<i64>(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]).await;
    eventually("a reconnect", async || {
        drop(within("free", locker.lock("c")).await.expect("granted"));
        recorder.render().contains("\nquorumlock_node_reconnects{").then_some(())
    })
    .await;
    // As a server whose clock is set, which the machine's tests have.
    let (node, anomaly) = ("redis://a", ClockAnomaly::Frozen);
    record_metrics(&Event::NodeClock { node, anomaly });

    let text = recorder.render();
    for metric in METRICS {
        let (name, of) = (prometheus(metric), of_type(metric.kind));
        assert!(shows(&text, &format!("# TYPE {name} {of}")), "{name} in {text}");
        let is_its = |line: &&str| line.starts_with(&name) && !line.starts_with('#');
        let line = text.lines().find(is_its).unwrap_or_else(|| panic!("{name} in {text}"));
        for label in metric.labels {
            assert!(line.contains(&format!("{label}=\"")), "{label} in {line}");
        }
    }
    for line in [
        "quorumlock_lost{mode=\"single\",kind=\"lock\",reason=\"gone\"} 1",
        // They begin at 0: an alert sees the first loss.
        "quorumlock_lost{mode=\"single\",kind=\"lock\",reason=\"forced\"} 0",
        "quorumlock_lost{mode=\"single\",kind=\"lock\",reason=\"window_shut\"} 0",
        "quorumlock_held{mode=\"single\",kind=\"lock\"} 0",
        "quorumlock_waiting{mode=\"single\",kind=\"lock\"} 0",
    ] {
        assert!(shows(&text, line), "{line} in {text}");
    }
    assert!(!text.contains("\"b\""), "no lock's name is a label");
    locker.close().await;
    drop((locker, gone));
    eventually("no connection", async || {
        let text = recorder.render();
        let none = |name| text.lines().any(|line| line.starts_with(name) && line.ends_with(" 0"));
        (none("quorumlock_node_up{") && none("quorumlock_node_admitted{")).then_some(())
    })
    .await;
}

fn shows(text: &str, line: &str) -> bool {
    text.lines().any(|found| found == line)
}

/// The name that Prometheus shows.
fn prometheus(metric: &Metric) -> String {
    metric.name.replace('.', "_")
}

fn of_type(kind: MetricKind) -> &'static str {
    match kind {
        MetricKind::Counter => "counter",
        MetricKind::Gauge => "gauge",
        _ => "histogram",
    }
}

/// The log of all tests of this program.
static LOG: LazyLock<Log> = LazyLock::new(|| {
    let log = Log::default();
    tracing::subscriber::set_global_default(log.subscriber()).expect("the first one");
    log
});

/// The watchdog writes the warning on its own thread.
#[tokio::test]
async fn the_warning_of_a_lost_lock_says_which_node_said_what_and_what_to_do() {
    LazyLock::force(&LOG);
    let Some(bed) = Testbed::start(Topology::QuorumOf3, Layout::Redlock, "") else { return };
    let (locker, other) = (bed.locker(), bed.locker());

    let forced = within("free", locker.lock("forced").lease(LEASE)).await.expect("granted");
    other.mutex("forced").force_unlock().await.expect("an answer");
    within("the loss", forced.lost()).await;
    let told = warning("forced", "the lock is lost").await;
    // A locker that has just begun to hold hears no message of it, and cannot tell by whom.
    for part in ["why=", "nodes=\"\"", "unlocked it by force"] {
        assert!(told.contains(part), "{part} in {told}");
    }

    let silent = within("free", locker.lock("silent").lease(LEASE)).await.expect("granted");
    bed.pause_all();
    within("the loss", silent.lost()).await;
    let told = warning("silent", "the lock is at risk").await;
    for part in ["left=", "redis://127.0.0.1:", "`quorumlock doctor`"] {
        assert!(told.contains(part), "{part} in {told}");
    }
    let told = warning("silent", "the lock is lost").await;
    for part in
        ["why=no renewal was confirmed", "left=0ns", "redis://127.0.0.1:", "`quorumlock doctor`"]
    {
        assert!(told.contains(part), "{part} in {told}");
    }
    drop((forced, silent));
    for (name, warnings) in [(" name=forced ", 1), (" name=silent ", 2)] {
        let told = LOG.warnings().into_iter().filter(|text| text.contains(name)).count();
        assert_eq!(told, warnings, "{:#?}", LOG.warnings());
    }
}

#[tokio::test]
async fn a_long_hold_is_told_once_and_the_age_of_the_oldest_is_counted() {
    LazyLock::force(&LOG);
    let Some(bed) = Testbed::start(Topology::Single, Layout::Redlock, "") else { return };
    let told = Arc::new(Mutex::new(Vec::new()));
    let heard = told.clone();
    let locker = bed.build(bed.builder().long_hold(LEASE / 3).on_event(move |event| {
        let what = match event {
            Event::LongHoldBegan { held, .. } => format!("long: {}", *held >= LEASE / 3),
            Event::LongHoldEnded { .. } => "no longer".to_owned(),
            Event::HoldEnded { .. } => "ended".to_owned(),
            _ => return,
        };
        heard.lock().expect("no panic").push(what);
    }));
    let long = within("free", locker.lock("long").lease(LEASE)).await.expect("granted");
    drop(within("free", locker.lock("short")).await.expect("granted"));
    assert_eq!(locker.stats().oldest, None);
    let line = warning("long", "the lock is held for long").await;
    assert!(line.contains("held=") && line.contains(&format!("token={}", long.token())), "{line}");
    assert!(locker.stats().oldest >= Some(LEASE / 3), "{:?}", locker.stats());
    let renewed = locker.stats().renewed;
    eventually("renewals", async || (locker.stats().renewed >= renewed + 2).then_some(())).await;
    long.unlock().await.expect("held");
    assert_eq!(locker.stats().oldest, None);
    assert_eq!(*told.lock().expect("no panic"), ["ended", "long: true", "no longer", "ended"]);
    let lines = LOG.warnings().into_iter().filter(|text| text.contains("held for long")).count();
    assert_eq!(lines, 1, "{:#?}", LOG.warnings());
}

/// In an outage each of a locker's calls waits, and the log has a line of it.
#[tokio::test]
async fn an_outage_is_one_line_however_many_calls_wait() {
    LazyLock::force(&LOG);
    let Some(bed) = Testbed::start(Topology::QuorumOf3, Layout::Redlock, "") else { return };
    let locker = bed.locker();
    drop(within("free", locker.lock("outage/0")).await.expect("granted"));
    bed.pause_all();
    let names = (1..=20).map(|number| format!("outage/{number}"));
    let calls = names.map(|name| tokio::spawn(locker.lock(name).into_future()));
    let calls = futures::future::join_all(calls);
    let lines = |what: &str| {
        LOG.infos().iter().filter(|text| text.contains(what) && text.contains("outage/")).count()
    };
    eventually("the line", async || (lines("calls wait for the nodes") > 0).then_some(())).await;
    // The others began before this call, and meet the outage before it does.
    within("an answer", locker.try_lock("outage/21")).await.expect_err("an outage");
    assert_eq!(lines("calls wait for the nodes"), 1, "{:#?}", LOG.infos());
    bed.resume_all();
    for call in within("the nodes", calls).await {
        drop(call.expect("no panic").expect("granted"));
    }
    assert!(LOG.infos().iter().any(|text| text.contains("the nodes answer again")));
}

async fn warning(name: &str, what: &str) -> String {
    let of_name = |text: &String| text.contains(&format!(" name={name} ")) && text.contains(what);
    eventually("the warning", async || LOG.warnings().into_iter().find(of_name)).await
}

#[tokio::test]
async fn a_call_its_votes_its_renewals_and_its_release_are_spans() {
    LazyLock::force(&LOG);
    let Some(bed) = Testbed::start(Topology::QuorumOf3, Layout::Redlock, "") else { return };
    let (locker, other) = (bed.locker(), bed.locker());
    let guard = within("free", locker.lock("traced").lease(LEASE)).await.expect("granted");
    let token = guard.token();
    let busy = other.lock("traced").wait(Duration::from_millis(20));
    within("an answer", busy).await.expect_err("held");
    let dropped = other.lock("traced").into_future();
    tokio::time::timeout(Duration::from_millis(20), dropped).await.expect_err("held");
    let closed = tokio::spawn(other.lock("traced").into_future());
    eventually("a call", async || (other.stats().waiting == 1).then_some(())).await;
    other.close().await;
    within("the close", closed).await.expect("no panic").expect_err("closed");
    eventually("a renewal", async || (locker.stats().renewed > 0).then_some(())).await;
    guard.unlock().await.expect("held");

    let calls = ended_spans("quorumlock.acquire", " name=traced ", 4).await;
    let outcomes = ["granted", "busy", "dropped", "closed"];
    for ((_, call), outcome) in calls.iter().zip(outcomes) {
        let outcome = format!(" outcome=\"{outcome}\" ");
        let lease = if outcome.contains("granted") { "lease=3s" } else { "lease=30s" };
        for part in [" mode=\"quorum\" ", " kind=\"lock\" ", lease, &outcome] {
            assert!(call.contains(part), "{part} in {call}");
        }
        assert_eq!(call.matches(" outcome=").count(), 1, "{call}");
    }
    for part in [" rounds=1 ", &format!(" token={token} "), " valid_for="] {
        assert!(calls[0].1.contains(part), "{part} in {}", calls[0].1);
    }
    assert!(!calls[1].1.contains(" token="), "{}", calls[1].1);
    let (granted, refused) = (votes_of(calls[0].0), votes_of(calls[1].0));
    for (votes, answer) in [(granted, " answer=\"granted\" "), (refused, " answer=\"busy\" ")] {
        let found = votes.iter().filter(|vote| vote.fields.contains(answer));
        let micros = |vote: &&Told| vote.fields.contains(" micros=");
        assert!(found.filter(micros).count() >= 2, "{answer}: {votes:#?}");
        assert!(votes.iter().all(|vote| vote.fields.contains(" node=\"redis://127.0.0.1:")));
    }
    let releases = ended_spans("quorumlock.release", " name=traced ", 1).await;
    assert!(releases[0].1.contains(" outcome=\"released\" "), "{releases:?}");
    let renewals = ended_spans("quorumlock.renew", " mode=\"quorum\" ", 1).await;
    for part in [" leases=1 ", " confirmed=1 ", " unconfirmed=0 ", " gone=0 "] {
        assert!(renewals.iter().any(|(_, renewal)| renewal.contains(part)), "{renewals:#?}");
    }
}

/// The spans of the votes in the span of a call.
fn votes_of(call: usize) -> Vec<Told> {
    let is_vote = |span: &Told| span.name == "quorumlock.vote" && span.parent == Some(call);
    LOG.spans().into_iter().filter(is_vote).collect()
}

/// A span lasts until its children have ended.
#[tokio::test]
async fn the_span_of_a_call_ends_with_the_call_and_not_with_a_hung_node() {
    LazyLock::force(&LOG);
    let Some(bed) = Testbed::start(Topology::QuorumOf5TwoDown, Layout::Redlock, "") else { return };
    let locker = bed.locker();
    let guard = within("free", locker.lock("hung")).await.expect("granted");
    let is_call = |span: &Told| {
        span.name == "quorumlock.acquire" && span.fields.contains(" name=hung ") && span.ended
    };
    let call = LOG.spans().iter().position(is_call).expect("a span that has ended");
    let votes = votes_of(call);
    let silent = votes.iter().filter(|vote| !vote.fields.contains(" answer="));
    assert!(silent.count() >= 1, "{votes:#?}");
    assert!(votes.iter().all(|vote| vote.ended), "{votes:#?}");
    guard.unlock().await.expect("held");
}

#[tokio::test]
async fn a_locker_whose_names_are_secret_has_none_in_its_spans() {
    LazyLock::force(&LOG);
    let Some(bed) = Testbed::start(Topology::Single, Layout::Redisson, "") else { return };
    let locker = bed.build(bed.builder().names_in_spans(false));
    let guard = within("free", locker.lock("secret")).await.expect("granted");
    guard.unlock().await.expect("held");
    drop(within("free", locker.lock(["secret", "secret/2"])).await.expect("granted"));
    locker.close().await;
    for name in ["quorumlock.acquire", "quorumlock.release"] {
        // No other test of this program takes several names.
        ended_spans(name, " kind=\"all\" ", 1).await;
    }
    let leaks = LOG.spans().into_iter().filter(|span| span.fields.contains("secret"));
    assert_eq!(leaks.map(|span| span.fields).collect::<Vec<_>>(), Vec::<String>::new());
}

/// The spans of this name that have ended and have this field, with their numbers, once there are enough.
async fn ended_spans(name: &str, field: &str, least: usize) -> Vec<(usize, String)> {
    eventually("the spans", async || {
        let spans = LOG.spans().into_iter().enumerate();
        let meant = |span: &Told| span.name == name && span.ended && span.fields.contains(field);
        let meant = spans.filter(|(_, span)| meant(span));
        let meant: Vec<_> = meant.map(|(number, span)| (number, span.fields)).collect();
        (meant.len() >= least).then_some(meant)
    })
    .await
}

#[test]
fn the_dashboard_and_the_alerts_name_metrics_that_exist() {
    let dashboard: Value = serde_json::from_str(&page("monitoring/grafana.json")).expect("JSON");
    let panels = dashboard["panels"].as_array().expect("panels");
    let targets = panels.iter().flat_map(|panel| panel["targets"].as_array().expect("targets"));
    let queries: String = targets.map(|target| target["expr"].as_str().expect("a query")).collect();
    let alerts = page("monitoring/alerts.yaml");
    let known: BTreeSet<_> = METRICS.iter().flat_map(shown_names).collect();
    let (shown, alerted) = (names(&queries), names(&alerts));
    for name in shown.union(&alerted) {
        assert!(known.contains(name), "{name} is no metric");
    }
    for metric in METRICS {
        let one = shown_names(metric).into_iter().any(|name| shown.contains(&name));
        assert!(one, "{} is in no panel", metric.name);
    }
    assert!(alerted.contains("quorumlock_lost"), "a lost lock pages somebody");
}

/// Skipped, and says so, where there is no promtool: `scripts/get-promtool` fetches it.
#[test]
fn the_alerts_fire_on_what_their_tests_say() {
    let Some(promtool) = promtool() else {
        eprintln!("SKIPPED: no promtool; run scripts/get-promtool");
        return;
    };
    for rules in ["alerts", "servers"] {
        let (alerts, tests) =
            (format!("monitoring/{rules}.yaml"), format!("monitoring/{rules}_test.yaml"));
        let mut run = Command::new(&promtool);
        let tested = run.args(["test", "rules"]).arg(docs().join(&tests)).output();
        let tested = tested.expect("promtool starts");
        assert!(tested.status.success(), "{}", String::from_utf8_lossy(&tested.stderr));
        let (alerts, tests) = (page(&alerts), page(&tests));
        for alert in alerts.lines().filter_map(|line| line.trim().strip_prefix("- alert: ")) {
            let fires = format!("alertname: {alert}\n        exp_alerts:");
            assert!(tests.contains(&fires), "no test lets {alert} fire");
        }
    }
}

/// On `PATH`, or what `scripts/get-promtool` has put into the user's cache.
fn promtool() -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let on_path: Vec<_> = env::split_paths(&path).map(|dir| dir.join("promtool")).collect();
    let cached = cache().map(|cache| cache.join("prometheus/promtool"));
    on_path.into_iter().chain(cached).find(|program| program.is_file())
}

/// The names under which queries find a metric.
fn shown_names(metric: &Metric) -> Vec<String> {
    let name = prometheus(metric);
    match metric.kind {
        MetricKind::Histogram => {
            ["_bucket", "_count", "_sum"].map(|part| format!("{name}{part}")).to_vec()
        }
        _ => vec![name],
    }
}

fn names(queries: &str) -> BTreeSet<String> {
    let words = queries.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    words.filter(|word| word.starts_with("quorumlock_")).map(str::to_owned).collect()
}

#[test]
fn monitoring_lists_every_metric() {
    let text = page("MONITORING.md");
    for metric in METRICS {
        let labels = match metric.labels {
            [] => "-".to_owned(),
            labels => labels.join(", "),
        };
        let row = format!(
            "| `{}` | {} | {labels} | {} |",
            metric.name,
            of_type(metric.kind),
            metric.about
        );
        assert!(shows(&text, &row), "{row}");
    }
}

fn docs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs")
}

fn page(path: &str) -> String {
    let docs = docs();
    std::fs::read_to_string(docs.join(path)).expect("the page")
}
