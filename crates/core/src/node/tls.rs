//! `rediss://` by rustls, with the ring provider given explicitly: relying on a process-wide
//! default would panic at the first connect where none was installed.

#[cfg(feature = "tls")]
pub(super) use with::Tls;
#[cfg(not(feature = "tls"))]
pub(super) use without::Tls;

#[cfg(feature = "tls")]
mod with {
    use std::io;
    use std::sync::Arc;

    use tokio::net::TcpStream;
    use tokio_rustls::TlsConnector;
    use tokio_rustls::rustls::pki_types::pem::PemObject;
    use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
    use tokio_rustls::rustls::{ClientConfig, RootCertStore, crypto::ring};

    use super::super::dial::Stream;
    use crate::ConfigError;

    /// Whom we trust.
    #[derive(Clone)]
    pub(in crate::node) struct Tls(Arc<ClientConfig>);

    impl Tls {
        /// Trusts the given CA certificates (PEM), else the Mozilla roots.
        pub(in crate::node) fn new(ca: Option<&[u8]>) -> Result<Self, ConfigError> {
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
                .with_root_certificates(roots)
                .with_no_client_auth();
            Ok(Self(Arc::new(config)))
        }

        pub(in crate::node) async fn wrap(
            &self,
            host: &str,
            stream: TcpStream,
        ) -> io::Result<Box<dyn Stream>> {
            let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
            Ok(Box::new(TlsConnector::from(self.0.clone()).connect(name, stream).await?))
        }
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

    use super::super::dial::Stream;
    use crate::ConfigError;

    /// Nobody: the feature `tls` is off, and `rediss://` URLs are refused when parsed.
    #[derive(Clone, Debug)]
    pub(in crate::node) struct Tls;

    impl Tls {
        pub(in crate::node) fn new(ca: Option<&[u8]>) -> Result<Self, ConfigError> {
            match ca {
                None => Ok(Self),
                Some(_) => Err(ConfigError::BadCertificate("the feature `tls` is off".into())),
            }
        }

        pub(in crate::node) async fn wrap(
            &self,
            _host: &str,
            _stream: TcpStream,
        ) -> io::Result<Box<dyn Stream>> {
            Err(io::Error::other("the feature `tls` is off"))
        }
    }
}
