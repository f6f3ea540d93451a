//! The program of worker processes, for promises about several processes; see
//! `quorumlock_tests::worker`.

fn main() -> Result<(), quorumlock::Error> {
    quorumlock_tests::worker::main()
}
