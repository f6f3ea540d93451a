use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};

use super::MAX_WAIT;

/// Sends one inline command on a new connection. Returns the answer without its RESP frame.
pub(super) fn send_command(address: SocketAddr, command: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(MAX_WAIT)).unwrap();
    stream.write_all(format!("{command}\r\n").as_bytes()).unwrap();
    let mut buffer = [0; 256];
    let length = stream.read(&mut buffer).unwrap();
    let text = String::from_utf8_lossy(&buffer[..length]).into_owned();
    let mut lines = text.lines();
    match lines.next() {
        Some(head) if head.starts_with('$') => lines.next().unwrap_or_default().to_owned(),
        head => head.unwrap_or_default().to_owned(),
    }
}
