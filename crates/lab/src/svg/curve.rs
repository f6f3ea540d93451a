use maud::{Markup, html};

/// Patterns of lines, so that curves differ not only in colour.
const DASHES: [&str; 4] = ["none", "8 3", "2 3", "9 3 2 3"];

/// A path in the colour and with the pattern of the curve of this index.
#[must_use]
pub fn curve(index: usize, path: &str) -> Markup {
    let colour = format!("c{}", index % 8);
    html! { path.curve.(colour) d=(path) stroke-dasharray=(DASHES[index / 2 % DASHES.len()]) {} }
}
