use std::sync::atomic::Ordering;

use super::{BOUND, REDISSON, REDLOCK, connected, run, sent, verbs};
use crate::connection::machine::harness::{Harness, INCARNATION, Setup, Told};
use crate::connection::machine::session::{How, Session};

/// The replies to a transaction of `n` acquisitions on a `BOUND` node: a reply to each command
/// before `EXEC`, and the items of the reply to `EXEC`.
struct Replies {
    queued: Vec<String>,
    exec: Vec<String>,
}

impl Replies {
    fn granted(n: usize) -> Self {
        let mut queued = vec!["+OK\r\n".to_owned()];
        queued.resize(3 + 2 * n, "+QUEUED\r\n".to_owned());
        let mut exec = vec!["*1\r\n:1\r\n".to_owned(), format!("$32\r\n{INCARNATION}\r\n")];
        exec.extend((0..n).flat_map(|_| ["+OK\r\n".to_owned(), ":1\r\n".to_owned()]));
        Self { queued, exec }
    }

    fn bytes(&self) -> Vec<u8> {
        let exec = format!("*{}\r\n{}", self.exec.len(), self.exec.concat());
        [self.queued.concat(), exec].concat().into_bytes()
    }

    /// Refused while it was queued.
    fn aborted(&self) -> Vec<u8> {
        let why = "-EXECABORT Transaction discarded because of previous errors.\r\n";
        [&self.queued.concat(), why].concat().into_bytes()
    }
}

/// `n` acquisitions in one transaction, whose bytes are written.
fn shared(harness: &Harness, session: &mut Session<'_>, n: usize) -> Vec<usize> {
    let requests = (0..n).map(|_| harness.acquire()).collect();
    let written = sent(harness, session, b"");
    assert_eq!(verbs(&written).last(), Some(&"EXEC"));
    requests
}

fn all(harness: &Harness, requests: &[usize]) -> Vec<Told> {
    requests
        .iter()
        .map(|request| match &harness.answers.of(*request)[..] {
            [reply] => reply.clone(),
            reply => panic!("request {request} was told {reply:?}"),
        })
        .collect()
}

fn granted(reply: &Told) -> bool {
    matches!(reply, Told::Yes(vote) if vote.contains("Accepted"))
}

fn scripts_only(harness: &Harness) -> bool {
    harness.context.scripts_only.load(Ordering::Relaxed)
}

#[test]
fn up_to_32_acquisitions_share_a_transaction() {
    for (n, expected) in [(1, 1), (2, 1), (31, 1), (32, 1), (33, 2), (64, 2), (65, 3)] {
        let harness = connected(BOUND);
        let mut session = harness.begin();
        let requests: Vec<_> = (0..n).map(|_| harness.acquire()).collect();
        let written = sent(&harness, &mut session, b"");
        let count = |verb| verbs(&written).iter().filter(|found| **found == verb).count();
        assert_eq!((count("MULTI"), count("EXEC"), count("SET")), (expected, expected, n));
        let mut left = n;
        while left > 0 {
            sent(&harness, &mut session, &Replies::granted(left.min(32)).bytes());
            left -= left.min(32);
        }
        assert!(all(&harness, &requests).iter().all(granted), "{n}");
    }
}

#[test]
fn a_transaction_is_understood_wherever_its_replies_are_cut() {
    let bytes = Replies::granted(3).bytes();
    for cut in 0..bytes.len() {
        let harness = connected(BOUND);
        let mut session = harness.begin();
        let requests = shared(&harness, &mut session, 3);
        sent(&harness, &mut session, &bytes[..cut]);
        assert!(requests.iter().all(|request| harness.answers.of(*request).is_empty()));
        sent(&harness, &mut session, &bytes[cut..]);
        assert!(all(&harness, &requests).iter().all(granted), "cut at {cut}");
    }
}

/// Only acquisitions go into a transaction: an abort must not stop a release.
#[test]
fn any_other_request_ends_the_transaction_before_it() {
    let harness = connected(BOUND);
    let mut session = harness.begin();
    harness.acquire();
    harness.release();
    harness.acquire();
    let written = sent(&harness, &mut session, b"");
    let transaction = ["MULTI", "SCRIPT", "HGET", "SET", "ZADD", "EXEC"];
    let expected = [&transaction[..], &["DELIFEQ", "EXISTS"], &transaction].concat();
    assert_eq!(verbs(&written), expected);
}

#[test]
fn an_error_in_any_place_before_exec_leaves_all_of_them_unclear() {
    for (error, forbidden) in [
        ("-OOM command not allowed\r\n", false),
        ("-NOPERM this user has no permissions\r\n", true),
        ("-ERR unknown command 'ZADD'\r\n", true),
    ] {
        for at in 0..Replies::granted(3).queued.len() {
            let harness = connected(BOUND);
            let mut session = harness.begin();
            let requests = shared(&harness, &mut session, 3);
            let mut replies = Replies::granted(3);
            replies.queued[at] = error.to_owned();
            sent(&harness, &mut session, &replies.aborted());
            assert_eq!(all(&harness, &requests), [Told::Stale, Told::Stale, Told::Stale]);
            assert_eq!(scripts_only(&harness), forbidden, "{error} at {at}");
        }
    }
}

/// The name may be held all the same: a vote that was not proven never counts.
#[test]
fn a_proof_that_fails_leaves_all_of_them_unclear_and_verifies_the_node() {
    let other = format!("$32\r\n{}\r\n", INCARNATION.replace('0', "f"));
    for (at, instead) in [
        (0, "*1\r\n:0\r\n"),
        (0, "-NOPERM no\r\n"),
        (0, ":1\r\n"),
        (1, "$-1\r\n"),
        (1, "-WRONGTYPE no\r\n"),
        (1, &*other),
    ] {
        let harness = connected(BOUND);
        let mut session = harness.begin();
        let requests = shared(&harness, &mut session, 3);
        let mut replies = Replies::granted(3);
        replies.exec[at] = instead.to_owned();
        let ended = run(&harness, &mut session, &replies.bytes()).1.expect_err("ended");
        assert_eq!((&*ended.why, ended.how), ("it must be verified again", How::Ours));
        assert_eq!(all(&harness, &requests), [Told::Stale, Told::Stale, Told::Stale]);
    }
}

#[test]
fn an_error_inside_exec_concerns_one_acquisition() {
    let cases = [
        ("-BUSYKEY Target key name already exists.\r\n", ":1\r\n", Told::Busy, false),
        ("$-1\r\n", ":1\r\n", Told::Busy, false),
        ("-WRONGTYPE no\r\n", ":1\r\n", Told::Stale, false),
        ("-OOM no\r\n", ":1\r\n", Told::Stale, false),
        ("-ERR DUMP payload version\r\n", ":1\r\n", Told::Stale, true),
        ("+OK\r\n", "-WRONGTYPE no\r\n", Told::Stale, false),
        ("+OK\r\n", "-ERR syntax error\r\n", Told::Stale, true),
        ("+OK\r\n", "$-1\r\n", Told::Stale, false),
        (":7\r\n", ":1\r\n", Told::Stale, false),
    ];
    for (taken, accepted, expected, forbidden) in cases {
        for place in 0..3 {
            let harness = connected(BOUND);
            let mut session = harness.begin();
            let requests = shared(&harness, &mut session, 3);
            let mut replies = Replies::granted(3);
            replies.exec[2 + 2 * place] = taken.to_owned();
            replies.exec[3 + 2 * place] = accepted.to_owned();
            sent(&harness, &mut session, &replies.bytes());
            for (i, reply) in all(&harness, &requests).iter().enumerate() {
                match i == place {
                    true => assert_eq!(*reply, expected, "{taken} {accepted}"),
                    false => assert!(granted(reply), "{taken} {accepted}: {reply:?}"),
                }
            }
            assert_eq!(scripts_only(&harness), forbidden, "{taken} {accepted}");
        }
    }
}

#[test]
fn a_token_that_the_mark_has_passed_is_behind() {
    let harness = connected(BOUND);
    let mut session = harness.begin();
    let requests = shared(&harness, &mut session, 2);
    let mut replies = Replies::granted(2);
    replies.exec[3] = ":0\r\n".to_owned();
    sent(&harness, &mut session, &replies.bytes());
    let reply = all(&harness, &requests);
    assert!(matches!(&reply[0], Told::Yes(vote) if vote.contains("Behind")), "{reply:?}");
    assert!(granted(&reply[1]), "{reply:?}");
}

#[test]
fn no_reply_of_exec_but_an_array_says_anything() {
    for exec in ["*-1\r\n", "$-1\r\n", ":1\r\n", "+OK\r\n", "+QUEUED\r\n", "-EXECABORT\r\n"] {
        let harness = connected(BOUND);
        let mut session = harness.begin();
        let requests = shared(&harness, &mut session, 2);
        let queued = Replies::granted(2).queued.concat();
        sent(&harness, &mut session, [&queued, exec].concat().as_bytes());
        assert_eq!(all(&harness, &requests), [Told::Stale, Told::Stale], "{exec}");
    }
}

#[test]
fn a_reply_of_exec_that_is_too_short_says_nothing_about_the_rest() {
    for items in 0..6 {
        let harness = connected(BOUND);
        let mut session = harness.begin();
        let requests = shared(&harness, &mut session, 2);
        let mut replies = Replies::granted(2);
        replies.exec.truncate(items);
        sent(&harness, &mut session, &replies.bytes());
        let reply = all(&harness, &requests);
        assert_eq!(granted(&reply[0]), items >= 4, "{items} items: {reply:?}");
        assert_eq!(reply[1], Told::Stale, "{items} items");
    }
}

#[test]
fn acquisitions_without_a_token_share_the_proof_and_each_has_its_own_verdict() {
    for (n, held) in (1..5).flat_map(|n| (0..n).map(move |held| (n, held))) {
        let harness = connected(BOUND);
        let mut session = harness.begin();
        let requests: Vec<_> = (0..n).map(|_| harness.unfenced()).collect();
        let written = sent(&harness, &mut session, b"");
        assert_eq!(written.len(), 4 + n);
        let queued = ["+OK\r\n", &"+QUEUED\r\n".repeat(2 + n)].concat();
        let taken = |i| if i == held { "$-1\r\n" } else { "+OK\r\n" };
        let grants: String = (0..n).map(taken).collect();
        let exec = format!("*{}\r\n*1\r\n:1\r\n$32\r\n{INCARNATION}\r\n{grants}", 2 + n);
        sent(&harness, &mut session, [queued, exec].concat().as_bytes());
        for (i, reply) in all(&harness, &requests).iter().enumerate() {
            assert_eq!(
                (granted(reply), *reply == Told::Busy),
                (i != held, i == held),
                "{i} of {n}"
            );
        }
    }
}

#[test]
fn one_command_is_enough_without_a_token_or_a_proof() {
    for (setup, verb) in [(REDLOCK, "SET"), (REDISSON, "RESTORE")] {
        let harness = connected(setup);
        let mut session = harness.begin();
        let requests = [harness.unfenced(), harness.unfenced(), harness.unfenced()];
        assert_eq!(verbs(&sent(&harness, &mut session, b"")), [verb, verb, verb]);
        sent(&harness, &mut session, b"+OK\r\n$-1\r\n-BUSYKEY no\r\n");
        let reply = all(&harness, &requests);
        assert!(granted(&reply[0]) && reply[1..] == [Told::Busy, Told::Busy], "{reply:?}");
    }
}

#[test]
fn where_the_server_refused_a_command_the_next_acquisition_goes_by_script() {
    for setup in [REDLOCK, Setup { layout: REDISSON.layout, ..BOUND }] {
        let harness = connected(setup);
        let mut session = harness.begin();
        harness.context.scripts_only.store(true, Ordering::Relaxed);
        harness.acquire();
        assert_eq!(verbs(&sent(&harness, &mut session, b"")), ["EVALSHA"]);
    }
}
