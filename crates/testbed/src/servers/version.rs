use std::fmt;

/// The product and version of a server, for reports: `redis 7.0.15`, `valkey 9.1.2`.
///
/// Do not derive from it whether a command exists: version numbers differ between products. Send
/// the command instead.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Version {
    /// `redis`, `valkey` or the name that the server reports.
    pub product: String,
    /// The version number of that product.
    pub number: String,
}

impl Version {
    /// Reads the answer to `INFO server`. For compatibility, Valkey reports `redis_version:7.2.4`;
    /// its own name and number have separate fields.
    pub(super) fn from_info(info: &str) -> Option<Self> {
        let product = field(info, "server_name").unwrap_or("redis");
        let number =
            field(info, &format!("{product}_version")).or_else(|| field(info, "redis_version"))?;
        Some(Self { product: product.to_owned(), number: number.to_owned() })
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.product, self.number)
    }
}

/// The value of one `name:value` line of an INFO answer.
pub fn field<'a>(info: &'a str, name: &str) -> Option<&'a str> {
    info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn valkey_is_not_taken_for_an_old_redis() {
        let valkey =
            "# Server\r\nredis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:9.1.2\r\n";
        assert_eq!(Version::from_info(valkey).unwrap().to_string(), "valkey 9.1.2");
        let redis = "# Server\r\nredis_version:7.0.15\r\nredis_git_sha1:00000000\r\n";
        assert_eq!(Version::from_info(redis).unwrap().to_string(), "redis 7.0.15");
        assert_eq!(Version::from_info("# Server\r\n"), None);
    }
}
