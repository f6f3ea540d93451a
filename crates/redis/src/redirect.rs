//! What a member of a Redis Cluster answers in place of carrying a request out (PROTOCOL.md, Redis
//! Cluster).

use std::fmt::Debug;
use std::sync::Weak;
use std::time::Duration;

use quorumlock_protocol::{Lane, Name};

use super::command::Command;
use super::resp::Value;
use super::unconfirmed_releases::UnconfirmedRelease;

/// Where a member is. Without a host: at the host of the member that said so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Endpoint {
    pub(super) host: Option<String>,
    pub(super) port: u16,
}

/// Why a request was not carried out, and where it belongs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Redirect {
    /// Another member serves the slot.
    Moved { slot: usize, to: Endpoint },
    /// The slot is on its way to another member, which has the key of the request already.
    Ask(Endpoint),
    /// The slot is on its way, and each of two members may have some of the keys.
    TryAgain,
    /// No member serves the slot.
    Down,
}

impl Redirect {
    /// The redirect that an error reply states, if it states one.
    pub(super) fn parse(error: &str) -> Option<Self> {
        let mut words = error.split(' ');
        let code = words.next()?;
        let mut target = || {
            let slot = words.next()?.parse().ok().filter(|slot| *slot < Name::SLOTS)?;
            Some((slot, Endpoint::parse(words.next()?)?))
        };
        match code {
            "MOVED" => target().map(|(slot, to)| Self::Moved { slot, to }),
            "ASK" => target().map(|(_, to)| Self::Ask(to)),
            "TRYAGAIN" => Some(Self::TryAgain),
            "CLUSTERDOWN" => Some(Self::Down),
            _ => None,
        }
    }
}

impl Endpoint {
    pub(super) fn new(host: &str, port: u16) -> Self {
        let host = Some(host.to_owned()).filter(|host| !matches!(host.as_str(), "" | "?"));
        Self { host, port }
    }

    fn parse(text: &str) -> Option<Self> {
        let (host, port) = text.rsplit_once(':')?;
        Some(Self::new(host, port.parse().ok()?))
    }
}

/// The slots from `first` to `last`, and the member that serves them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SlotRange {
    pub(super) first: usize,
    pub(super) last: usize,
    pub(super) master: Endpoint,
}

/// Decodes the reply to `CLUSTER SLOTS`.
pub(super) fn read_slots(reply: &Value) -> Option<Vec<SlotRange>> {
    let Value::Array(ranges) = reply else { return None };
    ranges.iter().map(read_range).collect()
}

fn read_range(range: &Value) -> Option<SlotRange> {
    let number = |value: &Value| match value {
        Value::Int(n) => usize::try_from(*n).ok(),
        _ => None,
    };
    let Value::Array(parts) = range else { return None };
    let [first, last, Value::Array(master), ..] = parts.as_slice() else { return None };
    let [host, port, ..] = master.as_slice() else { return None };
    let (first, last) = (number(first)?, number(last)?);
    let master = Endpoint::new(&host.text(), u16::try_from(number(port)?).ok()?);
    (first <= last && last < Name::SLOTS).then_some(SlotRange { first, last, master })
}

/// Routes the requests of one Redis Cluster.
pub(super) trait Router: Debug + Send + Sync {
    /// A member says which members serve which slots.
    fn learn(&self, slots: &[SlotRange], from: &Source);
    /// A member says which member serves a slot.
    fn moved(&self, slot: usize, to: &Endpoint, from: &Source);
    /// A member does not answer, or serves nothing: others may know which members serve its slots.
    fn look_elsewhere(&self, than: &Source);
    /// Sends a request that was not carried out to where it belongs.
    fn send_again(&self, request: Redirected, from: &Source);
    /// Repeats releases that may not have arrived at a member whose connection has ended for good.
    fn repeat(&self, releases: Vec<UnconfirmedRelease>, lane: Lane);
}

/// The connection of a member on which something was learned. What follows from it stays on its lane,
/// whose tasks run where those of the lane belong.
#[derive(Clone, Debug)]
pub(super) struct Source {
    pub(super) member: Endpoint,
    pub(super) lane: Lane,
}

/// A request that was not carried out.
#[derive(Debug)]
pub(super) struct Redirected {
    pub(super) request: Command,
    /// Where it goes with `ASKING`, if not to the member that serves its name.
    pub(super) ask: Option<Endpoint>,
    /// How often it was redirected before.
    pub(super) before: u32,
    /// Whether the place where it belongs is known. Otherwise it waits until the slot has arrived there.
    pub(super) known: bool,
}

/// How long a request waits that was redirected so often before.
pub(super) fn pause_before(redirects: u32) -> Duration {
    const SHORTEST: Duration = Duration::from_millis(5);
    (SHORTEST * 2_u32.pow(redirects.min(5))).min(LONGEST_PAUSE)
}

/// The longest pause before a request is sent again.
const LONGEST_PAUSE: Duration = Duration::from_millis(100);

impl Command {
    /// How often it is redirected. A release is, until the lease that it ends has ended by itself
    /// (SAFETY.md G7); any other request for a quarter of a second.
    pub(super) fn max_redirects(&self) -> u32 {
        match self {
            Self::Release { lease, .. } => {
                u32::try_from(lease.ttl.as_millis() / LONGEST_PAUSE.as_millis()).unwrap_or(u32::MAX)
            }
            _ => 6,
        }
    }
}

/// The place of one member among those of its Redis Cluster.
#[derive(Clone, Debug)]
pub(super) struct Routing {
    pub(super) router: Weak<dyn Router>,
    pub(super) member: Endpoint,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(host: &str, port: u16) -> Endpoint {
        Endpoint::new(host, port)
    }

    #[test]
    fn redirects_are_told_from_other_errors() {
        let moved = |slot, to| Some(Redirect::Moved { slot, to });
        for (text, expected) in [
            ("MOVED 3999 127.0.0.1:6381", moved(3999, at("127.0.0.1", 6381))),
            ("MOVED 3999 ::1:6381", moved(3999, at("::1", 6381))),
            ("MOVED 3999 :6381", moved(3999, at("", 6381))),
            ("ASK 3999 db.example:6381", Some(Redirect::Ask(at("db.example", 6381)))),
            ("TRYAGAIN Multiple keys request during rehashing of slot", Some(Redirect::TryAgain)),
            ("CLUSTERDOWN Hash slot not served", Some(Redirect::Down)),
            ("MOVED 16384 a:1", None),
            ("MOVED 1", None),
            ("ASK 1 a", None),
            ("ERR MOVED 1 a:1", None),
            ("", None),
        ] {
            assert_eq!(Redirect::parse(text), expected, "{text}");
        }
    }

    #[test]
    fn slots_have_their_masters() {
        let text = |text: &str| Value::Text(text.into());
        let node = |host, port| {
            Value::Array(vec![host, Value::Int(port), text("id"), Value::Array(vec![])])
        };
        let range = |first, last, nodes: &[Value]| {
            Value::Array([&[Value::Int(first), Value::Int(last)], nodes].concat())
        };
        let reply = Value::Array(vec![
            range(0, 5, &[node(text("a"), 1), node(text("b"), 2)]),
            range(6, 16_383, &[node(Value::Nil, 3)]),
        ]);
        let expected = [
            SlotRange { first: 0, last: 5, master: at("a", 1) },
            SlotRange { first: 6, last: 16_383, master: at("", 3) },
        ];
        assert_eq!(read_slots(&reply).as_deref(), Some(&expected[..]));
        for bad in
            [range(0, 16_384, &[node(text("a"), 1)]), range(1, 0, &[node(text("a"), 1)]), text("x")]
        {
            assert_eq!(read_slots(&Value::Array(vec![bad])), None);
        }
    }
}
