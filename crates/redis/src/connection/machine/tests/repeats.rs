use std::time::Duration;

use quorumlock_protocol::{Incarnation, NodeProblem};

use super::{BOUND, DURABLE, REDLOCK, REPLICATED, SECOND, SEVERAL, connected, run, sent, verbs};
use crate::command::Command;
use crate::connection::machine::harness::{LEASE, STALL, Setup, Told, lease};
use crate::connection::machine::session::{How, Session};

const NOSCRIPT: &[u8] = b"-NOSCRIPT No matching script. Please use EVAL.\r\n";

#[test]
fn a_script_that_the_server_forgot_is_loaded_and_then_sent_as_text() {
    let harness = connected(REDLOCK);
    let mut session = harness.begin();
    let request = harness.raise();
    assert_eq!(verbs(&sent(&harness, &mut session, b"")), ["EVALSHA"]);
    assert_eq!(verbs(&sent(&harness, &mut session, NOSCRIPT)), ["SCRIPT", "EVALSHA"]);
    assert_eq!(verbs(&sent(&harness, &mut session, &[b"+OK\r\n", NOSCRIPT].concat())), ["EVAL"]);
    assert_eq!(harness.answers.of(request), []);
    sent(&harness, &mut session, NOSCRIPT);
    let reply = harness.answers.of(request);
    assert!(matches!(reply[..], [Told::Refused(_)]), "a server that knows no text: {reply:?}");
}

#[test]
fn a_release_loads_both_its_scripts() {
    let harness = connected(Setup { ..REDLOCK });
    let mut session = harness.begin();
    let request = harness.release();
    assert_eq!(verbs(&sent(&harness, &mut session, b"")), ["DELIFEQ", "EXISTS"]);
    let replies = [NOSCRIPT, b":0\r\n"].concat();
    let written = sent(&harness, &mut session, &replies);
    assert_eq!(verbs(&written), ["SCRIPT", "SCRIPT", "EVALSHA"]);
    sent(&harness, &mut session, b"+OK\r\n+OK\r\n:1\r\n");
    assert!(matches!(harness.answers.of(request)[..], [Told::Yes(_)]));
}

/// Its release may be on its way already (H17).
#[test]
fn an_acquisition_is_never_sent_again() {
    for (setup, error) in [(REDLOCK, NOSCRIPT), (SEVERAL, READONLY)] {
        let harness = connected(setup);
        let mut session = harness.begin();
        let request = harness.acquire_by_script(None);
        assert_eq!(verbs(&sent(&harness, &mut session, b"")), ["EVALSHA"]);
        let written = run(&harness, &mut session, error).0;
        assert!(verbs(&written).iter().all(|verb| *verb == "SCRIPT"), "{written:?}");
        assert_eq!(harness.answers.of(request), [Told::Stale]);
    }
}

#[test]
fn a_server_that_lost_its_scripts_may_have_lost_its_memory() {
    for error in [NOSCRIPT, b"-UNPROVEN other incarnation\r\n"] {
        let harness = connected(BOUND);
        let mut session = harness.begin();
        let (vote, other) = (harness.raise(), harness.inspect());
        assert_eq!(verbs(&sent(&harness, &mut session, b"")), ["EVALSHA", "EVALSHA"]);
        sent(&harness, &mut session, error);
        assert_eq!(harness.answers.of(vote), [Told::Stale]);
        let late = harness.inspect();
        // The replies to earlier requests are read first, and nothing more is written.
        assert_eq!(verbs(&sent(&harness, &mut session, b"")), [""; 0]);
        let (_, ended) = run(&harness, &mut session, b"$-1\r\n");
        let ended = ended.expect_err("ended");
        assert_eq!((&*ended.why, ended.how), ("it must be verified again", How::Ours));
        session.end(harness.now());
        assert_eq!(harness.answers.of(other), [Told::Yes("None".into())]);
        let mut next = harness.begin();
        assert_eq!(verbs(&sent(&harness, &mut next, b"")), ["EVALSHA"]);
        sent(&harness, &mut next, b"$-1\r\n");
        assert_eq!(harness.answers.of(late), [Told::Yes("None".into())]);
    }
}

#[test]
fn a_demoted_master_is_left_and_the_new_one_is_asked_once() {
    for error in [&b"-READONLY You can't write against a read only replica.\r\n"[..], MASTERDOWN] {
        let harness = connected(SEVERAL);
        let mut session = harness.begin();
        let request = harness.renew(1);
        sent(&harness, &mut session, b"");
        let ended = run(&harness, &mut session, error).1.expect_err("ended");
        assert_eq!(ended.how, How::Ours);
        session.end(harness.now());
        let mut next = harness.begin();
        assert_eq!(verbs(&sent(&harness, &mut next, b"")), ["EVALSHA"]);
        assert_eq!(harness.answers.of(request), []);
        run(&harness, &mut next, error).1.expect_err("ended again");
        let reply = harness.answers.of(request);
        assert!(matches!(&reply[..], [Told::Each(each)] if matches!(each[..], [Told::Refused(_)])));
    }
}

const READONLY: &[u8] = b"-READONLY replica\r\n";
const MASTERDOWN: &[u8] = b"-MASTERDOWN Link with MASTER is down\r\n";

#[test]
fn one_server_that_is_read_only_is_verified_again_and_its_callers_hear_why() {
    let harness = connected(REDLOCK);
    let mut session = harness.begin();
    let request = harness.raise();
    sent(&harness, &mut session, b"");
    run(&harness, &mut session, READONLY).1.expect_err("ended");
    assert!(matches!(harness.answers.of(request)[..], [Told::Refused(_)]));
}

/// The server may become a master again, with our lock (SAFETY.md G7).
#[test]
fn a_release_that_a_replica_refused_is_repeated() {
    for setup in [REDLOCK, SEVERAL, BOUND] {
        let harness = connected(setup);
        let mut session = harness.begin();
        let request = harness.release();
        let plain = verbs(&sent(&harness, &mut session, b"")).len() == 2;
        let replies = if plain { &[READONLY, b":0\r\n"][..] } else { &[READONLY] };
        run(&harness, &mut session, &replies.concat()).1.expect_err("ended");
        session.end(harness.now());
        for _ in 0..3 {
            let mut next = harness.begin();
            assert_eq!(verbs(&sent(&harness, &mut next, b"")), ["EVALSHA"]);
            run(&harness, &mut next, READONLY).1.expect_err("ended again");
            assert_eq!(harness.answers.of(request), [Told::NotSent]);
            next.end(harness.now());
        }
    }
}

#[test]
fn a_vote_for_another_incarnation_is_not_sent() {
    let harness = connected(BOUND);
    let mut session = harness.begin();
    let incarnation = Incarnation::parse("ffffffffffffffffffffffffffffffff").expect("good");
    let late = harness.post(|harness, to| {
        match harness.acquisition(quorumlock_protocol::FencingToken::new(31), to) {
            Command::Acquire { lease, token, hints, to, .. } => {
                Command::Acquire { lease, token, incarnation, hints, to }
            }
            other => other,
        }
    });
    assert_eq!(harness.answers.of(late), [Told::Stale]);
    assert!(sent(&harness, &mut session, b"").is_empty());
}

#[test]
fn a_vote_that_waited_for_a_connection_to_another_incarnation_is_stale() {
    let harness = connected(BOUND);
    let (vote, renewal, other) = (harness.raise(), harness.renew(1), harness.inspect());
    let server =
        crate::server_info::ServerInfo { incarnation: Incarnation::NONE, ..harness.server() };
    let mut session = Session::begin(&harness.requests, server, harness.now());
    assert_eq!(harness.answers.of(vote), [Told::Stale]);
    assert_eq!(harness.answers.of(renewal), [], "a renewal rests on no incarnation");
    assert_eq!(verbs(&sent(&harness, &mut session, b"")), ["EVALSHA", "EVALSHA"]);
    assert_eq!(harness.answers.of(other), []);
}

#[test]
fn a_node_without_proven_memory_counts_for_nothing_and_is_looked_at_again() {
    let harness = connected(BOUND);
    let waited = harness.renew(2);
    let mut session = Session::begin(&harness.requests, harness.unproven(), harness.now());
    let votes = [harness.acquire(), harness.raise(), harness.regrant()];
    for vote in votes {
        assert_eq!(harness.answers.of(vote), [Told::NotAdmitted]);
    }
    let each = Told::Each(vec![Told::NotAdmitted, Told::NotAdmitted]);
    assert_eq!(harness.answers.of(waited), [each]);
    assert!(!harness.requests.proven());
    let (release, inspect) = (harness.release(), harness.inspect());
    let written = sent(&harness, &mut session, b"");
    assert_eq!(verbs(&written), ["DELIFEQ", "EXISTS", "EVALSHA"]);
    harness.advance(SECOND);
    session.on_deadline(harness.now());
    sent(&harness, &mut session, b":1\r\n:0\r\n");
    let (_, idle) = run(&harness, &mut session, b"$-1\r\n");
    assert!(idle.expect("waits").is_some_and(|recheck| recheck <= harness.now()));
    assert!(matches!(harness.answers.of(release)[..], [Told::Yes(_)]));
    // It has no memory of who holds the name.
    assert_eq!(harness.answers.of(inspect), [Told::NotAdmitted]);
    session.on_deadline(harness.now());
    let ended = run(&harness, &mut session, b"").1.expect_err("ended");
    assert_eq!((&*ended.why, ended.how), ("its memory is looked at again", How::Ours));
}

#[test]
fn a_waiter_that_the_plain_release_did_not_notify_is_notified_after_it() {
    for (replies, expected) in [
        (&b":1\r\n:0\r\n"[..], &[][..]),
        (b":1\r\n:1\r\n", &["EVALSHA"]),
        (b":0\r\n:1\r\n", &["EVALSHA"]),
        (b":0\r\n:0\r\n", &[]),
    ] {
        let harness = connected(REDLOCK);
        let mut session = harness.begin();
        harness.release();
        sent(&harness, &mut session, b"");
        let written = sent(&harness, &mut session, replies);
        assert_eq!(verbs(&written), *expected, "{replies:?}");
        if let [dequeue] = &written[..] {
            assert_eq!(dequeue[1], harness.server().scripts.dequeue.digest);
        }
    }
}

#[test]
fn a_vote_counts_once_the_replicas_have_it() {
    for (wait, expected) in [(&b":1\r\n"[..], true), (b":0\r\n", false), (b"-ERR no\r\n", false)] {
        let harness = connected(REPLICATED);
        let mut session = harness.begin();
        let (vote, other) = (harness.regrant(), harness.inspect());
        assert_eq!(verbs(&sent(&harness, &mut session, b"")), ["EVALSHA", "EVALSHA", "WAIT"]);
        let later = harness.inspect();
        assert!(sent(&harness, &mut session, b":1\r\n$-1\r\n").is_empty(), "WAIT blocks");
        assert_eq!(harness.answers.of(vote), []);
        assert!(matches!(harness.answers.of(other)[..], [Told::Yes(_)]));
        let (written, ended) = run(&harness, &mut session, wait);
        match &harness.answers.of(vote)[..] {
            [Told::Yes(_)] => assert!(expected),
            [Told::Refused(NodeProblem::NoReplicas(_))] => assert!(!expected),
            reply => panic!("{reply:?}"),
        }
        // Too few replicas: another server may be the master.
        assert_eq!(ended.is_err(), !expected);
        assert_eq!(written.len(), usize::from(expected));
        session.end(harness.now());
        assert_eq!(harness.answers.of(later).len(), usize::from(expected));
    }
}

#[test]
fn a_vote_counts_once_the_disks_have_it() {
    type Is = fn(&NodeProblem) -> bool;
    let durable: Is = |problem| matches!(problem, NodeProblem::NotDurable(_));
    let replicas: Is = |problem| matches!(problem, NodeProblem::NoReplicas(_));
    for (needed, reply, refused) in [
        (0, &b"*2\r\n:1\r\n:0\r\n"[..], None),
        (0, b"*2\r\n:0\r\n:0\r\n", Some(durable)),
        (1, b"*2\r\n:1\r\n:1\r\n", None),
        (1, b"*2\r\n:1\r\n:0\r\n", Some(replicas)),
        (1, b"*2\r\n:0\r\n:1\r\n", Some(durable)),
        (0, b":1\r\n", Some(durable)),
        (0, b"-ERR unknown command\r\n", Some(durable)),
    ] {
        let harness = connected(Setup { replicas: needed, ..DURABLE });
        let mut session = harness.begin();
        let vote = harness.regrant();
        let written = sent(&harness, &mut session, b"");
        assert_eq!(written[1], ["WAITAOF", "1", &needed.to_string(), "100"]);
        sent(&harness, &mut session, b":1\r\n");
        assert_eq!(harness.answers.of(vote), []);
        sent(&harness, &mut session, reply);
        match (&harness.answers.of(vote)[..], refused) {
            ([Told::Yes(_)], None) => {}
            ([Told::Refused(problem)], Some(refused)) => assert!(refused(problem), "{problem}"),
            (told, _) => panic!("{told:?} after {reply:?}"),
        }
    }
}

#[test]
fn all_replicas_are_those_that_the_master_has() {
    for connected_replicas in [1, 2] {
        let setup = Setup { all: true, connected: connected_replicas, ..REPLICATED };
        let harness = connected(setup);
        let mut session = harness.begin();
        harness.regrant();
        let written = sent(&harness, &mut session, b"");
        assert_eq!(written[1], ["WAIT", &connected_replicas.to_string(), "100"]);
    }
}

#[test]
fn a_connection_that_breaks_before_the_replicas_have_a_vote_leaves_it_unknown() {
    let harness = connected(REPLICATED);
    let mut session = harness.begin();
    let (vote, busy) = (harness.regrant(), harness.acquire_by_script(None));
    sent(&harness, &mut session, b"");
    sent(&harness, &mut session, b":1\r\n*1\r\n:9\r\n");
    assert_eq!(harness.answers.of(busy), [Told::Busy], "a no needs no replica");
    session.end(harness.now());
    assert_eq!(harness.answers.of(vote), [Told::Unknown]);
}

#[test]
fn a_wait_without_a_reply_is_a_stall() {
    let harness = connected(REPLICATED);
    let mut session = harness.begin();
    harness.regrant();
    sent(&harness, &mut session, b"");
    sent(&harness, &mut session, b":1\r\n");
    for _ in 0..2 {
        sent(&harness, &mut session, b"");
        harness.advance(STALL);
        session.on_deadline(harness.now());
    }
    let ended = run(&harness, &mut session, b"").1.expect_err("ended");
    assert_eq!((&*ended.why, ended.how), ("gave no answer for 4s", How::Useful));
}

/// The first deadline of a session passes.
#[test]
fn a_copy_of_marks_is_no_stall_for_ten_answer_timeouts() {
    for (marks, deadlines) in [(10, 2), (16_384, 5)] {
        let harness = connected(BOUND);
        let mut session = harness.begin();
        harness.admission_with(marks);
        let mut passed = 0;
        while run(&harness, &mut session, b"").1.is_ok() {
            harness.advance(STALL);
            session.on_deadline(harness.now());
            passed += 1;
        }
        assert_eq!(passed, deadlines, "{marks} marks");
    }
}

/// The node keeps the lease for the takeover delay more, by a clock that may be slow (SAFETY.md G7).
#[test]
fn a_release_is_repeated_while_the_node_may_keep_its_lease_and_no_longer() {
    for delay in [Duration::ZERO, LEASE * 5] {
        let harness = connected(Setup { delay, ..REDLOCK });
        let request = harness.release();
        let seconds = (LEASE + delay).as_secs();
        for passed in 0..=seconds {
            let mut session = harness.begin();
            let written = sent(&harness, &mut session, b"");
            let commands = if passed == 0 { 2 } else { 1 };
            assert_eq!(written.len(), commands, "second {passed}, delay {delay:?}");
            session.end(harness.now());
            harness.advance(SECOND);
        }
        assert_eq!(lease(request).ttl, LEASE);
        let mut session = harness.begin();
        assert!(sent(&harness, &mut session, b"").is_empty(), "the node has ended its lease");
    }
}
