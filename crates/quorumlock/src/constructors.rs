//! The constructors of [`Locker`], each by a [`Builder`]. A builder makes lockers, so a locker knows
//! no builder.

use crate::{Builder, Error, Locker, Servers};

/// Constructors.
impl Locker {
    /// A locker on the single server at `url`, with default options: see [`Servers::single`]. Does no I/O.
    ///
    /// # Errors
    /// [`Error::Config`] for a bad URL.
    pub fn single(url: impl AsRef<str>) -> Result<Self, Error> {
        Self::new(Servers::single(url))
    }

    /// A locker on a majority of the independent servers at `urls`, with default options: see
    /// [`Servers::quorum`]. Does no I/O.
    ///
    /// # Errors
    /// [`Error::Config`] for a bad URL, an empty list, or one server listed twice.
    pub fn quorum<U: AsRef<str>>(urls: impl IntoIterator<Item = U>) -> Result<Self, Error> {
        Self::new(Servers::quorum(urls))
    }

    /// A locker on these servers, with default options. Does no I/O.
    ///
    /// # Errors
    /// As [`Builder::build`].
    pub fn new(servers: Servers) -> Result<Self, Error> {
        Self::builder(servers).build()
    }

    /// A builder of a locker on these servers, for options other than the defaults.
    ///
    /// ```no_run
    /// # fn doc() -> Result<(), quorumlock::Error> {
    /// use std::time::Duration;
    /// use quorumlock::{Locker, Servers};
    ///
    /// let locker = Locker::builder(Servers::quorum(["redis://a", "redis://b", "redis://c"]))
    ///     .lease(Duration::from_secs(10))
    ///     .prefix("app:")
    ///     .build()?;
    /// # Ok(()) }
    /// ```
    pub fn builder(servers: Servers) -> Builder {
        Builder { servers: Some(servers), ..Builder::default() }
    }

    /// A locker on the servers and with the options that the environment names: see
    /// [`Builder::from_env`].
    ///
    /// # Errors
    /// As [`Builder::from_env`] and [`Builder::build`].
    pub fn from_env() -> Result<Self, Error> {
        Builder::from_env()?.build()
    }
}
