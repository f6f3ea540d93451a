//! Variables that were meant to be ours.

use quorumlock_protocol::ConfigError;
use strsim::damerau_levenshtein;

use super::table::OPTIONS;

const OURS: &str = "QUORUMLOCK_";

/// What `quorumlock run` sets for its command.
const OTHERS: [&str; 5] = ["NAME", "TOKEN", "SLOT", "HOLDS", "SERVER"];

/// Fails if a variable of this process differs from one of ours by a letter or two.
///
/// # Errors
/// [`ConfigError::BadVariable`] with the variable, and the one that was meant.
pub fn check_environment() -> Result<(), ConfigError> {
    let names = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    names.filter_map(|name| meant_by(&name).map(|meant| (name, meant))).next().map_or(
        Ok(()),
        |(variable, meant)| {
            let why = format!("no program of quorumlock reads it: {meant} is meant");
            Err(ConfigError::BadVariable { variable, value: None, why })
        },
    )
}

/// The variable of an option that was meant by this name.
fn meant_by(name: &str) -> Option<String> {
    let given = name.strip_prefix(OURS)?;
    if OTHERS.contains(&given) || OPTIONS.iter().any(|option| option.variable() == name) {
        return None;
    }
    OPTIONS.iter().map(|option| option.variable()).find(|known| {
        let known = &known[OURS.len()..];
        // Two letters of four are another word.
        let letters = if known.len() < 6 { 1 } else { 2 };
        damerau_levenshtein(known, given) <= letters
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_letter_or_two_are_a_slip() {
        for (given, meant) in [
            ("REPLICA", Some("REPLICAS")),
            ("REPLCIAS", Some("REPLICAS")),
            ("NODE", Some("NODES")),
            ("MAXLEASE", Some("MAX_LEASE")),
            ("TLS_CERTS", Some("TLS_CERT")),
            ("REPLICAS", None),
            ("NAME", None),
            // What Kubernetes sets for a service of this name.
            ("SERVICE_HOST", None),
            ("SERVICE_PORT", None),
            ("PORT", None),
            ("PORT_6379_TCP_ADDR", None),
            ("TEST_SCRIPTS_ONLY", None),
        ] {
            let meant = meant.map(|meant| format!("{OURS}{meant}"));
            assert_eq!(meant_by(&format!("{OURS}{given}")), meant, "{given}");
        }
        assert_eq!(meant_by("REPLICA"), None, "not ours");
    }
}
