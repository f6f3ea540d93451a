//! Encodes commands and decodes replies in RESP2, as far as our scripts and commands need it. The
//! decoder accepts an incomplete buffer.
//!
//! The incremental decoder of the redis crate is not public. Its parser of whole buffers is, and
//! the tests compare this decoder with it.

use std::borrow::Cow;

/// A reply.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    Int(i64),
    Okay,
    /// The server runs the command at EXEC.
    Queued,
    Text(Vec<u8>),
    Nil,
    Error(String),
    Array(Vec<Self>),
}

impl Value {
    /// The text of [`Self::Text`]; empty for any other reply.
    pub(super) fn text(&self) -> Cow<'_, str> {
        match self {
            Self::Text(bytes) => String::from_utf8_lossy(bytes),
            _ => Cow::Borrowed(""),
        }
    }

    /// The number, if it is one.
    pub(super) fn int(&self) -> Option<i64> {
        match self {
            Self::Int(number) => Some(*number),
            _ => None,
        }
    }
}

/// The stream is not RESP2: nothing that follows can be trusted.
#[derive(Debug, PartialEq)]
pub(super) struct Malformed(pub(super) &'static str);

/// The first whole reply in `bytes` and its length; `None` if more bytes are needed.
pub(super) fn decode(bytes: &[u8]) -> Result<Option<(Value, usize)>, Malformed> {
    let mut cursor = Cursor { bytes, at: 0 };
    Ok(cursor.value(0)?.map(|value| (value, cursor.at)))
}

/// Begins a command of `parts` parts, its name included; each follows as a [`bulk`].
pub(super) fn command(out: &mut Vec<u8>, parts: usize) {
    header(out, b'*', parts);
}

/// Appends one argument.
pub(super) fn bulk(out: &mut Vec<u8>, bytes: &[u8]) {
    header(out, b'$', bytes.len());
    out.extend_from_slice(bytes);
    out.extend_from_slice(b"\r\n");
}

/// Appends one argument, the concatenation of `parts`, without an allocation.
pub(super) fn bulk_of(out: &mut Vec<u8>, parts: [&str; 3]) {
    header(out, b'$', parts.iter().map(|part| part.len()).sum());
    for part in parts {
        out.extend_from_slice(part.as_bytes());
    }
    out.extend_from_slice(b"\r\n");
}

/// Appends a number as an argument.
pub(super) fn number(out: &mut Vec<u8>, value: u64) {
    let mut digits = [0; 20];
    bulk(out, decimal(&mut digits, value));
}

fn header(out: &mut Vec<u8>, kind: u8, len: usize) {
    let mut digits = [0; 20];
    out.push(kind);
    out.extend_from_slice(decimal(&mut digits, len as u64));
    out.extend_from_slice(b"\r\n");
}

/// The decimal digits of a number, written into `digits`.
pub(super) fn decimal(digits: &mut [u8; 20], mut value: u64) -> &[u8] {
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (value % 10) as u8;
        value /= 10;
        if value == 0 {
            return &digits[at..];
        }
    }
}

struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

/// Replies to our requests are neither nested more deeply nor longer.
const MAX_DEPTH: usize = 4;
const MAX_LENGTH: usize = 16 << 20;

impl Cursor<'_> {
    fn value(&mut self, depth: usize) -> Result<Option<Value>, Malformed> {
        if depth > MAX_DEPTH {
            return Err(Malformed("nested too deep"));
        }
        let Some(line) = self.line()? else { return Ok(None) };
        let (Some(&kind), rest) = (line.first(), line.get(1..).unwrap_or_default()) else {
            return Err(Malformed("empty line"));
        };
        Ok(Some(match kind {
            b'+' => match rest {
                b"OK" => Value::Okay,
                b"QUEUED" => Value::Queued,
                other => Value::Text(other.to_vec()),
            },
            b'-' => Value::Error(String::from_utf8_lossy(rest).into_owned()),
            b':' => Value::Int(integer(rest)?),
            b'$' => match length(rest)? {
                None => Value::Nil,
                Some(len) => {
                    let Some(body) = self.bytes.get(self.at..self.at + len + 2) else {
                        return Ok(None);
                    };
                    if !body.ends_with(b"\r\n") {
                        return Err(Malformed("text without its end"));
                    }
                    self.at += len + 2;
                    Value::Text(body[..len].to_vec())
                }
            },
            b'*' => match length(rest)? {
                None => Value::Nil,
                Some(len) => {
                    let mut items = Vec::with_capacity(len.min(128));
                    for _ in 0..len {
                        let Some(item) = self.value(depth + 1)? else { return Ok(None) };
                        items.push(item);
                    }
                    Value::Array(items)
                }
            },
            _ => return Err(Malformed("unknown kind of reply")),
        }))
    }

    fn line(&mut self) -> Result<Option<&[u8]>, Malformed> {
        let rest = &self.bytes[self.at..];
        let Some(end) = rest.iter().position(|b| *b == b'\n') else {
            return if rest.len() > MAX_LENGTH { Err(Malformed("endless line")) } else { Ok(None) };
        };
        self.at += end + 1;
        rest[..end].strip_suffix(b"\r").ok_or(Malformed("line without its end")).map(Some)
    }
}

fn integer(digits: &[u8]) -> Result<i64, Malformed> {
    std::str::from_utf8(digits)
        .ok()
        .and_then(|text| text.parse().ok())
        .ok_or(Malformed("not a number"))
}

fn length(digits: &[u8]) -> Result<Option<usize>, Malformed> {
    match integer(digits)? {
        -1 => Ok(None),
        len => match usize::try_from(len) {
            Ok(len) if len <= MAX_LENGTH => Ok(Some(len)),
            _ => Err(Malformed("length out of bounds")),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The reply that the redis crate decodes from the same bytes.
    fn oracle(bytes: &[u8]) -> Value {
        fn convert(value: redis::Value) -> Value {
            match value {
                redis::Value::Int(n) => Value::Int(n),
                redis::Value::BulkString(bytes) => Value::Text(bytes),
                redis::Value::SimpleString(text) if text == "QUEUED" => Value::Queued,
                redis::Value::SimpleString(text) => Value::Text(text.into_bytes()),
                redis::Value::Okay => Value::Okay,
                redis::Value::Nil => Value::Nil,
                redis::Value::Array(items) => {
                    Value::Array(items.into_iter().map(convert).collect())
                }
                other => panic!("not in RESP2: {other:?}"),
            }
        }
        convert(redis::parse_redis_value(bytes).expect("well-formed"))
    }

    const SAMPLES: [&[u8]; 9] = [
        b":0\r\n",
        b":-12\r\n",
        b":1763700000000001\r\n",
        b"+OK\r\n",
        b"$0\r\n\r\n",
        b"$5\r\na\r\nbc\r\n",
        b"$-1\r\n",
        b"*3\r\n:1\r\n$-1\r\n*2\r\n+x\r\n:7\r\n",
        b"*0\r\n",
    ];

    #[test]
    fn agrees_with_the_redis_crate_and_waits_for_the_last_byte() {
        for sample in SAMPLES {
            let followed = [sample, b":99\r\n"].concat();
            assert_eq!(decode(&followed), Ok(Some((oracle(sample), sample.len()))));
            for cut in 0..sample.len() {
                assert_eq!(decode(&sample[..cut]), Ok(None), "{sample:?} cut at {cut}");
            }
        }
    }

    #[test]
    fn an_error_reply_is_a_value() {
        let reply = b"-WRONGTYPE Operation against a key\r\n";
        let text = "WRONGTYPE Operation against a key".to_owned();
        assert_eq!(decode(reply), Ok(Some((Value::Error(text), reply.len()))));
    }

    #[test]
    fn garbage_is_malformed_never_a_panic() {
        for garbage in [
            &b"\r\n"[..],
            b"?1\r\n",
            b":x\r\n",
            b"$-7\r\n",
            b"$99999999999\r\n",
            b"$1\r\nabc\r\n",
            b":1\n",
        ] {
            assert!(decode(garbage).is_err(), "{garbage:?}");
        }
        let mut deep = b"*1\r\n".repeat(40);
        deep.extend_from_slice(b":1\r\n");
        assert!(decode(&deep).is_err());
    }

    #[test]
    fn commands_are_as_the_redis_crate_packs_them() {
        let mut out = Vec::new();
        command(&mut out, 3);
        bulk(&mut out, b"SET");
        bulk(&mut out, b"a b");
        number(&mut out, 1_000);
        assert_eq!(out, redis::cmd("SET").arg("a b").arg(1_000).get_packed_command());
        let mut zero = Vec::new();
        number(&mut zero, 0);
        assert_eq!(zero, b"$1\r\n0\r\n");
    }
}
