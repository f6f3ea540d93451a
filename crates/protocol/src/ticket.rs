use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use crate::{ConfigError, FencingToken, Layout, Name, Nonce};

/// A held lock on its way to another process: what [`Guard::into_ticket`] leaves, and
/// [`Locker::resume`] takes up.
///
/// Nobody renews the lock meanwhile, so it is lost when its lease ends. As text it has letters, digits and
/// dots: it fits into a variable of the environment, a header or a message. A process that has the text, and
/// may use the servers, can take the hold up.
///
/// [`Guard::into_ticket`]: https://docs.rs/quorumlock/latest/quorumlock/struct.Guard.html#method.into_ticket
/// [`Locker::resume`]: https://docs.rs/quorumlock/latest/quorumlock/struct.Locker.html#method.resume
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ticket {
    /// The names that the lock holds.
    names: Vec<Name>,
    /// The nonce under which the nodes hold them.
    nonce: Nonce,
    /// The token of the process that resumes, and the last one of its block.
    tokens: (FencingToken, FencingToken),
    lease: Duration,
    limit: HoldLimit,
    /// The layout in which the nodes hold them, if the process that left the hold knew one.
    layout: Option<Layout>,
}

/// When `hold_at_most` ends the hold (PROTOCOL.md TIC3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HoldLimit {
    None,
    /// So much is left when the hold is resumed.
    Left(Duration),
    /// In the form 1: at this wall-clock time since 1970.
    At(Duration),
}

impl Ticket {
    #[doc(hidden)]
    pub fn new(
        names: Vec<Name>,
        nonce: Nonce,
        tokens: (FencingToken, FencingToken),
        lease: Duration,
        hold_left: Option<Duration>,
        layout: Option<Layout>,
    ) -> Self {
        let limit = hold_left.map_or(HoldLimit::None, HoldLimit::Left);
        Self { names, nonce, tokens, lease, limit, layout }
    }

    #[doc(hidden)]
    pub fn names(&self) -> &[Name] {
        &self.names
    }

    #[doc(hidden)]
    pub fn nonce(&self) -> Nonce {
        self.nonce
    }

    #[doc(hidden)]
    pub fn tokens(&self) -> (FencingToken, FencingToken) {
        self.tokens
    }

    #[doc(hidden)]
    pub fn lease(&self) -> Duration {
        self.lease
    }

    #[doc(hidden)]
    pub fn layout(&self) -> Option<Layout> {
        self.layout
    }

    /// How much of `hold_at_most` is left; `None` without a limit. `wall` is wall-clock time since 1970: a
    /// ticket of the form 1 counts by it.
    #[doc(hidden)]
    pub fn hold_left(&self, wall: impl FnOnce() -> Duration) -> Option<Duration> {
        match self.limit {
            HoldLimit::None => None,
            HoldLimit::Left(left) => Some(left),
            HoldLimit::At(until) => Some(until.saturating_sub(wall())),
        }
    }
}

/// `2.NONCE.TOKEN.LAST.LEASE_MS.LEFT_MS.LAYOUT.NAME[.NAME...]`, the names in hexadecimal digits. `LEFT_MS` is
/// `none` without a limit, and `LAYOUT` is `redlock`, `redisson`, or `any` if none is known. The form 1 has
/// the wall-clock time `UNTIL_MS` in place of both, 0 without a limit.
impl fmt::Display for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { nonce, tokens: (token, last), lease, limit, layout, .. } = self;
        let form = if matches!(limit, HoldLimit::At(_)) { 1 } else { 2 };
        write!(f, "{form}.{nonce}.{token}.{last}.{}.", lease.as_millis())?;
        match limit {
            HoldLimit::At(until) => write!(f, "{}", until.as_millis())?,
            // Rounded down: the limit is a bound.
            HoldLimit::Left(left) => write!(f, "{}.{}", left.as_millis(), word(*layout))?,
            HoldLimit::None => write!(f, "none.{}", word(*layout))?,
        }
        self.names.iter().try_for_each(|name| {
            f.write_str(".")?;
            name.as_str().bytes().try_for_each(|byte| write!(f, "{byte:02x}"))
        })
    }
}

impl FromStr for Ticket {
    type Err = ConfigError;

    fn from_str(text: &str) -> Result<Self, ConfigError> {
        let bad = |why: &str| ConfigError::BadTicket { why: why.to_owned() };
        let fields: Vec<_> = text.trim().split('.').collect();
        let few = || bad("it has too few fields");
        let [form, nonce, token, last, lease, limit, rest @ ..] = &fields[..] else {
            return Err(few());
        };
        let number = |text: &str, what: &str| {
            text.parse::<u64>().map_err(|_| bad(&format!("{what} is no number")))
        };
        let (token, last) = (number(token, "the token")?, number(last, "the last token")?);
        if !(token <= last && last <= FencingToken::MAX.get()) {
            return Err(bad("the tokens are not in order"));
        }
        let limit_ms = || number(limit, "the limit of the hold").map(Duration::from_millis);
        let (limit, layout, names) = match (*form, *limit) {
            ("1", "0") => (HoldLimit::None, None, rest),
            ("1", _) => (HoldLimit::At(limit_ms()?), None, rest),
            ("2", _) => {
                let (layout, names) = rest.split_first().ok_or_else(few)?;
                let layout = layout_of(layout).ok_or_else(|| bad("the layout is none"))?;
                let limit = match *limit {
                    "none" => HoldLimit::None,
                    _ => HoldLimit::Left(limit_ms()?),
                };
                (limit, layout, names)
            }
            _ => return Err(bad("another version wrote it")),
        };
        let name = |digits: &&str| Name::new(&text_of(digits).ok_or_else(|| bad("a name"))?);
        let names = names.iter().map(name).collect::<Result<Vec<_>, _>>()?;
        if names.is_empty() {
            return Err(bad("it has no name"));
        }
        Ok(Self {
            names,
            nonce: Nonce::parse(nonce).ok_or_else(|| bad("the nonce is none"))?,
            tokens: (FencingToken::new(token), FencingToken::new(last)),
            lease: Duration::from_millis(number(lease, "the lease")?),
            limit,
            layout,
        })
    }
}

fn word(layout: Option<Layout>) -> &'static str {
    match layout {
        Some(Layout::Redlock) => "redlock",
        Some(Layout::Redisson) => "redisson",
        None => "any",
    }
}

fn layout_of(text: &str) -> Option<Option<Layout>> {
    [Some(Layout::Redlock), Some(Layout::Redisson), None]
        .into_iter()
        .find(|layout| word(*layout) == text)
}

/// The text that hexadecimal digits stand for.
fn text_of(digits: &str) -> Option<String> {
    let byte = |two: &[u8]| match two {
        [a, b] if a.is_ascii_hexdigit() && b.is_ascii_hexdigit() => {
            u8::from_str_radix(std::str::from_utf8(two).ok()?, 16).ok()
        }
        _ => None,
    };
    let bytes = digits.as_bytes().chunks(2).map(byte).collect::<Option<Vec<_>>>()?;
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEASE: Duration = Duration::from_secs(30);

    fn ticket(names: &[&str], left: Option<Duration>, layout: Option<Layout>) -> Ticket {
        let names = names.iter().map(|name| Name::new(name).unwrap()).collect();
        let tokens = (FencingToken::new(34), FencingToken::new(63));
        Ticket::new(names, Nonce::from_u128(7), tokens, LEASE, left, layout)
    }

    /// The wall clock of a host that is right, and of one that is an hour ahead.
    const WALL: Duration = Duration::from_secs(1_800_000_000);
    const AHEAD: Duration = Duration::from_secs(1_800_003_600);

    #[test]
    fn a_ticket_survives_as_text() {
        let left = Some(Duration::from_millis(123));
        for given in [
            ticket(&["a"], None, None),
            ticket(&["a"], Some(Duration::ZERO), Some(Layout::Redlock)),
            ticket(&["a.b", "ä\n{c}", "\0"], left, Some(Layout::Redisson)),
        ] {
            let text = given.to_string();
            assert!(text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'.'), "{text}");
            assert_eq!(text.parse(), Ok(given));
        }
        let text = ticket(&["a"], left, Some(Layout::Redlock)).to_string();
        let nonce = Nonce::from_u128(7);
        assert_eq!(text, format!("2.{nonce}.34.63.30000.123.redlock.61"));
    }

    #[test]
    fn what_is_left_of_a_limit_is_the_same_on_each_host() {
        let left = Some(Duration::from_secs(9));
        for wall in [WALL, AHEAD] {
            assert_eq!(ticket(&["a"], left, None).hold_left(|| wall), left);
            assert_eq!(ticket(&["a"], None, None).hold_left(|| wall), None);
        }
    }

    /// STABILITY.md: its limit is a time of the clock on the wall, and its layout is not known.
    #[test]
    fn tickets_of_the_form_1_are_read() {
        let text = |until: u128| format!("1.{}.34.63.30000.{until}.61", Nonce::from_u128(7));
        assert_eq!(text(0).parse(), Ok(ticket(&["a"], None, None)));
        let until = (WALL + Duration::from_secs(9)).as_millis();
        let limited: Ticket = text(until).parse().expect("a ticket");
        assert_eq!(limited.hold_left(|| WALL), Some(Duration::from_secs(9)));
        assert_eq!(limited.hold_left(|| AHEAD), Some(Duration::ZERO));
        assert_eq!((limited.layout(), limited.to_string()), (None, text(until)));
    }

    #[test]
    fn bad_tickets_are_refused_and_say_why() {
        let good = ticket(&["a"], None, Some(Layout::Redlock)).to_string();
        let changed = |from: &str, to: &str| good.replacen(from, to, 1);
        for (text, why) in [
            (String::new(), "too few fields"),
            (changed("2.", "3."), "another version"),
            (changed(".none.", ".soon."), "the limit"),
            (changed(".redlock.", ".redis."), "the layout"),
            (changed(".redlock.61", ""), "too few fields"),
            (changed(".34.", ".64."), "not in order"),
            (changed(".63.", ".9007199253692416."), "not in order"),
            (changed(".30000.", ".x."), "the lease"),
            (changed(".61", ""), "no name"),
            (changed(".61", ".6"), "a name"),
            (changed(".61", ".zz"), "a name"),
            (changed(".61", ".éé"), "a name"),
            (changed("00000000000000000000000000000007", "7"), "nonce"),
        ] {
            let error = text.parse::<Ticket>().expect_err(&text).to_string();
            assert!(error.contains(why), "{text}: {error}");
        }
    }
}
