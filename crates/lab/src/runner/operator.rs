//! What an operator does with the library: `unlock --force`, `init`, `members`.

use std::io;
use std::time::Duration;

use quorumlock::admission::{ChangeStep, MemberChange};
use quorumlock::{Error, Locker, Servers};
use quorumlock_protocol::{Claim, Name};

use super::TrialError;
use super::schedule::MAX_EXTRA_WAIT;
use crate::etcd;
use crate::mode::Mode;
use crate::scenario::{Locking, Until};
use crate::worker::{CLOCK_BOUND, build, builder, locker};

/// How long `quorumlock init` waits for a connection, and for each answer: a loaded machine is slow.
const PATIENCE: Duration = Duration::from_secs(10);

/// How often a change of members goes on.
const STEP_EVERY: Duration = Duration::from_millis(20);

pub(super) async fn force_unlock(
    mode: Mode,
    urls: Vec<String>,
    locking: &Locking,
) -> Result<(), Error> {
    if mode == Mode::E {
        let operator = etcd::locker_of(&urls, locking)?;
        let name = Name::new(&locking.name)?;
        operator.force_unlock([Claim::from(name)]).await?;
        operator.close().await;
        return Ok(());
    }
    let operator = operator(mode, urls, locking)?;
    operator.mutex(&locking.name).force_unlock().await?;
    operator.close().await;
    Ok(())
}

/// Vouches for all nodes, as `quorumlock init` does.
pub(super) async fn admit_nodes(
    mode: Mode,
    urls: Vec<String>,
    locking: &Locking,
) -> Result<(), Error> {
    let operator = builder(mode, locking, "operator");
    let operator = operator.connect_timeout(PATIENCE).answer_timeout(PATIENCE);
    let operator = build(operator, mode, urls)?;
    let admitted = operator.admit_nodes().await;
    operator.close().await;
    admitted
}

/// Whether this node of the list votes.
pub(super) async fn is_admitted(
    mode: Mode,
    urls: Vec<String>,
    locking: &Locking,
    node: usize,
) -> Result<bool, Error> {
    let operator = operator(mode, urls, locking)?;
    let nodes = operator.node_status().await;
    operator.close().await;
    Ok(nodes?.get(node).is_some_and(|node| node.is_admitted()))
}

/// Changes the list of nodes as `quorumlock members` does, until the change has come this far.
pub(super) async fn change_members(
    (present, target): (Vec<String>, Vec<String>),
    locking: &Locking,
    until: Until,
) -> Result<(), TrialError> {
    let until = match until {
        Until::BothVote => quorumlock::admission::Until::BothVote,
        Until::OnlyTarget => quorumlock::admission::Until::OnlyTarget,
    };
    let present = Locker::builder(Servers::quorum(present))
        .max_lease(Duration::from_millis(locking.max_lease_ms))
        .clock_bound(CLOCK_BOUND)
        .client_name("lab-operator");
    let mut change = MemberChange::new(present, target, until)?;
    let done = async {
        loop {
            let progress = change.step().await.map_err(io::Error::other)?;
            if progress.is_some_and(|progress| progress.step == ChangeStep::Done) {
                return Ok(());
            }
            tokio::time::sleep(STEP_EVERY).await;
        }
    };
    // Up to three longest leases: one for the quarantine of a new server, one for each phase.
    let patience = MAX_EXTRA_WAIT + Duration::from_millis(3 * locking.max_lease_ms);
    let ended = tokio::time::timeout(patience, done).await;
    ended.unwrap_or_else(|_| Err(TrialError::stuck("the change of members", "its end", patience)))
}

fn operator(mode: Mode, urls: Vec<String>, locking: &Locking) -> Result<Locker, Error> {
    locker(mode, urls, locking, "operator")
}
