use crate::resp::{self, Value};

/// Bytes that arrived and are not yet decoded.
pub(super) struct ReadBuffer {
    buffer: Vec<u8>,
    start: usize,
    end: usize,
}

impl Default for ReadBuffer {
    fn default() -> Self {
        Self { buffer: vec![0; 16 << 10], start: 0, end: 0 }
    }
}

impl ReadBuffer {
    /// Where the next bytes go; never empty.
    pub(super) fn room(&mut self) -> &mut [u8] {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        } else if self.end == self.buffer.len() {
            self.buffer.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
            if self.end > self.buffer.len() / 2 {
                self.buffer.resize(self.buffer.len() * 2, 0);
            }
        }
        &mut self.buffer[self.end..]
    }

    /// `n` bytes were put into the room.
    pub(super) fn filled(&mut self, n: usize) {
        self.end += n;
    }

    /// The next whole reply.
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
