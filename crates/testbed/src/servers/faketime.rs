//! Servers with settable wall clocks, through libfaketime.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::{fs, io};

use super::Source;

/// The libfaketime library and the rate of the clocks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Faketime {
    library: PathBuf,
    /// How much the clocks gain, in parts per million, from the start of the server.
    gains_ppm: i32,
}

/// A setting of a server's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shift {
    /// The machine's time plus this many milliseconds.
    ByMs(i64),
    /// Always this second since 1970.
    Frozen(u64),
}

/// Clocks cannot be set on this machine. The text says what to do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NoFaketime(String);

/// The name of the clock file in the server's directory.
const FILE: &str = "clock";

impl Faketime {
    /// Looks for the library: the file named by `QUORUMLOCK_FAKETIME`; otherwise what
    /// `scripts/get-faketime` has put into the user's cache, then the path of Debian's package.
    ///
    /// # Errors
    /// [`NoFaketime`] if the library is not found.
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

    /// The server program to use with libfaketime: the one that [`Source::discover`] finds, or the
    /// one of `scripts/get-server`. A program that loads jemalloc does not work: jemalloc and
    /// libfaketime call each other, and the program hangs.
    ///
    /// # Errors
    /// [`NoFaketime`] if neither program works.
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

    /// The arguments of `env` before the server's command line. `env` keeps the process id.
    pub(super) fn prefix(&self, dir: &Path) -> Vec<OsString> {
        let mut settings = self.preloaded();
        settings.push(setting("FAKETIME_TIMESTAMP_FILE", file_in(dir).as_os_str()));
        settings
    }

    /// The arguments of `env` before another program's command line: its wall clock shows this from
    /// its start on.
    #[must_use]
    pub fn settings(&self, shift: Shift) -> Vec<OsString> {
        let mut settings = self.preloaded();
        settings.push(setting("FAKETIME", written(shift).as_ref()));
        settings
    }

    fn preloaded(&self) -> Vec<OsString> {
        vec![
            setting("LD_PRELOAD", self.library.as_os_str()),
            "FAKETIME_NO_CACHE=1".into(),
            "FAKETIME_FMT=%s".into(),
            // Timers stay real: keys expire by the wall clock.
            "FAKETIME_DONT_FAKE_MONOTONIC=1".into(),
            "DONT_FAKE_MONOTONIC=1".into(),
        ]
    }

    /// Writes the clock file before the server starts.
    pub(super) fn prepare(&self, dir: &Path) -> io::Result<()> {
        prepare(dir, self.gains_ppm)
    }
}

/// Writes the clock file before a program starts whose clocks gain this much. A clock that has been set
/// keeps its setting.
pub(super) fn prepare(dir: &Path, gains_ppm: i32) -> io::Result<()> {
    if file_in(dir).exists() {
        return Ok(());
    }
    let rate = 1.0 + f64::from(gains_ppm) / 1e6;
    let text = if gains_ppm == 0 { "+0".to_owned() } else { format!("+0 x{rate}") };
    fs::write(file_in(dir), text)
}

/// The clock file.
pub(super) fn file_in(dir: &Path) -> PathBuf {
    dir.join(FILE)
}

pub(super) fn setting(name: &str, value: &OsStr) -> OsString {
    let mut setting = OsString::from(format!("{name}="));
    setting.push(value);
    setting
}

/// Sets the clock. The server sees the new time at its next clock reading.
pub(super) fn set(dir: &Path, shift: Shift) -> io::Result<()> {
    let text = written(shift);
    // The library reads the file at every clock reading, so it is replaced in one step.
    let next = dir.join("clock.next");
    fs::write(&next, text)?;
    fs::rename(next, file_in(dir))
}

/// The shift as libfaketime reads it: seconds with a sign, or an instant.
fn written(shift: Shift) -> String {
    match shift {
        Shift::ByMs(ms) => {
            // The sign of -0.5 s is not in its whole seconds.
            let (sign, ms) = (if ms < 0 { '-' } else { '+' }, ms.unsigned_abs());
            format!("{sign}{}.{:03}", ms / 1_000, ms % 1_000)
        }
        Shift::Frozen(second) => second.to_string(),
    }
}

/// Whether this is the name of the clock file.
pub(super) fn is_clock(name: &OsStr) -> bool {
    name == FILE
}

/// Removes the shared memory that the library leaves behind when a process is killed.
pub(super) fn clean(pid: i32) {
    for name in [format!("faketime_shm_{pid}"), format!("sem.faketime_sem_{pid}")] {
        let _ = fs::remove_file(Path::new("/dev/shm").join(name));
    }
}

/// Whether the file is a program that does not load jemalloc.
fn bears(binary: &Path) -> bool {
    let loads = |program: &[u8], library: &[u8]| {
        program.windows(library.len()).any(|window| window == library)
    };
    fs::read(binary)
        .is_ok_and(|text| text.starts_with(b"\x7fELF") && !loads(&text, b"libjemalloc.so"))
}

/// Where scripts put what they fetch.
#[must_use]
pub fn cache() -> Option<PathBuf> {
    let set = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let cache = set("XDG_CACHE_HOME").or_else(|| Some(set("HOME")?.join(".cache")))?;
    Some(cache.join("quorumlock"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shift_keeps_its_sign_below_a_second() {
        let cases = [(-500, "-0.500"), (-20_000, "-20.000"), (0, "+0.000"), (1_250, "+1.250")];
        for (ms, text) in cases {
            assert_eq!(written(Shift::ByMs(ms)), text);
        }
    }
}
