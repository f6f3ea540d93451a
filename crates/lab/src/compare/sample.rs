//! A report for tests.

use super::{Alone, Contended, Environment, Measured, Parallel, Report, ServerKilled};

/// One server on which three pairs of holds overlapped, and a quorum of five on which none did.
pub(crate) fn report() -> Report {
    let measured = |overlaps| Measured {
        alone: Alone { pairs: 9, p50_us: Some(41), p99_us: Some(95), failed: 0 },
        parallel: Parallel { pairs: 70, pairs_per_second: 5_123, failed: 0 },
        contended: Contended::default(),
        server_killed: Some(ServerKilled {
            grants: 90,
            down_ms: 330,
            longest_without_grant_ms: 450,
            failed_attempts: 12,
            first_failure: None,
            lost: 2,
            unconfirmed_releases: 1,
            overlaps,
            overlap_longest_ms: 204 * overlaps as u64,
            tokens_unique: true,
            tokens_increasing: true,
        }),
    };
    Report {
        environment: Environment {
            version: "0.1.0".to_owned(),
            build: "release".to_owned(),
            server: None,
            cpus: None,
            nodes: 5,
            tasks: 64,
            seconds: 10.0,
            seed: 42,
        },
        single: measured(3),
        quorum: measured(0),
    }
}
