use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use quorumlock_command::say;

/// A progress bar on stderr; draws nothing if stderr is not a terminal. Removed when dropped.
#[derive(Debug)]
pub(crate) struct Bar(ProgressBar);

impl Bar {
    pub(crate) fn new(runs: usize) -> Self {
        let bar = ProgressBar::new(u64::try_from(runs).unwrap_or(u64::MAX));
        if let Ok(style) =
            ProgressStyle::with_template("{spinner} {bar:30} {pos}/{len}  {elapsed}  {wide_msg}")
        {
            bar.set_style(style);
        }
        bar.enable_steady_tick(Duration::from_millis(100));
        Self(bar)
    }

    pub(crate) fn begins(&self, what: &str) {
        self.0.set_message(what.to_owned());
    }

    /// Prints the line even if stderr is not a terminal: a skipped run must be noticed.
    pub(crate) fn skipped(&self, line: &str) {
        self.0.suspend(|| say(line));
        self.0.inc(1);
    }

    pub(crate) fn ended(&self, line: &str) {
        self.0.println(line);
        self.0.inc(1);
    }

    pub(crate) fn clear(&self) {
        self.0.finish_and_clear();
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.clear();
    }
}
