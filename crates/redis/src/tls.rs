//! `rediss://` by rustls, with an explicit ring provider: a process-wide default provider would
//! panic at the first connect if none is installed.

#[cfg(feature = "tls")]
pub(super) use with::{Tls, tls_problem};
#[cfg(not(feature = "tls"))]
pub(super) use without::{Tls, tls_problem};

#[cfg(feature = "tls")]
mod with {
    use std::io;
    use std::sync::Arc;

    use tokio::net::TcpStream;
    use tokio_rustls::TlsConnector;
    use tokio_rustls::rustls::pki_types::pem::PemObject;
    use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
    use tokio_rustls::rustls::{
        self, AlertDescription, CertificateError, ClientConfig, RootCertStore, crypto::ring,
    };

    use super::super::stream::Stream;
    use quorumlock_protocol::{ClientCertificate, ConfigError, TlsProblem};

    /// The trusted CA certificates, and the client's certificate.
    #[derive(Clone)]
    pub(crate) struct Tls(Arc<ClientConfig>);

    impl Tls {
        /// Trusts the given CA certificates (PEM), or else the Mozilla roots. Shows the client's
        /// certificate to servers that ask for one.
        pub(crate) fn new(
            ca: Option<&[u8]>,
            client: Option<&ClientCertificate>,
        ) -> Result<Self, ConfigError> {
            let bad = |why: String| ConfigError::BadCertificate(why);
            let mut roots = RootCertStore::empty();
            match ca {
                None => roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned()),
                Some(pem) => {
                    for cert in CertificateDer::pem_slice_iter(pem) {
                        let cert = cert.map_err(|e| bad(e.to_string()))?;
                        roots.add(cert).map_err(|e| bad(e.to_string()))?;
                    }
                    if roots.is_empty() {
                        return Err(bad("no certificate in it".into()));
                    }
                }
            }
            let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
                .with_safe_default_protocol_versions()
                .map_err(|e| bad(e.to_string()))?
                .with_root_certificates(roots);
            let config = match client {
                None => config.with_no_client_auth(),
                Some(client) => {
                    let chain = CertificateDer::pem_slice_iter(&client.cert);
                    let chain = chain.collect::<Result<Vec<_>, _>>();
                    let chain = chain.map_err(|e| bad(format!("the client's: {e}")))?;
                    let key = PrivateKeyDer::from_pem_slice(&client.key)
                        .map_err(|e| bad(format!("the client's key: {e}")))?;
                    config
                        .with_client_auth_cert(chain, key)
                        .map_err(|e| bad(format!("the client's: {e}")))?
                }
            };
            Ok(Self(Arc::new(config)))
        }

        pub(crate) async fn wrap(
            &self,
            host: &str,
            stream: TcpStream,
        ) -> io::Result<Box<dyn Stream>> {
            let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
            Ok(Box::new(TlsConnector::from(self.0.clone()).connect(name, stream).await?))
        }
    }

    /// The TLS problem behind an error of a stream, if it is one.
    pub(crate) fn tls_problem(e: &io::Error) -> Option<TlsProblem> {
        let error = e.get_ref()?.downcast_ref::<rustls::Error>()?;
        Some(match error {
            rustls::Error::InvalidCertificate(CertificateError::UnknownIssuer) => {
                TlsProblem::UnknownIssuer
            }
            rustls::Error::InvalidCertificate(why) => TlsProblem::BadCertificate(why.to_string()),
            rustls::Error::AlertReceived(AlertDescription::CertificateRequired) => {
                TlsProblem::ClientCertificate
            }
            rustls::Error::InvalidMessage(_) => TlsProblem::NotTls,
            other => TlsProblem::Other(other.to_string()),
        })
    }

    impl std::fmt::Debug for Tls {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("Tls")
        }
    }
}

#[cfg(not(feature = "tls"))]
mod without {
    use std::io;

    use tokio::net::TcpStream;

    use super::super::stream::Stream;
    use quorumlock_protocol::{ClientCertificate, ConfigError, TlsProblem};

    /// Always `None`: without the feature `tls` no stream uses TLS.
    pub(crate) fn tls_problem(_: &io::Error) -> Option<TlsProblem> {
        None
    }

    /// Empty: the feature `tls` is off, and `rediss://` URLs are refused when parsed.
    #[derive(Clone, Debug)]
    pub(crate) struct Tls;

    impl Tls {
        pub(crate) fn new(
            ca: Option<&[u8]>,
            client: Option<&ClientCertificate>,
        ) -> Result<Self, ConfigError> {
            match (ca, client) {
                (None, None) => Ok(Self),
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
