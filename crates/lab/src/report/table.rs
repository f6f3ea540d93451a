//! Tables: one source for the page and for the file.

use std::io;
use std::path::Path;

use maud::{Markup, html};

use super::clean::clean;

/// A table.
#[derive(Debug)]
pub(super) struct Table {
    /// What its file is called.
    pub(super) id: String,
    /// What it shows.
    pub(super) caption: String,
    /// Its columns: a heading for people, a name with its unit for programs.
    pub(super) columns: Vec<(&'static str, &'static str)>,
    /// Its rows.
    pub(super) rows: Vec<Vec<Cell>>,
}

/// What stands in a column of a row.
#[derive(Debug, Clone, Default)]
pub(super) struct Cell {
    /// For people.
    shown: String,
    /// For programs: numbers as they are.
    raw: String,
    class: &'static str,
    link: Option<String>,
}

impl Cell {
    /// The same for both.
    pub(super) fn text(text: impl Into<String>) -> Self {
        let text = text.into();
        Self { shown: text.clone(), raw: text, ..Self::default() }
    }

    /// A few words.
    pub(super) fn words(text: impl Into<String>) -> Self {
        Self { class: "words", ..Self::text(text) }
    }

    /// Words that need room.
    pub(super) fn long(text: impl Into<String>) -> Self {
        Self { class: "long", ..Self::text(text) }
    }

    /// A number.
    pub(super) fn number(shown: impl Into<String>, raw: impl ToString) -> Self {
        Self { shown: shown.into(), raw: raw.to_string(), class: "number", ..Self::default() }
    }

    /// A number that may not have been measured.
    pub(super) fn maybe(shown: impl Into<String>, raw: Option<impl ToString>) -> Self {
        Self::number(shown, raw.map(|raw| raw.to_string()).unwrap_or_default())
    }

    /// Marked as good or bad, in a shape as well as in a colour.
    pub(super) fn verdict(good: bool, shown: impl Into<String>, raw: impl ToString) -> Self {
        let class = if good { "good" } else { "bad" };
        Self { shown: shown.into(), raw: raw.to_string(), class, link: None }
    }

    /// Leads to another place of the page.
    pub(super) fn to(self, anchor: &str) -> Self {
        Self { link: Some(format!("#{anchor}")), ..self }
    }
}

impl Table {
    /// For the page: scrolls in a box of its own, also by the keyboard. The first column is the
    /// rows' heading.
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

    /// Writes its file.
    ///
    /// # Errors
    /// As the system says.
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

/// A spreadsheet takes text that begins like a formula for one, and a history is not to command it.
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
