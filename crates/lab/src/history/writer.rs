use std::fs::File;
use std::io::{self, BufWriter, Write as _};
use std::path::Path;

use super::Event;

/// Writes events to a file through a buffer of fixed size.
#[derive(Debug)]
pub struct Writer(BufWriter<File>);

impl Writer {
    /// Creates the file.
    ///
    /// # Errors
    /// The [`io::Error`] of the system.
    pub fn create(path: impl AsRef<Path>) -> io::Result<Self> {
        Ok(Self(BufWriter::new(File::create(path)?)))
    }

    /// Appends one event.
    ///
    /// # Errors
    /// The [`io::Error`] of the system.
    pub fn write(&mut self, event: &Event) -> io::Result<()> {
        serde_json::to_writer(&mut self.0, event)?;
        self.0.write_all(b"\n")
    }

    /// Writes the buffer to the file.
    ///
    /// # Errors
    /// The [`io::Error`] of the system.
    pub fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}
