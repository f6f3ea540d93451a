//! Users and passwords that change while a program runs.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::BoxFuture;

/// A user and a password, and for how long a connection may use them.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    user: Option<String>,
    password: String,
    valid_for: Option<Duration>,
}

impl Credentials {
    /// The least time for which credentials can be valid: each end costs a new connection.
    pub const MIN_VALID_FOR: Duration = Duration::from_secs(1);

    /// A user and a password that are valid without end.
    pub fn new(user: impl Into<String>, password: impl Into<String>) -> Self {
        Self { user: Some(user.into()), ..Self::password(password) }
    }

    /// The password of the user that the URL names, or of the default user, valid without end.
    pub fn password(password: impl Into<String>) -> Self {
        Self { user: None, password: password.into(), valid_for: None }
    }

    /// For how long a connection may live that these credentials opened, at least 1 s. The locker
    /// replaces it by a new one, with new credentials, when four fifths of the time are over.
    #[must_use]
    pub fn valid_for(mut self, time: Duration) -> Self {
        self.valid_for = Some(time);
        self
    }

    /// The user, if it is not the default one, and the password.
    #[doc(hidden)]
    pub fn parts(&self) -> (Option<&str>, &str) {
        (self.user.as_deref(), &self.password)
    }

    /// The same, of this user unless they name one.
    #[doc(hidden)]
    #[must_use]
    pub fn or_user(mut self, user: Option<&str>) -> Self {
        self.user = self.user.or_else(|| user.map(str::to_owned));
        self
    }

    /// When to replace a connection that they opened, from when they were asked for.
    #[doc(hidden)]
    pub fn replace_after(&self) -> Option<Duration> {
        self.valid_for.map(|time| time * 4 / 5)
    }

    /// What is wrong with them.
    #[doc(hidden)]
    pub fn fault(&self) -> Option<String> {
        let min = Self::MIN_VALID_FOR;
        let time = self.valid_for.filter(|time| *time < min)?;
        Some(format!("they are valid for {time:?}, which is less than {min:?}"))
    }
}

/// Without the password.
impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials")
            .field("user", &self.user)
            .field("valid_for", &self.valid_for)
            .finish_non_exhaustive()
    }
}

/// What a program does to get the present credentials of a server, given its URL without password.
#[derive(Clone)]
pub struct CredentialsProvider(Arc<Provide>);

type Provide = dyn Fn(&str) -> BoxFuture<Result<Credentials, String>> + Send + Sync;

impl CredentialsProvider {
    /// Asks `provide` at each dial. Its error is a text for people.
    pub fn new(
        provide: impl Fn(&str) -> BoxFuture<Result<Credentials, String>> + Send + Sync + 'static,
    ) -> Self {
        Self(Arc::new(provide))
    }

    /// The present credentials of the server at `url`.
    pub fn provide(&self, url: &str) -> BoxFuture<Result<Credentials, String>> {
        (self.0)(url)
    }
}

impl fmt::Debug for CredentialsProvider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CredentialsProvider")
    }
}
