//! Where sentinels are and which master they monitor, as texts: from a list and a name, or from one
//! URL `redis-sentinel://user:password@host:26379,host:26379/NAME/0`.

use quorumlock_protocol::{ConfigError, without_password};

use super::node_addr::{NodeAddr, is_sentinel_url};

/// What a [`is_sentinel_url`] names.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct SentinelUrl {
    pub(super) sentinels: Vec<String>,
    /// As [`master_addr`] takes it.
    pub(super) master: String,
}

impl SentinelUrl {
    /// `None` if the URL is of another kind.
    pub(super) fn parse(url: &str) -> Option<Result<Self, ConfigError>> {
        let bad = |why| ConfigError::BadUrl { url: without_password(url), why };
        is_sentinel_url(url).then(|| Self::read(url).map_err(bad))
    }

    fn read(url: &str) -> Result<Self, String> {
        let (scheme, rest) = url.split_once("-sentinel://").unwrap_or_default();
        let (address, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, path) = address.split_once('/').unwrap_or((address, ""));
        if path.is_empty() {
            return Err("the name of the master is missing: \
                redis-sentinel://host:26379,host:26379/NAME"
                .into());
        }
        let (login, hosts) = match authority.rsplit_once('@') {
            Some((login, hosts)) => (format!("{login}@"), hosts),
            None => (String::new(), authority),
        };
        let (sentinel_login, sentinel_scheme) = of_sentinels(query, scheme)?;
        let hosts: Vec<_> = hosts.split(',').collect();
        if let Some(empty) = hosts.iter().position(|host| host.is_empty()) {
            return Err(format!("sentinel {} of {} is empty", empty + 1, hosts.len()));
        }
        let sentinel = |host: &&str| format!("{sentinel_scheme}://{sentinel_login}{host}");
        let sentinels = hosts.iter().map(sentinel).collect();
        Ok(Self { sentinels, master: format!("{scheme}://{login}{path}") })
    }
}

/// The user and the password of the sentinels, as in their URLs, and their scheme, which is that of the
/// servers unless the URL says otherwise.
fn of_sentinels<'a>(query: &str, servers: &'a str) -> Result<(String, &'a str), String> {
    let (mut user, mut password, mut scheme) = ("", "", servers);
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        match pair.split_once('=').unwrap_or((pair, "")) {
            ("sentinel_username", value) => user = value,
            ("sentinel_password", value) => password = value,
            ("sentinel_tls", "yes") => scheme = "rediss",
            ("sentinel_tls", "no") => scheme = "redis",
            ("sentinel_tls", _) => return Err("the parameter sentinel_tls is yes or no".into()),
            (name, _) => {
                return Err(format!(
                    "the parameter {name:?} is unknown; the known ones are sentinel_username, \
                     sentinel_password, sentinel_tls"
                ));
            }
        }
    }
    let login = format!("{user}:{password}@");
    Ok((if login == ":@" { String::new() } else { login }, scheme))
}

/// Whether something that the URL names speaks TLS.
pub fn uses_tls(url: &str) -> bool {
    let is_tls = |url: &str| url.get(..6).is_some_and(|s| s.eq_ignore_ascii_case("rediss"));
    match SentinelUrl::parse(url) {
        Some(Ok(SentinelUrl { sentinels, master })) => {
            sentinels.iter().chain([&master]).any(|url| is_tls(url))
        }
        _ => is_tls(url),
    }
}

/// The address of a sentinel. Its port is 26379, if the URL has none.
pub(super) fn sentinel_addr(url: &str) -> Result<NodeAddr, ConfigError> {
    const PORT: u16 = 26379;

    let addr = NodeAddr::parse(url)?;
    if addr.redis().db() != 0 {
        let why = "a sentinel has no databases: the number belongs to the master's URL".into();
        return Err(ConfigError::BadUrl { url: without_password(url), why });
    }
    let (_, host) = authority(url);
    let has_port = host.rsplit_once(':').is_some_and(|(_, port)| !port.contains(']'));
    Ok(match addr.host() {
        Some(host) if !has_port => addr.at(host, PORT),
        _ => addr,
    })
}

/// The name of a master, and the user, password, database and TLS of its servers. `master` is the
/// name, or a URL in which it stands in place of the host.
pub(super) fn master_addr(master: &str) -> Result<(String, NodeAddr), ConfigError> {
    let (scheme, name) = match master.contains("://") {
        true => authority(master),
        false => ("redis", master),
    };
    let allowed = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    let why = match name {
        "" => "it is empty",
        // As sentinels check it.
        name if !name.chars().all(allowed) => "it may have letters, digits and . _ - only",
        _ if !["redis", "rediss"].contains(&scheme) => "its URL begins with redis:// or rediss://",
        _ => {
            let url = if master == name { format!("redis://{name}") } else { master.to_owned() };
            return Ok((name.to_owned(), NodeAddr::parse(&url)?));
        }
    };
    Err(ConfigError::BadMasterName { name: without_password(master), why: why.into() })
}

/// The scheme of a URL, and its host with the port.
fn authority(url: &str) -> (&str, &str) {
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    let end = rest.find(['/', '?']).unwrap_or(rest.len());
    let host = rest[..end].rsplit_once('@').map_or(&rest[..end], |(_, host)| host);
    (scheme, host)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(url: &str) -> Result<SentinelUrl, ConfigError> {
        SentinelUrl::parse(url).expect("such a URL")
    }

    #[test]
    fn one_url_names_the_sentinels_and_the_master() {
        let texts = |texts: &[&str]| texts.iter().map(|&text| text.to_owned()).collect::<Vec<_>>();
        for (url, sentinels, master) in [
            ("redis-sentinel://a,b:1/m", vec!["redis://a", "redis://b:1"], "redis://m"),
            ("rediss-sentinel://a/m.x-1/3", vec!["rediss://a"], "rediss://m.x-1/3"),
            ("redis-sentinel://me:p%40@a/m", vec!["redis://a"], "redis://me:p%40@m"),
            (
                "redis-sentinel://:x@a,[::1]:2/m?sentinel_username=s&sentinel_password=p%2F",
                vec!["redis://s:p%2F@a", "redis://s:p%2F@[::1]:2"],
                "redis://:x@m",
            ),
            ("rediss-sentinel://a/m?sentinel_tls=no", vec!["redis://a"], "rediss://m"),
            ("redis-sentinel://a/m?sentinel_tls=yes", vec!["rediss://a"], "redis://m"),
        ] {
            assert_eq!(uses_tls(url), url.contains("rediss") || url.contains("yes"), "{url}");
            let expected = SentinelUrl { sentinels: texts(&sentinels), master: master.into() };
            assert_eq!(parsed(url), Ok(expected), "{url}");
        }
        assert!(SentinelUrl::parse("redis://a/0").is_none());
    }

    #[test]
    fn a_bad_url_says_what_is_wrong_and_shows_no_password() {
        for (url, part) in [
            ("redis-sentinel://a,b", "name of the master is missing"),
            ("redis-sentinel://:geheim@a/", "name of the master is missing"),
            ("redis-sentinel://a,,b/m", "sentinel 2 of 3 is empty"),
            ("redis-sentinel://a/m?sentinelMasterId=geheim", "\"sentinelMasterId\" is unknown"),
            ("redis-sentinel://a/m?sentinel_tls=geheim", "sentinel_tls is yes or no"),
        ] {
            let text = parsed(url).expect_err(url).to_string();
            assert!(text.contains(part) && !text.contains("geheim"), "{text}");
        }
    }

    #[test]
    fn a_sentinel_has_its_own_port_and_no_database() {
        let label = |url: &str| sentinel_addr(url).map(|addr| addr.label().to_owned());
        for (url, expected) in [
            ("redis://a", "redis://a:26379"),
            ("rediss://me:x@a:1", "rediss://a:1"),
            ("redis://[::1]", "redis://[::1]:26379"),
            ("redis://[::1]:1", "redis://[::1]:1"),
        ] {
            assert_eq!(label(url).as_deref(), Ok(expected), "{url}");
        }
        let error = label("redis://:geheim@a/3").expect_err("a database").to_string();
        assert!(error.contains("no databases") && !error.contains("geheim"), "{error}");
    }

    #[test]
    fn the_master_is_a_name_or_a_url_with_the_name_as_host() {
        let (name, addr) = master_addr("rediss://me:secret@my_Master-1.x/3").expect("good");
        assert_eq!((&*name, addr.redis().db(), addr.wants_tls()), ("my_Master-1.x", 3, true));
        assert_eq!(master_addr("m").expect("good").0, "m");
        for bad in
            ["", "redis://", "redis://:geheim@/1", "m:6379", "redis://m:6379", "a b", "unix://m"]
        {
            let Err(ConfigError::BadMasterName { name, .. }) = master_addr(bad) else {
                panic!("{bad:?} was taken");
            };
            assert!(!name.contains("geheim"), "{name}");
        }
    }
}
