//! Servers whose wall clocks are ours to set, through libfaketime.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::{fs, io};

use super::Source;

/// libfaketime, and the server program with which it works.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Faketime {
    library: PathBuf,
    /// What the clocks gain, in parts per million, from the server's start on.
    gains_ppm: i32,
}

/// What a clock shows from now on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shift {
    /// So many milliseconds more than the machine's.
    ByMs(i64),
    /// Always this second since 1970.
    Frozen(u64),
}

/// Clocks cannot be set here; the text says what to do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NoFaketime(String);

/// In the server's directory.
const FILE: &str = "clock";

impl Faketime {
    /// Looks for the library: `QUORUMLOCK_FAKETIME`; what `scripts/get-faketime` has put into the
    /// user's cache; where Debian's package has it.
    ///
    /// # Errors
    /// [`NoFaketime`] if it is nowhere.
    pub fn discover(gains_ppm: i32) -> Result<Self, NoFaketime> {
        let named = std::env::var_os("QUORUMLOCK_FAKETIME").map(PathBuf::from);
        let cached = cache().map(|cache| cache.join("faketime/libfaketime.so.1"));
        let installed = ["x86_64", "aarch64"].map(|machine| {
            PathBuf::from(format!("/usr/lib/{machine}-linux-gnu/faketime/libfaketime.so.1"))
        });
        let candidates = match named {
            Some(named) => vec![named],
            None => cached.into_iter().chain(installed).collect(),
        };
        let found = candidates.into_iter().find(|file| file.is_file());
        let missing = || {
            NoFaketime(
                "no libfaketime, which sets servers' clocks: run scripts/get-faketime".into(),
            )
        };
        Ok(Self { library: found.ok_or_else(missing)?, gains_ppm })
    }

    /// The server program that can be started with it: the one that is found anyway, or the one of
    /// `scripts/get-server`. A program that loads jemalloc hangs: each of both calls the other.
    ///
    /// # Errors
    /// [`NoFaketime`] if neither can.
    pub fn source() -> Result<Source, NoFaketime> {
        let found = match Source::discover() {
            Ok(Source::Binary(binary)) => Some(binary),
            _ => None,
        };
        let fetched = cache().map(|cache| cache.join("valkey-server"));
        let mut candidates = found.into_iter().chain(fetched);
        let why = "no server program that works with libfaketime: run scripts/get-server";
        candidates
            .find(|binary| bears(binary))
            .map(Source::Binary)
            .ok_or_else(|| NoFaketime(why.into()))
    }

    /// The words before a server's command line; the process stays the same.
    pub(super) fn prefix(&self, dir: &Path) -> Vec<OsString> {
        let setting = |name: &str, value: &OsStr| {
            let mut setting = OsString::from(format!("{name}="));
            setting.push(value);
            setting
        };
        vec![
            setting("LD_PRELOAD", self.library.as_os_str()),
            setting("FAKETIME_TIMESTAMP_FILE", dir.join(FILE).as_os_str()),
            "FAKETIME_NO_CACHE=1".into(),
            "FAKETIME_FMT=%s".into(),
            // The server's own timers go on: it is the wall clock by which keys expire.
            "FAKETIME_DONT_FAKE_MONOTONIC=1".into(),
            "DONT_FAKE_MONOTONIC=1".into(),
        ]
    }

    /// Before the server starts; a clock that has been set stays so.
    pub(super) fn prepare(&self, dir: &Path) -> io::Result<()> {
        if dir.join(FILE).exists() {
            return Ok(());
        }
        let rate = 1.0 + f64::from(self.gains_ppm) / 1e6;
        let text = if self.gains_ppm == 0 { "+0".to_owned() } else { format!("+0 x{rate}") };
        fs::write(dir.join(FILE), text)
    }
}

/// At once, for whatever the server does next.
pub(super) fn set(dir: &Path, shift: Shift) -> io::Result<()> {
    let text = match shift {
        Shift::ByMs(ms) => format!("{:+}.{:03}", ms / 1_000, ms.unsigned_abs() % 1_000),
        Shift::Frozen(second) => second.to_string(),
    };
    // It is read at every look at the clock: never half of it.
    let next = dir.join("clock.next");
    fs::write(&next, text)?;
    fs::rename(next, dir.join(FILE))
}

/// Whether this is the file by which a clock is set.
pub(super) fn is_clock(name: &OsStr) -> bool {
    name == FILE
}

/// What the library leaves in memory that outlives a killed process.
pub(super) fn clean(pid: i32) {
    for name in [format!("faketime_shm_{pid}"), format!("sem.faketime_sem_{pid}")] {
        let _ = fs::remove_file(Path::new("/dev/shm").join(name));
    }
}

/// It is a program and loads no jemalloc.
fn bears(binary: &Path) -> bool {
    let loads = |program: &[u8], library: &[u8]| {
        program.windows(library.len()).any(|window| window == library)
    };
    fs::read(binary)
        .is_ok_and(|text| text.starts_with(b"\x7fELF") && !loads(&text, b"libjemalloc.so"))
}

fn cache() -> Option<PathBuf> {
    let set = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let cache = set("XDG_CACHE_HOME").or_else(|| Some(set("HOME")?.join(".cache")))?;
    Some(cache.join("quorumlock"))
}
