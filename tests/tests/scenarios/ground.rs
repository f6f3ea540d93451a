//! What most scenarios begin with: three nodes, of which the holder reaches two, and a rival that
//! reaches all. The fault then strikes one of the two (`STRUCK`): if the node forgets the holder,
//! the rival finds a majority there and on the third.

use std::time::Duration;

use quorumlock::{Admission, Builder, Error, Guard, Locker, NodeProblem, NodeReport};
use quorumlock_lab::servers::{ServerOptions, Servers, for_test};
use quorumlock_tests::{Plain, Proxy, eventually, within};

pub(crate) use quorumlock::Admission::{Redlock, Strict};

/// The lock that everybody wants.
pub(crate) const NAME: &str = "x";

/// The node that granted and is struck by the fault.
pub(crate) const STRUCK: usize = 1;

/// Under strict admission: how long a node that forgot counts for nothing.
pub(crate) const LONGEST: Duration = Duration::from_secs(4);
pub(crate) const LEASE: Duration = Duration::from_secs(3);

/// A locker for one mode. In plain Redlock leases are so long that no renewal comes in between.
pub(crate) fn builder(mode: Admission) -> Builder {
    let patient = quorumlock_tests::builder()
        .admission(mode)
        .answer_timeout(Duration::from_secs(1))
        .connect_timeout(Duration::from_secs(2));
    match mode {
        Strict => patient.max_lease(LONGEST).lease(LEASE),
        _ => patient.lease(Duration::from_secs(60)),
    }
}

/// Where both modes do the same. At once: most of the time is spent waiting.
pub(crate) async fn in_both(scenario: impl AsyncFn(Admission)) {
    futures::join!(scenario(Redlock), scenario(Strict));
}

/// Servers that may vote; `None` if this machine has none.
pub(crate) async fn voters(mode: Admission, n: usize, options: &ServerOptions) -> Option<Servers> {
    let servers = for_test(n, options)?;
    if mode == Strict {
        let operator = builder(mode).quorum(servers.urls()).expect("good URLs");
        operator.provision().await.expect("all nodes answer");
    }
    Some(servers)
}

/// The violation: both guards are valid at one instant.
pub(crate) fn assert_both_hold(one: &Guard, other: &Guard) {
    assert_eq!(one.check(), Ok(()));
    assert_eq!(other.check(), Ok(()));
    // A lost guard is never valid again: the first was valid when the other was.
    assert_eq!(one.check(), Ok(()), "{other:?} is valid, too");
}

/// Three nodes and the rival, which has live connections to all of them.
pub(crate) struct Ground {
    pub(crate) mode: Admission,
    pub(crate) servers: Servers,
    /// The address of each node, for the holder and the rival.
    pub(crate) gates: Vec<Proxy>,
    pub(crate) rival: Locker,
    /// The holder's way to the third node.
    cut: Proxy,
}

impl Ground {
    /// The name was held and released before, so that every node has a mark.
    pub(crate) async fn start(mode: Admission, options: &ServerOptions) -> Option<Self> {
        let servers = voters(mode, 3, options).await?;
        let to = |i: usize| Proxy::to(servers[i].addr().expect("ours"));
        let (gates, cut): (Vec<_>, _) = ((0..3).map(to).collect(), to(2));
        cut.cut();
        let rival = builder(mode).quorum(gates.iter().map(Proxy::url)).expect("good URLs");
        let ground = Self { mode, servers, gates, rival, cut };
        // A node that was verified just now is asked in the next round only.
        ground.awaits_rival_everywhere().await;
        let before = within("a free lock", ground.rival.lock(NAME)).await.expect("free");
        before.unlock().await.expect("held");
        for i in 0..3 {
            let plain = ground.plain(i).await;
            eventually("a mark, and the release", async || {
                (plain.mark(NAME).await.is_some() && !plain.exists(NAME).await).then_some(())
            })
            .await;
        }
        Some(ground)
    }

    /// A locker that reaches two nodes only.
    pub(crate) fn holder(&self) -> Locker {
        let urls = [self.gates[0].url(), self.gates[1].url(), self.cut.url()];
        builder(self.mode).quorum(urls).expect("good URLs")
    }

    /// The holder takes the lock: a bare majority.
    pub(crate) async fn hold(self) -> Held {
        let holder = self.holder();
        self.hold_by(holder).await
    }

    pub(crate) async fn hold_by(self, holder: Locker) -> Held {
        let guard = within("a free lock", holder.lock(NAME)).await.expect("two of three");
        Held { ground: self, holder, guard }
    }

    /// The rival's connections have found out what happened, and every node votes for it.
    async fn awaits_rival_everywhere(&self) {
        let mut nodes = Vec::new();
        for gate in &self.gates {
            nodes.push(Plain::to(&gate.url()).await);
        }
        eventually("the rival is heard everywhere", async || {
            let _held = self.rival.try_lock("another").await.ok()??;
            for node in &nodes {
                if !node.exists("another").await {
                    return None;
                }
            }
            Some(())
        })
        .await;
    }

    pub(crate) async fn plain(&self, i: usize) -> Plain {
        Plain::to(self.servers[i].url()).await
    }
}

/// The lock is held by a bare majority, and the fault has struck or is about to.
pub(crate) struct Held {
    pub(crate) ground: Ground,
    pub(crate) holder: Locker,
    pub(crate) guard: Guard,
}

impl Held {
    /// Of the majority that the rival may find no node knows of the holder's token: any token above what they know
    /// is accepted.
    pub(crate) async fn marks_are_lost(&self) {
        for gate in &self.ground.gates[STRUCK..] {
            let node = Plain::to(&gate.url()).await;
            let mark = node.mark(NAME).await;
            assert!(mark < Some(self.guard.fence().get()), "{mark:?} on {node:?}");
        }
    }

    /// What plain Redlock does: the rival gets the lock as well. Returns its guard.
    pub(crate) async fn is_violated(&self) -> Guard {
        self.ground.awaits_rival_everywhere().await;
        let second = within("an answer", self.ground.rival.try_lock(NAME)).await;
        let second = second.expect("all answer").expect("granted a second time");
        assert_both_hold(&self.guard, &second);
        second
    }

    /// What strict admission does: the node that forgot counts for nothing, and the rival gets the
    /// lock only when the holder knows that it has lost it. Returns the rival's guard.
    pub(crate) async fn is_safe(&self) -> Guard {
        // The rival tries from the beginning, while the holder still believes.
        futures::join!(succession(&self.guard, &self.ground.rival), self.awaits_disregard()).0
    }

    async fn awaits_disregard(&self) {
        let name = self.ground.gates[STRUCK].url();
        eventually("the node that forgot counts for nothing", async || {
            // It and the first node are all that the holder reaches: nothing can be locked.
            let Err(Error::Refused(why) | Error::Unreachable(why)) =
                self.holder.try_lock("another").await
            else {
                return None;
            };
            why.nodes.iter().any(|node| node.node == name && counts_for_nothing(node)).then_some(())
        })
        .await;
    }
}

/// The rival gets the lock in the end, and not while the holder believes to have it.
pub(crate) async fn succession(first: &Guard, rival: &Locker) -> Guard {
    let next = granted(rival).await;
    let believes = first.check();
    assert!(believes.is_err(), "two holders: {first:?} and {next:?}");
    assert!(next.fence() > first.fence(), "{} after {}", next.fence(), first.fence());
    next
}

pub(crate) async fn granted(rival: &Locker) -> Guard {
    eventually("the rival gets the lock", async || match rival.try_lock(NAME).await {
        Ok(guard) => guard,
        // Its connections, too, have to find out what happened.
        Err(Error::Refused(_) | Error::Unreachable(_)) => None,
        Err(error) => panic!("{error}"),
    })
    .await
}

/// Nobody can lock anything, for nodes that forgot count for nothing.
pub(crate) async fn refused(locker: &Locker, name: &str) {
    eventually("refused by nodes that forgot", async || match locker.try_lock(name).await {
        Err(Error::Refused(why) | Error::Unreachable(why)) => {
            why.nodes.iter().any(counts_for_nothing).then_some(())
        }
        Ok(None) => None,
        other => panic!("not refused: {other:?}"),
    })
    .await;
}

fn counts_for_nothing(node: &NodeReport) -> bool {
    matches!(node.problem, NodeProblem::New | NodeProblem::NotAdmitted)
}
