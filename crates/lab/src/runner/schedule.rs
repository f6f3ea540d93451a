//! Carries out the schedule of a plan, the same on real servers and in the simulation: waits for
//! the moment of each step, injects its fault, and records it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use quorumlock_protocol::Instant;

use super::error::TrialError;
use super::recorder::{ClientStates, Counts};
use crate::history::Phase;
use crate::scenario::{Fault, Plan, Step, When};
use crate::timestamp;

/// Longer than any awaited event takes on a loaded machine, in addition to the leases.
pub(super) const MAX_EXTRA_WAIT: Duration = Duration::from_secs(30);

/// The servers and the clients of a run.
pub(super) trait Target {
    /// The interval of polls for what no event reports.
    const POLL_EVERY: Duration;

    fn now(&self) -> Instant;

    fn counts(&self) -> BTreeMap<String, Counts>;

    /// Waits until the states of the clients fulfil the condition.
    async fn until(&self, seen: impl Fn(&ClientStates) -> bool);

    /// Waits until a replica has what its primary has.
    async fn in_sync(&self, replica: usize) -> Result<(), TrialError>;

    /// Whether a node has the lock's key.
    async fn has(&self, node: usize) -> Result<bool, TrialError>;

    /// Whether a node votes under strict admission.
    async fn admitted(&self, node: usize) -> Result<bool, TrialError> {
        Err(TrialError::Plan(format!("this driver does not tell whether node {node} votes")))
    }

    /// Whether a write of this client to the resource is held on its way.
    fn held_up(&self, client: &str) -> Result<bool, TrialError>;

    /// Records a fault at a node.
    async fn record(&self, node: Option<usize>, phase: Phase, what: &str);

    async fn act(&mut self, fault: &Fault) -> Result<(), TrialError>;
}

/// Starts the clients, carries out all steps in order, then waits for the end of the run. A step
/// whose moment does not come gives [`TrialError::Stuck`].
pub(super) async fn carry_out(plan: &Plan, target: &mut impl Target) -> Result<(), TrialError> {
    for client in plan.clients.iter().filter(|client| client.starts) {
        target.act(&Fault::start(&client.id)).await?;
    }
    let began = target.now();
    // The lasting conditions that have begun and not ended.
    let mut lasting = BTreeSet::new();
    let mut before = BTreeMap::new();
    for (number, step) in plan.schedule.iter().enumerate() {
        let patience = patience(plan);
        let elapsed = target.now().since(began);
        wait(target, (number + 1, step), &before, elapsed, patience).await?;
        before = target.counts();
        let injected = inject(target, &step.fault, &mut lasting).await;
        injected.map_err(|error| error.at_step(number + 1))?;
    }
    let least = Duration::from_millis(plan.least_ms).saturating_sub(target.now().since(began));
    tokio::time::sleep(least.max(Duration::from_millis(plan.tail_ms))).await;
    Ok(())
}

/// How long a step waits for its event.
pub(super) fn patience(plan: &Plan) -> Duration {
    MAX_EXTRA_WAIT + Duration::from_millis(3 * plan.locking.max_lease_ms)
}

/// Waits for the moment of a step. `before`: the counts before the previous step's fault.
async fn wait<T: Target>(
    target: &T,
    (number, step): (usize, &Step),
    before: &BTreeMap<String, Counts>,
    elapsed: Duration,
    patience: Duration,
) -> Result<(), TrialError> {
    match step.when {
        When::AtMs(ms) => {
            tokio::time::sleep(Duration::from_millis(ms).saturating_sub(elapsed)).await;
            return Ok(());
        }
        When::AfterMs(ms) => {
            tokio::time::sleep(Duration::from_millis(ms)).await;
            return Ok(());
        }
        When::Outlived { ref client, ms } => {
            let ended_ns = target.counts().get(client).map_or(0, |count| count.valid_until_ns);
            let moment = timestamp::instant(ended_ns) + Duration::from_millis(ms);
            tokio::time::sleep(moment.since(target.now())).await;
            return Ok(());
        }
        When::InSync(replica) => return target.in_sync(replica).await,
        _ => {}
    }
    let comes = async {
        match &step.when {
            When::Has(node) => {
                while !target.has(*node).await? {
                    tokio::time::sleep(T::POLL_EVERY).await;
                }
            }
            When::Admitted(node) => {
                while !target.admitted(*node).await? {
                    tokio::time::sleep(T::POLL_EVERY).await;
                }
            }
            When::HeldUp(client) => {
                while !target.held_up(client)? {
                    tokio::time::sleep(T::POLL_EVERY).await;
                }
            }
            when => target.until(|live| live.shows(when, before)).await,
        }
        Ok(())
    };
    tokio::time::timeout(patience, comes).await.unwrap_or_else(|_| {
        let awaited = format!("{:?}", step.when);
        Err(TrialError::stuck(&step.fault.to_string(), &awaited, patience).at_step(number))
    })
}

/// Injects a fault, and records when it begins and ends.
async fn inject(
    target: &mut impl Target,
    fault: &Fault,
    lasting: &mut BTreeSet<(Option<usize>, String)>,
) -> Result<(), TrialError> {
    if !fault.is_fault() {
        return target.act(fault).await;
    }
    let node = fault.node();
    let Some((begins, what)) = fault.window() else {
        // Recorded before the act, so that no consequence is recorded earlier than its cause.
        target.record(node, Phase::Info, &fault.to_string()).await;
        return target.act(fault).await;
    };
    let key = (node, what.clone());
    if !lasting.contains(&key) {
        target.record(node, Phase::Invoke, &what).await;
    }
    if matches!(fault, Fault::Restart(_) | Fault::RestartEmpty(_)) {
        target.record(node, Phase::Info, &fault.to_string()).await;
    }
    target.act(fault).await?;
    if begins {
        lasting.insert(key);
    } else {
        lasting.remove(&key);
        target.record(node, Phase::Ok, &what).await;
    }
    Ok(())
}
