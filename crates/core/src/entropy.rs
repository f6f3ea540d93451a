use std::fmt;
use std::sync::Arc;

use quorumlock_protocol::{ConfigError, Nonce};

/// The source of nonces and jitter. It is a value, so that a simulation determines both by its
/// seed.
#[derive(Clone, Default)]
pub struct Entropy(Source);

#[derive(Clone, Default)]
enum Source {
    #[default]
    System,
    Given(Arc<dyn Fn() -> u64 + Send + Sync>),
}

impl Entropy {
    /// Takes nonces from the operating system and jitter from a generator of this process.
    pub fn system() -> Self {
        Self::default()
    }

    /// Takes nonces and jitter from `next`.
    pub fn given(next: impl Fn() -> u64 + Send + Sync + 'static) -> Self {
        Self(Source::Given(Arc::new(next)))
    }

    /// A fresh nonce.
    ///
    /// # Errors
    /// As [`Nonce::fresh`].
    pub fn nonce(&self) -> Result<Nonce, ConfigError> {
        match &self.0 {
            Source::System => Nonce::fresh(),
            Source::Given(next) => {
                Ok(Nonce::from_u128(u128::from(next()) << 64 | u128::from(next())))
            }
        }
    }

    /// A random number from 0 to 1. The system source never returns 1.
    pub fn fraction(&self) -> f64 {
        match &self.0 {
            Source::System => rand::random_range(0.0..1.0),
            Source::Given(next) => f64::from((next() >> 32) as u32) / f64::from(u32::MAX),
        }
    }
}

impl fmt::Debug for Entropy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            Source::System => "System",
            Source::Given(_) => "Given",
        })
    }
}
