//! Requests to a cluster of etcd, through its gateway for JSON.

use std::future::Future;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::{Request, Response};
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use quorumlock_protocol::{NodeProblem, NodeReport};
use quorumlock_watchdog::Clock;
use serde_json::Value;
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::task::{JoinHandle, JoinSet};

/// Sends requests to one member, and to the next one if that member does not answer.
#[derive(Clone)]
pub(super) struct Client(Arc<Shared>);

struct Shared {
    http: legacy::Client<HttpConnector, Full<Bytes>>,
    members: Vec<String>,
    /// The member that is asked first, modulo their number.
    first: AtomicUsize,
    clock: Clock,
    answer_timeout: Duration,
    /// Work that nobody waits for.
    unawaited: Mutex<JoinSet<()>>,
    handle: Handle,
    /// Its own, as the library's watchdog has: a program that blocks its threads still renews.
    runtime: Option<Runtime>,
}

/// What the cluster said.
pub(super) struct Reply {
    pub(super) said: Result<Value, Refused>,
    /// How often the request was sent: if twice, the first one may have been carried out.
    pub(super) sent: usize,
}

/// An error that etcd answered.
#[derive(Debug)]
pub(super) struct Refused {
    /// The status of gRPC.
    pub(super) code: u64,
    pub(super) message: String,
}

/// `NOT_FOUND` of gRPC: there is no such lease.
pub(super) const NOT_FOUND: u64 = 5;
/// `FAILED_PRECONDITION`: the lease is there already.
pub(super) const EXISTS: u64 = 9;
/// `DEADLINE_EXCEEDED` and `UNAVAILABLE`: the member has no leader, or was just cut off from it.
const PASSING: [u64; 2] = [4, 14];

/// All members were asked, and none can answer now. An election lasts for a second.
const PAUSE: Duration = Duration::from_millis(20);

impl Client {
    pub(super) fn new(urls: &[String], clock: Clock, answer_timeout: Duration) -> io::Result<Self> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("etcd")
            .enable_all()
            .build()?;
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        let shared = Shared {
            http: legacy::Client::builder(TokioExecutor::new()).build(connector),
            members: urls.to_vec(),
            first: AtomicUsize::new(0),
            clock,
            answer_timeout,
            unawaited: Mutex::default(),
            handle: runtime.handle().clone(),
            runtime: Some(runtime),
        };
        Ok(Self(Arc::new(shared)))
    }

    pub(super) fn clock(&self) -> &Clock {
        &self.0.clock
    }

    pub(super) fn answer_timeout(&self) -> Duration {
        self.0.answer_timeout
    }

    pub(super) fn members(&self) -> usize {
        self.0.members.len()
    }

    /// Runs work on the client's own runtime.
    pub(super) fn spawn<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> JoinHandle<T> {
        self.0.handle.spawn(work)
    }

    /// Runs work that nobody waits for but [`drain`](Self::drain).
    pub(super) fn finish(&self, work: impl Future<Output = ()> + Send + 'static) {
        let mut unawaited = self.0.unawaited.lock().unwrap_or_else(PoisonError::into_inner);
        while unawaited.try_join_next().is_some() {}
        unawaited.spawn_on(work, &self.0.handle);
    }

    /// Waits for that work; at most for the answer timeout.
    pub(super) async fn drain(self) {
        let unawaited =
            std::mem::take(&mut *self.0.unawaited.lock().unwrap_or_else(PoisonError::into_inner));
        let _ = tokio::time::timeout(self.0.answer_timeout, unawaited.join_all()).await;
    }

    /// Sends a request until a member answers it; at most for so long. Each request here has the same
    /// effect if it is carried out twice. The error says what each member did instead.
    pub(super) async fn call(
        &self,
        path: &str,
        body: &Value,
        within: Duration,
    ) -> Result<Reply, Vec<NodeReport>> {
        let (clock, members) = (self.clock(), &self.0.members);
        let end = clock.now() + within;
        // A member that hangs leaves time to ask another one.
        let share = self.0.answer_timeout / 2;
        let mut problems = Vec::<NodeReport>::new();
        for sent in 1.. {
            let left = end.since(clock.now());
            if left.is_zero() {
                break;
            }
            let at = self.0.first.load(Ordering::Relaxed);
            let member = &members[at % members.len()];
            let asked = async { read(self.post(member, path, body).await?).await };
            let problem = match tokio::time::timeout(share.min(left), asked).await {
                Err(_) => NodeProblem::NoAnswer(share.min(left)),
                Ok(Err(why)) => NodeProblem::Broken(why),
                Ok(Ok(Err(refused))) if PASSING.contains(&refused.code) => {
                    NodeProblem::Broken(refused.message)
                }
                Ok(Ok(said)) => return Ok(Reply { said, sent }),
            };
            problems.retain(|known| known.node != *member);
            problems.push(NodeReport::new(member.as_str(), problem));
            self.pass_over(at);
            if sent % members.len() == 0 {
                tokio::time::sleep(PAUSE).await;
            }
        }
        Err(problems)
    }

    /// Asks a member for a stream of answers, and goes on to the next member if it gives none.
    pub(super) async fn stream(&self, path: &str, body: &Value) -> Result<Incoming, String> {
        let at = self.0.first.load(Ordering::Relaxed);
        let member = &self.0.members[at % self.0.members.len()];
        let asked = tokio::time::timeout(self.0.answer_timeout, self.post(member, path, body));
        let answered = asked.await.unwrap_or_else(|_| Err("no answer".to_owned()));
        answered.map(Response::into_body).inspect_err(|_| self.pass_over(at))
    }

    /// From now on another member is asked first, unless others have moved on already.
    fn pass_over(&self, at: usize) {
        let _ = self.0.first.compare_exchange(at, at + 1, Ordering::Relaxed, Ordering::Relaxed);
    }

    async fn post(
        &self,
        member: &str,
        path: &str,
        body: &Value,
    ) -> Result<Response<Incoming>, String> {
        let request = Request::post(format!("{member}{path}"))
            .body(Full::new(Bytes::from(body.to_string())))
            .map_err(|error| error.to_string())?;
        self.0.http.request(request).await.map_err(|error| error.to_string())
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// Reads the whole answer. The gateway wraps each answer of a stream into `result`.
async fn read(response: Response<Incoming>) -> Result<Result<Value, Refused>, String> {
    let ok = response.status().is_success();
    let body = response.into_body().collect().await.map_err(|error| error.to_string())?.to_bytes();
    let mut said = serde_json::from_slice::<Value>(&body).map_err(|error| error.to_string())?;
    if ok {
        return Ok(Ok(said.get_mut("result").map(Value::take).unwrap_or(said)));
    }
    let message = said["message"].as_str().unwrap_or_default().to_owned();
    Ok(Err(Refused { code: said["code"].as_u64().unwrap_or_default(), message }))
}

/// Text as the gateway wants keys and values.
pub(super) fn encoded(text: &str) -> String {
    BASE64.encode(text)
}

/// The text of a key or value of the gateway.
pub(super) fn decoded(text: &Value) -> String {
    let bytes = BASE64.decode(text.as_str().unwrap_or_default()).unwrap_or_default();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// A number: the gateway writes 64 bits as text.
pub(super) fn number(value: &Value) -> Option<u64> {
    value.as_str()?.parse().ok()
}
