use std::fmt::{Debug, Write};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Deref;
use std::sync::Arc;

/// A value of the library inside a state of the model: shared between states, compared and hashed
/// by a digest of its `Debug` form.
///
/// So the library's decision types need no `Hash` for the model's sake (one of their variants even
/// holds an `f64`), and whatever is added to them later belongs to the state by itself.
#[derive(Clone)]
pub(crate) struct Kept<T> {
    value: Arc<T>,
    digest: u64,
}

impl<T: Debug> Kept<T> {
    /// Takes the digest, once.
    pub(crate) fn new(value: T) -> Self {
        let mut digest = Digest(DefaultHasher::new());
        // Writing to a hasher cannot fail.
        let _ = write!(digest, "{value:?}");
        Self { value: Arc::new(value), digest: digest.0.finish() }
    }
}

impl<T> Deref for Kept<T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T> PartialEq for Kept<T> {
    fn eq(&self, other: &Self) -> bool {
        self.digest == other.digest
    }
}

impl<T> Eq for Kept<T> {}

impl<T> Hash for Kept<T> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.digest.hash(state);
    }
}

impl<T: Debug> Debug for Kept<T> {
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
