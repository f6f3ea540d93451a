use std::ffi::OsString;
use std::io::Write as _;
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, Command, Parser};
use quorumlock_protocol::without_password;

use crate::exit::{self, Failure, Outcome};
use crate::output::{print, say, set_name};

/// The command line of this process. `Err`: it does not parse, or asks for help or the version; the
/// text is printed, and the process ends with this exit code.
pub fn parse<C: Parser>() -> Result<C, ExitCode> {
    set_name(C::command().get_name());
    C::try_parse().map_err(|error| {
        // Help and version come this way, too. If printing fails, no output is left to report that
        // on.
        if !error.use_stderr() {
            let _ = error.print();
            return ExitCode::SUCCESS;
        }
        let text = without_passwords(&error.render().to_string());
        let words: Vec<_> = std::env::args_os().map(|word| word.to_string_lossy().into()).collect();
        let text = match advice(&error, &C::command(), &words) {
            Some(advice) => format!("{}\n\n{advice}", text.trim_end()),
            None => text,
        };
        let _ = writeln!(std::io::stderr(), "{}", text.trim_end());
        if asks_for_json() {
            let _ = print(true, &Failure::usage(text.trim()));
        }
        exit::USAGE.into()
    })
}

/// The exit code of this process. A failure is reported: to people on stderr, and with `--json` to
/// programs as one JSON object on stdout.
pub fn exit_code(outcome: Outcome) -> ExitCode {
    let failure = match outcome {
        Ok(code) => return code.into(),
        Err(failure) => failure,
    };
    say(&failure);
    if asks_for_json() {
        // If this fails, too, no output is left to report it on.
        let _ = print(true, &failure);
    }
    failure.code.into()
}

/// What clap does not know: that the words of a command stand behind `--`, and which variable has a value
/// that does not parse.
fn advice(error: &clap::Error, command: &Command, words: &[String]) -> Option<String> {
    match error.kind() {
        ErrorKind::UnknownArgument | ErrorKind::MissingRequiredArgument => {
            let of = words.iter().find_map(|word| command.find_subcommand(word))?;
            let behind = of.get_positionals().find(|arg| arg.is_last_set())?;
            let what = behind.get_value_names().and_then(|names| names.first())?;
            let missing = !words.iter().any(|word| word == "--");
            missing.then(|| {
                format!(
                    "Put -- before {what}: {} {} NAME -- {what}",
                    command.get_name(),
                    of.get_name()
                )
            })
        }
        ErrorKind::InvalidValue | ErrorKind::ValueValidation => {
            let Some(ContextValue::String(shown)) = error.get(ContextKind::InvalidArg) else {
                return None;
            };
            let flag = shown.split([' ', '=', '[']).next()?;
            if words.iter().any(|word| word.split('=').next() == Some(flag)) {
                return None;
            }
            let all = command.get_subcommands().flat_map(Command::get_arguments);
            let its =
                |arg: &&Arg| arg.get_long().is_some() && arg.get_long() == flag.strip_prefix("--");
            let variable = all.chain(command.get_arguments()).find(its)?.get_env()?;
            Some(format!("The value is that of the variable {}.", variable.to_string_lossy()))
        }
        _ => None,
    }
}

/// clap shows the word that it does not take, and that may be a URL.
fn without_passwords(text: &str) -> String {
    let redacted = |word: &str| match word.contains('@') {
        true => without_password(word.trim_start_matches('\'')),
        false => word.to_owned(),
    };
    let words: Vec<_> = text.split(' ').map(redacted).collect();
    words.join(" ")
}

/// Reads the words themselves, since arguments that clap cannot parse may ask for JSON, too. The
/// words after `--` belong to the command that `quorumlock run` starts.
fn asks_for_json() -> bool {
    let before = |word: &OsString| word != "--";
    std::env::args_os().take_while(before).any(|word| word == "--json")
}
