//! Waiters that are stopped, as frozen containers are, and a live one behind them.

use std::thread::sleep;
use std::time::Duration;

use crate::common::{quorumlock, run, servers, start, start_waiting};
use quorumlock_testbed::servers::{Server, ask};
use quorumlock_watchdog::Clock;
use rustix::process::Signal;

/// How long a waiter is stopped before it counts as silent (docs/PROTOCOL.md W5).
const SILENT: Duration = Duration::from_secs(2);

/// The live waiter should come within two seconds of the release. One lease is 30 s.
const BOUND: Duration = Duration::from_secs(10);

fn await_waiters(server: &Server, count: usize) {
    let waiting = || ask(server.addr().unwrap(), &["ZCARD", "quorumlock:waiters:{job}"]).unwrap();
    while waiting() != count.to_string() {
        sleep(Duration::from_millis(5));
    }
}

/// Three stopped waiters do not cost the live one a lease each, nor one together.
#[test]
fn stopped_waiters_together_cost_the_next_one_two_seconds() {
    for (count, options) in [(1, &[][..]), (1, &["--strict-order"]), (3, &[])] {
        let Some(servers) = servers(count) else { return };
        let urls = servers.urls();
        let options = [&["--name", "job"], options].concat();
        let mut holder = start(run(&urls, &options, "echo ready; cat"));
        let stopped: Vec<_> =
            (0..3).map(|_| start_waiting(run(&urls, &options, "echo stopped"))).collect();
        if count == 1 {
            await_waiters(&servers[0], 3);
        }
        stopped.iter().for_each(|waiter| waiter.signal(Signal::STOP));
        sleep(SILENT + Duration::from_millis(500));
        let mut live = start_waiting(run(&urls, &options, "echo mine"));
        if count == 1 {
            await_waiters(&servers[0], 4);
        }
        let clock = Clock::system();
        let released = clock.now();
        holder.close_stdin();
        assert_eq!(live.next_line(), "mine");
        let waited = clock.now().since(released);
        eprintln!("{count} servers, {options:?}: {waited:?}");
        assert!(waited < BOUND, "{count} servers, {options:?}: {waited:?}");
        holder.finish().expect(0);
        live.finish().expect(0);
        // They were passed over, and come once they go on.
        for waiter in stopped {
            waiter.signal(Signal::CONT);
            assert_eq!(waiter.finish().expect(0).stdout, "stopped\n");
        }
        let mut status = quorumlock(&urls);
        status.args(["status", "--exit-code", "job"]);
        crate::common::finish(status).expect(0);
    }
}
