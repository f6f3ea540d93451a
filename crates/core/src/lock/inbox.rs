use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use quorumlock_protocol::waiting::Messages;
use quorumlock_protocol::{RemoteGrant, ReplySink, WaitEvent};
use tokio::sync::Notify;

/// What the nodes have told one waiting call.
#[derive(Debug, Default)]
pub(super) struct Inbox {
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct State {
    messages: Messages,
    /// Whether `messages` has changed since it was last read.
    unread: bool,
    /// Handoffs that the call has not taken yet.
    handoffs: Vec<RemoteGrant>,
    /// The slots of permits that nodes said are free.
    free_slots: BTreeSet<u16>,
}

impl Inbox {
    /// Forgets the messages, but keeps handoffs. Call it before an attempt, so that messages that
    /// come during the attempt count.
    pub(super) fn reset(&self) {
        let mut state = self.state();
        state.unread = false;
        state.messages = Messages::default();
    }

    /// All messages since the last reset, once there are new ones.
    pub(super) async fn messages(&self) -> Messages {
        loop {
            {
                let mut state = self.state();
                if std::mem::take(&mut state.unread) {
                    return state.messages;
                }
            }
            self.changed.notified().await;
        }
    }

    /// Takes the handoffs that came since the last call.
    pub(super) fn take_handoffs(&self) -> Vec<RemoteGrant> {
        std::mem::take(&mut self.state().handoffs)
    }

    /// Takes the slots of permits that were said to be free.
    pub(super) fn take_free_slots(&self) -> BTreeSet<u16> {
        std::mem::take(&mut self.state().free_slots)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ReplySink<WaitEvent> for Inbox {
    fn collect(&self, from: usize, message: WaitEvent) {
        let mut state = self.state();
        if let WaitEvent::Granted(handed) = message {
            state.handoffs.push(handed);
        }
        if let WaitEvent::Head(Some(slot)) = message {
            state.free_slots.insert(slot);
        }
        state.messages.add(from, &message);
        state.unread = true;
        drop(state);
        self.changed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    #[test]
    fn messages_are_reported_once_and_forgotten_at_the_next_attempt() {
        let inbox = Inbox::default();
        assert!(inbox.messages().now_or_never().is_none());
        inbox.collect(2, WaitEvent::Head(None));
        let mut expected = Messages::default();
        expected.add(2, &WaitEvent::Head(None));
        assert_eq!(inbox.messages().now_or_never(), Some(expected));
        assert!(inbox.messages().now_or_never().is_none(), "nothing new");
        inbox.collect(0, WaitEvent::Retry);
        inbox.reset();
        assert!(inbox.messages().now_or_never().is_none());
    }
}
