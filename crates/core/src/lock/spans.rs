//! The spans of `tracing`: one call, one batch of renewals, one release. A span is never entered across
//! an await, and one that no subscriber wants evaluates none of its fields.

use std::time::Duration;

use quorumlock_protocol::telemetry::{LockKind, Mode};
use quorumlock_protocol::{Claim, Error, FencingToken, ReleaseOutcome, Settings};
use tracing::field::{DisplayValue, Empty, debug, display};
use tracing::{Span, debug_span};

/// What the spans of one locker have in common.
pub(super) struct Spans {
    mode: Mode,
    /// Whether they have the names of locks.
    names: bool,
}

impl Spans {
    pub(super) fn new(settings: &Settings) -> Self {
        Self { mode: settings.mode, names: settings.names_in_spans }
    }

    /// A call for a lock. It ends with `outcome`, with `rounds` if its future was not dropped, and with
    /// [`granted`] if it was granted the lock.
    pub(super) fn acquire(&self, claim: &Claim, lease: Duration) -> Span {
        debug_span!(
            "quorumlock.acquire",
            name = self.name(claim),
            mode = self.mode.as_str(),
            kind = kind_of(claim).as_str(),
            ?lease,
            outcome = Empty,
            rounds = Empty,
            token = Empty,
            valid_for = Empty,
        )
    }

    /// The watchdog's renewal of a batch. It ends with how many leases the nodes confirmed, how many they
    /// did not confirm in time, and how many are gone.
    pub(super) fn renew(&self, leases: usize) -> Span {
        debug_span!(
            "quorumlock.renew",
            mode = self.mode.as_str(),
            leases,
            confirmed = Empty,
            unconfirmed = Empty,
            gone = Empty,
        )
    }

    /// A release on the nodes. It ends with [`released`].
    pub(super) fn release(&self, claim: &Claim) -> Span {
        debug_span!(
            "quorumlock.release",
            name = self.name(claim),
            mode = self.mode.as_str(),
            kind = kind_of(claim).as_str(),
            outcome = Empty,
        )
    }

    fn name<'a>(&self, claim: &'a Claim) -> Option<DisplayValue<&'a Claim>> {
        self.names.then(|| display(claim))
    }
}

/// Records what a call was granted.
pub(super) fn granted(span: &Span, token: FencingToken, valid_for: impl FnOnce() -> Duration) {
    if !span.is_disabled() {
        span.record("token", token.get()).record("valid_for", debug(valid_for()));
    }
}

/// Records how a release ended.
pub(super) fn released(span: &Span, result: &Result<ReleaseOutcome, Error>) {
    let outcome = match result {
        Ok(released) if released.held => "released",
        Ok(_) => "gone",
        Err(Error::Unreachable(_)) => "unreachable",
        Err(Error::Refused(_)) => "refused",
        Err(_) => "failed",
    };
    span.record("outcome", outcome);
}

/// The kind of lock that a claim is about.
pub(super) fn kind_of(claim: &Claim) -> LockKind {
    match (claim.is_read_write(), claim.reads()) {
        (true, true) => LockKind::Read,
        (true, false) => LockKind::Write,
        _ if claim.slots().is_some() || claim.slot().is_some() => LockKind::Permit,
        _ if claim.is_one() => LockKind::Lock,
        _ => LockKind::All,
    }
}
