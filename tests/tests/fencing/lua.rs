//! The two Lua scripts on a real server.

use quorumlock::fencing::{FENCED_GET, FENCED_SET};
use quorumlock_testbed::servers::{self, ServerOptions, Servers};
use quorumlock_tests::Plain;

use crate::account::InRedis;

async fn start() -> Option<(Servers, Plain)> {
    let server = servers::for_test(1, &ServerOptions::default())?;
    let node = Plain::to(server[0].url()).await;
    Some((server, node))
}

type Answer = (i64, Option<String>);

async fn get(node: &Plain, token: u64) -> Answer {
    node.ask(&["EVAL", FENCED_GET, "2", InRedis::KEY, InRedis::FENCE, &token.to_string()]).await
}

async fn set(node: &Plain, token: u64, value: &str) -> Answer {
    let token = token.to_string();
    node.ask(&["EVAL", FENCED_SET, "2", InRedis::KEY, InRedis::FENCE, &token, value]).await
}

#[tokio::test]
async fn every_short_history_obeys_the_rule() {
    const STEPS: u32 = 4;
    let Some((_server, node)) = start().await else { return };
    // Each step is a token from 1 to 3, and whether it writes or reads.
    let steps: Vec<(u64, bool)> =
        (1..=3).flat_map(|token| [(token, false), (token, true)]).collect();
    for history in 0..steps.len().pow(STEPS) {
        node.ask::<()>(&["FLUSHALL"]).await;
        let (mut largest, mut value) = (0, None);
        for at in 0..STEPS {
            let (token, writes) = steps[history / steps.len().pow(at) % steps.len()];
            let new = format!("step {at}");
            let answer = match writes {
                false => get(&node, token).await,
                true => set(&node, token, &new).await,
            };
            if token < largest {
                assert_eq!(answer, (0, Some(largest.to_string())), "step {at} of {history}");
                continue;
            }
            largest = token;
            if writes {
                assert_eq!(answer, (1, Some(token.to_string())), "step {at} of {history}");
                value = Some(new);
            } else {
                assert_eq!(answer, (1, value.clone()), "step {at} of {history}");
            }
        }
        assert_eq!(node.ask::<Option<String>>(&["GET", InRedis::KEY]).await, value);
    }
}

#[tokio::test]
async fn what_is_no_token_is_refused_and_changes_nothing() {
    let Some((_server, node)) = start().await else { return };
    let beyond_exact = (1_u64 << 53) + 1;
    for text in
        ["", "-1", "1.5", "1e3", "0x10", " 7", "07", "nan", "inf", &beyond_exact.to_string()]
    {
        for (script, new) in [(FENCED_GET, None), (FENCED_SET, Some("new"))] {
            let mut call = vec!["EVAL", script, "2", InRedis::KEY, InRedis::FENCE, text];
            call.extend(new);
            let error = node.send::<Answer>(&call).await.expect_err(text).to_string();
            assert!(error.contains("not a fencing token"), "{text:?}: {error}");
        }
    }
    // A value at the fence key that is not a token refuses all holders.
    for wrong in ["x", ""] {
        node.ask::<()>(&["SET", InRedis::FENCE, wrong]).await;
        for (script, new) in [(FENCED_GET, None), (FENCED_SET, Some("new"))] {
            let mut call = vec!["EVAL", script, "2", InRedis::KEY, InRedis::FENCE, "7"];
            call.extend(new);
            assert!(node.send::<Answer>(&call).await.is_err(), "{wrong:?} lets 7 in");
        }
    }
    assert!(!node.exists(InRedis::KEY).await);
}

#[tokio::test]
async fn neighbours_among_large_tokens_are_told_apart() {
    let Some((_server, node)) = start().await else { return };
    let largest = (1 << 53) - 1;
    assert_eq!(set(&node, largest, "kept").await.0, 1);
    assert_eq!(get(&node, largest - 1).await, (0, Some(largest.to_string())));
    assert_eq!(get(&node, largest).await, (1, Some("kept".to_owned())));
}

#[tokio::test]
async fn a_claim_survives_the_deletion_of_the_value() {
    let Some((_server, node)) = start().await else { return };
    set(&node, 34, "old").await;
    node.ask::<()>(&["DEL", InRedis::KEY]).await;
    assert_eq!(set(&node, 33, "late").await, (0, Some("34".to_owned())));
    assert_eq!(get(&node, 35).await, (1, None));
}
