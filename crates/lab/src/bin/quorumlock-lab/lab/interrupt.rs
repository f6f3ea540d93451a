use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

/// Remembers SIGINT and SIGTERM, so that a signal between two runs is not lost.
#[derive(Debug)]
pub(super) struct Interrupt(watch::Receiver<bool>);

impl Interrupt {
    pub(super) fn listen() -> Self {
        let (came, comes) = watch::channel(false);
        if let (Ok(mut interrupt), Ok(mut terminate)) =
            (signal(SignalKind::interrupt()), signal(SignalKind::terminate()))
        {
            tokio::spawn(async move {
                tokio::select! {
                    _ = interrupt.recv() => {}
                    _ = terminate.recv() => {}
                }
                came.send_replace(true);
            });
        }
        Self(comes)
    }

    pub(super) fn has_come(&self) -> bool {
        *self.0.borrow()
    }

    /// Waits for the signal. Ready at once if it has already come.
    pub(super) async fn comes(&self) {
        let mut comes = self.0.clone();
        if comes.wait_for(|came| *came).await.is_err() {
            std::future::pending().await
        }
    }
}
