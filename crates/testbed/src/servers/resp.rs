//! The part of the Redis protocol that is needed to send a command and read a simple answer.

use std::io::{self, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::time::Duration;

/// The longest answer that is read. `INFO server` is below 1 KiB.
const MAX_REPLY: u64 = 64 * 1024;

/// The address of a server and the password.
#[derive(Debug)]
pub(super) struct Target<'a> {
    pub(super) address: (&'a str, u16),
    pub(super) password: Option<&'a str>,
}

impl Target<'_> {
    /// Sends one command on a new connection and returns the text of the answer. An error answer is
    /// an error.
    pub(super) fn ask(&self, command: &[&str], patience: Duration) -> io::Result<String> {
        let address = self.address.to_socket_addrs()?.next().ok_or(io::ErrorKind::NotFound)?;
        let stream = TcpStream::connect_timeout(&address, patience)?;
        stream.set_read_timeout(Some(patience))?;
        stream.set_write_timeout(Some(patience))?;
        let mut answers = BufReader::new(stream.try_clone()?.take(MAX_REPLY));
        let mut exchange = |command: &[&str]| {
            (&stream).write_all(encode(command).as_bytes())?;
            decode(&mut answers)
        };
        if let Some(password) = self.password {
            exchange(&["AUTH", password])?;
        }
        exchange(command)
    }
}

/// Whether a server without a password answers PING. Used for containers.
#[cfg(feature = "containers")]
pub(crate) fn is_up(address: SocketAddr) -> bool {
    let host = address.ip().to_string();
    let target = Target { address: (&host, address.port()), password: None };
    target.ask(&["PING"], Duration::from_millis(500)).is_ok()
}

/// Sends one command to a server without a password, on a new connection, and returns the text of
/// the answer: the digits of a number, or an empty text for null.
///
/// # Errors
/// The [`io::Error`] of the system, or an error for an error answer or an answer of several parts.
pub fn ask(address: SocketAddr, command: &[impl AsRef<str>]) -> io::Result<String> {
    let host = address.ip().to_string();
    let target = Target { address: (&host, address.port()), password: None };
    let command = command.iter().map(AsRef::as_ref).collect::<Vec<_>>();
    target.ask(&command, TIMEOUT)
}

/// A full resynchronisation may block a small server for a moment.
const TIMEOUT: Duration = Duration::from_secs(2);

fn encode(command: &[&str]) -> String {
    let mut text = format!("*{}\r\n", command.len());
    for word in command {
        text.push_str(&format!("${}\r\n{word}\r\n", word.len()));
    }
    text
}

fn decode(answers: &mut impl io::BufRead) -> io::Result<String> {
    let mut line = String::new();
    answers.read_line(&mut line)?;
    let line = line.trim_end();
    let nonsense = || io::Error::new(io::ErrorKind::InvalidData, format!("answered {line:?}"));
    match line.split_at_checked(1).ok_or_else(nonsense)? {
        ("+" | ":", text) => Ok(text.to_owned()),
        ("$", "-1") => Ok(String::new()),
        ("$", length) => {
            let length = length.parse::<u64>().map_err(|_| nonsense())?;
            let mut text = String::new();
            answers.take(length).read_to_string(&mut text)?;
            Ok(text)
        }
        _ => Err(nonsense()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_counted_in_bytes() {
        assert_eq!(encode(&["AUTH", "é"]), "*2\r\n$4\r\nAUTH\r\n$2\r\né\r\n");
    }

    #[test]
    fn answers_are_read() {
        let read = |text: &str| decode(&mut text.as_bytes());
        assert_eq!(read("+PONG\r\n").unwrap(), "PONG");
        assert_eq!(read("$3\r\na:b\r\n").unwrap(), "a:b");
        assert!(read("-LOADING Redis is loading\r\n").unwrap_err().to_string().contains("LOADING"));
        assert!(read("").is_err());
        assert_eq!(read(":12\r\n").unwrap(), "12");
        assert_eq!(read("$-1\r\n").unwrap(), "", "nothing");
        assert!(read("$-2\r\n").is_err());
    }
}
