//! Generated parts of a document that people write.

/// Puts `text` between the markers of `name`, or at the end, in markers of its own.
#[must_use]
pub fn replace(document: &str, name: &str, text: &str) -> String {
    let (begin, end) = (format!("<!-- {name}: begin -->"), format!("<!-- {name}: end -->"));
    let part = format!("{begin}\n{}\n{end}", text.trim_end());
    let found = document.split_once(&begin).and_then(|(before, rest)| {
        let (_, after) = rest.split_once(&end)?;
        Some(format!("{before}{part}{after}"))
    });
    found.unwrap_or_else(|| format!("{}\n\n{part}\n", document.trim_end()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_prose_around_stays() {
        let document = "# A\n\n<!-- x: begin -->\nold\n<!-- x: end -->\n\nprose\n";
        let new = replace(document, "x", "new\n");
        assert_eq!(new, "# A\n\n<!-- x: begin -->\nnew\n<!-- x: end -->\n\nprose\n");
        assert_eq!(replace(&new, "x", "new"), new);
    }

    #[test]
    fn a_part_without_markers_comes_last() {
        let new = replace("prose\n", "x", "new");
        assert_eq!(new, "prose\n\n<!-- x: begin -->\nnew\n<!-- x: end -->\n");
    }
}
