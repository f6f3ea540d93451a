use std::time::Duration;

use quorumlock_protocol::{ConfigError, FencingToken, NodeProblem};

use super::{BOUND, REDLOCK, REPLICATED, SECOND, connected, run, sent, verbs};
use crate::command::Command;
use crate::connection::machine::harness::{Harness, LEASE, Pipe, Setup, Told};
use crate::connection::machine::requests::MAX_QUEUED;
use crate::connection::machine::session::{How, Session};
use crate::server_info::ServerInfo;

/// Of three requests in a batch, `written` bytes are handed to the socket before it breaks.
#[test]
fn a_request_of_which_one_byte_was_written_is_unknown_and_one_of_which_none_was_is_sent_again() {
    let harness = connected(BOUND);
    let mut session = harness.begin();
    let mut ends = Vec::new();
    let post: [fn(&Harness) -> usize; 4] =
        [Harness::raise, Harness::inspect, Harness::acquire, Harness::acquire];
    for post in post {
        post(&harness);
        ends.push(0);
    }
    let total = {
        let mut pipe = Pipe::default();
        pipe.run(&mut session, harness.now()).expect("waits");
        pipe.to_server.len()
    };
    // The requests begin where their commands begin.
    let begins = begins_of(&post);
    for written in 0..=total {
        let harness = connected(BOUND);
        let mut session = harness.begin();
        let requests = post.map(|post| post(&harness));
        let mut pipe = Pipe { takes: Some(written), ..Pipe::default() };
        pipe.run(&mut session, harness.now()).expect("waits");
        assert_eq!(pipe.to_server.len(), written);
        session.broke("reset".into());
        run(&harness, &mut session, b"").1.expect_err("ended");
        session.end(harness.now());
        let mut next = harness.begin();
        let again = sent(&harness, &mut next, b"");
        let unwritten = begins.iter().filter(|begins| **begins >= written).count();
        for (i, request) in requests.into_iter().enumerate() {
            let reply = harness.answers.of(request);
            match begins[i] < written {
                true => assert_eq!(reply, [Told::Unknown], "request {i} after {written} bytes"),
                false => assert_eq!(reply, [], "request {i} after {written} bytes"),
            }
        }
        let sets = verbs(&again).iter().filter(|verb| ["SET", "EVALSHA"].contains(verb)).count();
        assert_eq!(sets, unwritten, "after {written} bytes");
    }
}

/// Where the bytes of each request begin in a batch of all of them.
fn begins_of(posts: &[fn(&Harness) -> usize]) -> Vec<usize> {
    let size = |n: usize| {
        let harness = connected(BOUND);
        let mut session = harness.begin();
        posts[..n].iter().for_each(|post| {
            post(&harness);
        });
        let mut pipe = Pipe::default();
        pipe.run(&mut session, harness.now()).expect("waits");
        let exec = b"*1\r\n$4\r\nEXEC\r\n";
        // Without the EXEC that ends the batch.
        pipe.to_server.strip_suffix(exec).unwrap_or(&pipe.to_server).len()
    };
    (0..posts.len()).map(size).collect()
}

/// What was sent is answered first.
#[test]
fn a_connection_is_replaced_before_its_credentials_end() {
    for busy in [false, true] {
        let harness = connected(REDLOCK);
        let replace_at = harness.now() + SECOND;
        let server = ServerInfo { replace_at: Some(replace_at), ..harness.server() };
        let mut session = Session::begin(&harness.requests, server, harness.now());
        let ended = if busy {
            let sent_before = harness.inspect();
            sent(&harness, &mut session, b"");
            harness.advance(SECOND);
            let sent_then = harness.inspect();
            run(&harness, &mut session, b"$-1\r\n").1.expect("one is unanswered");
            let ended = run(&harness, &mut session, b"$-1\r\n").1;
            for request in [sent_before, sent_then] {
                assert!(matches!(harness.answers.of(request)[..], [Told::Yes(_)]));
            }
            ended
        } else {
            assert_eq!(run(&harness, &mut session, b"").1, Ok(Some(replace_at)));
            harness.advance(SECOND);
            session.on_deadline(harness.now());
            run(&harness, &mut session, b"").1
        };
        assert_eq!(ended.expect_err("it ends").how, How::Ours);
    }
}

/// About once a minute, whether requests are in flight or not.
#[test]
fn a_server_that_is_set_up_otherwise_is_verified_again() {
    let info = |replicas: usize| {
        let text = format!("role:master\r\nconnected_slaves:{replicas}\r\nused_by:others\r\n");
        format!("${}\r\n{text}\r\n", text.len())
    };
    let answers = [(info(2), false), ("-NOPERM no\r\n".into(), false), (info(3), true)];
    for busy in [false, true] {
        let harness = connected(Setup { all: true, connected: 2, ..REPLICATED });
        let mut session = harness.begin();
        for (answer, ends) in &answers {
            let Ok(Some(at)) = run(&harness, &mut session, b"").1 else { panic!("it waits") };
            let left = at.since(harness.now());
            assert!(left >= 50 * SECOND && left <= 70 * SECOND, "{left:?}");
            let request = busy.then(|| harness.inspect());
            let mut written = sent(&harness, &mut session, b"");
            harness.advance(left);
            if busy {
                written.append(&mut sent(&harness, &mut session, b"$-1\r\n"));
            } else {
                session.on_deadline(harness.now());
                written.append(&mut sent(&harness, &mut session, b""));
            }
            assert_eq!(written.last().expect("a look"), &["INFO", "replication"]);
            let ended = run(&harness, &mut session, answer.as_bytes()).1;
            assert_eq!(ended.is_err(), *ends, "{answer}: {ended:?}");
            assert!(ended.map_or_else(|ended| ended.how == How::Ours, |_| true));
            let answered = request.map(|request| harness.answers.of(request).len());
            assert_eq!(answered.unwrap_or(1), 1);
        }
    }
}

#[test]
fn how_a_connection_ended_tells_whether_it_was_of_use() {
    let broken = |posts: usize, replies: &[u8]| {
        let harness = connected(REDLOCK);
        let mut session = harness.begin();
        for _ in 0..posts {
            harness.inspect();
        }
        sent(&harness, &mut session, b"");
        sent(&harness, &mut session, replies);
        session.broke("reset".into());
        session.broke("a later reason".into());
        let ended = run(&harness, &mut session, b"").1.expect_err("ended");
        assert_eq!(ended.why, "reset");
        ended.how
    };
    assert_eq!(broken(0, b""), How::Idle);
    assert_eq!(broken(1, b""), How::Unanswered);
    assert_eq!(broken(2, b"$-1\r\n"), How::Useful);
    assert_eq!(broken(2, b"$-1\r\n$-1\r\n"), How::Idle);
}

#[test]
fn an_idle_connection_is_read_before_it_is_written_to() {
    let harness = connected(REDLOCK);
    let mut session = harness.begin();
    sent(&harness, &mut session, b"");
    let request = harness.raise();
    session.woken();
    assert_eq!(session.step(), crate::connection::machine::Step::Read);
    session.broke("closed by the server".into());
    let (written, ended) = run(&harness, &mut session, b"");
    assert!(written.is_empty());
    assert_eq!(ended.expect_err("ended").how, How::Idle);
    session.end(harness.now());
    assert_eq!(harness.answers.of(request), [], "it waits for the next connection");
    assert_eq!(harness.requests.connected_since(), None);
}

#[test]
fn a_release_that_was_written_is_repeated_before_queued_requests_and_answered_then() {
    let harness = connected(REDLOCK);
    let mut session = harness.begin();
    let release = harness.release();
    sent(&harness, &mut session, b"");
    harness.advance(SECOND);
    session.end(harness.now());
    assert_eq!(harness.answers.of(release), [], "its caller waits on");
    harness.acquire();
    harness.advance(SECOND);
    let mut next = harness.begin();
    let written = sent(&harness, &mut next, b"");
    assert_eq!(verbs(&written), ["EVALSHA", "MULTI", "SET", "ZADD", "EXEC"]);
    assert_eq!(written[0][1], harness.server().scripts.release.digest);
    // "Not held" by the same run of the server: the first request released it.
    sent(&harness, &mut next, b":0\r\n");
    let [Told::Yes(reply)] = &harness.answers.of(release)[..] else { panic!("no answer") };
    assert!(reply.contains("held: true"), "{reply}");
}

#[test]
fn not_held_by_another_run_of_the_server_is_no_release_of_ours() {
    let harness = connected(REDLOCK);
    let mut session = harness.begin();
    let release = harness.release();
    sent(&harness, &mut session, b"");
    session.end(harness.now());
    harness.advance(SECOND);
    let server = ServerInfo { run_identity: Some(2), ..harness.server() };
    let mut next = Session::begin(&harness.requests, server, harness.now());
    sent(&harness, &mut next, b"");
    sent(&harness, &mut next, b":0\r\n");
    let [Told::Yes(reply)] = &harness.answers.of(release)[..] else { panic!("no answer") };
    assert!(reply.contains("held: false"), "{reply}");
}

#[test]
fn a_half_written_release_is_repeated_but_never_taken_for_the_one_that_freed_the_name() {
    let harness = connected(REDLOCK);
    let mut session = harness.begin();
    let release = harness.release();
    let mut pipe = Pipe { takes: Some(10), ..Pipe::default() };
    pipe.run(&mut session, harness.now()).expect("waits");
    session.end(harness.now());
    harness.advance(SECOND);
    let mut next = harness.begin();
    sent(&harness, &mut next, b"");
    sent(&harness, &mut next, b":0\r\n");
    let [Told::Yes(reply)] = &harness.answers.of(release)[..] else { panic!("no answer") };
    assert!(reply.contains("held: false"), "{reply}");
}

#[test]
fn a_release_is_given_up_when_its_lease_has_ended() {
    let harness = connected(REDLOCK);
    let mut session = harness.begin();
    let release = harness.release();
    sent(&harness, &mut session, b"");
    session.end(harness.now());
    // A slow clock keeps the lease for longer.
    harness.advance(LEASE.div_f64(0.99));
    let mut next = harness.begin();
    assert!(sent(&harness, &mut next, b"").is_empty());
    assert_eq!(harness.answers.of(release), [Told::Dropped]);
}

#[test]
fn a_release_that_was_never_sent_is_repeated_though_its_caller_has_heard() {
    let harness = connected(REDLOCK);
    harness.requests.refused(&NodeProblem::NotConnected("refused".into()), harness.now());
    let release = harness.release();
    assert_eq!(harness.answers.of(release), [Told::NotSent]);
    assert!(harness.requests.wanted());
    let mut session = harness.begin();
    assert_eq!(verbs(&sent(&harness, &mut session, b"")), ["EVALSHA"]);
    sent(&harness, &mut session, b":1\r\n");
    assert_eq!(harness.answers.of(release), [Told::NotSent]);
}

#[test]
fn while_no_connection_can_be_made_requests_fail_at_once() {
    let harness = connected(REDLOCK);
    let waited = [harness.acquire(), harness.inspect(), harness.renew(2)];
    harness.requests.refused(&NodeProblem::NotConnected("refused".into()), harness.now());
    let late = harness.inspect();
    assert_eq!(harness.answers.of(waited[0]), [Told::NotSent]);
    assert_eq!(harness.answers.of(waited[1]), [Told::NotSent]);
    assert_eq!(harness.answers.of(waited[2]), [Told::Each(vec![Told::NotSent, Told::NotSent])]);
    assert_eq!(harness.answers.of(late), [Told::NotSent]);
    let mut session = harness.begin();
    harness.inspect();
    assert_eq!(sent(&harness, &mut session, b"").len(), 1);
}

#[test]
fn the_queue_has_a_bound() {
    let harness = connected(REDLOCK);
    for _ in 1..MAX_QUEUED {
        harness.post(|_, _| Command::NoReply);
    }
    let (beyond, release) = (harness.inspect(), harness.release());
    assert_eq!(harness.answers.of(beyond), [Told::NotSent]);
    assert_eq!(harness.answers.of(release), [Told::NotSent]);
    let mut session = harness.begin();
    let request = harness.inspect();
    let written = sent(&harness, &mut session, b"");
    assert_eq!(verbs(&written), ["EVALSHA", "EVALSHA"], "the release, and the next request");
    sent(&harness, &mut session, b":1\r\n$-1\r\n");
    assert!(matches!(harness.answers.of(request)[..], [Told::Yes(_)]));
}

#[test]
fn without_a_runtime_the_caller_hears_why() {
    let harness = Harness::new(REDLOCK);
    let post = |request: Command| {
        harness.requests.post::<()>(request, harness.now(), || Err(ConfigError::NoRuntime))
    };
    let number = harness.post(|harness, to| {
        post(harness.acquisition(FencingToken::new(31), to));
        Command::NoReply
    });
    assert_eq!(harness.answers.of(number), [Told::Misconfigured]);
}

#[test]
fn a_closed_connection_answers_what_was_posted_and_ends() {
    let harness = connected(REDLOCK);
    let mut session = harness.begin();
    let request = harness.inspect();
    harness.requests.close();
    assert_eq!(sent(&harness, &mut session, b"").len(), 1);
    let ended = run(&harness, &mut session, b"$-1\r\n").1.expect_err("ended");
    assert_eq!(ended.why, "closed");
    assert!(matches!(harness.answers.of(request)[..], [Told::Yes(_)]));
}

#[test]
fn the_end_of_a_runtime_leaves_what_is_queued_and_what_may_be_repeated_to_another_driver() {
    let harness = connected(REDLOCK);
    let mut session = harness.begin();
    let (taken, looked) = (harness.acquire(), harness.inspect());
    sent(&harness, &mut session, b"");
    let queued = harness.inspect();
    session.abandon(harness.now());
    drop(session);
    assert!(harness.requests.abandoned(harness.now()), "another driver is needed");
    assert_eq!(harness.answers.of(taken), [Told::Unknown]);
    for waits in [looked, queued] {
        assert_eq!(harness.answers.of(waits), []);
    }
    let mut session = harness.begin();
    assert_eq!(sent(&harness, &mut session, b"").len(), 2);
    sent(&harness, &mut session, b"$-1\r\n$-1\r\n");
    for waited in [looked, queued] {
        assert!(matches!(harness.answers.of(waited)[..], [Told::Yes(_)]));
    }
}

#[test]
fn where_no_other_driver_can_be_started_what_is_queued_fails() {
    let harness = connected(REDLOCK);
    let mut session = harness.begin();
    let queued = harness.inspect();
    session.abandon(harness.now());
    assert!(harness.requests.abandoned(harness.now()));
    harness.requests.stranded(harness.now());
    assert_eq!(harness.answers.of(queued), [Told::NotSent]);
    assert!(!harness.requests.abandoned(harness.now()), "nobody waits");
    harness.advance(Duration::from_secs(5));
    let posted = harness.requests.post(Command::NoReply, harness.now(), || Ok(7));
    assert_eq!(posted, crate::connection::machine::Posted::Start(7));
}

#[test]
fn answered_tasks_may_post_before_the_next_write() {
    let harness = connected(REDLOCK);
    let mut session = harness.begin();
    harness.inspect();
    harness.inspect();
    sent(&harness, &mut session, b"");
    sent(&harness, &mut session, b"$-1\r\n$-1\r\n");
    harness.inspect();
    session.woken();
    assert_eq!(session.step(), crate::connection::machine::Step::Yield);
    harness.inspect();
    assert_eq!(sent(&harness, &mut session, b"").len(), 2, "one write for both");
}
