use std::future::{Future, pending};
use std::pin::Pin;
use std::time::Duration;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use quorumlock_protocol::NodeReport;
use tokio::time::Sleep;

/// The answers to questions that are asked at once, and the reports of those that gave none. Once one
/// has answered, the others have `grace` left.
pub(super) async fn ask_all<T>(
    asked: impl Iterator<Item = impl Future<Output = Result<T, NodeReport>>>,
    grace: Duration,
) -> (Vec<T>, Vec<NodeReport>) {
    let mut asked: FuturesUnordered<_> = asked.collect();
    let (mut found, mut others) = (Vec::new(), Vec::new());
    let mut timer: Option<Pin<Box<Sleep>>> = None;
    loop {
        let over = async {
            match &mut timer {
                Some(timer) => timer.await,
                None => pending().await,
            }
        };
        let answer = tokio::select! {
            biased;
            answer = asked.next() => answer,
            () = over => None,
        };
        match answer {
            Some(Ok(answer)) => {
                found.push(answer);
                timer.get_or_insert_with(|| Box::pin(tokio::time::sleep(grace)));
            }
            Some(Err(report)) => others.push(report),
            None => return (found, others),
        }
    }
}
