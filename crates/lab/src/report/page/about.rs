use maud::{Markup, PreEscaped, html};

use super::super::command_line::again as command_again;
use super::super::load::Source;
use super::super::words::{count, none, three};
use super::Overview;
use crate::record::Environment;
use crate::svg::clean;

/// The end of the page: how to repeat the lab, where it ran, and the meaning of the terms.
pub(in crate::report) fn closing(overview: &Overview<'_>) -> Markup {
    html! {
        section #again tabindex="-1" {
            h2 { "Run it again" }
            p { "The seed decides every number that a run draws: faults come at the same points of the schedule. Real processes do not repeat to the microsecond." }
            @for source in overview.sources { (again(source)) }
        }
        section #environment tabindex="-1" {
            h2 { "Environment" }
            @for source in overview.sources {
                @if let Some(lab) = &source.lab { (environment(&lab.environment)) }
                (servers(source))
            }
        }
        (glossary())
        (PreEscaped("</main>"))
        footer {
            p.minor {
                "Written by quorumlock " (env!("CARGO_PKG_VERSION"))
                " from lab.json and runs/*/history.jsonl; figures/ and tables/ lie beside this page."
            }
        }
        (PreEscaped("</body></html>\n"))
    }
}

fn again(source: &Source) -> Markup {
    html! {
        @match &source.lab {
            Some(lab) => {
                div.scroll tabindex="0" role="region" aria-label="Command line" {
                    pre { code { (clean(&command_again(&lab.command_line, lab.seed))) } }
                }
                p { "Seed " strong { (lab.seed) } "." }
            }
            None => p.warning { "There is no lab.json: the command line was not kept." },
        }
    }
}

fn environment(environment: &Environment) -> Markup {
    let Environment { quorumlock, commit, dirty, diff, build, rustc, kernel, cpu, cpus, .. } =
        environment;
    let optional = |value: &Option<String>| value.clone().unwrap_or_else(none);
    let [one, five, fifteen] = environment.load_before;
    let dirty = match dirty {
        Some(true) => ", with changes",
        Some(false) => ", without changes",
        None => "",
    };
    let changes = diff.as_ref().map(|diff| format!(" {diff}")).unwrap_or_default();
    let rows = [
        ("quorumlock", format!("{quorumlock}, {build} build")),
        ("Commit", optional(commit) + dirty + &changes),
        ("Compiler", optional(rustc)),
        ("Server", environment.server.clone()),
        ("Kernel", kernel.clone()),
        (
            "Processor",
            format!("{cpu}, {}", super::super::words::counted(*cpus as u64, "processor")),
        ),
        ("Memory", format!("{} MiB", count(environment.memory_bytes >> 20))),
        ("Clock source", optional(&environment.clocksource)),
        (
            "Load before",
            format!("{} (1 min), {} (5 min), {} (15 min)", load(one), load(five), load(fifteen)),
        ),
    ];
    html! {
        dl { @for (name, value) in &rows { div { dt { (name) } dd { (clean(value)) } } } }
    }
}

fn load(load: f64) -> String {
    if load == 0.0 { "0".to_owned() } else { three(load) }
}

/// Each kind of server once, because runs start many equal servers.
fn servers(source: &Source) -> Markup {
    let mut kinds: Vec<String> = Vec::new();
    for node in source.runs.iter().flat_map(|run| &run.nodes) {
        let kind = format!("{} ({})", node.version, node.role);
        if !kinds.contains(&kind) {
            kinds.push(kind);
        }
    }
    kinds.sort_unstable();
    html! {
        @if !kinds.is_empty() {
            p.minor { "Servers of the runs: " (clean(&kinds.join(", "))) ". Their run ids are in each run.json." }
        }
    }
}

fn glossary() -> Markup {
    const WORDS: [(&str, &str); 16] = [
        (
            "Belief",
            "A holder believes from the grant until the earliest of: it begins to give the lock back, it is told of the loss, the end of validity that it knows has come. All of it on one clock of the host.",
        ),
        (
            "V, violation",
            "Two holds of one lock that were believed in at the same time: mutual exclusion fell.",
        ),
        (
            "E",
            "Stale effects: writes of a hold that the resource accepted after another hold had claimed it with its first write.",
        ),
        (
            "St",
            "Stale writes that the resource refused, because their fencing token was below the highest it had seen.",
        ),
        ("U", "The time with somebody waiting and nobody believing; the longest."),
        (
            "F",
            "From the first of a client's failed attempts in a row to its next attempt that is granted or finds the lock held.",
        ),
        (
            "H",
            "Handover: from the end of one belief to the start of the next, of those who were waiting already.",
        ),
        (
            "D",
            "From the fault that took a hold's ground away to its holder's being told of the loss.",
        ),
        (
            "Overtakings",
            "Grants to a call that began after a call of another process had begun to wait for the same lock, which waited on.",
        ),
        ("Requests per success", "What the servers were asked, for each grant."),
        (
            "Modes S, R, W",
            "One server; one server with a replica that takes over; the same, waiting for the replica (WAIT).",
        ),
        ("Modes Q3, Q5, Q7", "Plain Redlock: a majority of so many independent servers."),
        (
            "Mode QQ",
            "The same, and a server that came back counts for nothing for the longest lease and twice the clock bound.",
        ),
        ("Mode QF", "QQ, and the resource checks fencing tokens."),
        (
            "Interval",
            "Wilson score interval at 95 %, over runs. For what was never seen in n trials the upper bound is 3/n (rule of three).",
        ),
        (
            "As expected",
            "What must never happen happened in no run; what must be observable was observed in at least one. A lab that cannot show the violations that theory predicts proves nothing by showing none.",
        ),
    ];
    html! {
        section #glossary tabindex="-1" {
            h2 { "Glossary" }
            dl { @for (word, meaning) in WORDS { div { dt { (word) } dd { (meaning) } } } }
        }
    }
}
