use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use foldhash::HashMap;

use crate::{Acquired, Approach, Error, Instant, Name};

/// Names that this locker was granted by scripts lately: their counters are there, and will not expire
/// soon. Advice, never safety: whoever relies on it looks at the counter's value. Clones share what they
/// know.
#[derive(Clone, Debug)]
pub struct Warm {
    /// When a script was last asked for each name that was granted.
    asked: Arc<Mutex<HashMap<Name, Instant>>>,
    /// For so long. Counters are kept at least twice as long after a script has moved them.
    lasts: Duration,
}

/// Beyond it all are forgotten, and seen again.
const MOST: usize = 4_096;

impl Warm {
    /// Knows a name for so long after a script was asked: the longest lease, since counters are kept at least
    /// twice that.
    pub fn lasting(lasts: Duration) -> Self {
        Self { asked: Arc::default(), lasts }
    }

    /// What is known of `name` as an acquisition begins. `None` if that does not matter: only single tokens
    /// are asked for without a script.
    pub fn recall(&self, name: &Name, approach: &Approach) -> Option<Recalled> {
        (approach.tokens == 1).then(|| Recalled {
            warm: self.clone(),
            name: name.clone(),
            asked: approach.asked,
            known: self.knows(name, approach.asked),
        })
    }

    fn knows(&self, name: &Name, now: Instant) -> bool {
        self.asked().get(name).is_some_and(|asked| now.since(*asked) < self.lasts)
    }

    /// What came of an acquisition that began at `asked`, of a name that was known or not. One that must
    /// be begun again asks with a script then.
    fn note(
        &self,
        name: &Name,
        (asked, known): (Instant, bool),
        decided: &Result<Acquired, Error>,
    ) {
        match decided {
            Ok(Acquired::Yes(_)) if !known => {
                let mut all = self.asked();
                if all.len() >= MOST {
                    all.clear();
                }
                all.insert(name.clone(), asked);
            }
            Ok(Acquired::Yes(_) | Acquired::Busy(_) | Acquired::KeptOut(_)) => {}
            Ok(Acquired::Again) | Err(_) => {
                self.asked().remove(name);
            }
        }
    }

    fn asked(&self) -> MutexGuard<'_, HashMap<Name, Instant>> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What was known of a name when an acquisition of it began.
#[derive(Debug)]
pub struct Recalled {
    warm: Warm,
    name: Name,
    asked: Instant,
    known: bool,
}

impl Recalled {
    /// Whether it may be asked for without a script.
    pub fn is_known(&self) -> bool {
        self.known
    }

    /// Notes what came of it.
    pub fn note(self, decided: &Result<Acquired, Error>) {
        self.warm.note(&self.name, (self.asked, self.known), decided);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Clock, Fence, Grant};

    const LASTS: Duration = Duration::from_secs(60);

    #[test]
    fn a_name_is_known_for_a_while_after_a_script_has_granted_it() {
        let (clock, name) = (Clock::manual(), Name::new("x").unwrap());
        let warm = Warm::lasting(LASTS);
        let granted = || Ok(Acquired::Yes(Grant { until: clock.now(), fence: Fence::new(7) }));
        warm.note(&name, (clock.now(), false), &Ok(Acquired::Busy(None)));
        assert!(!warm.knows(&name, clock.now()));
        warm.note(&name, (clock.now(), false), &granted());
        clock.advance(LASTS / 2);
        assert!(warm.knows(&name, clock.now()));
        assert!(!warm.knows(&Name::new("y").unwrap(), clock.now()));
        // Without a script the counter's expiry stays where it was.
        warm.note(&name, (clock.now(), true), &granted());
        clock.advance(LASTS / 2);
        assert!(!warm.knows(&name, clock.now()));
    }

    #[test]
    fn what_must_be_begun_again_is_asked_with_a_script() {
        let (now, name) = (Clock::manual().now(), Name::new("x").unwrap());
        let warm = Warm::lasting(LASTS);
        let granted = Ok(Acquired::Yes(Grant { until: now, fence: Fence::new(7) }));
        warm.note(&name, (now, false), &granted);
        warm.note(&name, (now, true), &Ok(Acquired::Busy(None)));
        assert!(warm.knows(&name, now));
        warm.note(&name, (now, true), &Ok(Acquired::Again));
        assert!(!warm.knows(&name, now));
    }
}
