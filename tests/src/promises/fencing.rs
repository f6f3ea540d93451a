//! The later of two holders has the larger token (SAFETY.md G3).

use quorumlock::FencingToken;

use super::{LONG_LEASE, NAME};
use crate::{Testbed, within};

const HANDOFFS: usize = 1000;

/// The lock goes from one locker to another a thousand times.
pub async fn tokens_rise_over_a_thousand_handovers(bed: &Testbed) {
    let lockers = [bed.locker(), bed.locker()];
    let mut last = FencingToken::NONE;
    for handover in 0..HANDOFFS {
        let locker = &lockers[handover % 2];
        let guard = within("a free lock", locker.lock(NAME).lease(LONG_LEASE)).await.expect("free");
        assert!(guard.token() > last, "{} after {last} at handover {handover}", guard.token());
        last = guard.token();
        guard.unlock().await.expect("unlocked");
    }
}

/// Clients come and go, locks are forced open, leases expire: the tokens still rise.
pub async fn tokens_rise_whatever_ends_a_hold(bed: &Testbed) {
    let mut last = FencingToken::NONE;
    for _ in 0..5 {
        let (locker, other) = (bed.locker(), bed.locker());
        let thrown_out = locker.lock(NAME).lease(LONG_LEASE).await.expect("free");
        assert!(other.mutex(NAME).force_unlock().await.expect("an answer"));
        let limit = std::time::Duration::from_millis(100);
        let expires = within("thrown out", other.lock(NAME).hold_at_most(limit)).await;
        let expires = expires.expect("free");
        let dropped =
            within("expired", bed.locker().lock(NAME).lease(LONG_LEASE)).await.expect("free");
        for guard in [&thrown_out, &expires, &dropped] {
            assert!(guard.token() > last, "{} after {last}", guard.token());
            last = guard.token();
        }
    }
}
