//! Passwords that come from a file or from a program, at each dial.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use quorumlock_protocol::{Credentials, CredentialsProvider};
use tokio::process::Command;
use tokio::task::spawn_blocking;

/// The password is the text of the file, without the end of its last line.
pub(crate) fn of_file(path: PathBuf) -> CredentialsProvider {
    CredentialsProvider::new(move |_| {
        let path = path.clone();
        Box::pin(async move {
            let read = spawn_blocking(move || read(&path)).await;
            read.map_err(|error| error.to_string())?
        })
    })
}

/// The password is the first line that the program prints; if it prints two, they are the user and the
/// password.
pub(crate) fn of_command(command: String) -> CredentialsProvider {
    CredentialsProvider::new(move |server| {
        let mut shell = Command::new("sh");
        shell.args(["-c", &command]).env("QUORUMLOCK_SERVER", server);
        shell.stdin(Stdio::null()).stderr(Stdio::inherit()).kill_on_drop(true);
        Box::pin(async move {
            let output = shell.output().await.map_err(|error| error.to_string())?;
            if !output.status.success() {
                return Err(format!("the program failed: {}", output.status));
            }
            let text = String::from_utf8(output.stdout).map_err(|_| "no UTF-8".to_owned())?;
            match text.lines().collect::<Vec<_>>()[..] {
                [] | [""] => Err("the program printed nothing".to_owned()),
                [password] => Ok(Credentials::password(password)),
                [user, password] => Ok(Credentials::new(user, password)),
                _ => Err("the program printed more than two lines".to_owned()),
            }
        })
    })
}

fn read(path: &Path) -> Result<Credentials, String> {
    let fault = |why: &dyn ToString| format!("{}: {}", path.display(), why.to_string());
    let text = std::fs::read_to_string(path).map_err(|error| fault(&error))?;
    match text.trim_end_matches(['\r', '\n']) {
        "" => Err(fault(&"it is empty")),
        password => Ok(Credentials::password(password)),
    }
}
