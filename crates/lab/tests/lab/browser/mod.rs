//! A headless browser.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;

/// A Chromium program.
pub(crate) struct Browser {
    program: PathBuf,
}

/// How the browser rendered a page.
pub(crate) struct RenderedPage {
    /// The page after its scripts have run.
    pub(crate) dom: String,
    /// Console messages and resources that could not be loaded.
    pub(crate) complaints: Vec<String>,
}

const REQUIRED_BY: &str = "QUORUMLOCK_REQUIRE_BROWSER";

impl Browser {
    /// Finds a browser; reports a skipped test if there is none.
    pub(crate) fn find() -> Option<Self> {
        if let Some(program) = candidates().into_iter().find(|program| program.is_file()) {
            return Some(Self { program });
        }
        let why = "no browser: scripts/get-browser fetches one";
        let required = env::var(REQUIRED_BY).is_ok_and(|value| value == "1");
        assert!(!required, "{REQUIRED_BY}=1, but: {why}");
        let test = std::thread::current();
        // The test harness would capture `eprintln!` output when the test passes.
        let _ = writeln!(std::io::stderr(), "SKIPPED {}: {why}", test.name().unwrap_or("a test"));
        None
    }

    /// Opens a page and returns its DOM.
    pub(crate) fn render(&self, page: &Path, size: (u32, u32), dark: bool) -> RenderedPage {
        let output = self.run(page, size, dark, &["--dump-dom".into()]);
        let said = String::from_utf8_lossy(&output.stderr);
        let complaints = said.lines().filter(|line| line.contains("CONSOLE"));
        let complaints = complaints.map(str::to_owned).collect();
        RenderedPage { dom: String::from_utf8(output.stdout).expect("UTF-8"), complaints }
    }

    /// Takes a screenshot of a page.
    pub(crate) fn shoot(&self, page: &Path, size: (u32, u32), dark: bool, picture: &Path) {
        let mut argument = OsString::from("--screenshot=");
        argument.push(picture);
        let _ = fs::remove_file(picture);
        self.run(page, size, dark, &[argument, "--hide-scrollbars".into()]);
        let bytes = fs::read(picture).expect("a picture");
        assert!(bytes.starts_with(b"\x89PNG"), "{}", picture.display());
    }

    /// Each run has its own home directory, which is removed afterwards.
    fn run(&self, page: &Path, size: (u32, u32), dark: bool, what: &[OsString]) -> Output {
        let home = TempDir::new().expect("a directory");
        let (width, height) = size;
        let scheme = if dark { 0 } else { 1 };
        let output = Command::new(&self.program)
            .env("HOME", home.path())
            // The pages are our own, and the sandbox does not start for root or without user
            // namespaces.
            .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"])
            .args(["--no-first-run", "--enable-logging=stderr", "--virtual-time-budget=10000"])
            .arg(format!("--user-data-dir={}", home.path().join("profile").display()))
            .arg(format!("--window-size={width},{height}"))
            .arg(format!("--blink-settings=preferredColorScheme={scheme}"))
            .args(what)
            .arg(format!("file://{}", page.display()))
            .output()
            .expect("the browser starts");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        output
    }
}

fn candidates() -> Vec<PathBuf> {
    let given = env::var_os("QUORUMLOCK_BROWSER_BIN").map(PathBuf::from);
    let cache = env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let cache = cache.or_else(|| Some(PathBuf::from(env::var_os("HOME")?).join(".cache")));
    let fetched = cache.map(|cache| cache.join("quorumlock/browser/browser"));
    let path = env::var_os("PATH").unwrap_or_default();
    let names = ["chromium-headless-shell", "chromium", "chromium-browser", "google-chrome"];
    let on_path = env::split_paths(&path).flat_map(|dir| names.map(|name| dir.join(name)));
    given.into_iter().chain(fetched).chain(on_path.collect::<Vec<_>>()).collect()
}
