use std::error::Error;

/// A request that the container engine refused or failed to carry out.
#[derive(Debug, thiserror::Error)]
#[error("{what}: {source}")]
pub struct ContainerError {
    what: String,
    source: Box<dyn Error + Send + Sync>,
}

/// For `map_err`.
pub(super) fn because<E: Into<Box<dyn Error + Send + Sync>>>(
    what: impl Into<String>,
) -> impl FnOnce(E) -> ContainerError {
    |source| ContainerError { what: what.into(), source: source.into() }
}
