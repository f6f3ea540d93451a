use std::time::Duration;

use crate::ConfigError;

/// What holds for all locks of one locker. [`Settings::default`] is what most users want.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Settings {
    /// What Redis keeps without news from us, unless a call says otherwise. Default 30 s. Shorter
    /// frees a dead holder's lock sooner and costs more renewals.
    pub lease: Duration,
    /// The longest lease that a call may ask for. Default 60 s. With admission a node that lost
    /// its memory counts for nothing for so long.
    pub max_lease: Duration,
    /// How much faster a node's clock may run than ours. Default 0.01 (1 %); chrony's default slew
    /// limit is 0.083 (SAFETY.md H8).
    pub rho: f64,
    /// How long a request may stay unanswered, from when it could be sent. Default 500 ms. A call
    /// ends within that and the connect timeout, an unlock within twice that: its release is asked
    /// again where a connection breaks.
    pub answer_timeout: Duration,
    /// How many replicas of a single master must have a grant or a renewal before it counts. Default
    /// 0: none is asked. Not for the nodes of a quorum.
    pub replicas: usize,
    /// How long they may take: at most the answer timeout, of which it is a quarter unless set.
    pub replica_timeout: Option<Duration>,
    /// How long dialling and greeting a node may take together. Default 1 s. It is not charged to
    /// the answer timeout.
    pub connect_timeout: Duration,
    /// Whether grants carry fencing tokens. Default true. Without them nothing protects a resource
    /// from a holder that was paused (SAFETY.md G4).
    pub fencing: bool,
    /// Whether whoever releases a name on a single node may hand it over to us when we wait for it. Default
    /// true. Such a lease begins with a tenth of itself, a second at least, and is whole a moment later: false
    /// for whoever needs a whole one from the start.
    pub handover: bool,
    /// Whether every lock is taken by script, never by a transaction of plain commands. Default false.
    pub scripts_only: bool,
    /// `CLIENT SETNAME` of our connections. Default `quorumlock`.
    pub client_name: Option<String>,
    /// CA certificates (PEM) to verify `rediss://` servers with, instead of the Mozilla roots.
    pub tls_ca: Option<Vec<u8>>,
    /// What `rediss://` servers that want a client certificate are shown. Default none.
    pub tls_client: Option<ClientCertificate>,
}

/// A client's certificate and private key, as PEM.
#[derive(Clone)]
pub struct ClientCertificate {
    /// The certificate, followed by those of the authorities between it and the one that the server
    /// trusts.
    pub cert: Vec<u8>,
    /// Its private key, not encrypted.
    pub key: Vec<u8>,
}

impl std::fmt::Debug for ClientCertificate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ClientCertificate")
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            lease: Duration::from_secs(30),
            max_lease: Duration::from_secs(60),
            rho: 0.01,
            answer_timeout: Duration::from_millis(500),
            replicas: 0,
            replica_timeout: None,
            connect_timeout: Duration::from_secs(1),
            fencing: true,
            handover: true,
            scripts_only: false,
            client_name: Some("quorumlock".into()),
            tls_ca: None,
            tls_client: None,
        }
    }
}

impl Settings {
    /// Checks all bounds.
    ///
    /// # Errors
    /// The [`ConfigError`] of the first setting that is out of them.
    pub fn check(&self) -> Result<(), ConfigError> {
        within("max_lease", self.max_lease, SHORTEST_LEASE, 365 * DAY)?;
        self.check_lease(self.lease)?;
        within("answer_timeout", self.answer_timeout, MS, 60 * 1_000 * MS)?;
        within("replica_timeout", self.replica_timeout(), MS, self.answer_timeout)?;
        within("connect_timeout", self.connect_timeout, MS, 60 * 1_000 * MS)?;
        if !(0.0..=0.5).contains(&self.rho) {
            return Err(ConfigError::BadRho { value: self.rho });
        }
        match &self.client_name {
            Some(name) if !name.bytes().all(|b| b.is_ascii_graphic()) => {
                Err(ConfigError::BadClientName(name.clone()))
            }
            _ => Ok(()),
        }
    }

    pub(crate) fn check_replicas(&self, most: usize) -> Result<(), ConfigError> {
        match self.replicas {
            asked if asked > most => Err(ConfigError::TooManyReplicas { asked, most }),
            _ => Ok(()),
        }
    }

    /// Of a batch that has to wait for the one before it, too, the answer comes in time.
    pub(crate) fn replica_timeout(&self) -> Duration {
        self.replica_timeout.unwrap_or_else(|| (self.answer_timeout / 4).max(MS))
    }

    pub(crate) fn check_lease(&self, lease: Duration) -> Result<(), ConfigError> {
        within("lease", lease, SHORTEST_LEASE, self.max_lease)
    }
}

pub(crate) fn check_hold(hold_at_most: Duration) -> Result<(), ConfigError> {
    within("hold_at_most", hold_at_most, SHORTEST_LEASE, 3_650 * DAY)
}

pub(crate) fn check_wait(wait: Duration) -> Result<(), ConfigError> {
    within("wait", wait, Duration::ZERO, 3_650 * DAY)
}

fn within(
    what: &'static str,
    value: Duration,
    min: Duration,
    max: Duration,
) -> Result<(), ConfigError> {
    if (min..=max).contains(&value) {
        Ok(())
    } else {
        Err(ConfigError::BadDuration { what, value, min, max })
    }
}

const MS: Duration = Duration::from_millis(1);
const DAY: Duration = Duration::from_secs(86_400);
/// Below this the 2 ms for granularity and a round trip leave nothing.
const SHORTEST_LEASE: Duration = Duration::from_millis(10);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absurd_settings_are_named_with_their_bound() {
        assert_eq!(Settings::default().check(), Ok(()));
        let zero = Settings { lease: Duration::ZERO, ..Settings::default() };
        assert_eq!(
            zero.check().unwrap_err().to_string(),
            "lease of 0ns is out of bounds: 10ms to 60s"
        );
        for rho in [-0.1, 0.6, f64::NAN] {
            let bad = Settings { rho, ..Settings::default() };
            assert!(matches!(bad.check(), Err(ConfigError::BadRho { .. })), "{rho}");
        }
        let spaced = Settings { client_name: Some("a b".into()), ..Settings::default() };
        assert!(spaced.check().is_err());
    }
}
