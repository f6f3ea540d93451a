//! The code in docs/RECIPES.md is exactly the code that is compiled here.

const PAGE: &str = include_str!("../../../docs/RECIPES.md");
/// The pages from which commands are repeated.
const PAGES: [&str; 2] =
    [include_str!("../../../docs/COMMANDS.md"), include_str!("../../../docs/OPERATIONS.md")];

/// In the order of the page.
const RECIPES: [&str; 6] = [
    include_str!("axum_handler.rs"),
    include_str!("actix_handler.rs"),
    include_str!("tonic_service.rs"),
    include_str!("sqlx_token.rs"),
    include_str!("tokio_test.rs"),
    include_str!("lost_lock.rs"),
];

fn blocks(language: &str) -> Vec<&'static str> {
    let fence = format!("```{language}\n");
    let rest = PAGE.split(&*fence).skip(1);
    rest.map(|text| text.split("```").next().unwrap_or_default()).collect()
}

#[test]
fn the_code_is_that_of_the_recipes() {
    let compiled = RECIPES.map(|text| text.split_once("\n\n").expect("a comment and code").1);
    let shown = blocks("rust");
    for (shown, compiled) in shown.iter().zip(compiled) {
        assert_eq!(*shown, compiled);
    }
    assert_eq!(shown.len(), RECIPES.len());
}

#[test]
fn the_commands_are_those_of_their_pages() {
    let blocks_of_commands = 2;
    for block in blocks("sh").into_iter().chain(blocks("crontab")) {
        for line in block.lines() {
            let known = PAGES.iter().flat_map(|page| page.lines()).any(|known| known == line);
            assert!(known, "on no page: {line}");
        }
    }
    let blocks = PAGE.matches("\n```").count() / 2;
    assert_eq!(blocks, RECIPES.len() + blocks_of_commands, "a block of code was added: run it");
}
