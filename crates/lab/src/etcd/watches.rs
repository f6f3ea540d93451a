//! Tells waiters that a key is gone, by watches of etcd.

use std::sync::Arc;
use std::time::Duration;

use http_body_util::BodyExt as _;
use quorumlock_protocol::{
    Claim, HandoffOffer, LeaseRequest, Name, ReplySink, Subscription, WaitEvent, WaitQueue,
};
use serde_json::json;
use tokio::task::JoinHandle;

use super::client::{Client, encoded};

/// All waiters of a name hear of its release, and all of them ask: etcd keeps no queue for them.
pub(super) struct Watches(pub(super) Client);

/// A member that hangs ends no stream. After so long without a message the next member is asked.
const SILENT_AT_MOST: Duration = Duration::from_secs(1);

/// Between two streams, if no member gives one.
const PAUSE: Duration = Duration::from_millis(50);

impl WaitQueue for Watches {
    fn subscribe(
        &self,
        name: &Name,
        to: Arc<dyn ReplySink<WaitEvent>>,
        from: usize,
    ) -> Subscription {
        let (client, key) = (self.0.clone(), encoded(name.as_str()));
        let watching = self.0.spawn(async move {
            loop {
                watch(&client, &key, || to.collect(from, WaitEvent::Retry)).await;
                tokio::time::sleep(PAUSE).await;
            }
        });
        Box::new(AbortOnDrop(watching))
    }

    /// There is no queue to leave.
    fn leave(&self, _: &Claim, _: Option<&(LeaseRequest, HandoffOffer)>) {}

    fn pass_on(&self, _: &Claim) {}
}

/// Calls `gone` when the watch has begun, since the key may be gone by then, and when the key goes.
async fn watch(client: &Client, key: &str, gone: impl Fn()) {
    let request = json!({ "create_request": { "key": key, "filters": ["NOPUT"] } });
    let Ok(mut stream) = client.stream("/v3/watch", &request).await else { return };
    // The first message says that the watch has begun; all others that the key is gone.
    while let Ok(Some(Ok(message))) = tokio::time::timeout(SILENT_AT_MOST, stream.frame()).await {
        if message.is_data() {
            gone();
        }
    }
}

struct AbortOnDrop(JoinHandle<()>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}
