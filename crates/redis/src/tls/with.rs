use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use quorumlock_protocol::{ConfigError, Settings, TlsProblem};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{self, AlertDescription, CertificateError, ClientConfig};

use super::super::stream::Stream;
use super::certificates::{Certificates, Sources};

/// The trusted CA certificates, and the client's certificate.
#[derive(Clone)]
pub(crate) struct Tls {
    sources: Sources,
    /// The name that all certificates must be for, in place of the host.
    name: Option<ServerName<'static>>,
    last: Arc<Mutex<Last>>,
}

/// What was last read without a fault.
struct Last {
    certificates: Certificates,
    config: Arc<ClientConfig>,
    /// The fault of what was read after that, of which the log tells.
    fault: Option<String>,
}

impl Tls {
    /// Trusts `tls_ca`, or else the certificates that the system trusts. Shows the client's
    /// certificate to servers that ask for one. Reads files.
    pub(crate) fn new(settings: &Settings) -> Result<Self, ConfigError> {
        let sources = Sources::new(settings);
        let certificates = sources.read().map_err(ConfigError::BadCertificate)?;
        let config = sources.config(&certificates).map_err(ConfigError::BadCertificate)?;
        let last = Arc::new(Mutex::new(Last { certificates, config, fault: None }));
        let name = settings.tls_server_name.as_ref().map(|name| {
            ServerName::try_from(name.clone()).map_err(|error| {
                ConfigError::BadCertificate(format!("none can be for the name {name:?}: {error}"))
            })
        });
        Ok(Self { sources, name: name.transpose()?, last })
    }

    pub(crate) async fn wrap(&self, host: &str, stream: TcpStream) -> io::Result<Box<dyn Stream>> {
        let name = match &self.name {
            Some(name) => name.clone(),
            None => ServerName::try_from(host.to_owned()).map_err(io::Error::other)?,
        };
        let config = self.config().await;
        Ok(Box::new(TlsConnector::from(config).connect(name, stream).await?))
    }

    /// The present certificates. Files are read again: what is half written, or gone, is not used,
    /// and the last that had no fault are.
    async fn config(&self) -> Arc<ClientConfig> {
        if self.sources.may_change() {
            let this = self.clone();
            // A task that fails changes nothing.
            let _ = tokio::task::spawn_blocking(move || this.read()).await;
        }
        self.last.lock().unwrap_or_else(PoisonError::into_inner).config.clone()
    }

    fn read(&self) {
        let read = self.sources.read();
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let new = match read {
            Ok(same) if same == last.certificates => {
                last.fault = None;
                return;
            }
            Ok(certificates) => {
                self.sources.config(&certificates).map(|config| (certificates, config))
            }
            Err(fault) => Err(fault),
        };
        match new {
            Ok((certificates, config)) => *last = Last { certificates, config, fault: None },
            Err(fault) if last.fault.as_ref() == Some(&fault) => {}
            Err(fault) => {
                tracing::warn!(%fault, "TLS certificates cannot be used: the last good ones are");
                last.fault = Some(fault);
            }
        }
    }
}

/// The TLS problem behind an error of a stream, if it is one.
pub(crate) fn tls_problem(e: &io::Error) -> Option<TlsProblem> {
    let error = e.get_ref()?.downcast_ref::<rustls::Error>()?;
    Some(match error {
        rustls::Error::InvalidCertificate(CertificateError::UnknownIssuer) => {
            TlsProblem::UnknownIssuer
        }
        rustls::Error::InvalidCertificate(
            why @ (CertificateError::NotValidForName
            | CertificateError::NotValidForNameContext { .. }),
        ) => TlsProblem::OtherName(why.to_string()),
        rustls::Error::InvalidCertificate(why) => TlsProblem::BadCertificate(why.to_string()),
        rustls::Error::AlertReceived(alert) => match alert {
            AlertDescription::CertificateRequired => TlsProblem::ClientCertificate,
            AlertDescription::BadCertificate
            | AlertDescription::UnsupportedCertificate
            | AlertDescription::CertificateRevoked
            | AlertDescription::CertificateExpired
            | AlertDescription::CertificateUnknown
            | AlertDescription::UnknownCA
            | AlertDescription::DecryptError
            | AlertDescription::AccessDenied => {
                TlsProblem::ClientCertificateRefused(format!("{alert:?}"))
            }
            _ => TlsProblem::Other(error.to_string()),
        },
        rustls::Error::InvalidMessage(_) => TlsProblem::NotTls,
        other => TlsProblem::Other(other.to_string()),
    })
}

impl std::fmt::Debug for Tls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Tls")
    }
}
