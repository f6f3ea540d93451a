//! Benches of quorumlock: `cargo bench -p quorumlock-benches`.
