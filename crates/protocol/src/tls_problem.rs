/// Why the TLS handshake failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TlsProblem {
    /// This client does not trust the authority that signed the server's certificate.
    #[error("its certificate is signed by an authority that is not trusted here")]
    UnknownIssuer,
    /// The server's certificate is for another name than that of the URL, or than the address that
    /// sentinels tell.
    #[error("its certificate is for another name: {0}")]
    OtherName(String),
    /// The server's certificate is not valid: expired, revoked, ...
    #[error("its certificate is not valid: {0}")]
    BadCertificate(String),
    /// The server requires a client certificate.
    #[error("it wants a client certificate")]
    ClientCertificate,
    /// The server refuses this client's certificate: expired, revoked, of an authority that the
    /// server does not trust, ...
    #[error("it refuses our client certificate: {0}")]
    ClientCertificateRefused(String),
    /// The server does not speak TLS on this port.
    #[error(
        "it does not speak TLS at this port; if it speaks plain text, its URL begins with redis://"
    )]
    NotTls,
    /// Anything else.
    #[error("{0}")]
    Other(String),
}

impl TlsProblem {
    pub(crate) fn hint(&self) -> Option<&'static str> {
        match self {
            Self::UnknownIssuer => {
                Some("give that authority's certificate: --tls-ca, Builder::tls_ca")
            }
            Self::BadCertificate(_) => Some("renew the server's certificate"),
            Self::OtherName(_) => Some(
                "use a host name that it is for, or give that name (--tls-server-name, \
                 Builder::tls_server_name); sentinels tell host names with `sentinel resolve-hostnames yes`, `sentinel announce-hostnames \
                 yes` and, at each server, `replica-announce-ip HOST`",
            ),
            Self::ClientCertificate => {
                Some("give a client certificate, or set tls-auth-clients at the server")
            }
            Self::ClientCertificateRefused(_) => Some(
                "renew the client certificate (--tls-cert, Builder::tls_client), or let the server trust \
                 its authority",
            ),
            Self::NotTls => Some("use its TLS port, or redis:// instead of rediss://"),
            Self::Other(_) => None,
        }
    }
}
