use rustix::process::Signal;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

use quorumlock_command::exit;

/// Remembers SIGINT and SIGTERM, so that a signal between two runs is not lost.
#[derive(Debug)]
pub(crate) struct Interrupt(watch::Receiver<Option<Signal>>);

impl Interrupt {
    pub(crate) fn listen() -> Self {
        let (came, comes) = watch::channel(None);
        if let (Ok(mut interrupt), Ok(mut terminate)) =
            (signal(SignalKind::interrupt()), signal(SignalKind::terminate()))
        {
            tokio::spawn(async move {
                let signal = tokio::select! {
                    _ = interrupt.recv() => Signal::INT,
                    _ = terminate.recv() => Signal::TERM,
                };
                came.send_replace(Some(signal));
            });
        }
        Self(comes)
    }

    pub(crate) fn has_come(&self) -> bool {
        self.0.borrow().is_some()
    }

    /// The exit code after the signal.
    pub(crate) fn code(&self) -> u8 {
        let number = self.0.borrow().map_or(0, Signal::as_raw);
        exit::SIGNAL + u8::try_from(number).unwrap_or_default()
    }

    /// Waits for the signal. Ready at once if it has already come.
    pub(crate) async fn comes(&self) {
        let mut comes = self.0.clone();
        if comes.wait_for(Option::is_some).await.is_err() {
            std::future::pending().await
        }
    }
}
