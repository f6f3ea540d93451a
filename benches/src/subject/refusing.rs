//! A subscriber of `tracing` that wants nothing.

use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::{DefaultGuard, set_default};
use tracing::{Event, Metadata, Subscriber};

/// While this lives, this thread has a subscriber that says no to all spans and events.
pub struct Refusing(Option<DefaultGuard>);

impl Refusing {
    pub(super) fn begin() -> Self {
        Self(Some(set_default(SaysNo)))
    }
}

impl Drop for Refusing {
    fn drop(&mut self) {
        drop(self.0.take());
        // Else the places of spans remember that there was a subscriber.
        tracing::callsite::rebuild_interest_cache();
    }
}

struct SaysNo;

impl Subscriber for SaysNo {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        false
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, _: &Event<'_>) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}
