//! A method of a tonic service that works under a lock, and passes its token on.

use std::time::Duration;

use quorumlock::{Error, FencingToken, Locker};
use tonic::{Request, Response, Status};

pub struct Invoices {
    pub locker: Locker,
}

/// With generated code: `#[tonic::async_trait] impl invoices_server::Invoices for Invoices`.
impl Invoices {
    pub async fn pay(&self, request: Request<String>) -> Result<Response<String>, Status> {
        let name = format!("invoice/{}", request.into_inner());
        let lock = self.locker.lock(name).wait(Duration::from_secs(2));
        let paid = lock.run(|lock| async move { format!("paid with token {}", lock.token()) });
        Ok(Response::new(paid.await.map_err(status)?))
    }
}

fn status(error: Error) -> Status {
    match &error {
        Error::Busy(_) | Error::Lost(_) => Status::aborted(error.to_string()),
        _ if error.is_retryable() => Status::unavailable(error.to_string()),
        _ => Status::internal(error.to_string()),
    }
}

/// A request to the next service, which refuses a token smaller than the largest that it has seen.
pub fn fenced<T>(message: T, token: FencingToken) -> Request<T> {
    let mut request = Request::new(message);
    request.metadata_mut().insert("fence", token.get().into());
    request
}

/// The token of a request.
pub fn token<T>(request: &Request<T>) -> Result<FencingToken, Status> {
    let text = request.metadata().get("fence").and_then(|value| value.to_str().ok());
    let token = text.and_then(|text| text.parse().ok());
    token.ok_or_else(|| Status::invalid_argument("the request has no fencing token"))
}
