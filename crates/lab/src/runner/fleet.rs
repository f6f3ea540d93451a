use std::io;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinSet;

use super::recorder::{ClientStates, HistorySender};
use super::workers::{Program, Worker};
use crate::history::{Event, Op, Phase};
use crate::scenario::Work;
use crate::worker::{Config, Order};
use quorumlock_sim::Dice;

/// A client that is one short-lived process after the other, as a cron job is. Each makes a locker,
/// asks once, works if it holds the lock, and ends.
///
/// Dropping it kills its process.
#[derive(Debug)]
pub(super) struct Fleet {
    pub(super) id: String,
    orders: watch::Sender<Option<Order>>,
    running: JoinSet<io::Result<()>>,
}

impl Fleet {
    /// Its first process starts with [`Order::Start`].
    pub(super) async fn new(
        program: &Program,
        config: Config,
        sender: HistorySender,
        live: watch::Receiver<ClientStates>,
    ) -> Self {
        let id = config.client.clone();
        let ready = sender.event(&id, Op::Note, Phase::Info);
        sender.send(Event { what: Some("ready".to_owned()), ..ready }).await;
        let (orders, ordered) = watch::channel(None);
        let mut running = JoinSet::new();
        let program = program.clone();
        running.spawn(Processes { program, config, sender, live, ordered }.run());
        Self { id, orders, running }
    }

    pub(super) fn order(&self, order: Order) {
        self.orders.send_replace(Some(order));
    }

    /// Ends the present process, and starts no other.
    pub(super) async fn end(&mut self) -> io::Result<()> {
        self.order(Order::End);
        match self.running.join_next().await {
            Some(ended) => ended.map_err(io::Error::other)?,
            None => Ok(()),
        }
    }
}

/// What the task of a [`Fleet`] needs to start its processes.
struct Processes {
    program: Program,
    config: Config,
    sender: HistorySender,
    live: watch::Receiver<ClientStates>,
    ordered: watch::Receiver<Option<Order>>,
}

impl Processes {
    async fn run(mut self) -> io::Result<()> {
        let _ = self.ordered.wait_for(Option::is_some).await;
        let mut dice = Dice::new(self.config.work.seed, 0);
        let mut attempt = 0;
        while *self.ordered.borrow() == Some(Order::Start) {
            self.process(attempt).await?;
            attempt += 1;
            let think = self.config.work.think;
            let think = Duration::from_millis(dice.within(think.low_ms, think.high_ms));
            tokio::time::sleep(think).await;
        }
        Ok(())
    }

    /// One process, from its start to its end.
    async fn process(&mut self, attempt: u64) -> io::Result<()> {
        let Work { seed, .. } = self.config.work;
        let work = Work { seed: seed.wrapping_add(attempt), ..self.config.work.clone() };
        let config = Config { first_attempt: attempt, work, ..self.config.clone() };
        let mut process = Worker::start(&self.program, &config, self.sender.clone()).await?;
        process.order(Order::Start).await?;
        tokio::select! {
            biased;
            ended = process.ended() => return ended,
            _ = self.ordered.wait_for(|order| *order == Some(Order::End)) => {}
        }
        process.end(&self.sender, &self.live).await
    }
}
