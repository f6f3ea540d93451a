//! The metrics and the log of a real locker, and what docs/ says of them.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use metrics_exporter_prometheus::PrometheusBuilder;
use quorumlock::Wire;
use quorumlock::telemetry::{METRICS, Metric, MetricKind, describe_metrics, record_metrics};
use quorumlock_tests::{Testbed, Topology, Warnings, eventually, within};
use serde_json::Value;

const LEASE: Duration = Duration::from_millis(300);

/// The only test of this program that installs a recorder.
#[tokio::test(flavor = "multi_thread")]
async fn a_locker_records_every_metric_with_its_labels() {
    let Some(bed) = Testbed::start(Topology::Single, Wire::Redisson, "") else { return };
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
    let forced = within("free", locker.lock("b").lease(LEASE)).await.expect("granted");
    eventually("a renewal", async || (locker.stats().renewed > 0).then_some(())).await;
    locker.force_unlock("b").await.expect("an answer");
    within("the loss", forced.lost()).await;
    eventually("its count", async || (locker.stats().lost == 1).then_some(())).await;

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
        "quorumlock_held{mode=\"single\",kind=\"lock\"} 0",
        "quorumlock_waiting{mode=\"single\",kind=\"lock\"} 0",
    ] {
        assert!(shows(&text, line), "{line} in {text}");
    }
    assert!(!text.contains("\"b\""), "no lock's name is a label");
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

/// The watchdog writes the warning on its own thread. This is the only test of this program that listens.
#[tokio::test]
async fn the_warning_of_a_lost_lock_says_which_node_said_what_and_what_to_do() {
    let warnings = Warnings::default();
    tracing::subscriber::set_global_default(warnings.clone()).expect("the first one");
    let Some(bed) = Testbed::start(Topology::QuorumOf3, Wire::Redlock, "") else { return };
    let (locker, other) = (bed.locker(), bed.locker());

    let forced = within("free", locker.lock("forced").lease(LEASE)).await.expect("granted");
    other.force_unlock("forced").await.expect("an answer");
    within("the loss", forced.lost()).await;
    let told = warning(&warnings, "forced").await;
    for part in ["why=the nodes no longer hold it", "nodes=\"\"", "look who unlocked it by force"] {
        assert!(told.contains(part), "{part} in {told}");
    }

    let silent = within("free", locker.lock("silent").lease(4 * LEASE)).await.expect("granted");
    bed.pause_all();
    within("the loss", silent.lost()).await;
    let told = warning(&warnings, "silent").await;
    for part in
        ["why=no renewal was confirmed", "left=0ns", "redis://127.0.0.1:", "`quorumlock doctor`"]
    {
        assert!(told.contains(part), "{part} in {told}");
    }
    drop((forced, silent));
    for name in ["name=forced ", "name=silent "] {
        let told = warnings.all().into_iter().filter(|text| text.contains(name)).count();
        assert_eq!(told, 1, "{:#?}", warnings.all());
    }
}

async fn warning(warnings: &Warnings, name: &str) -> String {
    let of_name = |text: &String| text.contains(&format!("name={name} "));
    eventually("the warning", async || warnings.all().into_iter().find(of_name)).await
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
fn operations_lists_every_metric() {
    let text = page("OPERATIONS.md");
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

fn page(path: &str) -> String {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs");
    std::fs::read_to_string(docs.join(path)).expect("the page")
}
