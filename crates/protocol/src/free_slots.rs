use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Which slots of permits the nodes that refused an attempt said are free. Advice, never safety: the
/// vote for a slot decides.
#[derive(Clone, Debug, Default)]
pub struct FreeSlots(Arc<Mutex<Reports>>);

#[derive(Debug, Default)]
struct Reports {
    nodes: usize,
    /// How many nodes said that a slot is free.
    free: BTreeMap<u16, usize>,
}

impl FreeSlots {
    /// A node refused the attempt; these slots are free there.
    pub fn report(&self, free: impl IntoIterator<Item = u16>) {
        let mut reports = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        reports.nodes += 1;
        for slot in free {
            *reports.free.entry(slot).or_default() += 1;
        }
    }

    /// Whether no node has said anything.
    pub fn is_empty(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).nodes == 0
    }

    /// A slot that is free at most nodes, of those that the caller may ask for. `share`, from 0 to 1,
    /// draws one of several, so that callers do not all ask for the same one.
    pub fn best(&self, share: f64, may_ask: impl Fn(u16) -> bool) -> Option<u16> {
        let reports = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let free = || reports.free.iter().filter(|(slot, _)| may_ask(**slot));
        let most = free().map(|(_, nodes)| *nodes).max()?;
        let best: Vec<u16> =
            free().filter(|(_, nodes)| **nodes == most).map(|(slot, _)| *slot).collect();
        best.get(pick(best.len(), share)).copied()
    }
}

/// One of `count` places, which `share`, from 0 to 1, draws.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "a share of a small number"
)]
pub fn pick(count: usize, share: f64) -> usize {
    ((count as f64 * share) as usize).min(count.saturating_sub(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_that_is_free_at_most_nodes_comes_first() {
        let slots = FreeSlots::default();
        assert!(slots.is_empty());
        slots.report([]);
        assert!(!slots.is_empty());
        assert_eq!(slots.best(0.5, |_| true), None);
        slots.report([1, 4, 7]);
        slots.report([4, 7]);
        assert_eq!(slots.best(0.0, |_| true), Some(4));
        assert_eq!(slots.best(1.0, |_| true), Some(7));
        assert_eq!(slots.best(1.0, |slot| slot != 7), Some(4));
        assert_eq!(slots.best(0.5, |slot| slot < 4), Some(1));
        assert_eq!(slots.best(0.5, |_| false), None);
    }
}
