//! The request for one step of a listing (list.lua), and what its reply says.

use quorumlock_protocol::{
    Answer, Claim, Denial, Layout, ListPosition, ListStep, NodeProblem, NodeReport, OnDropped,
    Responder,
};

use crate::command::{Command, NodeContext};
use crate::gather::Gather;
use crate::resp::Value;

/// How many keys a server looks at in one step: about a millisecond of its time (decision 38).
const KEYS_PER_STEP: usize = 250;

/// The request. `servers` says how many servers the node has, once this one has answered.
pub(crate) fn request(
    at: ListPosition,
    context: &NodeContext,
    servers: impl FnOnce() -> usize + Send + 'static,
    to: Responder<Answer<ListStep>>,
) -> Command {
    let label = context.label.clone();
    let kind = match context.layout {
        Layout::Redlock => "string",
        Layout::Redisson => "hash",
    };
    let mut command = redis::cmd("EVAL");
    command.arg(include_str!("lua/list.lua")).arg(0);
    command.arg(at.cursor).arg(KEYS_PER_STEP).arg(kind);
    let make = move |mut answers: Vec<Answer<Value>>| match answers.pop() {
        Some(Answer::Yes(reply)) => match step(at, servers(), reply) {
            Some(step) => Answer::Yes(step),
            None => {
                let malformed = NodeProblem::Malformed("a listing without a cursor".into());
                Answer::No(Denial::Refused(NodeReport::new(label, malformed)))
            }
        },
        Some(Answer::No(denial)) => Answer::No(denial),
        Some(Answer::NoAnswer(why)) => Answer::NoAnswer(why),
        None => Answer::missing(),
    };
    Command::Raw { command, to: Responder::new(Gather::new(1, make, to), 0) }
}

fn step(at: ListPosition, servers: usize, reply: Value) -> Option<ListStep> {
    let Value::Array(items) = reply else { return None };
    let (cursor, keys) = items.split_first()?;
    let next = match cursor.text().parse().ok()? {
        0 if at.server + 1 < servers => Some(ListPosition { server: at.server + 1, cursor: 0 }),
        0 => None,
        cursor => Some(ListPosition { cursor, ..at }),
    };
    // A key that cannot be a name is none of ours.
    let found = keys.iter().filter_map(|key| Claim::of_message(&key.text()).ok()).collect();
    Some(ListStep { found, next })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Value {
        Value::Text(text.as_bytes().to_vec())
    }

    #[test]
    fn a_listing_goes_on_at_the_cursor_and_then_at_the_next_server() {
        let next = |server, servers, cursor: &str| {
            let at = ListPosition { server, cursor: 7 };
            step(at, servers, Value::Array(vec![text(cursor)])).expect("a cursor").next
        };
        let at = |server, cursor| Some(ListPosition { server, cursor });
        assert_eq!(next(0, 1, "18446744073709551615"), at(0, u64::MAX));
        assert_eq!((next(0, 2, "0"), next(1, 2, "0"), next(0, 1, "0")), (at(1, 0), None, None));
        assert!(step(ListPosition::default(), 1, Value::Array(vec![text("x")])).is_none());
    }

    #[test]
    fn each_kind_of_key_is_a_claim() {
        let keys = ["0", "job", "quorumlock:permit:{db}:3", "quorumlock:write:catalog", ""];
        let reply = Value::Array(keys.iter().map(|key| text(key)).collect());
        let step = step(ListPosition::default(), 1, reply).expect("a cursor");
        let [job, permit, catalog] = step.found.as_slice() else { panic!("{:?}", step.found) };
        assert!(job.is_plain() && catalog.is_read_write());
        assert_eq!((permit.slot(), permit.listed_name()), (Some(3), "db"));
    }
}
