use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::ReadBuf;

use super::dial::Stream;
use super::resp::{self, Value};

/// Bytes that arrived and are not yet decoded.
pub(super) struct Inbox {
    buffer: Vec<u8>,
    start: usize,
    end: usize,
}

impl Default for Inbox {
    fn default() -> Self {
        Self { buffer: vec![0; 16 << 10], start: 0, end: 0 }
    }
}

impl Inbox {
    pub(super) fn poll_fill(
        &mut self,
        stream: &mut dyn Stream,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        } else if self.end == self.buffer.len() {
            self.buffer.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
            if self.end > self.buffer.len() / 2 {
                self.buffer.resize(self.buffer.len() * 2, 0);
            }
        }
        let mut room = ReadBuf::new(&mut self.buffer[self.end..]);
        ready!(Pin::new(stream).poll_read(cx, &mut room))?;
        match room.filled().len() {
            0 => Poll::Ready(Err(io::Error::other("closed by the server"))),
            n => {
                self.end += n;
                Poll::Ready(Ok(()))
            }
        }
    }

    pub(super) fn next(&mut self) -> Result<Option<Value>, &'static str> {
        match resp::decode(&self.buffer[self.start..self.end]) {
            Ok(None) => Ok(None),
            Ok(Some((value, len))) => {
                self.start += len;
                Ok(Some(value))
            }
            Err(malformed) => Err(malformed.0),
        }
    }
}
