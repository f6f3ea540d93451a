use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use quorumlock_lab::compare::{Mode, Progress};

/// A progress bar on stderr; draws nothing if stderr is not a terminal. Removed when dropped.
#[derive(Debug)]
pub(super) struct Bar(ProgressBar);

impl Bar {
    pub(super) fn new() -> Self {
        let bar = ProgressBar::new(1);
        if let Ok(style) =
            ProgressStyle::with_template("{spinner} {bar:30} {percent:>3} %  {wide_msg}")
        {
            bar.set_style(style);
        }
        bar.set_message("starting servers");
        bar.enable_steady_tick(Duration::from_millis(100));
        Self(bar)
    }

    pub(super) fn show(&self, progress: Progress) {
        let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let mode = match progress.mode {
            Mode::Single => "single",
            Mode::Quorum => "quorum",
        };
        self.0.set_length(millis(progress.total));
        self.0.set_position(millis(progress.done));
        self.0.set_message(format!("{mode}: {}", progress.what));
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
