//! The report in a real browser: it renders without errors, in light and dark, on a desktop and on
//! a phone. Screenshots are kept in the target directory.
//!
//! Needs a Chromium: `QUORUMLOCK_BROWSER_BIN`, what `scripts/get-browser` has downloaded, or one on
//! PATH. Skipped without one, unless `QUORUMLOCK_REQUIRE_BROWSER=1`.

use std::fs;
use std::path::{Path, PathBuf};

use crate::browser::{Browser, RenderedPage};
use crate::lab_dir::LabDir;
use quorumlock_lab::report::write;
use serde_json::Value;

const DESK: (u32, u32) = (1_280, 900);
const PHONE: (u32, u32) = (360, 740);

/// Measures the rendered page, and stores the results in an attribute.
const PROBE: &str = r#"<script>
addEventListener("load", () => {
  for (const details of document.querySelectorAll("details")) details.open = true;
  const wide = document.documentElement.clientWidth;
  const inBox = (element) => element.closest(".scroll");
  const box = (element) => element.getBoundingClientRect();
  const figures = [...document.querySelectorAll("figure")].map((figure) => {
    const svg = figure.querySelector("svg"), size = box(svg);
    return {
      named: svg.getAttribute("role") === "img"
        && svg.getAttribute("aria-labelledby").split(" ").every((id) => document.getElementById(id)?.textContent),
      width: size.width, height: size.height,
      shapes: [...svg.querySelectorAll("rect, path, circle, line")].filter((shape) => shape.getBBox().width + shape.getBBox().height > 0).length,
      covered: [...svg.querySelectorAll("text")].flatMap((one, i, all) => all.slice(i + 1).filter((other) => {
        const a = box(one), b = box(other);
        return Math.min(a.right, b.right) - Math.max(a.left, b.left) > 1 && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 3;
      }).map((other) => one.textContent + " / " + other.textContent)),
      clipped: [...svg.querySelectorAll("text")].filter((text) => box(text).right > size.right + 1 || box(text).left < size.left - 1).map((text) => text.textContent),
    };
  });
  const colour = (text) => text.match(/[\d.]+/g).map(Number);
  const light = ([r, g, b]) => [r, g, b].map((c) => (c /= 255) <= .03928 ? c / 12.92 : ((c + .055) / 1.055) ** 2.4)
    .reduce((sum, c, i) => sum + c * [.2126, .7152, .0722][i], 0);
  const paper = light(colour(getComputedStyle(document.body).backgroundColor));
  const contrast = (element, property) => {
    const ink = light(colour(getComputedStyle(element)[property]));
    return (Math.max(ink, paper) + .05) / (Math.min(ink, paper) + .05);
  };
  const faint = [...document.querySelectorAll("p, a, td, th, summary, figcaption, dt, dd")]
    .map((element) => [contrast(element, "color"), element])
    .concat([...document.querySelectorAll("svg text:not(.inside):not(.badge-text)")].map((text) => [contrast(text, "fill"), text]))
    .filter(([ratio]) => ratio < 4.5).map(([ratio, element]) => ratio.toFixed(1) + " " + element.textContent.slice(0, 40));
  const found = {
    title: document.title,
    verdict: document.querySelector(".verdict").textContent,
    answerTop: box(document.querySelector(".answer, .verdict")).top + scrollY,
    figures, faint,
    overflow: document.documentElement.scrollWidth - wide,
    outside: [...document.querySelectorAll("body *")].filter((e) => !inBox(e) && !e.matches(".skip") && box(e).right > wide + 1).map((e) => e.outerHTML.slice(0, 80)),
    unreachable: [...document.querySelectorAll(".scroll")].filter((e) => e.tabIndex !== 0).length,
    dark: paper < .2,
    height: document.documentElement.scrollHeight,
  };
  document.documentElement.setAttribute("data-found", JSON.stringify(found));
});
</script>"#;

/// The report of a lab with the probe added. The page allows no script, so the copy changes its
/// policy.
fn probed(lab: &LabDir) -> PathBuf {
    let written = write(&[lab.path().to_owned()], lab.path()).unwrap();
    let page = fs::read_to_string(written.page).unwrap();
    let (before, rest) = page.split_once("default-src 'none'; ").expect("the policy");
    let page = format!("{before}{}", rest.replacen("<title>", &format!("{PROBE}<title>"), 1));
    let path = lab.path().join("probed.html");
    fs::write(&path, page).unwrap();
    path
}

fn render(browser: &Browser, page: &Path, size: (u32, u32), dark: bool) -> Value {
    let RenderedPage { dom, complaints } = browser.render(page, size, dark);
    assert!(complaints.is_empty(), "the browser complains:\n{}", complaints.join("\n"));
    let (_, found) = dom.split_once("data-found=\"").expect("the probe ran");
    let (found, _) = found.split_once('"').unwrap();
    let found = found.replace("&quot;", "\"").replace("&lt;", "<").replace("&gt;", ">");
    serde_json::from_str(&found.replace("&nbsp;", "\u{a0}").replace("&amp;", "&")).unwrap()
}

fn assert_readable(found: &Value, dark: bool, wide: bool) {
    assert_eq!(found["dark"], dark, "the colours follow the reader's wish");
    assert_eq!(found["overflow"], 0, "the page scrolls sideways: {}", found["outside"]);
    assert_eq!(found["outside"], Value::Array(Vec::new()), "elements leave the page");
    assert_eq!(found["unreachable"], 0, "boxes that the keyboard cannot scroll");
    assert_eq!(found["faint"], Value::Array(Vec::new()), "contrast below 4.5");
    let figures = found["figures"].as_array().unwrap();
    for figure in figures {
        let size = |key: &str| figure[key].as_f64().unwrap();
        assert!(size("width") >= 600.0 && size("height") > 60.0, "{figure}");
        assert!(size("shapes") > 3.0, "{figure}");
        assert_eq!(figure["named"], true, "{figure}");
        assert_eq!(figure["clipped"], Value::Array(Vec::new()), "text leaves its figure");
        assert_eq!(figure["covered"], Value::Array(Vec::new()), "text covers text");
    }
    let top = found["answerTop"].as_f64().unwrap();
    assert!(top < if wide { 250.0 } else { 300.0 }, "the answer is on the first screen: {top}");
}

#[test]
fn it_is_readable_everywhere() {
    let Some(browser) = Browser::find() else { return };
    let lab = LabDir::sound();
    let page = probed(&lab);
    for (size, place) in [(DESK, "desk"), (PHONE, "phone")] {
        for dark in [false, true] {
            let found = render(&browser, &page, size, dark);
            assert_readable(&found, dark, size == DESK);
            let verdict = found["verdict"].as_str().unwrap();
            assert!(verdict.contains("5 of 5\u{a0}results as expected"), "{verdict}");
            // Per scenario: modes, handovers and the lanes of each mode. In addition one
            // counterexample.
            assert_eq!(found["figures"].as_array().unwrap().len(), 2 * 2 + 4 + 1 + 1);
            let name = format!("report-{place}-{}.png", if dark { "dark" } else { "light" });
            let height = u32::try_from(found["height"].as_u64().unwrap()).unwrap();
            browser.shoot(&page, (size.0, height.min(16_000)), dark, &shots().join(name));
        }
    }
}

#[test]
fn that_of_a_comparison_is_readable_too() {
    let Some(browser) = Browser::find() else { return };
    let lab = LabDir::comparison();
    let page = probed(&lab);
    for (size, dark) in [(DESK, true), (PHONE, false)] {
        let found = render(&browser, &page, size, dark);
        assert_readable(&found, dark, size == DESK);
        // Per scenario: modes, handovers and the lanes of each mode. In addition one
        // counterexample, and the picture of the answer.
        assert_eq!(found["figures"].as_array().unwrap().len(), 2 * (2 + 2) + 1 + 1);
        let name = format!("comparison-{}.png", if dark { "desk" } else { "phone" });
        let height = u32::try_from(found["height"].as_u64().unwrap()).unwrap();
        browser.shoot(&page, (size.0, height.min(16_000)), dark, &shots().join(name));
    }
}

#[test]
fn names_that_mean_harm_do_none() {
    let Some(browser) = Browser::find() else { return };
    let lab = LabDir::hostile();
    let page = probed(&lab);
    let found = render(&browser, &page, PHONE, false);
    let title = found["title"].as_str().unwrap();
    assert!(title.starts_with("Failover lab"), "{title}");
    assert_eq!(found["overflow"], 0, "{}", found["outside"]);
}

#[test]
fn figures_stand_on_their_own() {
    let Some(browser) = Browser::find() else { return };
    let lab = LabDir::hostile();
    write(&[lab.path().to_owned()], lab.path()).unwrap();
    let figures = lab.path().join("figures");
    let kinds =
        ["L16-R-process-s42-0-lanes", "L16-ecdf", "L16-modes", "L16-witness", "L42-witness"];
    for kind in kinds {
        let figure = figures.join(format!("{kind}.svg"));
        let RenderedPage { dom, complaints } = browser.render(&figure, DESK, true);
        assert!(complaints.is_empty(), "{kind}: {}", complaints.join("\n"));
        // A browser shows invalid XML as an error.
        assert!(!dom.contains("parsererror"), "{kind}: {dom}");
        for dark in [false, true] {
            let name = format!("{kind}-{}.png", if dark { "dark" } else { "light" });
            browser.shoot(&figure, (1_000, 500), dark, &shots().join(name));
        }
    }
}

/// Kept after the test, so that a person can look at them.
fn shots() -> PathBuf {
    let shots = Path::new(env!("CARGO_TARGET_TMPDIR")).join("report-shots");
    fs::create_dir_all(&shots).unwrap();
    shots
}
