//! One word for one thing: words of an earlier naming do not come back.

use super::{assert_none, with_extension};

/// Words that a reader of redis, raft or etcd code would not guess, and what stands for them.
const WORDS: [(&str, &str); 11] = [
    ("ear", "subscriber"),
    ("ears", "subscribers"),
    ("news", "change, loss"),
    ("pulse", "clock monitor"),
    ("roster", "registry"),
    ("crowds", "contended names"),
    ("stranger", "foreign client"),
    ("strangers", "foreign clients"),
    ("lock_all", "lock of several names"),
    ("Verbatim", "Raw"),
    ("FireAndForget", "NoReply"),
];

#[test]
fn words_of_an_earlier_naming_are_gone() {
    let here = "words.rs";
    let mut found = Vec::new();
    for (path, text) in with_extension("rs").into_iter().chain(with_extension("md")) {
        let is_history = path.components().any(|part| part.as_os_str() == "decisions");
        if is_history || path.ends_with(here) {
            continue;
        }
        for (number, line) in text.lines().enumerate() {
            let words = line.split(|c: char| !c.is_alphanumeric() && c != '_');
            for word in words {
                if let Some((_, better)) = WORDS.iter().find(|(wrong, _)| *wrong == word) {
                    let number = number + 1;
                    found.push(format!("{}:{number}: {word}: {better}", path.display()));
                }
            }
        }
    }
    assert_none("words with a better one", &found);
}
