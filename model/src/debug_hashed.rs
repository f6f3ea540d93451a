use std::fmt::{Debug, Write};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Deref;
use std::sync::Arc;

/// A value of the library inside a state of the model. States share it; it is compared and hashed
/// by a digest of its `Debug` form.
///
/// The library's decision types therefore need no `Hash` for the model (one of their variants holds
/// an `f64`), and a field that is added to them later becomes part of the state without a change
/// here.
#[derive(Clone)]
pub(crate) struct DebugHashed<T> {
    value: Arc<T>,
    digest: u64,
}

impl<T: Debug> DebugHashed<T> {
    /// Computes the digest once.
    pub(crate) fn new(value: T) -> Self {
        let mut digest = Digest(DefaultHasher::new());
        // Writing to a hasher cannot fail.
        let _ = write!(digest, "{value:?}");
        Self { value: Arc::new(value), digest: digest.0.finish() }
    }
}

impl<T> Deref for DebugHashed<T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T> PartialEq for DebugHashed<T> {
    fn eq(&self, other: &Self) -> bool {
        self.digest == other.digest
    }
}

impl<T> Eq for DebugHashed<T> {}

impl<T> Hash for DebugHashed<T> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.digest.hash(state);
    }
}

impl<T: Debug> Debug for DebugHashed<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.value.fmt(f)
    }
}

struct Digest(DefaultHasher);

impl Write for Digest {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        self.0.write(text.as_bytes());
        Ok(())
    }
}
