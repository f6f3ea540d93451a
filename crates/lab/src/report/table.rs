//! Tables: one source for the page and for the CSV file.

use std::io;
use std::path::Path;

use maud::{Markup, html};

use crate::svg::clean;

/// A table.
#[derive(Debug)]
pub(super) struct Table {
    /// The name of its file.
    pub(super) id: String,
    /// The caption.
    pub(super) caption: String,
    /// The columns: a heading for people, and a name with its unit for programs.
    pub(super) columns: Vec<(&'static str, &'static str)>,
    /// Its rows.
    pub(super) rows: Vec<Vec<Cell>>,
}

/// A cell of a table.
#[derive(Debug, Clone, Default)]
pub(super) struct Cell {
    /// The text for people.
    shown: String,
    /// The value for programs: numbers without formatting.
    raw: String,
    class: &'static str,
    link: Option<String>,
}

impl Cell {
    /// A cell with the same text for people and programs.
    pub(super) fn text(text: impl Into<String>) -> Self {
        let text = text.into();
        Self { shown: text.clone(), raw: text, ..Self::default() }
    }

    /// A short text.
    pub(super) fn words(text: impl Into<String>) -> Self {
        Self { class: "words", ..Self::text(text) }
    }

    /// A text that needs a wide column.
    pub(super) fn long(text: impl Into<String>) -> Self {
        Self { class: "long", ..Self::text(text) }
    }

    /// A number.
    pub(super) fn number(shown: impl Into<String>, raw: impl ToString) -> Self {
        Self { shown: shown.into(), raw: raw.to_string(), class: "number", ..Self::default() }
    }

    /// A number, or an empty value if it was not measured.
    pub(super) fn maybe(shown: impl Into<String>, raw: Option<impl ToString>) -> Self {
        Self::number(shown, raw.map(|raw| raw.to_string()).unwrap_or_default())
    }

    /// A cell marked as good or bad, by its shape as well as by its colour.
    pub(super) fn verdict(good: bool, shown: impl Into<String>, raw: impl ToString) -> Self {
        let class = if good { "good" } else { "bad" };
        Self { shown: shown.into(), raw: raw.to_string(), class, link: None }
    }

    /// Adds a link to an anchor in the page.
    pub(super) fn to(self, anchor: &str) -> Self {
        Self { link: Some(format!("#{anchor}")), ..self }
    }
}

impl Table {
    /// The table in HTML. It scrolls in its own box, also by keyboard. The first column holds the
    /// row headings.
    pub(super) fn html(&self) -> Markup {
        html! {
            div.scroll tabindex="0" role="region" aria-label=(clean(&self.caption)) {
                table {
                    caption { (clean(&self.caption)) }
                    thead { tr { @for (heading, _) in &self.columns { th scope="col" { (heading) } } } }
                    tbody {
                        @for row in &self.rows {
                            tr { @for (index, cell) in row.iter().enumerate() { (cell.html(index == 0)) } }
                        }
                    }
                }
            }
            p.files { "As a file: " a href={ "tables/" (self.file()) } { (self.file()) } }
        }
    }

    /// The name of its file.
    pub(super) fn file(&self) -> String {
        format!("{}.csv", self.id)
    }

    /// Writes the CSV file.
    ///
    /// # Errors
    /// The [`io::Error`] of the system.
    pub(super) fn write(&self, dir: &Path) -> io::Result<()> {
        let mut csv = csv::Writer::from_path(dir.join(self.file()))?;
        csv.write_record(self.columns.iter().map(|(_, name)| name))?;
        for row in &self.rows {
            csv.write_record(row.iter().map(|cell| harmless(&cell.raw)))?;
        }
        csv.flush()
    }
}

impl Cell {
    fn html(&self, heads: bool) -> Markup {
        let inside = html! {
            @if let Some(link) = &self.link { a href=(link) { (clean(&self.shown)) } }
            @else { (clean(&self.shown)) }
        };
        let sign = match self.class {
            "good" => "✓ ",
            "bad" => "✗ ",
            _ => "",
        };
        html! {
            @if heads { th scope="row" { (sign) (inside) } }
            @else if self.class.is_empty() { td { (inside) } }
            @else { td.(self.class) { (sign) (inside) } }
        }
    }
}

/// Escapes text that a spreadsheet would execute as a formula: a history must not command it.
fn harmless(raw: &str) -> String {
    let text = clean(raw);
    let number = text.parse::<f64>().is_ok();
    if text.starts_with(['=', '+', '-', '@']) && !number { format!("'{text}") } else { text.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        Table {
            id: "t".into(),
            caption: "a <caption>".into(),
            columns: vec![("Name", "name"), ("Longest", "longest_ms")],
            rows: vec![
                vec![Cell::text("a,\"b\"\n<script>"), Cell::number("1.5\u{a0}s", 1_500.25)],
                vec![Cell::text("=cmd|' /C calc'!A0"), Cell::maybe("–", None::<f64>)],
                vec![Cell::verdict(false, "no", false).to("L16"), Cell::number("-1", -1)],
            ],
        }
    }

    #[test]
    fn the_file_is_quoted_and_no_text_is_a_formula() {
        let dir = tempfile::tempdir().unwrap();
        table().write(dir.path()).unwrap();
        let text = std::fs::read_to_string(dir.path().join("t.csv")).unwrap();
        assert_eq!(
            text,
            "name,longest_ms\n\"a,\"\"b\"\"�<script>\",1500.25\n'=cmd|' /C calc'!A0,\nfalse,-1\n"
        );
        let rows = csv::Reader::from_path(dir.path().join("t.csv")).unwrap().into_records().count();
        assert_eq!(rows, 3);
    }

    #[test]
    fn the_page_shows_text_as_text_and_a_verdict_by_shape() {
        let html = table().html().into_string();
        assert!(!html.contains("<script>") && html.contains("&lt;script&gt;"), "{html}");
        assert!(html.contains("✗ <a href=\"#L16\">no</a>") && html.contains("a &lt;caption&gt;"));
        assert_eq!(html.matches("scope=\"row\"").count(), 3, "{html}");
    }
}
