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

/// The same, into a directory beside that of the runs: no invocation writes over the runs of another.
pub(super) fn again(typed: &[String], seed: u64) -> String {
    let mut words = Vec::new();
    let mut typed = typed.iter();
    while let Some(word) = typed.next() {
        match word.split_once('=') {
            _ if word == "--resume" => {}
            _ if PLACES.contains(&word.as_str()) => {
                words.push(word.clone());
                words.extend(typed.next().map(|dir| fresh(dir)));
            }
            Some((option, dir)) if PLACES.contains(&option) => {
                words.push(format!("{option}={}", fresh(dir)));
            }
            _ => words.push(word.clone()),
        }
    }
    command_line(&words, seed)
}

/// The options that name the directory of the results.
const PLACES: [&str; 2] = ["--out", "--report"];

fn fresh(dir: &str) -> String {
    format!("{}-again", dir.trim_end_matches('/'))
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

    #[test]
    fn again_goes_into_a_fresh_directory_and_resumes_nothing() {
        let again = |typed: &[&str]| {
            again(&typed.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>(), 42)
        };
        assert_eq!(
            again(&["quorumlock-lab", "run", "L16", "--out", "a b/", "--resume", "--seed=7"]),
            "quorumlock-lab run L16 --out 'a b-again' --seed=7"
        );
        assert_eq!(again(&["x", "--out=d"]), "x --out=d-again --seed 42");
        assert_eq!(
            again(&["x", "compare", "--report", "d"]),
            "x compare --report d-again --seed 42"
        );
    }
}
