//! Pure: what a locker has seen superseded in the admission record of a node (PROTOCOL.md ADM10).

/// The ids that a locker has read in the record of one run of a server: incarnations and notes. Each is
/// fresh when it is written. So an id that the record has lost never comes back, while the server keeps
/// its memory.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct SeenIds<T> {
    /// Those that no later read has found gone.
    current: Vec<T>,
    /// Those that a later read has found gone, the last ones.
    superseded: Vec<T>,
}

impl<T: Clone + PartialEq> SeenIds<T> {
    /// How many superseded ids are remembered. Each admission and each barrier makes one.
    pub const LIMIT: usize = 64;

    /// What the locker knows when it sends a read, for [`SeenIds::learn`].
    pub fn current(&self) -> Vec<T> {
        self.current.clone()
    }

    /// Learns that a read showed these ids. What was known `before` the read was sent and is not among
    /// them is superseded. Another connection may have read a later record meanwhile: an id that was
    /// not known then says nothing.
    pub fn learn(&mut self, before: &[T], shown: &[T]) {
        let gone = |id: &&T| before.contains(id) && !shown.contains(id);
        for id in self.current.clone().iter().filter(gone) {
            self.current.retain(|known| known != id);
            push(&mut self.superseded, id);
        }
        for id in shown.iter().filter(|id| !self.superseded.contains(id)) {
            push(&mut self.current, id);
        }
    }

    /// Those of the ids that were superseded. Either the record was read long ago, or the memory went
    /// back.
    pub fn superseded_among(&self, shown: &[T]) -> Vec<T> {
        shown.iter().filter(|id| self.superseded.contains(id)).cloned().collect()
    }
}

fn push<T: Clone + PartialEq>(ids: &mut Vec<T>, id: &T) {
    if ids.contains(id) {
        return;
    }
    ids.push(id.clone());
    if ids.len() > SeenIds::<T>::LIMIT {
        ids.remove(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: [u8; 0] = [];

    /// Reads one after the other.
    fn read(seen: &mut SeenIds<u8>, shown: &[u8]) -> Vec<u8> {
        let before = seen.current();
        seen.learn(&before, shown);
        seen.superseded_among(shown)
    }

    #[test]
    fn an_id_that_was_gone_and_comes_back_is_superseded() {
        let mut seen = SeenIds::default();
        for shown in [&[1][..], &[1], &[1, 2], &[3]] {
            assert_eq!(read(&mut seen, shown), NONE);
        }
        assert_eq!(read(&mut seen, &[1, 2]), [1, 2]);
        assert_eq!(read(&mut seen, &[1, 3]), [1, 3], "none of them is believed again");
        assert_eq!(read(&mut seen, &[]), NONE);
        assert_eq!(read(&mut seen, &[3]), [3], "nothing was there meanwhile");
    }

    #[test]
    fn a_slow_read_supersedes_nothing_that_was_not_known_when_it_was_sent() {
        let mut seen = SeenIds::default();
        let before = seen.current();
        assert_eq!(read(&mut seen, &[2]), NONE);
        seen.learn(&before, &[1]);
        assert_eq!(read(&mut seen, &[2]), NONE, "the record of today");
    }

    #[test]
    fn the_list_is_bounded() {
        let mut seen = SeenIds::default();
        for id in 0..=u8::MAX {
            read(&mut seen, &[id]);
        }
        assert_eq!((seen.current.len(), seen.superseded.len()), (1, SeenIds::<u8>::LIMIT));
    }
}
