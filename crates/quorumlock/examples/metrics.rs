//! A program that shows the metrics of its locks to Prometheus.
//!
//! ```sh
//! cargo run --example metrics --features metrics -- redis://127.0.0.1 127.0.0.1:9100 &
//! curl http://127.0.0.1:9100/metrics
//! ```
//!
//! docs/monitoring/ has a dashboard and alerts for them.

use std::error::Error;
use std::time::Duration;

use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};
use quorumlock::{Locker, Servers, telemetry};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let url = args.next().unwrap_or_else(|| "redis://127.0.0.1".into());
    let addr = args.next().unwrap_or_else(|| "127.0.0.1:9100".into());
    let recorder = PrometheusBuilder::new().set_buckets(&telemetry::BUCKETS)?.install_recorder()?;
    telemetry::describe_metrics();
    let servers = Servers::single(&url);
    let locker = Locker::builder(servers).on_event(telemetry::record_metrics).build()?;
    tokio::select! {
        ended = work(&locker) => ended,
        ended = serve(TcpListener::bind(addr).await?, recorder) => ended,
    }
}

async fn work(locker: &Locker) -> Result<(), Box<dyn Error>> {
    loop {
        let guard = locker.lock("report").await?;
        tokio::time::sleep(Duration::from_millis(20)).await;
        guard.unlock().await?;
    }
}

/// Answers each request, whatever it asks for, with all metrics.
async fn serve(listener: TcpListener, recorder: PrometheusHandle) -> Result<(), Box<dyn Error>> {
    loop {
        let (mut stream, _) = listener.accept().await?;
        let _ = stream.read(&mut [0; 1024]).await?;
        let text = recorder.render();
        let head = "HTTP/1.1 200 OK\r\ncontent-type: text/plain; version=0.0.4\r\n";
        let answer = format!("{head}content-length: {}\r\n\r\n{text}", text.len());
        stream.write_all(answer.as_bytes()).await?;
    }
}
