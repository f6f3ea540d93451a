use maud::{Markup, html};

use crate::svg::{Figure, clean};

/// A figure in its own box, with a link to its file.
pub(super) fn shown(figure: &Figure, words: &str) -> Markup {
    html! {
        figure {
            div.scroll tabindex="0" role="region" aria-label={ "Figure: " (clean(&figure.title)) } {
                (figure.inline())
            }
            figcaption {
                strong { (clean(&figure.title)) ". " }
                (words) " "
                a href={ "figures/" (figure.id) ".svg" } { "SVG" }
            }
        }
    }
}
