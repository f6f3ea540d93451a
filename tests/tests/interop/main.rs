//! Clients of other languages and quorumlock on the same real servers: docs/INTEROP.md, row by row.
//!
//! `make test-interop` fetches the clients and runs these tests; without it they are skipped.

mod client;
mod contention;
mod examples;
mod fenced;
mod foreign;
mod quorum;
mod redisson;
mod redlock;
mod testbed;
