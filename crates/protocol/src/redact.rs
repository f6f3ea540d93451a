//! Pure: URLs, and texts that should be URLs, as they may be shown.

/// The text without what may be a password: all before the last `@` but a known scheme, all
/// parameters that may be secret, and without an `@` all behind a colon that begins no port.
pub fn without_password(text: &str) -> String {
    const SCHEMES: [&str; 8] = [
        "redis://",
        "rediss://",
        "valkey://",
        "valkeys://",
        "unix://",
        "redis+unix://",
        "redis-sentinel://",
        "rediss-sentinel://",
    ];
    let scheme = SCHEMES.into_iter().find(|scheme| text.starts_with(scheme)).unwrap_or_default();
    match text.rfind('@') {
        Some(at) => format!("{scheme}***{}", without_secret_parameters(&text[at..])),
        None if has_odd_port(text) => format!("{scheme}***"),
        None => without_secret_parameters(text),
    }
}

/// Of the parameters of a URL, those that are no secret.
fn without_secret_parameters(text: &str) -> String {
    const SHOWN: [&str; 3] = ["label=", "db=", "protocol="];
    let (address, query) = text.split_once('?').unwrap_or((text, ""));
    let shown = |pair: &&str| SHOWN.iter().any(|name| pair.starts_with(name));
    let query: Vec<_> = query.split('&').filter(shown).collect();
    if query.is_empty() { address.to_owned() } else { format!("{address}?{}", query.join("&")) }
}

/// Whether something follows a colon that is no port: a password whose host is missing.
fn has_odd_port(text: &str) -> bool {
    let rest = text.split_once("://").map_or(text, |(_, rest)| rest);
    // An address of IPv6.
    let rest = rest.rsplit_once(']').map_or(rest, |(_, rest)| rest);
    let bad_port = |port: &str| !port.is_empty() && !port.starts_with(|c: char| c.is_ascii_digit());
    rest.split(':').skip(1).any(bad_port)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_before_the_last_at_sign_is_shown_but_the_scheme() {
        for (text, shown) in [
            ("redis://me:p@ss@host:1/2?label=x", "redis://***@host:1/2?label=x"),
            ("redis:/:geheim@127.0.0.1", "***@127.0.0.1"),
            ("geheim@host", "***@host"),
            ("rediss://u:a/b?c#d@h", "rediss://***@h"),
            ("redis://:geheim", "redis://***"),
            ("redis:geheim", "***"),
            ("unix:///run/redis.sock?user=u&pass=geheim&db=2", "unix:///run/redis.sock?db=2"),
            ("redis://h?password=geheim&label=north", "redis://h?label=north"),
            (
                "redis-sentinel://me:geheim@a:1,b:2/m/3?sentinel_password=geheim",
                "redis-sentinel://***@a:1,b:2/m/3",
            ),
        ] {
            assert_eq!(without_password(text), shown, "{text}");
        }
    }

    #[test]
    fn what_holds_no_password_is_shown_whole() {
        for text in [
            "",
            "nonsense",
            "http://localhost",
            "redis://",
            "redis://host:99999/x",
            "redis://[::1]:7",
            "redis-sentinel://a:1,b:2/m",
        ] {
            assert_eq!(without_password(text), text);
        }
    }
}
