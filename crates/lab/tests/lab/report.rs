//! The report of a made-up lab: its contents, its files, and its robustness.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use crate::lab_dir::{HOSTILE, LabDir};
use quorumlock_lab::report::{ReportError, Written, write};

fn report(lab: &LabDir) -> (Written, String) {
    let written = write(&[lab.path().to_owned()], lab.path()).unwrap();
    let page = fs::read_to_string(&written.page).unwrap();
    (written, page)
}

fn files(dir: &Path) -> BTreeMap<String, String> {
    let entries = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap());
    entries
        .map(|entry| {
            let text = fs::read_to_string(entry.path()).unwrap();
            (entry.file_name().into_string().unwrap(), text)
        })
        .collect()
}

#[test]
fn the_verdict_is_first_and_everything_is_there() {
    let lab = LabDir::sound();
    let (written, page) = report(&lab);
    assert!(written.as_expected, "{written:?}");
    assert!(written.verdict.contains("5 of 5"), "{written:?}");
    let verdict = page.find("mutual exclusion VIOLATED in 4 of 4").unwrap();
    assert!(verdict < page.find("<table").unwrap() && verdict < page.find("<svg").unwrap());
    for words in ["smallest witness", "--seed 42", "Valkey 9.1.2", "Glossary", "rule of three"] {
        assert!(page.contains(words), "{words}");
    }
    let figures = files(&lab.path().join("figures"));
    assert_eq!(figures.len(), written.figures);
    // The lanes of each run; modes and handovers of each scenario; one counterexample.
    assert_eq!(figures.len(), 9 + 2 * 2 + 1, "{:?}", figures.keys());
    for (name, text) in &figures {
        assert!(text.starts_with("<svg") && text.ends_with("</svg>\n"), "{name}");
        assert!(text.contains("prefers-color-scheme"), "{name}");
    }
    let tables = files(&lab.path().join("tables"));
    assert_eq!(tables.len(), written.tables);
    assert_eq!(tables["results.csv"].lines().count(), 6, "{}", tables["results.csv"]);
    assert!(tables["L16-witness.csv"].contains("is told that the lock is lost"));
}

#[test]
fn the_page_needs_nothing_from_elsewhere() {
    let (_, page) = report(&LabDir::sound());
    for outside in ["<script", "<link", "@import", "url(", "src="] {
        assert!(!page.contains(outside), "{outside}");
    }
    let namespace = "http://www.w3.org/2000/svg";
    assert_eq!(page.matches("http").count() - 1, page.matches(namespace).count(), "http-equiv");
}

#[test]
fn headings_go_down_by_one_and_ids_are_unique() {
    let (_, page) = report(&LabDir::sound());
    let levels = page.split("<h").skip(1).filter_map(|rest| rest.chars().next()?.to_digit(10));
    let levels: Vec<_> = levels.collect();
    assert_eq!(levels[0], 1);
    assert!(levels.windows(2).all(|two| two[1] <= two[0] + 1), "{levels:?}");
    let mut ids: Vec<_> =
        page.split(" id=\"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
    let all = ids.len();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(all, ids.len());
    for target in page.split("href=\"#").skip(1).filter_map(|rest| rest.split('"').next()) {
        assert!(ids.contains(&target), "#{target} leads nowhere");
    }
}

#[test]
fn the_same_lab_gives_the_same_report() {
    let lab = LabDir::sound();
    let (_, first) = report(&lab);
    let figures = files(&lab.path().join("figures"));
    let elsewhere = tempfile::tempdir().unwrap();
    let again = write(&[lab.path().to_owned()], elsewhere.path()).unwrap();
    assert_eq!(first, fs::read_to_string(again.page).unwrap());
    assert_eq!(figures, files(&elsewhere.path().join("figures")));
}

#[test]
fn names_that_mean_harm_are_text() {
    let lab = LabDir::hostile();
    let (written, page) = report(&lab);
    assert!(!written.as_expected && written.verdict.contains("where it must hold"), "{written:?}");
    assert!(page.contains("&lt;script&gt;document.title"), "they are shown");
    let all = files(&lab.path().join("figures")).into_values().chain([page]);
    for text in all {
        for harm in ["<script", "<img", "\0", "\u{202e}", HOSTILE] {
            assert!(!text.contains(harm), "{harm:?}");
        }
    }
}

#[test]
fn what_is_damaged_or_missing_is_told() {
    let mut lab = LabDir::sound();
    let gone = lab.run_dir("L16-W-process-s42-0").join("history.jsonl");
    fs::remove_file(gone).unwrap();
    let cut = lab.run_dir("L16-QQ-process-s42-0").join("history.jsonl");
    let text = fs::read_to_string(&cut).unwrap();
    fs::write(&cut, &text[..text.len() / 2]).unwrap();
    let bad = lab.run_dir("bad");
    fs::create_dir(&bad).unwrap();
    fs::write(bad.join("run.json"), "{").unwrap();
    lab.lab.interrupted = true;
    lab.save();
    let (_, page) = report(&lab);
    for words in [
        "No picture of L16-W-process-s42-0",
        "of the history is no event",
        "Damaged: </strong>bad/run.json",
        "Cut short:",
    ] {
        assert!(page.contains(words), "{words}");
    }
}

#[test]
fn a_lab_that_never_wrote_its_summary_is_read_by_its_runs() {
    let lab = LabDir::sound();
    let (with, _) = report(&lab);
    fs::remove_file(lab.path().join("lab.json")).unwrap();
    let (without, page) = report(&lab);
    assert_eq!(with.verdict, without.verdict);
    assert!(page.contains("There is no lab.json"));
}

#[test]
fn several_labs_are_one_report() {
    let (one, other) = (LabDir::sound(), LabDir::sound());
    let out = tempfile::tempdir().unwrap();
    let dirs = [one.path().to_owned(), other.path().to_owned()];
    let written = write(&dirs, out.path()).unwrap();
    assert_eq!(written.figures, 2 * 9 + 2 * 2 + 1, "runs of the same name keep their own files");
    assert!(written.verdict.contains("5 of 5"), "{written:?}");
}

#[test]
fn a_comparison_has_its_own_scenarios_and_what_was_not_recorded() {
    let lab = LabDir::comparison();
    let (written, page) = report(&lab);
    assert!(written.as_expected && written.verdict.contains("4 of 4"), "{written:?}");
    assert!(written.verdict.contains("VIOLATED in 1 of"), "where it can fall: {written:?}");
    let free = fs::read_to_string(lab.path().join("tables/free-locks.csv")).unwrap();
    assert!(
        free.contains("median\",µs,41,187\n") && free.contains("per second,51234,9876"),
        "{free}"
    );
    assert!(page.contains("51\u{202f}234") && page.contains("expected either"), "{written:?}");
    // The answer comes first: which mode broke, and a picture of it.
    let place = |words: &str| page.find(words).unwrap_or_else(|| panic!("{words}"));
    let verdict = place("id=\"verdict\"");
    for words in [
        "One server (S): <span class=\"sign\">BROKE",
        "VIOLATION",
        "Quorum of 5 (QQ): <span class=\"sign\">HELD",
    ] {
        assert!(place(words) < verdict, "{words}");
    }
    assert!(lab.path().join("figures/believers.svg").exists());
    fs::write(lab.path().join("comparison.json"), "{}").unwrap();
    let (written, page) = report(&lab);
    assert!(page.contains("comparison.json: missing field"), "{written:?}");
    assert!(written.verdict.contains("4 of 4"), "what was recorded still counts");
}

#[test]
fn no_lab_is_an_error() {
    let empty = tempfile::tempdir().unwrap();
    let error = write(&[empty.path().to_owned()], empty.path()).unwrap_err();
    assert!(matches!(error, ReportError::NoLab { .. }), "{error}");
    assert!(matches!(write(&[], empty.path()), Err(ReportError::NoDirectory)));
}
