//! OPERATIONS prints the table, and its lines for `ACL SETUSER` name the commands of the table.

use std::collections::BTreeSet;
use std::path::Path;
use std::{env, fs};

use quorumlock_redis::permissions::{Call, PERMISSIONS, Permission, Without};

const BEGIN: &str = "<!-- The table is printed by `make tables`. -->\n";
const END: &str = "<!-- End of the table. -->\n";

#[test]
fn operations_prints_the_table() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/OPERATIONS.md");
    let page = fs::read_to_string(&file).expect("the page");
    let (before, rest) = page.split_once(BEGIN).expect("the begin of the table");
    let (printed, after) = rest.split_once(END).expect("the end of the table");
    let table = table();
    if env::var_os("QUORUMLOCK_UPDATE_TABLES").is_some() {
        return fs::write(file, [before, BEGIN, &table, END, after].concat()).expect("written");
    }
    assert_eq!(printed, table, "docs/OPERATIONS.md differs: `make tables` writes it");
}

#[test]
fn the_lines_for_acl_setuser_name_the_commands_that_are_used() {
    let page = include_str!("../../../docs/OPERATIONS.md");
    let lines: Vec<_> =
        page.lines().filter(|line| line.starts_with("ACL SETUSER locker")).collect();
    let used = |of: fn(&Permission) -> Without| {
        let used = PERMISSIONS.iter().filter(move |row| of(row) != Without::Unused);
        used.map(|row| row.command).collect::<BTreeSet<_>>()
    };
    let mut expected = [used(|row| row.single), used(|row| row.quorum)];
    // On one server the line serves Redlock's layout as well.
    expected[0].extend(["get", "set"]);
    let allowed = lines.iter().map(|line| {
        line.split(' ').filter_map(|word| word.strip_prefix('+')).collect::<BTreeSet<_>>()
    });
    assert_eq!(allowed.collect::<Vec<_>>(), expected);
}

fn table() -> String {
    let mut table = String::from(
        "\n| without | one server, Redisson's layout | a quorum, strict admission |\n|---|---|---|\n",
    );
    for row in PERMISSIONS {
        let (single, quorum) = (said(row.single), said(row.quorum));
        table.push_str(&format!(
            "| `{}` | {single} | {quorum} |\n",
            row.command.replace('|', "\\|")
        ));
    }
    table.push('\n');
    table
}

fn said(without: Without) -> String {
    match without {
        Without::Unused => "not used".to_owned(),
        Without::Works(lost) => lost.to_owned(),
        Without::Fails(calls) => {
            let calls: Vec<_> = calls.iter().map(|call| call_of(*call)).collect();
            format!("these fail: {}", calls.join(", "))
        }
        Without::Refused => "**no lock**".to_owned(),
    }
}

fn call_of(call: Call) -> &'static str {
    match call {
        Call::Wait => "calls that meet a held lock",
        Call::Holder => "`holder`",
        Call::ForceUnlock => "`force_unlock`",
        Call::Admit => "`init` and admission",
    }
}
