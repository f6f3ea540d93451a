use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Lines};
use std::path::Path;

use super::{Event, SCHEMA};

/// Iterates over the events of a file, with one line in memory at a time.
#[derive(Debug)]
pub struct Reader {
    lines: Lines<BufReader<File>>,
    line: usize,
}

/// Why a history cannot be read further.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BadHistory {
    /// The file cannot be read.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// A line is not an event.
    #[error("line {line} of the history is no event: {why}")]
    NoEvent {
        /// The line number, from one.
        line: usize,
        /// The parse error.
        why: serde_json::Error,
    },
    /// A line has another version of the format.
    #[error("line {line} of the history is of schema {v}, not {SCHEMA}")]
    OtherSchema {
        /// The line number, from one.
        line: usize,
        /// The version of that line.
        v: u32,
    },
}

impl Reader {
    /// Opens the file.
    ///
    /// # Errors
    /// The [`io::Error`] of the system.
    pub fn open(path: impl AsRef<Path>) -> io::Result<Self> {
        Ok(Self { lines: BufReader::new(File::open(path)?).lines(), line: 0 })
    }

    fn parse(&self, text: &str) -> Result<Event, BadHistory> {
        let line = self.line;
        let event: Event =
            serde_json::from_str(text).map_err(|why| BadHistory::NoEvent { line, why })?;
        if event.v == SCHEMA {
            Ok(event)
        } else {
            Err(BadHistory::OtherSchema { line, v: event.v })
        }
    }
}

impl Iterator for Reader {
    type Item = Result<Event, BadHistory>;

    fn next(&mut self) -> Option<Self::Item> {
        let text = self.lines.next()?;
        self.line += 1;
        Some(text.map_err(BadHistory::from).and_then(|text| self.parse(&text)))
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Op, Phase, Writer};
    use super::*;

    fn event(seq: u64) -> Event {
        Event {
            v: SCHEMA,
            run: "L01-S-process-s7-0".to_owned(),
            seed: 7,
            seq,
            mono_ns: 1_000 + seq,
            wall_ns: u64::MAX,
            client: "a".to_owned(),
            op: Op::Lock,
            phase: Phase::Ok,
            hold: Some(3),
            task: None,
            name: Some("x".to_owned()),
            permits: None,
            reads: false,
            nonce: None,
            token: Some(9),
            valid_until_ns: Some(2_000),
            asked_ns: None,
            node: None,
            value: None,
            refusal: None,
            what: None,
        }
    }

    #[test]
    fn what_was_written_is_read_and_absent_fields_take_no_place() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("history.jsonl");
        let mut writer = Writer::create(&path).unwrap();
        let fault = Event { op: Op::Fault, phase: Phase::Info, node: Some(2), ..event(1) };
        for event in [&event(0), &fault] {
            writer.write(event).unwrap();
        }
        writer.flush().unwrap();
        let read = Reader::open(&path).unwrap().collect::<Result<Vec<_>, _>>().unwrap();
        assert_eq!(read, [event(0), fault]);
        let text = std::fs::read_to_string(&path).unwrap();
        let first = text.lines().next().unwrap();
        assert_eq!(
            first,
            r#"{"v":1,"run":"L01-S-process-s7-0","seed":7,"seq":0,"mono_ns":1000,"wall_ns":18446744073709551615,"client":"a","op":"lock","phase":"ok","hold":3,"name":"x","token":9,"valid_until_ns":2000}"#
        );
    }

    #[test]
    fn a_bad_line_and_another_schema_are_told_by_their_line() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("history.jsonl");
        let good = serde_json::to_string(&event(0)).unwrap();
        let other = good.replacen("\"v\":1", "\"v\":2", 1);
        std::fs::write(&path, format!("{good}\n{{\n{other}\n")).unwrap();
        let read = Reader::open(&path).unwrap().collect::<Vec<_>>();
        assert!(read[0].is_ok());
        assert!(matches!(read[1], Err(BadHistory::NoEvent { line: 2, .. })), "{read:?}");
        assert!(matches!(read[2], Err(BadHistory::OtherSchema { line: 3, v: 2 })), "{read:?}");
    }
}
