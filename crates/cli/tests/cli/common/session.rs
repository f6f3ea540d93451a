//! A shell in a pseudo-terminal.

use std::fs::{File, OpenOptions};
use std::io::{Read as _, Write as _};
use std::process::Child;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use quorumlock_testbed::command::command;
use rustix::process::Pid;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcgetpgrp, tcsetwinsize};

/// A shell whose controlling terminal is a pseudo-terminal.
#[derive(Debug)]
pub(crate) struct Session {
    shell: Child,
    keyboard: File,
    screen: mpsc::Receiver<Vec<u8>>,
    shown: Vec<u8>,
}

impl Session {
    /// `script` finds the command in `$Q`, and nodes in its environment.
    pub(crate) fn start(urls: &[String], script: &str) -> Self {
        Self::start_with_size(urls, script, (80, 24))
    }

    /// As [`Session::start`], in a terminal of so many columns and rows.
    pub(crate) fn start_with_size(urls: &[String], script: &str, size: (u16, u16)) -> Self {
        let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&terminal).unwrap();
        unlockpt(&terminal).unwrap();
        let path = ptsname(&terminal, Vec::new()).unwrap().into_string().unwrap();
        let open = || OpenOptions::new().read(true).write(true).open(&path).unwrap();
        let terminal = File::from(terminal);
        resize(&terminal, size);
        let mut shell = command("setsid");
        shell.args(["--ctty", "sh", "-c", script]);
        shell.env("QUORUMLOCK_NODES", urls.join(","));
        shell.env("Q", env!("CARGO_BIN_EXE_quorumlock"));
        shell.stdin(open()).stdout(open()).stderr(open());
        let shell = shell.spawn().unwrap();
        let mut output = terminal.try_clone().unwrap();
        let (sender, screen) = mpsc::channel();
        thread::spawn(move || {
            let mut buffer = [0; 1_024];
            // The read fails once no process has the terminal.
            while let Ok(n @ 1..) = output.read(&mut buffer) {
                if sender.send(buffer[..n].to_vec()).is_err() {
                    return;
                }
            }
        });
        Self { shell, keyboard: terminal, screen, shown: Vec::new() }
    }

    pub(crate) fn type_in(&mut self, text: &str) {
        self.keyboard.write_all(text.as_bytes()).unwrap();
    }

    /// Gives the terminal another size, of which the system notifies its foreground.
    pub(crate) fn resize(&self, size: (u16, u16)) {
        resize(&self.keyboard, size);
    }

    /// Waits until the command has ended, and the terminal's foreground is that of quorumlock.
    pub(crate) fn await_foreground(&self) {
        // No event tells.
        while tcgetpgrp(&self.keyboard) != Ok(Pid::from_child(&self.shell)) {
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// Waits until this was shown since the last call. Returns what was shown before it.
    #[track_caller]
    pub(crate) fn awaits(&mut self, text: &str) -> String {
        loop {
            let found = self.shown.windows(text.len()).position(|part| part == text.as_bytes());
            if let Some(at) = found {
                let before = String::from_utf8_lossy(&self.shown[..at]).into_owned();
                self.shown.drain(..at + text.len());
                return before;
            }
            match self.screen.recv_timeout(Duration::from_secs(20)) {
                Ok(more) => self.shown.extend(more),
                Err(_) => panic!("no {text:?} in {:?}", String::from_utf8_lossy(&self.shown)),
            }
        }
    }
}

fn resize(terminal: &File, (ws_col, ws_row): (u16, u16)) {
    let size = Winsize { ws_row, ws_col, ws_xpixel: 0, ws_ypixel: 0 };
    tcsetwinsize(terminal, size).unwrap();
}

impl Drop for Session {
    fn drop(&mut self) {
        drop(self.shell.kill());
        drop(self.shell.wait());
    }
}
