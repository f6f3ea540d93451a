use std::sync::{Mutex, MutexGuard, PoisonError};

use super::Stale;
use crate::FencingToken;

/// A value that only the holder with the largest token reaches: a resource as docs/SAFETY.md
/// requires it (A8), with effects in the order of tokens (G4).
///
/// [`claim`](Self::claim) and [`read`](Self::read) are the only access, so no holder can read before
/// its claim. The gate
/// keeps the order among the tasks of one process; it does not control what other processes do to
/// the same resource. Put the handle of the resource (a file, a device) behind the gate, or `()` to
/// guard something that has no value in memory.
///
/// Holders of a [read-write lock](crate::RwLock): writers claim, readers read. Readers that
/// overlap have tokens in no order, so the gate refuses no reader because of another reader.
///
/// A call blocks only while another caller's closure runs. Async code may use it.
#[derive(Debug)]
pub struct FenceGate<T> {
    inner: Mutex<Inner<T>>,
}

#[derive(Debug)]
struct Inner<T> {
    /// The largest token of a claim; below it nobody reads.
    claimed: FencingToken,
    /// The largest token of a claim or of a read; below it nobody claims or writes.
    seen: FencingToken,
    value: T,
}

impl<T> FenceGate<T> {
    /// Accepts every token except [`FencingToken::NONE`] as the first claim.
    pub const fn new(value: T) -> Self {
        Self::with_seen(value, FencingToken::NONE)
    }

    /// For a value that existed before this process: `seen` is the largest token it was written
    /// with, stored beside it. With a smaller number, an older holder would be accepted again.
    pub const fn with_seen(value: T, seen: FencingToken) -> Self {
        Self { inner: Mutex::new(Inner { claimed: seen, seen, value }) }
    }

    /// Refuses all smaller tokens from now on. [`FencingToken::NONE`] is no token and is always refused.
    /// The same token may claim again: it belongs to the same holder (guards of one
    /// [`Owner`](crate::Owner) share it), and the gate does not put the tasks of one holder in
    /// order.
    ///
    /// # Errors
    /// [`Stale`] if a larger token has claimed or read, or for [`FencingToken::NONE`]: stop the work, the
    /// lock is lost or has no token.
    pub fn claim(&self, token: FencingToken) -> Result<Claimed<'_, T>, Stale> {
        let mut inner = self.inner();
        if token < inner.seen || token == FencingToken::NONE {
            return Err(Stale::new(inner.seen, token));
        }
        (inner.claimed, inner.seen) = (token, token);
        Ok(Claimed { gate: self, token })
    }

    /// Reads the value for a reader, and refuses claims with smaller tokens from now on: a writer
    /// that held the lock before can no longer change what the reader saw. Each call is one step.
    ///
    /// The gate's mutex is locked while `act` runs: keep it short, and do not use the same gate in
    /// it, which would deadlock or panic.
    ///
    /// # Errors
    /// [`Stale`] if a larger token has claimed, or for [`FencingToken::NONE`]; `act` was not called then.
    pub fn read<R>(&self, token: FencingToken, act: impl FnOnce(&T) -> R) -> Result<R, Stale> {
        let mut inner = self.inner();
        if token < inner.claimed || token == FencingToken::NONE {
            return Err(Stale::new(inner.claimed, token));
        }
        inner.seen = inner.seen.max(token);
        Ok(act(&inner.value))
    }

    /// Ignores poisoning: after a panic the value is as the closure left it, which the gate cannot
    /// judge, and the token was recorded before.
    fn inner(&self) -> MutexGuard<'_, Inner<T>> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The right to use the value of a [`FenceGate`] until a larger token claims or reads it.
#[derive(Debug)]
#[must_use = "read and write through `with`"]
pub struct Claimed<'gate, T> {
    gate: &'gate FenceGate<T>,
    token: FencingToken,
}

impl<T> Claimed<'_, T> {
    /// Reads or writes the value, or both, if this claim is still the largest. One call is one
    /// step: no other claim can happen during it. Another claim can happen between two calls, and
    /// then the second call is refused.
    ///
    /// The gate's mutex is locked while `act` runs: keep it short, and do not use the same gate in
    /// it, which would deadlock or panic.
    ///
    /// # Errors
    /// [`Stale`] if a larger token has claimed or read; `act` was not called then.
    pub fn with<R>(&self, act: impl FnOnce(&mut T) -> R) -> Result<R, Stale> {
        let mut inner = self.gate.inner();
        if self.token < inner.seen {
            return Err(Stale::new(inner.seen, self.token));
        }
        Ok(act(&mut inner.value))
    }

    /// The token of this claim; inside [`with`](Self::with), the largest that the gate has seen.
    pub const fn token(&self) -> FencingToken {
        self.token
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::thread;

    use super::*;

    #[derive(Clone, Copy, Debug)]
    enum Step {
        Claim(u64),
        Read(u64),
        Write(u64),
    }

    const TOKENS: u64 = 3;
    const STEPS: u32 = 6;

    /// Only the order of tokens matters and a refusal needs two of them, so three tokens and six
    /// steps (every interleaving of them: 9^6) show what any number would.
    #[test]
    fn every_short_history_obeys_the_rule_and_loses_no_update() {
        let steps: Vec<Step> = (1..=TOKENS)
            .flat_map(|token| [Step::Claim(token), Step::Read(token), Step::Write(token)])
            .collect();
        for history in 0..steps.len().pow(STEPS) {
            let choice = |at: u32| steps[history / steps.len().pow(at) % steps.len()];
            replay((0..STEPS).map(choice).collect());
        }
    }

    /// Each holder writes one more than it last read: the pattern that loses updates.
    fn replay(history: Vec<Step>) {
        let gate = FenceGate::new(0_u32);
        let mut claims = BTreeMap::new();
        let mut readings = BTreeMap::new();
        let (mut largest, mut value, mut writers) = (0, 0, Vec::new());
        for step in &history {
            match *step {
                Step::Claim(token) => {
                    let claim = gate.claim(FencingToken::new(token));
                    assert_eq!(claim.is_ok(), token >= largest, "{step:?} of {history:?}");
                    largest = largest.max(token);
                    match claim {
                        Ok(claim) => drop(claims.insert(token, claim)),
                        Err(stale) => assert_eq!(stale, refusal(largest, token)),
                    }
                }
                // Without a claim there is nothing to call: the type system refuses.
                Step::Read(token) => {
                    let Some(claim) = claims.get(&token) else { continue };
                    let read = claim.with(|value| *value);
                    let expected = (token == largest).then_some(value);
                    let refused = refusal(largest, token);
                    assert_eq!(read, expected.ok_or(refused), "{history:?}");
                    readings.extend(read.map(|value| (token, (value, by_others(&writers, token)))));
                }
                Step::Write(token) => {
                    let Some(claim) = claims.get(&token) else { continue };
                    let Some(&(read, others)) = readings.get(&token) else { continue };
                    let written = claim.with(|value| std::mem::replace(value, read + 1));
                    let expected = (token == largest).then_some(value);
                    let refused = refusal(largest, token);
                    assert_eq!(written, expected.ok_or(refused), "{history:?}");
                    if written.is_ok() {
                        let lost = by_others(&writers, token) - others;
                        assert_eq!(lost, 0, "updates were lost at {step:?} of {history:?}");
                        writers.push(token);
                        value = read + 1;
                    }
                }
            }
        }
    }

    fn by_others(writers: &[u64], token: u64) -> usize {
        writers.iter().filter(|writer| **writer != token).count()
    }

    fn refusal(seen: u64, given: u64) -> Stale {
        Stale::new(FencingToken::new(seen), FencingToken::new(given))
    }

    #[test]
    fn many_threads_lose_no_update() {
        let gate = FenceGate::new(0_u64);
        let (next, written) = (AtomicU64::new(1), AtomicU64::new(0));
        let add_one = || {
            let claim = gate.claim(FencingToken::new(next.fetch_add(1, Ordering::SeqCst)))?;
            let read = claim.with(|value| *value)?;
            thread::yield_now();
            claim.with(|value| *value = read + 1)
        };
        thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..2000 {
                        written.fetch_add(add_one().is_ok().into(), Ordering::SeqCst);
                    }
                });
            }
        });
        let value =
            gate.claim(FencingToken::new(u64::MAX)).and_then(|claim| claim.with(|value| *value));
        assert_eq!(value, Ok(written.into_inner()));
        assert_ne!(value, Ok(0), "nobody got through");
    }

    /// Writer 1, readers 2 and 3 that overlap, and writer 4.
    #[test]
    fn readers_refuse_writers_before_them_and_no_other_reader() {
        let gate = FenceGate::new("first");
        let read = |token| gate.read(FencingToken::new(token), |value| *value);
        let writer = gate.claim(FencingToken::new(1)).expect("nobody before");
        assert_eq!(read(3), Ok("first"));
        assert_eq!(read(2), Ok("first"), "it overlaps with 3");
        let late = writer.with(|value| *value = "late");
        assert_eq!(late, Err(refusal(3, 1)), "3 has read what was there");
        assert_eq!(gate.claim(FencingToken::new(2)).err(), Some(refusal(3, 2)));
        let next = gate.claim(FencingToken::new(4)).expect("after both");
        assert_eq!(read(3), Err(refusal(4, 3)), "4 may write at any time");
        assert_eq!(next.with(|value| *value = "second"), Ok(()));
        assert_eq!(read(4), Ok("second"), "after downgrade");
        assert_eq!(read(0), Err(refusal(4, 0)));
    }

    #[test]
    fn a_value_that_was_there_before_keeps_its_order() {
        let gate = FenceGate::with_seen("from disk", FencingToken::new(34));
        assert_eq!(gate.claim(FencingToken::new(33)).err(), Some(refusal(34, 33)));
        let again = gate.claim(FencingToken::new(34)).expect("the same holder");
        assert_eq!(again.token(), FencingToken::new(34));
        assert_eq!(again.with(|value| *value), Ok("from disk"));
    }

    #[test]
    fn a_panic_inside_does_not_shut_the_gate() {
        let gate = FenceGate::new(1);
        let claim = gate.claim(FencingToken::new(5)).expect("first");
        let panic = thread::scope(|scope| {
            scope.spawn(|| claim.with(|_| panic!("on purpose"))).join().is_err()
        });
        assert!(panic);
        assert_eq!(claim.with(|value| *value), Ok(1));
        assert_eq!(gate.claim(FencingToken::new(4)).err(), Some(refusal(5, 4)));
    }

    #[test]
    fn a_refusal_says_who_must_stop() {
        let text = refusal(34, 33).to_string();
        assert_eq!(text, "fencing token 33 is stale: 34 has claimed; stop, the lock is lost");
    }
}
