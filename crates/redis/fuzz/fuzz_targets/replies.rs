//! Arbitrary replies to arbitrary requests, in arbitrary pieces.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| quorumlock_redis::fuzz_replies(data));
