//! Requests that a member of a Redis Cluster did not carry out, because their slot is elsewhere
//! (PROTOCOL.md SLOT1, SLOT2).

use std::time::Duration;

use quorumlock_protocol::{Answer, Denial, Instant, NoAnswer, NodeProblem};

use super::in_flight::InFlight;
use super::requests::Requests;
use crate::command::Command;
use crate::redirect::{Redirect, Redirected};
use crate::resp::Value;

/// How long a caller that wants a name sleeps while the slot of the name is on its way: no member can
/// grant a free name then.
const SLOT_MOVES: Duration = Duration::from_millis(20);

impl Requests {
    /// Returns what is no redirect. Otherwise the request goes to where it belongs.
    pub(super) fn follow_redirect(
        &self,
        pending: InFlight,
        reply: Value,
        now: Instant,
    ) -> Option<(InFlight, Value)> {
        let Value::Error(text) = &reply else { return Some((pending, reply)) };
        if self.routing.is_none() {
            return Some((pending, reply));
        }
        let Some(redirect) = Redirect::parse(text) else { return Some((pending, reply)) };
        let routing = self.router();
        match (&redirect, &routing) {
            (Redirect::Moved { slot, to }, Some((router, from))) => router.moved(*slot, to, from),
            (Redirect::Down, Some((router, from))) => router.look_elsewhere(from),
            _ => {}
        }
        let InFlight { request, redirects, .. } = pending;
        match (request, redirect, routing) {
            // A fresh round, with a fresh nonce: the release of this one may be on its way (H17).
            (
                request @ (Command::Acquire { .. } | Command::Raise { .. }),
                Redirect::Moved { .. },
                _,
            )
            | (request @ Command::Raise { .. }, Redirect::Ask(_) | Redirect::TryAgain, _) => {
                self.context.stale(request, now);
            }
            (Command::Acquire { to, .. }, Redirect::Ask(_) | Redirect::TryAgain, _) => {
                to.send(Answer::No(Denial::Busy(Some(SLOT_MOVES))));
            }
            (request, redirect, Some((router, from)))
                if !matches!(request, Command::Acquire { .. } | Command::Raise { .. })
                    && redirects < request.max_redirects() =>
            {
                // A member that says that the cluster is down may be cut off from the others.
                let known = !matches!(redirect, Redirect::TryAgain | Redirect::Down);
                let ask = if let Redirect::Ask(to) = redirect { Some(to) } else { None };
                router.send_again(Redirected { request, ask, before: redirects, known }, &from);
            }
            (request, ..) => {
                let report = self.context.report(NodeProblem::SlotNotServed(text.clone()));
                self.context.no_answer(request, &NoAnswer::NotSent(report), now);
            }
        }
        None
    }
}
