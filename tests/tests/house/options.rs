//! The pages print the table of options.

use std::{env, fs};

use quorumlock::options::{LockerOption, OPTIONS};

use super::root;

const BEGIN: &str = "<!-- The table of options is printed by `make tables`. -->\n";
const END: &str = "<!-- End of the table of options. -->\n";

#[test]
fn the_guide_prints_the_options() {
    let row = |option: &LockerOption| {
        let LockerOption { name, default, about, .. } = option;
        let (values, servers) = (option.values(), option.servers());
        format!("| `{name}` | {default} | {values} | {servers} | {about} |\n")
    };
    let head = "| option | default | values | servers | what it is |\n|---|---|---|---|---|\n";
    prints("docs/GUIDE.md", head, row);
}

#[test]
fn operations_prints_the_arguments_and_variables() {
    let row = |option: &LockerOption| {
        let (flag, variable, about) = (option.flag(), option.variable(), option.about);
        let argument = match option.placeholder() {
            Some(placeholder) => format!("--{flag} {placeholder}").replace('|', "\\|"),
            None => format!("--{flag}"),
        };
        format!("| `{argument}` | `{variable}` | {} | {about} |\n", option.default)
    };
    let head = "| argument | variable | default | meaning |\n|---|---|---|---|\n";
    prints("docs/COMMANDS.md", head, row);
}

#[test]
fn the_documentation_of_the_library_prints_the_variables() {
    let row = |option: &LockerOption| {
        let (variable, values) = (option.variable(), option.values());
        format!("| `{variable}` | {} | {values} | {} |\n", option.default, option.about)
    };
    let head = "| variable | default | values | meaning |\n|---|---|---|---|\n";
    prints("crates/quorumlock/src/variables.md", head, row);
}

fn prints(page: &str, head: &str, row: impl Fn(&LockerOption) -> String) {
    let file = root().join(page);
    let text = fs::read_to_string(&file).expect("the page");
    let (before, rest) = text.split_once(BEGIN).expect("the begin of the table");
    let (printed, after) = rest.split_once(END).expect("the end of the table");
    let rows = OPTIONS.iter().map(row).collect::<String>();
    let table = ["\n", head, &rows, "\n"].concat();
    if env::var_os("QUORUMLOCK_UPDATE_TABLES").is_some() {
        return fs::write(file, [before, BEGIN, &table, END, after].concat()).expect("written");
    }
    assert_eq!(printed, table, "{page} differs: `make tables` writes it");
}
