use std::time::Duration;

use quorumlock_protocol::ClockAnomaly;

use super::{BOUND, REDISSON, REDLOCK, connected, run, sent, verbs};
use crate::connection::machine::harness::{Harness, INCARNATION, LEASE, Pipe, STALL, Setup, Told};
use crate::connection::machine::session::How;

type Post = fn(&Harness) -> usize;
type Sample = (&'static str, Post, &'static [u8], fn(&Told) -> bool);

/// A request of each kind, the replies that answer it on a `BOUND` node, and the answer's kind.
const SAMPLES: [Sample; 12] = [
    ("acquire", |h| h.acquire_by_script(None), b":0\r\n", is_yes),
    ("behind", |h| h.acquire_by_script(None), b":1000099\r\n", is_yes),
    ("busy", |h| h.acquire_by_script(None), b"*1\r\n:250\r\n", |t| *t == Told::Busy),
    ("raise", Harness::raise, b":0\r\n", is_yes),
    ("gone", Harness::raise, b"$-1\r\n", |t| *t == Told::Gone),
    ("regrant", Harness::regrant, b":1\r\n", is_yes),
    ("renew", |h| h.renew(2), b"*3\r\n:1\r\n:0\r\n*2\r\n$2\r\n17\r\n$1\r\n5\r\n", is_each),
    ("release", Harness::release, b":1\r\n:0\r\n", is_yes),
    ("inspect", Harness::inspect, b"*3\r\n$2\r\nab\r\n$1\r\n1\r\n:90\r\n", is_yes),
    ("force", Harness::force_release, b":1\r\n", is_yes),
    ("admission", Harness::admission, b"$3\r\na\r\n\r\n", is_yes),
    ("error", Harness::inspect, b"-OOM no\r\n", |t| matches!(t, Told::Refused(_))),
];

fn is_yes(reply: &Told) -> bool {
    matches!(reply, Told::Yes(_))
}

fn is_each(reply: &Told) -> bool {
    matches!(reply, Told::Each(each) if is_yes(&each[0]) && each[1] == Told::Gone)
}

#[test]
fn a_reply_is_whole_wherever_it_is_cut() {
    for (what, post, reply, expected) in SAMPLES {
        for cut in 0..reply.len() {
            let harness = connected(BOUND);
            let mut session = harness.begin();
            let request = post(&harness);
            sent(&harness, &mut session, b"");
            sent(&harness, &mut session, &reply[..cut]);
            assert_eq!(harness.answers.of(request), [], "{what} cut at {cut}");
            sent(&harness, &mut session, &reply[cut..]);
            let reply = harness.answers.of(request);
            assert!(reply.len() == 1 && expected(&reply[0]), "{what} cut at {cut}: {reply:?}");
        }
    }
}

#[test]
fn a_batch_is_one_write_and_its_replies_may_come_byte_by_byte() {
    let harness = connected(BOUND);
    let mut session = harness.begin();
    let requests: Vec<_> = SAMPLES.iter().map(|(_, post, ..)| post(&harness)).collect();
    assert_eq!(verbs(&sent(&harness, &mut session, b"")).len(), 13, "one write for all");
    for reply in SAMPLES.iter().flat_map(|(_, _, reply, _)| reply.iter()) {
        sent(&harness, &mut session, &[*reply]);
    }
    for ((what, _, _, expected), request) in SAMPLES.iter().zip(requests) {
        let reply = harness.answers.of(request);
        assert!(reply.len() == 1 && expected(&reply[0]), "{what}: {reply:?}");
    }
}

#[test]
fn many_replies_are_handled_in_slices_between_which_other_tasks_run() {
    let harness = connected(REDLOCK);
    let mut session = harness.begin();
    let requests: Vec<_> = (0..300).map(|_| harness.inspect()).collect();
    assert_eq!(sent(&harness, &mut session, b"").len(), 300);
    sent(&harness, &mut session, &b"$-1\r\n".repeat(300));
    for request in requests {
        assert_eq!(harness.answers.of(request), [Told::Yes("None".into())]);
    }
}

#[test]
fn a_stream_that_takes_one_byte_at_a_time_gets_the_same_bytes() {
    for setup in [REDLOCK, REDISSON, BOUND] {
        let bytes = |takes: Option<usize>| {
            let harness = connected(setup);
            let mut session = harness.begin();
            for (_, post, ..) in SAMPLES {
                post(&harness);
            }
            harness.acquire();
            harness.acquire();
            let mut pipe = Pipe::default();
            for _ in 0..10_000 {
                pipe.takes = takes;
                pipe.run(&mut session, harness.now()).expect("it waits");
                if session.to_write().is_empty() {
                    return pipe.to_server;
                }
            }
            panic!("not written");
        };
        assert_eq!(bytes(Some(1)), bytes(None));
    }
}

#[test]
fn what_was_posted_while_dialling_is_written_with_the_scripts_of_the_server() {
    let harness = Harness::new(BOUND);
    let requests = [harness.raise(), harness.acquire()];
    assert_eq!(harness.requests.connected_since(), None);
    let mut session = harness.begin();
    let written = sent(&harness, &mut session, b"");
    let raise = &harness.server().scripts.raise.digest;
    assert_eq!(&written[0][..2], ["EVALSHA", raise]);
    assert_eq!(&verbs(&written)[1..], ["MULTI", "SCRIPT", "HGET", "SET", "ZADD", "EXEC"]);
    let proof = format!("*4\r\n*1\r\n:1\r\n$32\r\n{INCARNATION}\r\n+OK\r\n:1\r\n");
    let queued = b"+OK\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n";
    sent(&harness, &mut session, &[b":0\r\n", &queued[..], proof.as_bytes()].concat());
    for request in requests {
        assert!(matches!(harness.answers.of(request)[..], [Told::Yes(_)]));
    }
}

/// A reply without a request: the machine cannot know which request the next reply answers.
#[test]
fn a_reply_to_nothing_ends_the_connection() {
    for reply in [&b":1\r\n"[..], b"+OK\r\n", b"*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\nm\r\n"] {
        let harness = connected(REDLOCK);
        let mut session = harness.begin();
        let ended = run(&harness, &mut session, reply).1.expect_err("ended");
        assert_eq!((&*ended.why, ended.how), ("sent a reply to nothing", How::Idle));
    }
}

#[test]
fn what_is_no_resp2_ends_the_connection_and_leaves_the_request_unknown() {
    let replies = [
        &b"?\r\n"[..],
        b"\r\n",
        b">2\r\n+invalidate\r\n:1\r\n",
        b"%1\r\n+a\r\n:1\r\n",
        b"_\r\n",
        b":\r\n",
        b":1x\r\n",
        b":9223372036854775808\r\n",
        b"$-2\r\n",
        b"$1\r\nab\r\n",
        b"*-9\r\n",
        b"*99999999999\r\n",
        b":1\n",
        b"HTTP/1.1 400 Bad Request\r\n",
        b"\x15\x03\x03\x00\x02\x02\x46\r\n",
    ];
    for reply in replies {
        let harness = connected(REDLOCK);
        let mut session = harness.begin();
        let request = harness.inspect();
        sent(&harness, &mut session, b"");
        let ended = run(&harness, &mut session, reply).1.expect_err("ended");
        assert!(ended.why.starts_with("speaks no RESP"), "{reply:?}: {ended:?}");
        assert_eq!(ended.how, How::Unanswered, "{reply:?}");
        session.end(harness.now());
        assert_eq!(harness.answers.of(request), [Told::Unknown], "{reply:?}");
    }
}

#[test]
fn an_answer_counts_from_when_the_request_was_posted() {
    let harness = connected(REDLOCK);
    let mut session = harness.begin();
    let (posted, request) = (harness.now(), harness.regrant());
    sent(&harness, &mut session, b"");
    harness.advance(LEASE / 2);
    sent(&harness, &mut session, b":1\r\n");
    let [Told::Yes(until)] = &harness.answers.of(request)[..] else { panic!("no answer") };
    let latest = quorumlock_protocol::expiry(posted, LEASE, 0.01);
    assert_eq!(*until, format!("{latest:?}"));
}

#[test]
fn a_renewal_tells_the_time_of_the_node_once() {
    let harness = connected(REDLOCK);
    let mut session = harness.begin();
    harness.renew(1);
    sent(&harness, &mut session, b"");
    sent(&harness, &mut session, b"*2\r\n:1\r\n*2\r\n$2\r\n17\r\n$1\r\n5\r\n");
    assert_eq!(session.take_node_time(), Some(17_000_005));
    assert_eq!(session.take_node_time(), None);
}

#[test]
fn the_program_hears_that_a_nodes_clock_was_set() {
    let harness = connected(REDLOCK);
    let mut session = harness.begin();
    for seconds in [17, 47, 27] {
        harness.renew(1);
        sent(&harness, &mut session, b"");
        let reply = format!("*2\r\n:1\r\n*2\r\n$2\r\n{seconds}\r\n$1\r\n5\r\n");
        sent(&harness, &mut session, reply.as_bytes());
    }
    let heard = harness.anomalies.lock().expect("no panic").clone();
    assert!(matches!(heard[..], [ClockAnomaly::Forward(_), ClockAnomaly::Back(_)]), "{heard:?}");
}

#[test]
fn a_connection_without_a_reply_ends_after_a_whole_period() {
    for setup in [REDLOCK, Setup { replicas: 1, ..REDLOCK }] {
        let harness = connected(setup);
        let mut session = harness.begin();
        assert_eq!(run(&harness, &mut session, b"").1, Ok(None), "idle: no deadline");
        harness.advance(STALL * 3);
        let request = harness.raise();
        let mut waits = Vec::new();
        let mut ended = None;
        while ended.is_none() && waits.len() < 3 {
            match run(&harness, &mut session, b"").1 {
                Err(end) => ended = Some(end),
                Ok(deadline) => {
                    let left = deadline.expect("a deadline").since(harness.now());
                    waits.push(left);
                    harness.advance(left);
                    session.on_deadline(harness.now());
                }
            }
        }
        assert_eq!(waits, [Duration::ZERO, STALL]);
        let ended = ended.expect("ended");
        assert_eq!((&*ended.why, ended.how), ("gave no answer for 4s", How::Unanswered));
        session.end(harness.now());
        assert_eq!(harness.answers.of(request), [Told::Unknown]);
    }
}

#[test]
fn a_reply_within_the_period_keeps_the_connection() {
    let harness = connected(REDLOCK);
    let mut session = harness.begin();
    for _ in 0..5 {
        harness.inspect();
        sent(&harness, &mut session, b"");
        harness.advance(STALL * 3 / 4);
        session.on_deadline(harness.now());
        sent(&harness, &mut session, b"$-1\r\n");
    }
}
