use maud::{Markup, PreEscaped, Render, html};

use super::clean::{clean, plain};

/// The classes of all figures: once in the page, and in the file of each figure.
pub const STYLE: &str = include_str!("figure.css");

/// A drawing.
#[derive(Debug)]
pub struct Figure {
    /// The name of its file and the prefix of its ids; unique in the page.
    pub id: String,
    /// The title.
    pub title: String,
    /// A text alternative for readers who cannot see the figure.
    pub desc: String,
    /// The width, in units of which the text size is 12.
    pub width: f64,
    /// The height, in the same units.
    pub height: f64,
    /// The drawing.
    pub body: Markup,
}

impl Figure {
    /// The drawing for a page that contains [`STYLE`] and has its own caption.
    #[must_use]
    pub fn inline(&self) -> Markup {
        let id = plain(&self.id);
        let (title, desc) = (format!("{id}-t"), format!("{id}-d"));
        html! {
            svg.ql #(id) xmlns="http://www.w3.org/2000/svg" role="img"
                aria-labelledby={ (title) " " (desc) }
                width=(n(self.width)) height=(n(self.height))
                viewBox={ "0 0 " (n(self.width)) " " (n(self.height)) } {
                title #(title) { (clean(&self.title)) }
                desc #(desc) { (clean(&self.desc)) }
                (self.body)
            }
        }
    }

    /// A complete SVG document, with a title and a background.
    #[must_use]
    pub fn standalone(&self) -> String {
        let height = self.height + HEAD;
        let document = html! {
            svg.ql xmlns="http://www.w3.org/2000/svg" role="img" aria-labelledby="t d"
                width=(n(self.width)) height=(n(height))
                viewBox={ "0 0 " (n(self.width)) " " (n(height)) } {
                title #t { (clean(&self.title)) }
                desc #d { (clean(&self.desc)) }
                style { (PreEscaped(STYLE)) }
                rect.paper width="100%" height="100%" {}
                text.strong x="10" y="21" font-size="14" { (clean(&self.title)) }
                g transform={ "translate(0 " (n(HEAD)) ")" } { (self.body) }
            }
        };
        document.into_string() + "\n"
    }
}

/// The height of the title.
const HEAD: f64 = 30.0;

/// A coordinate, rounded to a tenth: enough for a figure, and it keeps files small.
#[must_use]
pub fn n(value: f64) -> impl Render {
    debug_assert!(value.is_finite(), "a coordinate");
    let text = format!("{value:.1}");
    PreEscaped(text.strip_suffix(".0").unwrap_or(&text).to_owned())
}

#[cfg(test)]
pub(crate) fn assert_well_formed(figure: &Figure) {
    for text in [figure.standalone(), figure.inline().into_string()] {
        assert!(!text.contains("NaN") && !text.contains("inf"), "{text}");
        let mut open = Vec::new();
        for tag in text.split('<').skip(1) {
            let (tag, _) = tag.split_once('>').unwrap_or_else(|| panic!("<{tag}"));
            match tag.strip_prefix('/') {
                Some(name) => assert_eq!(open.pop(), Some(name), "{text}"),
                None => open.push(tag.split(' ').next().unwrap_or_default()),
            }
        }
        assert!(open.is_empty(), "{open:?} are left open in {text}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hostile() -> Figure {
        Figure {
            id: "a\"><script>".into(),
            title: "<script>alert(1)</script>\0".into(),
            desc: "]]>&\"'".into(),
            width: 10.0,
            height: 20.25,
            body: html! { text { "</svg>" } },
        }
    }

    #[test]
    fn what_is_shown_is_never_markup() {
        let figure = hostile();
        assert_well_formed(&figure);
        for text in [figure.standalone(), figure.inline().into_string()] {
            assert!(!text.contains("<script") && !text.contains('\0'), "{text}");
            assert_eq!(text.matches("</svg>").count(), 1, "{text}");
        }
    }

    #[test]
    fn coordinates_are_short() {
        let text = [1.0, 1.25, 0.04, -3.0].map(|value| n(value).render().into_string());
        assert_eq!(text, ["1", "1.2", "0", "-3"]);
    }
}
