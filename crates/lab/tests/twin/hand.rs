use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};

use super::PATIENCE;

/// One inline command on a connection of its own; its answer without the frame.
pub(super) fn by_hand(address: SocketAddr, command: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
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
