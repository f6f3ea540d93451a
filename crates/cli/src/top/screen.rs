//! The terminal while `quorumlock top` draws on it, and as it was afterwards.

use std::io::{self, Read as _, Write as _, stdin, stdout};
use std::{panic, thread};

use quorumlock_command::{Failure, exit, print_bytes};
use rustix::termios::{
    LocalModes, OptionalActions, Termios, isatty, tcgetattr, tcgetwinsize, tcsetattr,
};
use tokio::sync::mpsc;

use super::draw::Size;

/// The alternate screen of the terminal, without a cursor. When this is dropped, or when the program
/// panics, the terminal is as before.
#[derive(Debug)]
pub(super) struct Screen {
    before: Option<Termios>,
}

/// To the alternate screen; hides the cursor.
const ENTER: &str = "\x1b[?1049h\x1b[?25l";
/// Shows the cursor; back from the alternate screen.
const LEAVE: &str = "\x1b[?25h\x1b[?1049l";
const TO_THE_TOP: &str = "\x1b[H";
const CLEAR_REST_OF_LINE: &str = "\x1b[K";
const CLEAR_BELOW: &str = "\x1b[J";

/// Of a terminal that does not tell its size.
const USUAL: Size = Size { width: 80, height: 24 };

impl Screen {
    /// The terminal of stdout, or `None` if it is no terminal.
    pub(super) fn open() -> Result<Option<Self>, Failure> {
        if !isatty(stdout()) {
            return Ok(None);
        }
        let before = keys_without_enter().map_err(|error| {
            Failure::new(exit::OUTPUT, format!("cannot set up the terminal: {error}"))
        })?;
        let screen = Self { before: before.clone() };
        let report = panic::take_hook();
        panic::set_hook(Box::new(move |panic| {
            restore(before.as_ref());
            report(panic);
        }));
        print_bytes(ENTER.as_bytes())?;
        Ok(Some(screen))
    }

    pub(super) fn size(&self) -> Size {
        match tcgetwinsize(stdout()) {
            Ok(size) if size.ws_col > 0 && size.ws_row > 0 => {
                Size { width: size.ws_col.into(), height: size.ws_row.into() }
            }
            _ => USUAL,
        }
    }

    /// Shows these lines and nothing else. They fit.
    pub(super) fn show(&self, lines: &[String]) -> Result<(), Failure> {
        // A line break after the last line might scroll.
        let text = lines.join(&format!("{CLEAR_REST_OF_LINE}\r\n"));
        print_bytes(format!("{TO_THE_TOP}{text}{CLEAR_REST_OF_LINE}{CLEAR_BELOW}").as_bytes())
    }

    /// The keys that are pressed. None come if stdin is no terminal.
    pub(super) fn keys(&self) -> mpsc::UnboundedReceiver<u8> {
        let (sender, keys) = mpsc::unbounded_channel();
        if self.before.is_some() {
            // Not a task: the runtime would wait at its end for the read.
            thread::spawn(move || {
                for key in stdin().lock().bytes() {
                    if key.is_ok_and(|key| sender.send(key).is_ok()) {
                        continue;
                    }
                    return;
                }
            });
        }
        keys
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        restore(self.before.as_ref());
    }
}

/// Lets a terminal on stdin give each key at once, show none of them, and send no signals: Ctrl-C is a
/// key, and Ctrl-Z cannot stop the program in the alternate screen. Returns how it was.
fn keys_without_enter() -> io::Result<Option<Termios>> {
    let stdin = stdin();
    if !isatty(&stdin) {
        return Ok(None);
    }
    let before = tcgetattr(&stdin)?;
    let mut modes = before.clone();
    modes.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG);
    tcsetattr(&stdin, OptionalActions::Now, &modes)?;
    Ok(Some(before))
}

/// The terminal may be gone: then nothing needs to be restored.
fn restore(before: Option<&Termios>) {
    let mut out = stdout().lock();
    let _ = out.write_all(LEAVE.as_bytes()).and_then(|()| out.flush());
    if let Some(before) = before {
        let _ = tcsetattr(stdin(), OptionalActions::Now, before);
    }
}
