//! The command line of an invocation, for people to paste.

/// The command line in shell syntax, with the seed even if it was drawn.
pub(super) fn command_line(typed: &[String], seed: u64) -> String {
    let mut words: Vec<_> = typed.iter().map(|word| quoted(word)).collect();
    let is_seed = |word: &String| word == "--seed" || word.starts_with("--seed=");
    if !typed.iter().any(is_seed) {
        words.push(format!("--seed {seed}"));
    }
    words.join(" ")
}

fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,@%+".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(typed: &[&str]) -> String {
        command_line(&typed.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>(), 42)
    }

    #[test]
    fn the_command_line_can_be_pasted_and_has_the_seed() {
        let pasted = line(&["quorumlock-lab", "run", "L16", "--out", "it's here"]);
        assert_eq!(pasted, r"quorumlock-lab run L16 --out 'it'\''s here' --seed 42");
        for given in [&["x", "--seed", "7"][..], &["x", "--seed=7"]] {
            assert!(!line(given).contains("42"));
        }
        assert_eq!(quoted(""), "''");
    }
}
