//! One leader at a time, in rising terms (docs/GUIDE.md, Electing a leader).

use std::time::Duration;

use futures::StreamExt as _;
use quorumlock::{ConfigError, Error, Leadership, Locker};
use tokio::sync::{mpsc, watch};

use super::{LONG_LEASE, SHORT_LEASE};
use crate::{Testbed, within};

const NAME: &str = "scheduler";

fn candidate(bed: &Testbed, label: &str) -> Locker {
    bed.build(bed.builder().label(label).lease(LONG_LEASE))
}

/// Candidates lead one after the other; who leads is known by its label.
pub async fn candidates_lead_one_after_the_other(bed: &Testbed) {
    let (first, second) = (candidate(bed, "first"), candidate(bed, "second"));
    let election = second.election(NAME);
    assert_eq!(election.leader().await.expect("an answer"), None);
    let term = within("nobody leads", first.election(NAME).campaign()).await.expect("leads");
    let leader = election.leader().await.expect("an answer").expect("one leads");
    assert!(leader.has(term.nonce()));
    assert_eq!(leader.label.as_deref(), Some("first"));

    let campaign = tokio::spawn({
        let election = election.clone();
        async move { election.campaign().await }
    });
    bed.awaits_waiters(NAME).await;
    let before = term.token();
    term.unlock().await.expect("resigned");
    let term = within("its turn", campaign).await.expect("no panic").expect("leads");
    assert!(term.token() > before, "terms grow");
    let busy = first.election(NAME).campaign().wait(Duration::ZERO).await;
    assert!(matches!(busy, Err(Error::Busy(_))), "{busy:?}");
    let empty = first.election("").campaign().await;
    assert!(matches!(empty, Err(Error::Config(ConfigError::EmptyName))), "{empty:?}");
}

/// An observer sees each leader, and that nobody leads.
pub async fn an_observer_follows_the_leaders(bed: &Testbed) {
    let (first, second, other) =
        (candidate(bed, "first"), candidate(bed, "second"), candidate(bed, "observer"));
    let mut observer = other.election(NAME).observe();
    let mut seen = async || match within("a change", observer.next())
        .await
        .expect("no end")
        .expect("an answer")
    {
        Leadership::Leader(leader) => leader.label.expect("a label"),
        Leadership::Nobody => "nobody".to_owned(),
        other => panic!("{other:?}"),
    };
    assert_eq!(seen().await, "nobody");
    let term = within("nobody leads", first.election(NAME).campaign()).await.expect("leads");
    assert_eq!(seen().await, "first");
    let next = tokio::spawn({
        let election = second.election(NAME);
        async move { election.campaign().await }
    });
    bed.awaits_waiters(NAME).await;
    term.unlock().await.expect("resigned");
    let term = within("its turn", next).await.expect("no panic").expect("leads");
    assert_eq!(seen().await, "second");
    term.unlock().await.expect("resigned");
    assert_eq!(seen().await, "nobody");
    other.close().await;
    let closed = within("the end", observer.next()).await;
    assert!(matches!(closed, Some(Err(Error::Closed))), "{closed:?}");
    assert!(within("the end", observer.next()).await.is_none(), "an error ends it");
}

/// While the nodes do not answer, nobody knows who leads.
pub async fn an_observer_says_when_it_does_not_know(bed: &Testbed) {
    let brief = Duration::from_millis(300);
    let other = bed.build(bed.builder().answer_timeout(brief).connect_timeout(brief));
    let mut observer = other.election(NAME).observe();
    // A slow answer is none, too: the observer says so, and goes on.
    let mut seen = async |expected: fn(&Leadership) -> bool| {
        within("it is seen", async {
            while !expected(&observer.next().await.expect("no end").expect("an answer")) {}
        })
        .await;
    };
    seen(|who| matches!(who, Leadership::Nobody)).await;
    bed.pause_all();
    seen(|who| matches!(who, Leadership::Unknown(_))).await;
    bed.resume_all();
    seen(|who| matches!(who, Leadership::Nobody)).await;
}

/// `run` drops the work of a leader that has lost the lead, and campaigns again; it resigns when the work
/// is done.
pub async fn a_leader_that_lost_campaigns_again(bed: &Testbed) {
    let (ours, other) = (bed.build(bed.builder().lease(SHORT_LEASE)), candidate(bed, "other"));
    let (told, mut terms) = mpsc::unbounded_channel();
    let (finish, done) = watch::channel(0);
    let work = tokio::spawn({
        let election = ours.election(NAME);
        async move {
            let lead = |term: quorumlock::HoldView| {
                let (told, mut done) = (told.clone(), done.clone());
                async move {
                    told.send(term.token()).expect("the test listens");
                    let last = term.token().get();
                    done.wait_for(|done| *done >= last).await.expect("the test goes on");
                    term.token()
                }
            };
            election.run(lead).await
        }
    });
    let first = within("nobody leads", terms.recv()).await.expect("it leads");
    assert!(other.mutex(NAME).force_unlock().await.expect("an answer"));
    let second = within("it leads again", terms.recv()).await.expect("it leads");
    assert!(second > first, "terms grow");
    finish.send_replace(second.get());
    let out = within("its end", work).await.expect("no panic").expect("it led");
    assert_eq!(out, second);
    assert!(other.try_lock(NAME).await.expect("an answer").is_some(), "it has resigned");
}
