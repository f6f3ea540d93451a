//! Work that stops when its lock is lost, and begins again under the next one.

use quorumlock::{Error, HoldView, Locker, Lost};

/// Does all steps that are not done yet, under as many locks as it takes.
pub async fn import(locker: &Locker, steps: &impl Steps) -> Result<(), Error> {
    loop {
        let guard = locker.lock("import").await?;
        // Dropped at its next await when the lock is lost, before the lease ends.
        match guard.run(all(steps, guard.view())).await {
            Ok(Ok(())) => return guard.unlock().await,
            Ok(Err(lost)) | Err(lost) => eprintln!("stopped: {lost}"),
        }
    }
}

async fn all(steps: &impl Steps, lock: HoldView) -> Result<(), Lost> {
    while let Some(step) = steps.next().await {
        lock.check()?; // for steps that block: they are not dropped
        steps.take(step, lock.token().get()).await; // the token tells a late step from a new one
    }
    Ok(())
}

pub trait Steps {
    /// The first step that is not done, read anew under each lock.
    fn next(&self) -> impl Future<Output = Option<u32>>;
    /// Does a step, and writes that it is done, unless a larger token was seen.
    fn take(&self, step: u32, token: u64) -> impl Future<Output = ()>;
}
