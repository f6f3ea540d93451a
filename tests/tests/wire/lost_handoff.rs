//! A release hands the name off to a waiter, and the message is lost. The waiter's next request names the
//! earlier ones, and learns that one of them has the name (PROTOCOL.md W5).

use std::future::IntoFuture as _;
use std::sync::Arc;
use std::time::Duration;

use quorumlock::{FencingToken, Holder, Layout, Servers};
use quorumlock_protocol::{
    Answer, Claim, Denial, EnqueueRequest, HandoffOffer, HeldInterval, Hints, Lane, LeaseRequest,
    Name, Node as _, Nonce, Precedence, QueuedAt, RemoteGrant, ReplySink, Subscription, Vote,
    WaitEvent,
};
use quorumlock_redis::RedisNode;
use quorumlock_tests::{builder, eventually, mark_key, within};

use crate::direct::{acquire, ask, one_node};
use crate::members::{self, Sign};
use crate::{LAYOUTS, LONG_LEASE, Node, last_of};

const WAITERS: &str = "quorumlock:waiters:{x}";

/// The nonces of the holder, and of the requests of one waiting call, oldest first.
const HELD: u128 = 7;
const ASKED: [u128; 3] = [8, 9, 10];

const WITH_TOKEN: HandoffOffer = HandoffOffer { ttl: LONG_LEASE, fencing: true };

fn name() -> Name {
    Name::new("x").expect("a good name")
}

/// What is held, and what is waited for.
fn claims() -> [(Claim, Claim); 3] {
    let lock = Claim::from(name());
    let (read, write) = (Claim::read(name()), Claim::write(name()));
    [(lock.clone(), lock), (write.clone(), read.clone()), (read, write)]
}

fn request(claim: &Claim, nonce: u128) -> LeaseRequest {
    let nonce = Nonce::from_u128(nonce);
    LeaseRequest::new(claim.clone(), nonce, LONG_LEASE)
}

/// Reads no message.
struct Deaf;

impl ReplySink<WaitEvent> for Deaf {
    fn collect(&self, _from: usize, _event: WaitEvent) {}
}

/// A server, a client that holds the name, and one that waits for it and reads no message.
struct Lost {
    server: Node,
    holder: RedisNode,
    waiter: RedisNode,
    waits_for: Claim,
    offer: HandoffOffer,
    subscribed: Vec<Subscription>,
}

impl Lost {
    /// The name is held, and the first request is queued.
    async fn queued(
        layout: Layout,
        (held, waits_for): (Claim, Claim),
        offer: HandoffOffer,
    ) -> Option<Self> {
        let server = Node::start(layout).await?;
        let (holder, waiter) = (one_node(&server, layout, None), one_node(&server, layout, None));
        let queue = waiter.wait_queue().expect("a queue");
        let hears = |name: Name| queue.subscribe(&name, Arc::new(Deaf), 0);
        let subscribed = waits_for.subscribed_names().map(hears).collect();
        let this = Self { server, holder, waiter, waits_for, offer, subscribed };
        this.server.plain.set_mark("x", last_of(FencingToken::new(3_200))).await;
        let granted = acquire(
            &this.holder,
            &request(&held, HELD),
            FencingToken::NONE,
            Hints::contended(true),
        )
        .await;
        assert!(matches!(granted, Answer::Yes(_)), "{granted:?}");
        // It is queued only where messages can reach it, and with its offer once the counts of subscribers
        // are true.
        eventually("queued", async || {
            let (refused, _) = this.asks(0, 0, FencingToken::NONE).await;
            assert!(matches!(refused, Answer::No(Denial::Busy(Some(_)))), "{refused:?}");
            let members: Vec<String> = this.server.plain.ask(&["ZRANGE", WAITERS, "0", "-1"]).await;
            members.iter().any(|member| member.split(' ').count() > 2).then_some(())
        })
        .await;
        Some(this)
    }

    /// As [`Lost::queued`]; then the name is handed off, and the waiter does not read it. Also returns who
    /// has the name.
    async fn handed(
        layout: Layout,
        (held, waits_for): (Claim, Claim),
        offer: HandoffOffer,
    ) -> Option<(Self, Holder)> {
        let this = Self::queued(layout, (held.clone(), waits_for), offer).await?;
        this.release(&held, HELD).await;
        let holder = this.holder().await.expect("handed off");
        assert!(holder.has(Nonce::from_u128(ASKED[0])), "{layout:?}: {holder:?}");
        Some((this, holder))
    }

    /// A request of the waiter, which names `earlier` ones before it. Also returns what was handed off to
    /// one of these, as the answer says.
    async fn asks(
        &self,
        number: usize,
        earlier: usize,
        token: FencingToken,
    ) -> (Answer<Vote>, Vec<RemoteGrant>) {
        let queued_at = QueuedAt::default();
        let earlier = ASKED[number - earlier..number].iter();
        let hints = Hints::queued(EnqueueRequest {
            waited: Duration::ZERO,
            precedence: Precedence::AsItComes,
            handoff: Some(self.offer),
            earlier: earlier.map(|nonce| (Nonce::from_u128(*nonce), self.offer)).collect(),
            queued_at: queued_at.clone(),
        });
        let request = request(&self.waits_for, ASKED[number]);
        (acquire(&self.waiter, &request, token, hints).await, queued_at.take_handoffs())
    }

    async fn release(&self, claim: &Claim, nonce: u128) {
        let (request, hints) = (request(claim, nonce), Hints::contended(true));
        let release = |to| {
            self.holder.release(&request, HeldInterval::UNKNOWN, Lane::Caller, hints, to);
        };
        let released = ask(release).await;
        assert!(matches!(&released, Answer::Yes(outcome) if outcome.held), "{released:?}");
    }

    async fn holder(&self) -> Option<Holder> {
        match ask(|to| self.holder.inspect(&self.waits_for, to)).await {
            Answer::Yes(holder) => holder,
            other => panic!("{other:?}"),
        }
    }

    async fn mark(&self) -> u64 {
        self.server.plain.mark("x").await.expect("a mark")
    }
}

/// The hold stays, and the waiter gets a token of its own: the one that it proposes, or one above the mark.
#[tokio::test]
async fn the_next_request_learns_of_it_and_the_hold_stays() {
    for layout in LAYOUTS {
        for claims in claims() {
            for ahead in [-1, 1] {
                let Some((lost, holder)) = Lost::handed(layout, claims.clone(), WITH_TOKEN).await
                else {
                    return;
                };
                let what = format!("{layout:?}: {claims:?}");
                let mark = lost.mark().await;
                let proposed = mark.checked_add_signed(ahead * 320).expect("a token");
                let (answer, handed) = lost.asks(1, 1, FencingToken::new(proposed)).await;
                assert_eq!(answer, Answer::No(Denial::Busy(None)), "{what}");
                let token = if ahead > 0 { proposed } else { mark + FencingToken::BLOCK };
                let expected = RemoteGrant {
                    nonce: Nonce::from_u128(ASKED[0]),
                    token: FencingToken::new(token),
                };
                assert_eq!(handed, [expected], "{what}");
                assert_eq!(lost.mark().await, token, "{what}");
                let now = lost.holder().await.expect("still held");
                assert_eq!(now.id, holder.id, "{what}");
                assert!(now.remaining <= holder.remaining, "{what}: it was not extended");
                assert!(members::all(&lost.server.plain, WAITERS).await.is_empty(), "{what}");
            }
        }
    }
}

/// The request between the two is never carried out, or its answer is lost, too.
#[tokio::test]
async fn a_request_names_all_that_may_have_the_name() {
    for layout in LAYOUTS {
        for claims in claims() {
            for answered in [false, true] {
                let Some((lost, _)) = Lost::handed(layout, claims.clone(), WITH_TOKEN).await else {
                    return;
                };
                let (mut last, nonce) = (FencingToken::NONE, Nonce::from_u128(ASKED[0]));
                if answered {
                    let (_, handed) = lost.asks(1, 1, FencingToken::new(lost.mark().await)).await;
                    last = handed[0].token;
                }
                let (_, handed) = lost.asks(2, 2, FencingToken::new(lost.mark().await)).await;
                let [RemoteGrant { nonce: taken, token }] = handed[..] else {
                    panic!("{layout:?}: {handed:?}");
                };
                assert!(taken == nonce && token > last, "{layout:?}: {claims:?}");
                assert!(lost.holder().await.expect("held").has(nonce), "{layout:?}: {claims:?}");
            }
        }
    }
}

/// A waiter without tokens gets none.
#[tokio::test]
async fn without_tokens_it_is_taken_up_without_one() {
    for layout in LAYOUTS {
        let offer = HandoffOffer { ttl: LONG_LEASE, fencing: false };
        let [lock, ..] = claims();
        let Some((lost, _)) = Lost::handed(layout, lock, offer).await else { return };
        let mark = lost.mark().await;
        let (_, handed) = lost.asks(1, 1, FencingToken::NONE).await;
        let nonce = Nonce::from_u128(ASKED[0]);
        assert_eq!(handed, [RemoteGrant { nonce, token: FencingToken::NONE }], "{layout:?}");
        assert_eq!(lost.mark().await, mark, "{layout:?}: no token is used");
    }
}

/// An earlier request that holds nothing changes nothing: the caller is refused, and queued in its place, or
/// granted.
#[tokio::test]
async fn an_earlier_request_that_holds_nothing_changes_nothing() {
    for layout in LAYOUTS {
        for (held, waits_for) in claims() {
            let what = format!("{layout:?}: {waits_for:?}");
            let lost = Lost::queued(layout, (held.clone(), waits_for), WITH_TOKEN).await;
            let Some(lost) = lost else { return };
            let (plain, first) = (&lost.server.plain, members::all(&lost.server.plain, WAITERS));
            let first = first.await;
            let (refused, handed) = lost.asks(1, 1, FencingToken::NONE).await;
            assert!(matches!(refused, Answer::No(Denial::Busy(Some(_)))), "{what}: {refused:?}");
            let now = members::all(plain, WAITERS).await;
            assert!(handed.is_empty() && now.len() == 1 && now != first, "{what}: {now:?}");
            // A key that is no lock is refused as without an earlier request.
            plain.ask::<i64>(&["DEL", "x"]).await;
            plain.ask::<i64>(&["RPUSH", "x", "no lock"]).await;
            let (no_lock, handed) = lost.asks(2, 2, FencingToken::NONE).await;
            assert!(matches!(&no_lock, Answer::No(Denial::Refused(_))), "{what}: {no_lock:?}");
            assert!(handed.is_empty(), "{what}");
            // As if the lease had ended: no release hands the name off.
            plain.ask::<i64>(&["DEL", "x"]).await;
            let (granted, handed) = lost.asks(2, 2, FencingToken::NONE).await;
            assert!(matches!(granted, Answer::Yes(_)) && handed.is_empty(), "{what}: {granted:?}");
            assert!(lost.holder().await.expect("held").has(Nonce::from_u128(ASKED[2])), "{what}");
            assert!(members::all(plain, WAITERS).await.is_empty(), "{what}");
        }
    }
}

/// The message of a handoff that a reply told before comes late, when no call waits any more. It is not given
/// back; another one is.
#[tokio::test]
async fn a_message_behind_the_reply_takes_nothing_away() {
    for layout in LAYOUTS {
        for claims in claims() {
            let Some((mut lost, _)) = Lost::handed(layout, claims.clone(), WITH_TOKEN).await else {
                return;
            };
            let plain = lost.server.plain.clone();
            let (_, handed) = lost.asks(1, 1, FencingToken::new(lost.mark().await)).await;
            assert_eq!(handed.len(), 1, "{layout:?}: {claims:?}");
            lost.subscribed.clear();
            let [channel] =
                &plain.ask::<Vec<String>>(&["PUBSUB", "CHANNELS", "*handoff*"]).await[..]
            else {
                panic!("one waiter");
            };
            let has = lost.holder().await.expect("held").id;
            let told_as = match () {
                () if lost.waits_for.reads() => "quorumlock:read:x",
                () if lost.waits_for.is_read_write() => "quorumlock:write:x",
                () => "x",
            };
            let message = format!("{has} 0 {told_as}");
            assert_eq!(plain.ask::<i64>(&["PUBLISH", channel, &message]).await, 1);
            // Of another name, for which the waiter did not ask: behind the first message.
            let kind = members::kind_of(layout);
            let stray = members::nonce(kind, 5);
            match layout {
                Layout::Redisson => plain.ask::<i64>(&["HSET", "y", &stray, "1"]).await,
                Layout::Redlock => i64::from(plain.ask::<bool>(&["SET", "y", &stray]).await),
            };
            let message = format!("{stray} 0 y");
            assert_eq!(plain.ask::<i64>(&["PUBLISH", channel, &message]).await, 1);
            eventually("given back", async || (!plain.exists("y").await).then_some(())).await;
            let holder = lost.holder().await.expect("held");
            assert_eq!(holder.id, has, "{layout:?}: {claims:?}");
        }
    }
}

/// A client whose subscription breaks in the moment of the handoff: it subscribes again, asks, and has the
/// name. No poll helps it.
#[tokio::test]
async fn a_call_whose_subscription_breaks_has_what_it_was_handed() {
    for layout in LAYOUTS {
        let Some(node) = Node::start(layout).await else { return };
        let (locker, plain) = node.clients();
        let dequeue = a_dequeue(&node).await;
        let guard = within("free", locker.lock("x").lease(LONG_LEASE)).await.expect("granted");
        let other = builder().layout(layout).polls(false).on(Servers::single(node.server[0].url()));
        let waiting = other.expect("a good URL").lock("x").lease(LONG_LEASE);
        let waiting = tokio::spawn(waiting.into_future());
        let nonce = eventually("queued", async || {
            let members = members::all(&plain, WAITERS).await;
            Some(members.first()?.split(' ').nth(2)?.to_owned())
        })
        .await;
        // In one step, so that the message is not on its way before the connection ends.
        plain.ask::<String>(&["MULTI"]).await;
        for command in [
            vec!["DEL", "x"],
            dequeue.iter().map(String::as_str).collect(),
            vec!["ZSCORE", mark_key("x"), "m"],
            vec!["CLIENT", "KILL", "TYPE", "pubsub"],
        ] {
            assert_eq!(plain.ask::<String>(&command).await, "QUEUED");
        }
        let (freed, _, mark, killed): (i64, i64, u64, i64) = plain.ask(&["EXEC"]).await;
        assert!(freed == 1 && killed >= 1, "{layout:?}");
        let holder = locker.mutex("x").holder().await.expect("an answer").expect("handed off");
        assert_eq!(holder.id, nonce, "{layout:?}");
        let next = within("it asks", waiting).await.expect("no panic").expect("granted");
        assert!(holder.has(next.nonce()), "{layout:?}: it asked anew");
        assert!(next.token().get() > mark, "{layout:?}: the message came");
        drop(guard);
        next.unlock().await.expect("held");
        assert!(!plain.exists("x").await, "{layout:?}");
    }
}

/// The words of a script that looks for a waiter, if the name is free.
async fn a_dequeue(node: &Node) -> Vec<String> {
    let (locker, plain) = node.clients();
    plain.log_all().await;
    let guard = within("free", locker.lock("x").lease(LONG_LEASE)).await.expect("granted");
    members::add(&plain, WAITERS, "nobody hash", 1, Sign::NOW).await;
    guard.unlock().await.expect("held");
    let looks = |words: &Vec<String>| {
        words[0] == "EVALSHA" && words.get(4).is_some_and(|key| key == WAITERS)
    };
    eventually("a script looks", async || plain.slow_log().await.into_iter().find(looks)).await
}
