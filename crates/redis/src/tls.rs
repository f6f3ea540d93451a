//! `rediss://` by rustls, with an explicit ring provider: a process-wide default provider would
//! panic at the first connect if none is installed.

#[cfg(feature = "tls")]
mod certificates;
#[cfg(feature = "tls")]
mod with;

#[cfg(feature = "tls")]
pub(super) use with::{Tls, tls_problem};
#[cfg(not(feature = "tls"))]
pub(super) use without::{Tls, tls_problem};

#[cfg(not(feature = "tls"))]
mod without {
    use std::io;

    use tokio::net::TcpStream;

    use super::super::stream::Stream;
    use quorumlock_protocol::{ConfigError, Settings, TlsProblem};

    /// Always `None`: without the feature `tls` no stream uses TLS.
    pub(crate) fn tls_problem(_: &io::Error) -> Option<TlsProblem> {
        None
    }

    /// Empty: the feature `tls` is off, and `rediss://` URLs are refused when parsed.
    #[derive(Clone, Debug)]
    pub(crate) struct Tls;

    impl Tls {
        pub(crate) fn new(settings: &Settings) -> Result<Self, ConfigError> {
            match (&settings.tls_ca, &settings.tls_cert, &settings.tls_server_name) {
                (None, None, None) => Ok(Self),
                _ => Err(ConfigError::BadCertificate("the feature `tls` is off".into())),
            }
        }

        pub(crate) async fn wrap(
            &self,
            _host: &str,
            _stream: TcpStream,
        ) -> io::Result<Box<dyn Stream>> {
            Err(io::Error::other("the feature `tls` is off"))
        }
    }
}
