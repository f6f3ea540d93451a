//! `--metrics-file`: the metrics of the lock for the textfile collector of Prometheus' node exporter.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};
use quorumlock::{Builder, telemetry};
use quorumlock_command::{Failure, say};
use tokio::task::JoinHandle;

/// Writes the file every quarter of a minute, and at the end.
#[derive(Debug)]
pub(super) struct MetricsFile {
    path: PathBuf,
    recorder: PrometheusHandle,
    writes: JoinHandle<()>,
}

/// Prometheus asks an exporter about that often.
const PAUSE: Duration = Duration::from_secs(15);

impl MetricsFile {
    /// Begins to record what `builder` builds. Each metric has the label `lock`: the collector reads the
    /// files of several jobs, and no two of them may have the same labels.
    pub(super) fn begin(
        path: &Path,
        lock: &str,
        builder: Builder,
    ) -> Result<(Self, Builder), Failure> {
        let recorder = PrometheusBuilder::new()
            .add_global_label("lock", lock)
            .set_buckets(&telemetry::BUCKETS)
            .and_then(PrometheusBuilder::install_recorder)
            .map_err(|error| Failure::usage(format!("--metrics-file: {error}")))?;
        telemetry::describe_metrics();
        write(path, &recorder).map_err(|error| {
            Failure::usage(format!("--metrics-file {}: {error}", path.display()))
        })?;
        let writes = tokio::spawn({
            let (path, recorder) = (path.to_owned(), recorder.clone());
            async move {
                loop {
                    tokio::time::sleep(PAUSE).await;
                    write_or_say(&path, &recorder);
                }
            }
        });
        let builder = builder.on_event(telemetry::record_metrics);
        Ok((Self { path: path.to_owned(), recorder, writes }, builder))
    }
}

impl Drop for MetricsFile {
    fn drop(&mut self) {
        self.writes.abort();
        write_or_say(&self.path, &self.recorder);
    }
}

/// Writes the file, or says why not: the command goes on.
fn write_or_say(path: &Path, recorder: &PrometheusHandle) {
    if let Err(error) = write(path, recorder) {
        say(format!("cannot write {}: {error}", path.display()));
    }
}

/// Replaces the file in one step: the collector may read it at any time.
fn write(path: &Path, recorder: &PrometheusHandle) -> std::io::Result<()> {
    let mut next = path.as_os_str().to_owned();
    next.push(".next");
    fs::write(&next, recorder.render())?;
    fs::rename(next, path)
}
