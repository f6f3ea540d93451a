//! Sanitises text from outside. maud escapes markup; this module replaces characters that must not
//! occur in a document.

use std::borrow::Cow;

/// Replaces each character that XML forbids (control characters, which would make a figure
/// unreadable) or that changes the reading direction (which could rewrite the words around a name)
/// by one visible mark.
#[must_use]
pub(crate) fn clean(text: &str) -> Cow<'_, str> {
    if text.chars().any(is_unfit) {
        text.chars().map(|c| if is_unfit(c) { char::REPLACEMENT_CHARACTER } else { c }).collect()
    } else {
        Cow::Borrowed(text)
    }
}

/// At most `most` characters, with an ellipsis in place of the rest.
#[must_use]
pub(crate) fn short(text: &str, most: usize) -> Cow<'_, str> {
    let text = clean(text);
    if text.chars().count() <= most {
        return text;
    }
    text.chars().take(most.saturating_sub(1)).chain(['…']).collect()
}

/// A name for a file or an id, safer than any escape: characters other than ASCII letters, digits,
/// `-`, `_` become `_`, and the name does not begin with a dot.
#[must_use]
pub(crate) fn plain(name: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    let name: String = name.chars().take(120).map(|c| if plain(c) { c } else { '_' }).collect();
    if name.is_empty() { "_".to_owned() } else { name }
}

fn is_unfit(c: char) -> bool {
    let turns =
        matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    c.is_control() || turns || matches!(c, '\u{fffe}' | '\u{ffff}' | '\u{2028}' | '\u{2029}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_document_may_have_is_marked() {
        assert_eq!(clean("a\0b\u{1b}[31mc\u{202e}d\u{ffff}"), "a�b�[31mc�d�");
        assert!(matches!(clean("plain <b> & \"é\" 錠"), Cow::Borrowed(_)), "left to maud");
    }

    #[test]
    fn shortened_by_characters() {
        assert_eq!(short("abcdef", 6), "abcdef");
        assert_eq!(short("äöüäöüä", 4), "äöü…");
        assert_eq!(short("a\nb", 9), "a�b");
    }

    #[test]
    fn names_of_files_stay_where_they_belong() {
        assert_eq!(plain("L16-R-process-s42-0"), "L16-R-process-s42-0");
        assert_eq!(plain("../../etc/x\" onload=1"), "______etc_x__onload_1");
        assert_eq!(plain(""), "_");
        assert_eq!(plain(&"x".repeat(500)).len(), 120);
    }
}
