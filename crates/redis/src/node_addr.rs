use std::path::PathBuf;
use std::sync::Arc;

use super::redirect::Endpoint;
use percent_encoding::{NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use quorumlock_protocol::{ConfigError, Credentials, without_password};
use redis::{ConnectionAddr, ConnectionInfo, IntoConnectionInfo, RedisConnectionInfo, RedisError};

/// The address of a node, with user, password and database.
#[derive(Clone, Debug)]
pub(super) struct NodeAddr {
    label: String,
    member: Arc<str>,
    pub(super) addr: Addr,
    redis: RedisConnectionInfo,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Addr {
    Tcp { host: String, port: u16 },
    Tls { host: String, port: u16 },
    Unix(PathBuf),
}

impl NodeAddr {
    pub(super) fn parse(url: &str) -> Result<Self, ConfigError> {
        let bad = |why: String| ConfigError::BadUrl { url: without_password(url), why };
        if is_sentinel_url(url) {
            return Err(bad("a URL of sentinels names one master and stands alone".into()));
        }
        if url.find(['?', '#']).is_some_and(|at| url[at..].contains('@')) {
            let why = "in a user or password, @ is written as %40, ? as %3F, # as %23, / as %2F";
            return Err(bad(why.into()));
        }
        let wrong = |error| bad(what_is_wrong(url, &error, cfg!(feature = "tls")));
        let info: ConnectionInfo = url.into_connection_info().map_err(wrong)?;
        check_parameters(url, info.addr()).map_err(bad)?;
        let addr = match info.addr() {
            ConnectionAddr::Tcp(host, port) => Addr::Tcp { host: host.clone(), port: *port },
            ConnectionAddr::TcpTls { insecure: true, .. } => {
                return Err(bad("#insecure is not offered: give the CA to tls_ca".into()));
            }
            ConnectionAddr::TcpTls { host, port, .. } => {
                Addr::Tls { host: host.clone(), port: *port }
            }
            ConnectionAddr::Unix(path) if path.to_string_lossy().contains('@') => {
                return Err(bad("user and password of a socket are ?user=...&pass=...".into()));
            }
            ConnectionAddr::Unix(path) => Addr::Unix(path.clone()),
            other => return Err(bad(format!("{other} cannot be dialled"))),
        };
        let label = addr.to_string();
        let member = member_label(url, &addr, info.redis_settings().db()).map_err(bad)?;
        Ok(Self { label, member, addr, redis: info.redis_settings().clone() })
    }

    /// Another address with the same user, password, database and TLS.
    pub(super) fn at(&self, host: &str, port: u16) -> Self {
        let host = host.to_owned();
        let addr = match self.wants_tls() {
            true => Addr::Tls { host, port },
            false => Addr::Tcp { host, port },
        };
        let (label, redis) = (addr.to_string(), self.redis.clone());
        Self { member: self.member.clone(), label, addr, redis }
    }

    /// As one of the addresses of the node with this label.
    pub(super) fn of_member(self, member: &Arc<str>) -> Self {
        Self { member: member.clone(), ..self }
    }

    /// The address, without user and password.
    pub(super) fn label(&self) -> &str {
        &self.label
    }

    /// The URL, with user and password.
    pub(super) fn url(&self) -> String {
        let encoded = |text| utf8_percent_encode(text, NON_ALPHANUMERIC);
        let login = self.redis.password().map(|password| {
            let user = self.redis.username().unwrap_or_default();
            format!("{}:{}@", encoded(user), encoded(password))
        });
        let (scheme, host) = self.label.split_once("://").unwrap_or_default();
        format!("{scheme}://{}{host}/{}", login.unwrap_or_default(), self.redis.db())
    }

    /// Its name in lists of members: `host:port/db`, or what the URL gives as `label`.
    pub(super) fn member(&self) -> &Arc<str> {
        &self.member
    }

    /// `None` for a Unix socket.
    pub(super) fn host(&self) -> Option<&str> {
        match &self.addr {
            Addr::Tcp { host, .. } | Addr::Tls { host, .. } => Some(host),
            Addr::Unix(_) => None,
        }
    }

    /// Where it is, as a member of a Redis Cluster.
    pub(super) fn endpoint(&self) -> Endpoint {
        Endpoint::new(self.host().unwrap_or_default(), self.port().unwrap_or_default())
    }

    /// `None` for a Unix socket.
    fn port(&self) -> Option<u16> {
        match &self.addr {
            Addr::Tcp { port, .. } | Addr::Tls { port, .. } => Some(*port),
            Addr::Unix(_) => None,
        }
    }

    pub(super) fn wants_tls(&self) -> bool {
        matches!(self.addr, Addr::Tls { .. })
    }

    pub(super) fn has_password(&self) -> bool {
        self.redis.password().is_some()
    }

    pub(super) fn has_user_alone(&self) -> bool {
        self.redis.username().is_some() && !self.has_password()
    }

    /// The user and the password of the URL, if it has a password.
    pub(super) fn credentials(&self) -> Option<Credentials> {
        let password = self.redis.password()?;
        Some(match self.redis.username() {
            Some(user) => Credentials::new(user, password),
            None => Credentials::password(password),
        })
    }

    /// User, password and database.
    pub(super) fn redis(&self) -> &RedisConnectionInfo {
        &self.redis
    }
}

/// The URLs of a text in which commas separate them. A URL of sentinels has commas of its own, and
/// stands alone.
pub fn split_urls(text: &str) -> Vec<String> {
    match is_sentinel_url(text.trim()) {
        true => vec![text.trim().to_owned()],
        false => text.split(',').map(|url| url.trim().to_owned()).collect(),
    }
}

/// Whether the text is a URL of a master behind sentinels:
/// `redis-sentinel://host:26379,host:26379/NAME`, or `rediss-sentinel://` for TLS.
pub fn is_sentinel_url(url: &str) -> bool {
    url.starts_with("redis-sentinel://") || url.starts_with("rediss-sentinel://")
}

impl std::fmt::Display for Addr {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Tcp { host, port } => write!(f, "redis://{}:{port}", bracketed(host)),
            Self::Tls { host, port } => write!(f, "rediss://{}:{port}", bracketed(host)),
            Self::Unix(path) => write!(f, "unix://{}", path.display()),
        }
    }
}

/// Which part of a URL that does not parse is wrong. It shows nothing that may be a password.
fn what_is_wrong(url: &str, error: &RedisError, has_tls: bool) -> String {
    const SCHEMES: [&str; 6] = ["redis", "rediss", "valkey", "valkeys", "unix", "redis+unix"];
    let Some((scheme, rest)) = url.split_once("://") else {
        return "redis:// is missing before the host".to_owned();
    };
    if !SCHEMES.contains(&scheme) {
        return "what stands before :// is none of the schemes".to_owned();
    }
    if !has_tls && scheme.ends_with('s') {
        return "TLS is not built in: it needs the feature `tls` of quorumlock".to_owned();
    }
    if rest.contains(char::is_whitespace) {
        return "a space stands in it: URLs are separated by commas".to_owned();
    }
    let authority = rest.split(['/', '?']).next().unwrap_or_default();
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    // The colons of an IPv6 address stand in brackets.
    let (host, port) = match host.rsplit_once(']').unwrap_or(("", host)) {
        ("", host) => host.split_once(':').unwrap_or((host, "")),
        (host, port) => (host, port.trim_start_matches(':')),
    };
    if host.is_empty() {
        return "it has no host".to_owned();
    }
    if !port.is_empty() && port.parse::<u16>().is_err() {
        let login = match authority.contains('@') {
            true => "",
            false => "; a password stands before @, as in redis://:PASSWORD@HOST",
        };
        return format!("what follows the colon behind the host is no port{login}");
    }
    // What the crate says, without the name of its error.
    let told = error.to_string();
    told.split(" - ").next().unwrap_or_default().to_lowercase()
}

/// Refuses parameters that have no effect. The error shows no value, which may be a secret.
fn check_parameters(url: &str, addr: &ConnectionAddr) -> Result<(), String> {
    let known: &[_] = match addr {
        ConnectionAddr::Unix(_) => &["label", "protocol", "db", "user", "pass"],
        _ => &["label", "protocol"],
    };
    for pair in query(url).split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        if !known.contains(&name) {
            let known = known.join(", ");
            return Err(format!("the parameter {name:?} is unknown; the known ones are {known}"));
        }
        if name == "protocol" && !["2", "resp2"].contains(&value) {
            return Err("the parameter \"protocol\" can only be resp2".into());
        }
    }
    Ok(())
}

/// The parameters of a URL, encoded.
fn query(url: &str) -> &str {
    let url = url.split_once('#').map_or(url, |(url, _)| url);
    url.split_once('?').map_or("", |(_, query)| query)
}

fn member_label(url: &str, addr: &Addr, db: i64) -> Result<Arc<str>, String> {
    if let Some(label) = query(url).split('&').find_map(|pair| pair.strip_prefix("label=")) {
        let label = percent_decode_str(label).decode_utf8().map_err(|e| e.to_string())?;
        // Lists in records are separated by spaces.
        return match label.is_empty() || label.contains(|c: char| c == ' ' || c.is_control()) {
            true => Err(format!("the label {label:?} is empty, or has a space in it")),
            false => Ok(label.into()),
        };
    }
    Ok(match addr {
        Addr::Tcp { host, port } | Addr::Tls { host, port } => {
            format!("{}:{port}/{db}", bracketed(host)).into()
        }
        Addr::Unix(path) => format!("{}/{db}", path.display()).replace(' ', "%20").into(),
    })
}

/// The host as in a URL: an IPv6 address in brackets, since its colons do not begin the port.
fn bracketed(host: &str) -> String {
    if host.contains(':') { format!("[{host}]") } else { host.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_hide_user_and_password() {
        let target = NodeAddr::parse("redis://me:secret@10.0.0.1:7000/3").unwrap();
        assert_eq!(target.label(), "redis://10.0.0.1:7000");
        assert_eq!(target.redis().db(), 3);
        for url in ["redis://[::1]:7000", "rediss://[2001:db8::7]:7000", "redis://host:7000"] {
            assert_eq!(NodeAddr::parse(url).unwrap().label(), url);
        }
        assert_eq!(
            NodeAddr::parse("unix:///run/redis.sock").unwrap().label(),
            "unix:///run/redis.sock"
        );
    }

    #[test]
    fn the_url_of_another_address_has_the_same_login_and_database() {
        let at = |url: &str| NodeAddr::parse(url).unwrap().at("::1", 7).url();
        assert_eq!(at("redis://me:p%40%2F@h:1/3"), "redis://me:p%40%2F@[::1]:7/3");
        assert_eq!(at("rediss://:x@h"), "rediss://:x@[::1]:7/0");
        assert_eq!(at("redis://h"), "redis://[::1]:7/0");
    }

    #[test]
    fn without_tls_its_urls_name_the_feature() {
        let error = RedisError::from((redis::ErrorKind::InvalidClientConfig, "no TLS"));
        for url in ["rediss://h", "valkeys://h:7000"] {
            let told = what_is_wrong(url, &error, false);
            assert!(told.contains("the feature `tls` of quorumlock"), "{told}");
            assert_eq!(what_is_wrong(url, &error, true), "no tls");
        }
    }

    #[test]
    fn bad_urls_are_named_without_their_password() {
        for url in ["", "http://x", "redis://", "redis://u:secret@h:99999", "rediss://h/#insecure"]
        {
            let Err(ConfigError::BadUrl { url: named, .. }) = NodeAddr::parse(url) else {
                panic!("{url:?} was taken");
            };
            assert!(!named.contains("secret"), "{named}");
        }
    }

    #[test]
    fn the_part_that_is_wrong_is_told() {
        for (url, told) in [
            ("localhost:6379", "redis:// is missing"),
            ("redis//localhost", "redis:// is missing"),
            ("", "redis:// is missing"),
            ("http://localhost", "schemes"),
            ("redis://a:1 redis://b:1", "commas"),
            ("redis://", "no host"),
            ("redis://:1", "no host"),
            ("redis://localhost:port", "no port; a password stands before @"),
            ("redis://:geheim@h:99999", "no port"),
            ("redis://[::1]:port", "no port"),
            ("redis://h/x", "database"),
        ] {
            let Err(ConfigError::BadUrl { why, .. }) = NodeAddr::parse(url) else {
                panic!("{url:?} was taken");
            };
            assert!(why.contains(told), "{url:?}: {why}");
        }
    }

    #[test]
    fn unknown_parameters_are_refused_and_the_known_ones_are_named() {
        let why = |url: &str| match NodeAddr::parse(url) {
            Err(ConfigError::BadUrl { url, why }) => format!("{url} {why}"),
            parsed => panic!("{url} was taken: {parsed:?}"),
        };
        for url in ["redis://h?timeout=secret", "rediss://u:secret@h?label=a&timeout=5"] {
            let why = why(url);
            assert!(why.contains("\"timeout\"") && why.contains("label, protocol"), "{why}");
            assert!(!why.contains("secret"), "{why}");
        }
        assert!(why("unix:///s?passwd=secret").contains("db, user, pass"));
        assert!(!why("unix:///s?passwd=secret").contains("secret"));
        assert!(why("redis://h?protocol=resp3").contains("resp2"));
        assert!(why("unix://localhost/:secret@/s").contains("?user=...&pass=..."));
        for url in ["redis://h?", "redis://h?protocol=resp2", "unix:///s?db=1&user=u&pass=p"] {
            NodeAddr::parse(url).expect(url);
        }
    }

    proptest::proptest! {
        /// Forgotten and doubled characters, and passwords of any characters.
        #[test]
        fn no_mangled_url_shows_its_password(
            scheme in "(redis|rediss|unix|http|valkey|)", colon in "(://|:/|:|//|/|)",
            user in "[a-z]{0,3}", odd in "[@/?#%:&= ]{0,3}", tail in "(h|h:1|\\[::1\\]:1|h/0|/s|)",
            query in "(|\\?label=a|\\?timeout=1|#insecure)",
        ) {
            let secret = format!("geheim{odd}wort");
            let url = format!("{scheme}{colon}{user}:{secret}@{tail}{query}");
            let shown = match NodeAddr::parse(&url) {
                Ok(addr) => format!("{addr:?} {} {}", addr.label(), addr.member()),
                Err(error) => format!("{error} {error:?}"),
            };
            proptest::prop_assert!(!shown.contains("geheim"), "{} in {}", url, shown);
            proptest::prop_assert!(!shown.contains("wort"), "{} in {}", url, shown);
        }
    }

    #[test]
    fn a_label_is_the_address_and_the_database_or_what_the_url_says() {
        let label = |url: &str| NodeAddr::parse(url).map(|addr| addr.member().to_string());
        for (url, expected) in [
            ("redis://me:secret@a:7000/3", "a:7000/3"),
            ("rediss://a:7000", "a:7000/0"),
            ("redis://[::1]:7000", "[::1]:7000/0"),
            ("redis://a:7000?label=north", "north"),
            ("redis://a:7000?protocol=resp2&label=n%2Forth", "n/orth"),
            ("unix:///run/redis.sock", "/run/redis.sock/0"),
        ] {
            assert_eq!(label(url).as_deref(), Ok(expected), "{url}");
        }
        for url in ["redis://a:7000?label=", "redis://a:7000?label=a%20b"] {
            assert!(matches!(label(url), Err(ConfigError::BadUrl { .. })), "{url}");
        }
    }
}
