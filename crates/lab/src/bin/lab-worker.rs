//! A locker process for tests of the lab; users have the same in `quorumlock lab worker`.

use std::process::ExitCode;

fn main() -> ExitCode {
    quorumlock_lab::worker::main()
}
