//! A hold that comes from another process.

use std::sync::Arc;
use std::time::Duration;

use quorumlock_protocol::{
    Claim, ConfigError, Error, Instant, LeaseRequest, LeaseTiming, LossReason, Lost, NoMajority,
    NodeProblem, NodeReport, Ticket, next_id, quorum_of,
};
use quorumlock_watchdog::{LeaseState, Renewal};

use super::guard::Guard;
use super::inner::Inner;
use super::lease::Lease;
use super::local_handoff::HandoffChain;
use super::request::until_closed;

/// The pause before the nodes are asked again.
const PAUSE: Duration = Duration::from_millis(10);

/// Takes up the hold of a ticket, if enough nodes confirm that they have it (PROTOCOL.md TIC1).
pub(super) async fn resume(inner: Arc<Inner>, ticket: &Ticket) -> Result<Guard, Error> {
    // `close` ends this call, and waits until it has ended (SAFETY.md G7).
    let mut calls = inner.calls.subscribe();
    inner.ensure_open()?;
    until_closed(&mut calls, take_up(inner, ticket)).await
}

async fn take_up(inner: Arc<Inner>, ticket: &Ticket) -> Result<Guard, Error> {
    inner.settings.check_lease(ticket.lease())?;
    if let (Some(ticket), Some(locker)) = (ticket.layout(), inner.settings.layout)
        && ticket != locker
    {
        return Err(ConfigError::OtherLayout { ticket, locker }.into());
    }
    let claim = Claim::all(ticket.names().to_vec())?;
    let lost = |why| Error::from(Lost::new(claim.label(), why));
    let limit = ticket.hold_left(|| inner.wall_time());
    let begun = inner.clock.now();
    let hold_until = limit.map(|left| begun + left);
    let ttl = limit.unwrap_or(Duration::MAX).min(ticket.lease());
    if ttl.is_zero() {
        return Err(lost(LossReason::HoldLimit));
    }
    let settings = &inner.settings;
    let deadline = begun + settings.connect_timeout + settings.answer_timeout;
    let (nonce, (_, last)) = (ticket.nonce(), ticket.tokens());
    loop {
        let asked = inner.clock.now();
        let request = LeaseRequest::new(claim.clone(), nonce, ttl);
        match inner.lessor.resume(request, last).await {
            Renewal::Until(until) => {
                let timing = LeaseTiming { lease: ticket.lease(), until, hold_until };
                let guard = guard(&inner, claim, ticket, (asked, timing));
                guard.check()?;
                return Ok(guard);
            }
            Renewal::Gone => return Err(lost(LossReason::Gone)),
            Renewal::Unknown if asked < deadline => tokio::time::sleep(PAUSE).await,
            Renewal::Unknown => {
                let nodes = inner.lessor.nodes();
                let report = NodeReport::new("its nodes", NodeProblem::NotRenewed);
                let of = (nodes, quorum_of(nodes));
                return Err(NoMajority::new(Some(claim.label()), of, 0, vec![report]).into());
            }
        }
    }
}

fn guard(
    inner: &Arc<Inner>,
    claim: Claim,
    ticket: &Ticket,
    (asked, timing): (Instant, LeaseTiming),
) -> Guard {
    let (token, last) = ticket.tokens();
    let tokens = (HandoffChain::of_ticket(asked, timing.until, last), token);
    let state = LeaseState::new(inner.clock.clone(), timing);
    let names = (claim, ticket.nonce());
    let lease = Arc::new(Lease::new(next_id(), names, tokens, state, asked));
    inner.telemetry.hold_began(&lease.claim);
    inner.watchdog.watch(&lease, asked);
    Guard::new(inner.clone(), lease)
}
