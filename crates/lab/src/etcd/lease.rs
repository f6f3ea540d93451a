//! The requests of a lock: a lease of etcd, and a key that is attached to it.
//!
//! The lease's number comes from the nonce, so that a request which is sent twice has one effect.

use std::time::Duration;

use quorumlock_protocol::{
    Acquired, Claim, Error, FencingToken, Grant, Instant, LeaseRequest, Name, NoMajority,
    NodeProblem, NodeReport, Nonce, Notified, ReleaseOutcome, expiry, quorum_of,
};
use quorumlock_watchdog::Renewal;
use serde_json::{Value, json};

use super::client::{Client, EXISTS, NOT_FOUND, Refused, Reply, encoded, number};

/// A lease whose lock nobody has got yet. It ends when this is dropped.
pub(super) struct Unused {
    client: Client,
    id: u64,
    kept: bool,
}

/// How one attempt asks.
pub(super) struct Attempt {
    pub(super) lease: LeaseRequest,
    pub(super) fencing: bool,
    /// Others were told of a release, and etcd keeps no queue of them: they go first.
    pub(super) yields: bool,
    /// The caller waits if it is refused, and leaves a mark for the holder.
    pub(super) waits: bool,
    /// A refused attempt costs a read, and not three writes.
    pub(super) looks_first: bool,
    pub(super) max_clock_drift: f64,
}

/// A few writes of a cluster whose disks are slow.
const COURTESY: Duration = Duration::from_millis(50);

impl Attempt {
    /// Creates the keys, if none of them is there. The lease counts from before the first request.
    pub(super) async fn make(self, client: &Client) -> Result<(Acquired, Option<Unused>), Error> {
        let Self { lease, fencing, yields, waits, looks_first, max_clock_drift } = self;
        if yields {
            tokio::time::sleep(COURTESY).await;
        }
        let (name, end) = (lease.claim.label(), client.clock().now() + client.answer_timeout());
        if looks_first && first_held(client, &lease.claim, end).await?.is_some() {
            if waits {
                mark(client, &lease.claim);
            }
            return Ok((Acquired::Busy(None), None));
        }
        let (asked, id) = (client.clock().now(), id_of(lease.nonce));
        let unused = Unused { client: client.clone(), id, kept: false };
        let grant = json!({ "ID": id.to_string(), "TTL": seconds(lease.ttl) });
        match ask(client, &name, "/v3/lease/grant", &grant, end).await?.said {
            Err(refused) if refused.code != EXISTS => return Err(refusal(client, name, refused)),
            _ => {}
        }
        let created = ask(client, &name, "/v3/kv/txn", &create(&lease), end).await?;
        let said = match created.said {
            Ok(said) => said,
            // The lease has ended meanwhile.
            Err(refused) if refused.code == NOT_FOUND => return Ok((Acquired::Retry, None)),
            Err(refused) => return Err(refusal(client, name, refused)),
        };
        let found = &said["responses"][0]["response_range"]["kvs"][0];
        let revision = if said["succeeded"] == true {
            number(&said["header"]["revision"])
        } else if number(&found["lease"]) == Some(id) {
            // The request was sent twice.
            number(&found["create_revision"])
        } else {
            if waits {
                mark(client, &lease.claim);
            }
            return Ok((Acquired::Busy(None), None));
        };
        let until = expiry(asked, lease.ttl, max_clock_drift);
        // Checked after the last answer: a pause while acquiring is caught here.
        let Some(revision) = revision.filter(|_| client.clock().now() < until) else {
            let late = NodeReport::new("etcd", NodeProblem::TooLate);
            return Err(no_vote(client, name, vec![late]));
        };
        let token = if fencing { FencingToken::new(revision) } else { FencingToken::NONE };
        Ok((Acquired::Granted(Grant { until, token, counted: true }), Some(unused)))
    }
}

impl Unused {
    /// The lock has its holder.
    pub(super) fn keep(mut self) {
        self.kept = true;
    }
}

impl Drop for Unused {
    fn drop(&mut self) {
        if !self.kept {
            revoke(&self.client, self.id);
        }
    }
}

/// Keeps the lease alive. Whether its key is still there is not asked: nobody but an operator removes
/// the key of a living lease.
pub(super) async fn renew(
    client: &Client,
    lease: &LeaseRequest,
    within: Duration,
    max_clock_drift: f64,
) -> Renewal {
    let asked = client.clock().now();
    let id = json!({ "ID": id_of(lease.nonce).to_string() });
    match client.call("/v3/lease/keepalive", &id, within).await.map(|reply| reply.said) {
        Ok(Ok(said)) => match number(&said["TTL"]) {
            Some(ttl @ 1..) => {
                let ttl = lease.ttl.min(Duration::from_secs(ttl));
                Renewal::Until(expiry(asked, ttl, max_clock_drift))
            }
            _ => Renewal::Gone,
        },
        Ok(Err(Refused { code: NOT_FOUND, .. })) => Renewal::Gone,
        _ => Renewal::Unknown,
    }
}

/// Deletes the keys if they are ours, and reads whether anybody was refused since they were created. The lease, which nobody needs any more, ends afterwards.
pub(super) async fn release(
    client: &Client,
    lease: &LeaseRequest,
) -> Result<ReleaseOutcome, Error> {
    let (name, keys) = (lease.claim.label(), || lease.claim.names().map(Name::as_str).map(encoded));
    let value = encoded(&lease.nonce.to_string());
    let ours = |key| json!({ "key": key, "target": "VALUE", "result": "EQUAL", "value": value });
    let delete = |key| json!({ "request_delete_range": { "key": key, "prev_kv": true } });
    let body = json!({
        "compare": keys().map(ours).collect::<Vec<_>>(),
        "success": keys().map(delete).chain([range(&mark_of(&lease.claim))]).collect::<Vec<_>>(),
    });
    // Twice the time: a release whose connection breaks is sent again.
    let end = client.clock().now() + client.answer_timeout() * 2;
    let released = ask(client, &name, "/v3/kv/txn", &body, end).await;
    revoke(client, id_of(lease.nonce));
    let Reply { said, sent } = released?;
    let said = said.map_err(|refused| refusal(client, name, refused))?;
    let held = said["succeeded"] == true;
    let answers = &said["responses"];
    let created = number(&answers[0]["response_delete_range"]["prev_kvs"][0]["create_revision"]);
    let mark = &answers[lease.claim.names().count()]["response_range"]["kvs"][0]["mod_revision"];
    let refused = number(mark) > created;
    let notified = held.then_some(if refused { Notified::Waiter } else { Notified::Nobody });
    // Of two requests the first may have released it.
    Ok(ReleaseOutcome { held, forgot: !held && sent > 1, notified })
}

/// The first key of the claim that is there.
pub(super) async fn first_held(
    client: &Client,
    claim: &Claim,
    end: Instant,
) -> Result<Option<Value>, Error> {
    let body = json!({ "success": ranges(claim) });
    let found = ask(client, &claim.label(), "/v3/kv/txn", &body, end).await?;
    let said = found.said.map_err(|refused| refusal(client, claim.label(), refused))?;
    let keys = said["responses"].as_array().into_iter().flatten();
    Ok(keys.map(|key| &key["response_range"]["kvs"][0]).find(|key| !key.is_null()).cloned())
}

/// Sends a request, until `end`.
pub(super) async fn ask(
    client: &Client,
    name: &Name,
    path: &str,
    body: &Value,
    end: Instant,
) -> Result<Reply, Error> {
    let within = end.since(client.clock().now());
    client.call(path, body, within).await.map_err(|why| no_vote(client, name.clone(), why))
}

/// The cluster gave no answer: what its members did instead.
pub(super) fn no_vote(client: &Client, name: Name, members: Vec<NodeReport>) -> Error {
    let of = client.members();
    NoMajority::new(Some(name), (of, quorum_of(of)), 0, members).into()
}

fn refusal(client: &Client, name: Name, refused: Refused) -> Error {
    no_vote(client, name, vec![NodeReport::new("etcd", NodeProblem::Malformed(refused.message))])
}

/// Ends the lease, and with it what is attached to it. Nobody waits for that.
fn revoke(client: &Client, id: u64) {
    let (of, within) = (client.clone(), client.answer_timeout() * 4);
    client.finish(async move {
        let _ = of.call("/v3/lease/revoke", &json!({ "ID": id.to_string() }), within).await;
    });
}

/// The transaction that creates the keys if none of them is there, and else says which are.
fn create(lease: &LeaseRequest) -> Value {
    let keys = || lease.claim.names().map(Name::as_str).map(encoded);
    let (value, id) = (encoded(&lease.nonce.to_string()), id_of(lease.nonce).to_string());
    let free =
        |key| json!({ "key": key, "target": "CREATE", "result": "EQUAL", "create_revision": "0" });
    let put = |key| json!({ "request_put": { "key": key, "value": value, "lease": id } });
    json!({
        "compare": keys().map(free).collect::<Vec<_>>(),
        "success": keys().map(put).collect::<Vec<_>>(),
        "failure": ranges(&lease.claim),
    })
}

fn ranges(claim: &Claim) -> Vec<Value> {
    claim.names().map(|name| range(name.as_str())).collect()
}

fn range(key: &str) -> Value {
    json!({ "request_range": { "key": encoded(key) } })
}

/// Tells the holder of the claim that somebody waits: etcd does not say who watches a key.
fn mark(client: &Client, claim: &Claim) {
    let (of, within) = (client.clone(), client.answer_timeout());
    let put = json!({ "key": encoded(&mark_of(claim)), "value": "" });
    client.finish(async move {
        let _ = of.call("/v3/kv/put", &put, within).await;
    });
}

/// Of a set, the mark of its first name: a set that shares only another name is not seen there.
fn mark_of(claim: &Claim) -> String {
    format!("{}/refused", claim.name().as_str())
}

/// The first 63 bits of the nonce, all of them fresh for each attempt. Zero would let etcd choose.
fn id_of(nonce: Nonce) -> u64 {
    let bits = nonce.as_u128() >> 65;
    u64::try_from(bits).unwrap_or_default().max(1)
}

/// etcd counts whole seconds.
fn seconds(ttl: Duration) -> String {
    let up = u64::from(ttl.subsec_nanos() > 0);
    (ttl.as_secs() + up).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_is_rounded_up_to_whole_seconds() {
        let cases = [(8_000, "8"), (8_001, "9"), (1, "1")];
        for (ms, text) in cases {
            assert_eq!(seconds(Duration::from_millis(ms)), text);
        }
    }

    #[test]
    fn attempts_of_one_locker_have_leases_of_their_own() {
        let locker = Nonce::from_u128(7);
        let [one, other] = [1_u128 << 127, 1_u128 << 65].map(Nonce::from_u128);
        assert_ne!(id_of(one.of_locker(locker)), id_of(other.of_locker(locker)));
        assert_eq!(id_of(Nonce::from_u128(1)), 1, "zero would let etcd choose");
    }
}
