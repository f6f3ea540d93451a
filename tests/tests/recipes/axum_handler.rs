//! An axum handler that works under a lock.

use std::io;
use std::time::Duration;

use axum::Router;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::routing::post;
use quorumlock::{Error, Locker};
use tokio::net::TcpListener;

pub fn app(locker: Locker) -> Router {
    Router::new().route("/invoices/{id}/pay", post(pay)).with_state(locker)
}

async fn pay(
    State(locker): State<Locker>,
    Path(id): Path<String>,
) -> Result<String, (StatusCode, String)> {
    let lock = locker.lock(format!("invoice/{id}")).wait(Duration::from_secs(2));
    let paid = lock.run(|lock| async move { format!("paid with token {}", lock.token()) });
    paid.await.map_err(|error| (status(&error), error.to_string()))
}

fn status(error: &Error) -> StatusCode {
    match error {
        Error::Busy(_) => StatusCode::CONFLICT,
        error if error.is_retryable() => StatusCode::SERVICE_UNAVAILABLE,
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

pub async fn serve(
    listener: TcpListener,
    locker: Locker,
    stop: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()> {
    axum::serve(listener, app(locker.clone())).with_graceful_shutdown(stop).await?;
    locker.close().await; // waits until the servers know what dropped handlers have released
    Ok(())
}
