//! What the nodes have told one waiter since its last attempt began.

use crate::{WaitEvent, quorum_of};

/// Which nodes have sent which messages. One bit per node; nodes from index 63 on share the last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Messages {
    any: u64,
    /// These reported this waiter as head of their queue.
    heads: u64,
    /// At these a message may have been missed.
    missed: u64,
}

/// Why another attempt is worthwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WakeReason {
    /// The home node reports that the name is free, and this waiter is to ask.
    Head,
    /// A message of the home node may have been missed.
    Home,
    /// Other nodes sent messages, or a program without queues released the name: another waiter may
    /// already be on its way to the home node.
    Others,
}

/// What messages mean for a waiter that sleeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WakeUp {
    /// There is none.
    None,
    /// Others may follow within [`Tuning::message_grace`](super::Tuning::message_grace).
    AfterGrace(WakeReason),
    Now(WakeReason),
}

impl Messages {
    /// Records a message of a node.
    pub fn add(&mut self, node: usize, message: &WaitEvent) {
        match message {
            WaitEvent::Head(_) => self.heads |= bit(node),
            // What was handed off and comes too late is given back: ask for it again.
            WaitEvent::Retry | WaitEvent::Granted(_) => self.missed |= bit(node),
            WaitEvent::Released => {}
        }
        self.any |= bit(node);
    }

    /// The messages of the home node are enough, or those of a majority. Others wait for a grace:
    /// with one node unreachable or one message lost, a majority would never come (PROTOCOL.md W2).
    pub(super) fn wake_up(&self, home: Option<usize>, nodes: usize) -> WakeUp {
        let at_home = home.map_or(0, bit);
        let count = self.any.count_ones() as usize;
        let reason = match at_home {
            home if self.heads & home != 0 => WakeReason::Head,
            home if self.missed & home != 0 => WakeReason::Home,
            _ => WakeReason::Others,
        };
        match count {
            0 => WakeUp::None,
            _ if self.any & at_home != 0 => WakeUp::Now(reason),
            _ if count >= quorum_of(nodes) => WakeUp::Now(reason),
            _ => WakeUp::AfterGrace(reason),
        }
    }
}

fn bit(node: usize) -> u64 {
    1 << node.min(63)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(sent: &[(usize, WaitEvent)]) -> Messages {
        let mut messages = Messages::default();
        for (node, message) in sent {
            messages.add(*node, message);
        }
        messages
    }

    /// PROTOCOL.md W2, W7. The home node is the second of three.
    #[test]
    fn a_message_of_the_home_node_or_of_a_majority_wakes_at_once() {
        use WaitEvent::{Released, Retry};
        const HEAD: WaitEvent = WaitEvent::Head(None);
        for (sent, wanted) in [
            (&[][..], WakeUp::None),
            (&[(2, Retry)], WakeUp::AfterGrace(WakeReason::Others)),
            (&[(2, Retry), (2, HEAD)], WakeUp::AfterGrace(WakeReason::Others)),
            (&[(2, Retry), (0, Retry)], WakeUp::Now(WakeReason::Others)),
            (&[(1, Retry)], WakeUp::Now(WakeReason::Home)),
            (&[(1, Retry), (2, HEAD)], WakeUp::Now(WakeReason::Home)),
            (&[(1, Retry), (1, HEAD)], WakeUp::Now(WakeReason::Head)),
            (&[(1, Released)], WakeUp::Now(WakeReason::Others)),
        ] {
            assert_eq!(messages(sent).wake_up(Some(1), 3), wanted, "{sent:?}");
        }
    }

    /// PROTOCOL.md W7: until a server has been reached its address identifies it, so the home node
    /// may change later.
    #[test]
    fn the_head_of_the_queue_is_judged_by_the_present_home_node() {
        let head = messages(&[(2, WaitEvent::Head(None))]);
        assert_eq!(head.wake_up(Some(2), 3), WakeUp::Now(WakeReason::Head));
        assert_eq!(head.wake_up(None, 3), WakeUp::AfterGrace(WakeReason::Others));
    }
}
