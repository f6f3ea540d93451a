//! What certificates a TLS client uses, as bytes that are read anew at each dial.

use std::borrow::Cow;
use std::sync::Arc;

use quorumlock_protocol::{Pem, Settings};
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{ClientConfig, RootCertStore, crypto::ring};

/// Where the certificates are.
#[derive(Clone, Debug)]
pub(super) struct Sources {
    ca: Option<Pem>,
    cert: Option<Pem>,
    key: Option<Pem>,
}

/// What the sources have at one time.
#[derive(PartialEq, Eq)]
pub(super) struct Certificates {
    /// `None`: those that the system trusts.
    ca: Option<Vec<u8>>,
    /// The client's certificate and key.
    client: Option<(Vec<u8>, Vec<u8>)>,
}

impl Sources {
    pub(super) fn new(settings: &Settings) -> Self {
        let Settings { tls_ca: ca, tls_cert: cert, tls_key: key, .. } = settings.clone();
        Self { ca, cert, key }
    }

    /// Whether the bytes may change.
    pub(super) fn may_change(&self) -> bool {
        let files = [&self.ca, &self.cert, &self.key];
        files.into_iter().any(|pem| matches!(pem, Some(Pem::File(_))))
    }

    /// Reads the files. The error names the file.
    pub(super) fn read(&self) -> Result<Certificates, String> {
        let read = |pem: &Option<Pem>| match pem {
            None => Ok(None),
            Some(Pem::Text(text)) => Ok(Some(text.clone())),
            Some(Pem::File(path)) => std::fs::read(path)
                .map(Some)
                .map_err(|error| format!("{}: {error}", path.display())),
        };
        Ok(Certificates { ca: read(&self.ca)?, client: read(&self.cert)?.zip(read(&self.key)?) })
    }

    /// Adds where the bytes come from to what is wrong with them.
    fn of(pem: &Option<Pem>, why: impl ToString) -> String {
        match pem {
            Some(Pem::File(path)) => format!("{}: {}", path.display(), why.to_string()),
            _ => why.to_string(),
        }
    }

    /// A client that trusts the CA certificates, or else those that the system trusts, and shows its
    /// own certificate to servers that ask for one.
    pub(super) fn config(&self, of: &Certificates) -> Result<Arc<ClientConfig>, String> {
        let roots = match &of.ca {
            None => system_roots(),
            Some(pem) => roots(pem).map_err(|why| Self::of(&self.ca, why))?,
        };
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?
            .with_root_certificates(roots);
        let Some((cert, key)) = &of.client else {
            return Ok(Arc::new(config.with_no_client_auth()));
        };
        let bad_cert = |error: &dyn ToString| {
            Self::of(&self.cert, format!("the client's certificate: {}", error.to_string()))
        };
        let chain = CertificateDer::pem_slice_iter(cert).collect::<Result<Vec<_>, _>>();
        let chain = chain.map_err(|error| bad_cert(&error))?;
        let key = PrivateKeyDer::from_pem_slice(key)
            .map_err(|error| Self::of(&self.key, format!("the client's key: {error}")))?;
        let config = config.with_client_auth_cert(chain, key).map_err(|error| bad_cert(&error))?;
        Ok(Arc::new(config))
    }
}

fn roots(pem: &[u8]) -> Result<RootCertStore, Cow<'static, str>> {
    let mut roots = RootCertStore::empty();
    for cert in CertificateDer::pem_slice_iter(pem) {
        let cert = cert.map_err(|error| error.to_string())?;
        roots.add(cert).map_err(|error| error.to_string())?;
    }
    match roots.is_empty() {
        true => Err("no certificate in it".into()),
        false => Ok(roots),
    }
}

/// Those that the system trusts; where it has none, the Mozilla roots.
fn system_roots() -> RootCertStore {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if roots.is_empty() {
        roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
    }
    roots
}
