use maud::{Markup, html};

use super::figure::n;

/// An entry of the key: the sign, drawn around (0, 0), and its meaning.
pub type Entry<'a> = (Markup, &'a str);

/// Lays out entries in lines that fill the width. Returns their total height as well.
#[must_use]
pub fn key(entries: &[Entry<'_>], left: f64, top: f64, width: f64) -> (Markup, f64) {
    let (mut x, mut y) = (left, top + 12.0);
    let placed: Vec<_> = entries
        .iter()
        .map(|(sign, words)| {
            let room = 26.0 + 6.3 * words.chars().count() as f64 + 14.0;
            if x > left && x + room > left + width {
                (x, y) = (left, y + LINE);
            }
            let at = (x, y);
            x += room;
            (at, sign, words)
        })
        .collect();
    let markup = html! {
        @for ((x, y), sign, words) in &placed {
            g transform={ "translate(" (n(x + 9.0)) " " (n(y - 4.0)) ")" } { (sign) }
            text.minor x=(n(x + 24.0)) y=(n(*y)) { (words) }
        }
    };
    (markup, y + 8.0 - top)
}

const LINE: f64 = 20.0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_broken_where_the_width_ends() {
        let entries = [(html! {}, "twenty letters, about"), (html! {}, "and as many once more")];
        let (_, wide) = key(&entries, 0.0, 0.0, 900.0);
        let (markup, narrow) = key(&entries, 0.0, 0.0, 200.0);
        assert!((narrow - wide - LINE).abs() < 1e-9, "{narrow} {wide}");
        assert!(markup.into_string().contains("and as many"));
    }
}
