use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use crate::{ConfigError, Fence, Name, Nonce};

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
    tokens: (Fence, Fence),
    lease: Duration,
    /// When `hold_at_most` ends the hold: wall-clock time since 1970.
    hold_until: Option<Duration>,
}

impl Ticket {
    #[doc(hidden)]
    pub fn new(
        names: Vec<Name>,
        nonce: Nonce,
        tokens: (Fence, Fence),
        lease: Duration,
        hold_until: Option<Duration>,
    ) -> Self {
        Self { names, nonce, tokens, lease, hold_until }
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
    pub fn tokens(&self) -> (Fence, Fence) {
        self.tokens
    }

    #[doc(hidden)]
    pub fn lease(&self) -> Duration {
        self.lease
    }

    /// How much of `hold_at_most` is left at `now`, wall-clock time since 1970; `None` without a limit.
    #[doc(hidden)]
    pub fn hold_left(&self, now: Duration) -> Option<Duration> {
        self.hold_until.map(|until| until.saturating_sub(now))
    }
}

/// The first field of the text. Another number is another form.
const FORM: &str = "1";

/// `1.NONCE.TOKEN.LAST.LEASE_MS.UNTIL_MS.NAME[.NAME...]`, the names in hexadecimal digits; `UNTIL_MS` is 0
/// without a limit.
impl fmt::Display for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { nonce, tokens: (token, last), lease, .. } = self;
        let until = self.hold_until.map_or(0, |until| until.as_millis());
        write!(f, "{FORM}.{nonce}.{token}.{last}.{}.{until}", lease.as_millis())?;
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
        let [form, nonce, token, last, lease, until, names @ ..] = &fields[..] else {
            return Err(bad("it has too few fields"));
        };
        if *form != FORM {
            return Err(bad("another version wrote it"));
        }
        let number = |text: &str, what: &str| {
            text.parse::<u64>().map_err(|_| bad(&format!("{what} is no number")))
        };
        let (token, last) = (number(token, "the token")?, number(last, "the last token")?);
        if !(token <= last && last <= Fence::MAX.get()) {
            return Err(bad("the tokens are not in order"));
        }
        let until = match number(until, "the limit of the hold")? {
            0 => None,
            ms => Some(Duration::from_millis(ms)),
        };
        let name = |digits: &&str| Name::new(&text_of(digits).ok_or_else(|| bad("a name"))?);
        let names = names.iter().map(name).collect::<Result<Vec<_>, _>>()?;
        if names.is_empty() {
            return Err(bad("it has no name"));
        }
        Ok(Self {
            names,
            nonce: Nonce::parse(nonce).ok_or_else(|| bad("the nonce is none"))?,
            tokens: (Fence::new(token), Fence::new(last)),
            lease: Duration::from_millis(number(lease, "the lease")?),
            hold_until: until,
        })
    }
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

    fn ticket(names: &[&str], hold_until: Option<Duration>) -> Ticket {
        let names = names.iter().map(|name| Name::new(name).unwrap()).collect();
        let tokens = (Fence::new(34), Fence::new(63));
        Ticket::new(names, Nonce::from_u128(7), tokens, Duration::from_secs(30), hold_until)
    }

    #[test]
    fn a_ticket_survives_as_text() {
        let until = Duration::from_millis(1_800_000_000_123);
        for given in [ticket(&["a"], None), ticket(&["a.b", "ä\n{c}", "\0"], Some(until))] {
            let text = given.to_string();
            assert!(text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'.'), "{text}");
            assert_eq!(text.parse(), Ok(given));
        }
    }

    #[test]
    fn bad_tickets_are_refused_and_say_why() {
        let good = ticket(&["a"], None).to_string();
        let changed = |from: &str, to: &str| good.replacen(from, to, 1);
        for (text, why) in [
            (String::new(), "too few fields"),
            (changed("1.", "2."), "another version"),
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
