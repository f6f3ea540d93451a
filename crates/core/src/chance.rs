use std::fmt;
use std::sync::Arc;

use crate::{ConfigError, Nonce};

/// Where nonces and jitter come from: a value, so that a simulation decides both by its seed.
#[derive(Clone, Default)]
pub struct Chance(Source);

#[derive(Clone, Default)]
enum Source {
    #[default]
    System,
    Given(Arc<dyn Fn() -> u64 + Send + Sync>),
}

impl Chance {
    /// Nonces from the operating system, jitter from a generator of this process.
    pub fn system() -> Self {
        Self::default()
    }

    /// Everything from `next`.
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

    /// From 0 to less than 1.
    pub(crate) fn fraction(&self) -> f64 {
        match &self.0 {
            Source::System => rand::random_range(0.0..1.0),
            Source::Given(next) => f64::from((next() >> 32) as u32) / f64::from(u32::MAX),
        }
    }
}

impl fmt::Debug for Chance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            Source::System => "System",
            Source::Given(_) => "Given",
        })
    }
}
