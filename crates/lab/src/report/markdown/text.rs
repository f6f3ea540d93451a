//! Paragraphs and tables as Markdown source that people read, too.

use crate::svg::clean;

/// The width of a line in characters.
const WIDTH: usize = 100;

/// The text, broken between words. `first` begins the first line, and as many spaces each other.
pub(super) fn wrapped(first: &str, text: &str) -> String {
    let indent = " ".repeat(first.chars().count());
    let mut lines = Vec::new();
    let (mut line, mut empty) = (first.to_owned(), true);
    for word in text.split_ascii_whitespace() {
        let space = usize::from(!empty);
        if !empty && line.chars().count() + space + word.chars().count() > WIDTH {
            lines.push(std::mem::replace(&mut line, indent.clone()));
            empty = true;
        }
        line.extend(if empty { ["", word] } else { [" ", word] });
        empty = false;
    }
    lines.push(line);
    lines.join("\n")
}

/// Text from outside, without a meaning as Markdown.
pub(super) fn escaped(text: &str) -> String {
    let mut out = String::new();
    for c in clean(text).chars() {
        if matches!(c, '\\' | '`' | '*' | '[' | ']' | '<' | '>' | '|' | '&') {
            out.push('\\');
        }
        out.push(c);
    }
    out
}

/// Words for the page, with spaces and commas that every editor shows.
pub(super) fn plain_spaces(words: &str) -> String {
    words.replace('\u{a0}', " ").replace('\u{202f}', ",")
}

/// A table whose columns are as wide as their longest cell. The first row is the heading.
pub(super) fn table(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or_default();
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or_default().max(3)
    };
    let widths = (0..columns).map(width).collect::<Vec<_>>();
    let line = |cells: &[String]| {
        let cells = cells.iter().zip(&widths).map(|(cell, width)| format!(" {cell:<width$} |"));
        format!("|{}\n", cells.collect::<String>())
    };
    let rule = widths.iter().map(|width| "-".repeat(*width)).collect::<Vec<_>>();
    let mut out = String::new();
    for (index, row) in rows.iter().enumerate() {
        out += &line(row);
        if index == 0 {
            out += &line(&rule);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_end_between_words_and_items_are_indented() {
        let words = "123456789 ".repeat(20);
        let text = wrapped("- ", &words);
        let lines = text.lines().collect::<Vec<_>>();
        assert_eq!(lines.len(), 3, "{text}");
        assert!(lines[0].starts_with("- 1") && lines[1].starts_with("  1"), "{text}");
        assert!(lines.iter().all(|line| line.len() <= WIDTH && !line.ends_with(' ')), "{text}");
        assert_eq!(wrapped("", &"1234 ".repeat(20)).lines().count(), 1, "99 characters");
        assert_eq!(wrapped("", &"x".repeat(120)).lines().count(), 1, "a long word has its line");
    }

    #[test]
    fn text_from_outside_has_no_meaning() {
        assert_eq!(escaped("<b>|`x`\n[a](b)"), r"\<b\>\|\`x\`�\[a\](b)");
        assert_eq!(plain_spaces("1\u{202f}234\u{a0}holds"), "1,234 holds");
    }

    #[test]
    fn columns_are_aligned() {
        let rows = [["id", "S"], ["L06C", "violation"]].map(|row| row.map(str::to_owned).to_vec());
        let expected = "| id   | S         |\n| ---- | --------- |\n| L06C | violation |\n";
        assert_eq!(table(&rows), expected);
    }
}
