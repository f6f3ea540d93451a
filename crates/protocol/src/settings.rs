use std::time::Duration;

use crate::telemetry::{EventHandler, Mode};
use crate::{ConfigError, CredentialsProvider, Layout, PROTOCOL, Pem, bounds};

/// The settings of a locker, for all its locks. [`Settings::default`] is what most users want.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Settings {
    /// How long a node keeps a lock without a renewal, unless a call says otherwise. Default 30 s.
    /// A shorter lease frees a dead holder's lock sooner and costs more renewals.
    pub lease: Duration,
    /// The longest lease that a call may ask for. Default 60 s. With admission, a node that lost
    /// its memory counts for nothing for this time and twice the clock bound, or until an operator
    /// admits it.
    pub max_lease: Duration,
    /// How much faster a node's clock may run than ours, as a fraction. Default 0.01 (1 %);
    /// chrony's default slew limit is 0.083 (SAFETY.md H8).
    pub max_clock_drift: f64,
    /// How long a request may stay unanswered, from when it could be sent. Default 500 ms. A call
    /// ends within this and what connecting takes. An unlock ends within twice this: its release is
    /// sent again if a connection breaks.
    pub answer_timeout: Duration,
    /// How many replicas of a single master must have a grant or a renewal before it counts.
    /// Default 0: no replica is asked. Does not apply to the nodes of a quorum.
    pub replicas: usize,
    /// Whether, in place of [`replicas`](Self::replicas), all replicas that the master has when a
    /// connection to it begins must have a grant or a renewal. Default false.
    pub all_replicas: bool,
    /// Whether a grant or a renewal of a single master counts only once it is on disk. Default false.
    pub durable: bool,
    /// How long replicas and disks may take, at most the answer timeout. Default: a quarter of the
    /// answer timeout, and all of it for disks.
    pub replica_timeout: Option<Duration>,
    /// How long each step of connecting to a node may take: the name, TCP, TLS, and the next bytes of
    /// each reply. All steps together may take five times as long. Default 1 s. It is not charged to
    /// the answer timeout.
    pub connect_timeout: Duration,
    /// Whether grants carry fencing tokens. Default true. Without tokens nothing protects a
    /// resource from a holder that was paused (SAFETY.md G4).
    pub fencing: bool,
    /// Whether fencing tokens are counted in the key of Redisson's `RFencedLock`, so that tokens of
    /// Java clients and of this locker have one order. Default false. Only on one server with
    /// Redisson's layout; then each lock is taken by script, and no release hands a lock off.
    pub redisson_fenced: bool,
    /// Whether every lock is taken by script, never by a transaction of plain commands. Default
    /// false.
    pub scripts_only: bool,
    /// Whether a queued waiter asks without a message, too. Default true. A setting of tests: without polls
    /// a waiter hangs whose message is lost.
    pub polls: bool,
    /// Whether a free name with a queue goes to the head of the queue only. Default false: a call that
    /// finds the name free may take it before those that wait. Only where one node decides; then each
    /// lock is taken by script, and no lease passes from task to task inside a process.
    pub strict_order: bool,
    /// How much longer than the lease the nodes keep a lock. Default 0. No other client gets a lock that
    /// was lost, or whose process died, before this time after its holder could last rely on it.
    pub takeover_delay: Duration,
    /// How long a hold may last at most, unless its request says otherwise. Default: without limit.
    pub hold_at_most: Option<Duration>,
    /// A hold that lasts longer is told: a warning, an event, a metric. Default: none is.
    pub long_hold: Option<Duration>,
    /// Who the locker is, for people who ask for the holder of a lock: at most [`Settings::MAX_LABEL`]
    /// bytes. Default none.
    pub label: Option<String>,
    /// The `CLIENT SETNAME` of our connections. Default `quorumlock`.
    pub client_name: Option<String>,
    /// Whether the locker only looks, for an operator: it is no program that a change of the list of nodes
    /// waits for. Default false.
    pub observes: bool,
    /// The layout of the locks, which a ticket names. The constructors of lockers set it; default none.
    pub layout: Option<Layout>,
    /// Which servers the locks are on, for telemetry. The constructors of lockers set it.
    pub mode: Mode,
    /// Hears what happens to the locks. Default none.
    pub on_event: Option<EventHandler>,
    /// Whether the spans of `tracing` have the names of locks. Default true.
    pub names_in_spans: bool,
    /// Gives the user and the password at each dial, in place of those in URLs. Default none.
    pub credentials: Option<CredentialsProvider>,
    /// CA certificates to verify `rediss://` servers with, instead of those that the system trusts.
    pub tls_ca: Option<Pem>,
    /// The certificate for `rediss://` servers that require a client certificate, followed by the
    /// certificates of the authorities between it and the one that the server trusts. Default none.
    pub tls_cert: Option<Pem>,
    /// The private key of [`tls_cert`](Self::tls_cert), not encrypted.
    pub tls_key: Option<Pem>,
    /// The name that the certificates of `rediss://` servers must be for. Default: the host that is
    /// dialled.
    pub tls_server_name: Option<String>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            lease: Duration::from_secs(30),
            max_lease: Duration::from_secs(60),
            max_clock_drift: 0.01,
            answer_timeout: Duration::from_millis(500),
            replicas: 0,
            all_replicas: false,
            durable: false,
            replica_timeout: None,
            connect_timeout: Duration::from_secs(1),
            fencing: true,
            redisson_fenced: false,
            scripts_only: false,
            polls: true,
            strict_order: false,
            takeover_delay: Duration::ZERO,
            hold_at_most: None,
            long_hold: None,
            label: None,
            layout: None,
            mode: Mode::Single,
            on_event: None,
            names_in_spans: true,
            client_name: Some(format!("quorumlock:{PROTOCOL}")),
            observes: false,
            credentials: None,
            tls_ca: None,
            tls_cert: None,
            tls_key: None,
            tls_server_name: None,
        }
    }
}

impl Settings {
    /// The longest label, in bytes.
    pub const MAX_LABEL: usize = 128;

    /// Checks a label.
    ///
    /// # Errors
    /// [`ConfigError::BadLabel`].
    #[doc(hidden)]
    pub fn check_label(label: &str) -> Result<(), ConfigError> {
        match label.len() > Self::MAX_LABEL || label.chars().any(char::is_control) {
            false => Ok(()),
            true => Err(ConfigError::BadLabel {
                label: label.to_owned(),
                len: label.len(),
                max: Self::MAX_LABEL,
            }),
        }
    }

    /// Checks all bounds.
    ///
    /// # Errors
    /// The [`ConfigError`] of the first setting that is out of bounds.
    pub fn check(&self) -> Result<(), ConfigError> {
        if !(0.0..=0.5).contains(&self.max_clock_drift) {
            return Err(ConfigError::BadClockDrift { value: self.max_clock_drift });
        }
        bounds::MAX_LEASE.check(self.max_lease)?;
        bounds::TAKEOVER_DELAY.check_to(self.max_lease, self.takeover_delay)?;
        self.check_lease(self.lease)?;
        bounds::ANSWER_TIMEOUT.check(self.answer_timeout)?;
        bounds::REPLICA_TIMEOUT.check_to(self.answer_timeout, self.replica_timeout())?;
        bounds::CONNECT_TIMEOUT.check(self.connect_timeout)?;
        self.hold_at_most.map_or(Ok(()), |limit| bounds::HOLD_AT_MOST.check(limit))?;
        self.long_hold.map_or(Ok(()), |limit| bounds::LONG_HOLD.check(limit))?;
        self.label.as_ref().map_or(Ok(()), |label| Self::check_label(label))?;
        match &self.client_name {
            Some(name) if !name.bytes().all(|b| b.is_ascii_graphic()) => {
                Err(ConfigError::BadClientName(name.clone()))
            }
            _ => Ok(()),
        }
    }

    /// Whether a password or a certificate may change while the program runs, so that a server that
    /// refuses it may take the next one.
    pub fn secrets_change(&self) -> bool {
        let files = [&self.tls_ca, &self.tls_cert, &self.tls_key];
        self.credentials.is_some() || files.into_iter().any(|pem| matches!(pem, Some(Pem::File(_))))
    }

    /// Whether a grant or a renewal counts only once replicas or disks have it.
    pub fn awaits_copies(&self) -> bool {
        self.replicas > 0 || self.all_replicas || self.durable
    }

    /// Checks that there are enough replicas: the required number is at most `max`.
    ///
    /// # Errors
    /// [`ConfigError`] with the value and the bound.
    pub fn check_replicas(&self, max: usize) -> Result<(), ConfigError> {
        match self.replicas {
            asked if asked > max => Err(ConfigError::TooManyReplicas { asked, max }),
            _ => Ok(()),
        }
    }

    /// How long replicas and disks may take, unless set: a quarter of the answer timeout, at least
    /// 1 ms, so that a batch that also waits for the batch before it is answered in time; all of it for
    /// disks, which may take a second.
    pub fn replica_timeout(&self) -> Duration {
        self.replica_timeout.unwrap_or_else(|| match self.durable {
            true => self.answer_timeout,
            false => (self.answer_timeout / 4).max(MS),
        })
    }

    /// Checks a lease against the shortest and the longest lease. A node keeps no lock for longer than
    /// the longest lease, the takeover delay included.
    ///
    /// # Errors
    /// [`ConfigError`] with the value and the bound.
    pub fn check_lease(&self, lease: Duration) -> Result<(), ConfigError> {
        bounds::LEASE.check_to(self.max_lease.saturating_sub(self.delay_at_node()), lease)
    }

    /// What is added to each lease on its way to a node: the takeover delay, by the clock of the fastest
    /// node.
    pub fn delay_at_node(&self) -> Duration {
        self.takeover_delay.div_f64((1.0 - self.max_clock_drift).clamp(0.5, 1.0))
    }
}

const MS: Duration = Duration::from_millis(1);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absurd_settings_are_named_with_their_bound() {
        assert_eq!(Settings::default().check(), Ok(()));
        let zero = Settings { lease: Duration::ZERO, ..Settings::default() };
        assert_eq!(
            zero.check().unwrap_err().to_string(),
            "lease of 0ns is out of bounds: 10ms to 60s (the most is set by max_lease)"
        );
        for max_clock_drift in [-0.1, 0.6, f64::NAN] {
            let bad = Settings { max_clock_drift, ..Settings::default() };
            assert!(
                matches!(bad.check(), Err(ConfigError::BadClockDrift { .. })),
                "{max_clock_drift}"
            );
        }
        assert_eq!(Settings::default().client_name.as_deref(), Some("quorumlock:1"));
        let spaced = Settings { client_name: Some("a b".into()), ..Settings::default() };
        assert!(spaced.check().is_err());
    }
}
