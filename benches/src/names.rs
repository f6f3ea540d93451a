//! The names that tasks lock.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// The names that tasks lock. All names are made before the tasks begin.
#[derive(Debug, Clone)]
pub struct Names {
    names: Arc<Vec<String>>,
    which: Which,
}

#[derive(Debug, Clone)]
enum Which {
    One,
    Own,
    Next(Arc<AtomicUsize>),
}

impl Names {
    /// One name for all tasks, which has not been locked before.
    pub(crate) fn one() -> Self {
        Self::of_all(&format!("bench:one:{:08x}", rand::random::<u32>()))
    }

    /// This name for all tasks.
    pub(crate) fn of_all(name: &str) -> Self {
        Self { names: Arc::new(vec![name.to_owned()]), which: Which::One }
    }

    /// One name for each task, which the task locks again and again.
    pub(crate) fn repeated(tasks: usize) -> Self {
        let names = (0..tasks).map(|task| format!("bench:{task}")).collect();
        Self { names: Arc::new(names), which: Which::Own }
    }

    /// Names that are locked once each, and were never used before.
    pub(crate) fn fresh(count: usize) -> Self {
        static BATCHES: AtomicUsize = AtomicUsize::new(0);
        let batch = BATCHES.fetch_add(1, Ordering::Relaxed);
        let process = std::process::id();
        let names = (0..count).map(|name| format!("invoice:{process}:{batch}:{name}")).collect();
        Self { names: Arc::new(names), which: Which::Next(Arc::default()) }
    }

    /// More fresh names than any subject locks in this time.
    pub(crate) fn fresh_for(time: Duration) -> Self {
        const MOST_PER_MS: u128 = 600;
        Self::fresh(usize::try_from(time.as_millis() * MOST_PER_MS).unwrap_or(usize::MAX))
    }

    /// The next name for a task; `None` if the fresh names have run out.
    pub(crate) fn next(&self, task: usize) -> Option<&str> {
        let at = match &self.which {
            Which::One => 0,
            Which::Own => task,
            Which::Next(next) => next.fetch_add(1, Ordering::Relaxed),
        };
        self.names.get(at).map(String::as_str)
    }

    /// All names.
    pub(crate) fn all(&self) -> &[String] {
        &self.names
    }
}
