use std::io;

use quorumlock_command::say;
use rustix::process::Signal;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

/// The signals that are passed on to the command, and Ctrl-Z.
#[derive(Debug)]
pub(super) struct Signals {
    received: mpsc::UnboundedReceiver<Signal>,
    asked_to_end: Option<Signal>,
    notifications_end: bool,
}

/// The signals by which people and supervisors end a program or notify it.
const PASSED_ON: [Signal; 6] =
    [Signal::HUP, Signal::INT, Signal::QUIT, Signal::TERM, Signal::USR1, Signal::USR2];

/// The others may be notifications, which the command survives.
const ASKS_TO_END: [Signal; 3] = [Signal::INT, Signal::QUIT, Signal::TERM];

impl Signals {
    /// Catches these signals from now on, so that they do not end quorumlock. Signals that the
    /// caller has set to be ignored (`nohup`, or a script's `&`) stay ignored, for the command too.
    /// `notifications_end`: whether the others but Ctrl-Z end quorumlock, too, while no command runs
    /// that they could notify.
    pub(super) fn listen(notifications_end: bool) -> io::Result<Self> {
        let ignored = ignored();
        let (sender, received) = mpsc::unbounded_channel();
        for number in PASSED_ON.into_iter().chain([Signal::TSTP]) {
            if ignored >> (number.as_raw() - 1) & 1 == 1 {
                continue;
            }
            let mut arrivals = signal(SignalKind::from_raw(number.as_raw()))?;
            let sender = sender.clone();
            tokio::spawn(async move {
                while arrivals.recv().await.is_some() {
                    if sender.send(number).is_err() {
                        return;
                    }
                }
            });
        }
        Ok(Self { received, asked_to_end: None, notifications_end })
    }

    /// The next signal to be passed on. Cancel safe.
    pub(super) async fn next(&mut self) -> Signal {
        let Some(signal) = self.received.recv().await else {
            return std::future::pending().await; // all are ignored
        };
        if ASKS_TO_END.contains(&signal) {
            self.asked_to_end = Some(signal);
        }
        signal
    }

    /// The next signal that ends this program while no command runs. Cancel safe.
    pub(super) async fn end(&mut self) -> Signal {
        loop {
            match self.next().await {
                // Nothing runs that it could stop.
                Signal::TSTP => say("not stopped: a lock must be renewed. Ctrl-C gives it up"),
                signal if self.notifications_end || ASKS_TO_END.contains(&signal) => return signal,
                _ => {}
            }
        }
    }

    /// The last signal that asked this program to end, of those that [`next`](Self::next) returned.
    pub(super) fn asked_to_end(&self) -> Option<Signal> {
        self.asked_to_end
    }
}

/// The signals that were ignored when this process started: bit `n - 1` for signal `n`. Only Linux
/// reports them without unsafe code; elsewhere the result is none.
fn ignored() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}
