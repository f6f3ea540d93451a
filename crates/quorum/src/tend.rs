//! Watching over nodes whose memory is not proven, for as long as a locker lives.

use std::sync::Arc;
use std::time::Duration;

use quorumlock_core::admission::{Act, Charter, Examined, Marks, Standing, Voter, Warden, judge};
use quorumlock_core::{Chance, Clock, Error, NoMajority, NodeProblem, NodeReport};

/// Carries out what a [`Warden`] decides.
pub(crate) struct Tending<N: Voter> {
    pub(crate) nodes: Arc<[N]>,
    pub(crate) charter: Charter,
    pub(crate) clock: Clock,
    pub(crate) chance: Chance,
    pub(crate) rho: f64,
    pub(crate) answer_timeout: Duration,
}

impl<N: Voter> Tending<N> {
    /// Never ends.
    pub(crate) async fn tend(self: Arc<Self>) {
        let mut warden = Warden::new(self.charter.clone(), self.rho);
        let pause = (self.charter.longest / 40)
            .clamp(Duration::from_millis(20), Duration::from_millis(500));
        loop {
            tokio::time::sleep(pause).await;
            if self.nodes.iter().all(Voter::proven) {
                continue;
            }
            let standings = self.standings().await;
            // Read after the answers: a vigil never begins before it was seen.
            let now = self.clock.now();
            for act in warden.step(&standings, now) {
                if let Err(report) = self.act(&act).await {
                    tracing::debug!(?act, %report, "admission: not done");
                }
            }
        }
    }

    /// Admits all nodes at once, and waits until their connections know.
    pub(crate) async fn provision(self: Arc<Self>) -> Result<(), Error> {
        // Before anything is written.
        let unfit = self.not_voters(|standing| matches!(standing, Standing::Unfit(_))).await;
        if !unfit.is_empty() {
            return Err(self.none(unfit));
        }
        let mut failed = Vec::new();
        for node in self.nodes.iter() {
            let done = match self.fresh() {
                Ok(stamp) => self.in_time(node.provision(&stamp, true)).await,
                Err(report) => Err(report),
            };
            if let Err(report) = done {
                failed.push(NodeReport::new(node.label(), report.problem));
            }
        }
        if !failed.is_empty() {
            return Err(self.none(failed));
        }
        let proven = async {
            while !self.nodes.iter().all(Voter::proven) {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        // Longer than an unproven connection waits before it looks again; late costs one failure.
        let _ = tokio::time::timeout(Duration::from_secs(1), proven).await;
        // Vouched for, and still no voter: told now, not at the first lock.
        let refused = self.not_voters(|_| true).await;
        if refused.is_empty() { Ok(()) } else { Err(self.none(refused)) }
    }

    /// The nodes that cannot vote as they are set up or were admitted, and are `meant`.
    async fn not_voters(&self, meant: impl Fn(&Standing) -> bool) -> Vec<NodeReport> {
        let standings = self.standings().await;
        let report = |(node, standing): (&N, Option<Standing>)| {
            let problem = match standing.filter(&meant)? {
                Standing::Unfit(what) => NodeProblem::Unfit(what),
                Standing::Misfit(terms) => NodeProblem::OtherTerms(terms),
                _ => return None,
            };
            Some(NodeReport::new(node.label(), problem))
        };
        self.nodes.iter().zip(standings).filter_map(report).collect()
    }

    /// All nodes were needed.
    fn none(&self, nodes: Vec<NodeReport>) -> Error {
        let all = self.nodes.len();
        NoMajority::new(None, (all, all), all - nodes.len(), nodes).into()
    }

    /// Which nodes may vote now.
    pub(crate) async fn examine(self: Arc<Self>) -> Result<Vec<Examined>, Error> {
        let standings = self.standings().await;
        let examined = |(node, standing): (&N, Option<Standing>)| Examined {
            node: node.label().to_owned(),
            standing,
        };
        Ok(self.nodes.iter().zip(standings).map(examined).collect())
    }

    async fn standings(&self) -> Vec<Option<Standing>> {
        let mut standings = Vec::new();
        let asked: Vec<_> = self.nodes.iter().map(Voter::examine).collect();
        for sheet in asked {
            let sheet = tokio::time::timeout(self.answer_timeout, sheet).await;
            standings.push(match sheet {
                Ok(Ok(sheet)) => Some(judge(&sheet, &self.charter)),
                Ok(Err(_)) | Err(_) => None,
            });
        }
        standings
    }

    async fn act(&self, act: &Act) -> Result<(), NodeReport> {
        match act {
            Act::Note(node) => self.in_time(self.nodes[*node].note(&self.fresh()?)).await,
            Act::Admit { node, note, helpers, needed } => {
                let mut marks = Marks::new();
                let mut heard = 0;
                for helper in helpers {
                    if let Ok(shown) =
                        self.in_time(self.nodes[*helper].barrier(&self.fresh()?)).await
                    {
                        for (slot, mark) in shown {
                            let largest = marks.entry(slot).or_default();
                            *largest = mark.max(*largest);
                        }
                        heard += 1;
                    }
                }
                // Fewer helpers than were chosen: another time.
                if heard < *needed {
                    let what = NodeProblem::NotAsked("too few helpers to copy marks from".into());
                    return Err(NodeReport::new(self.nodes[*node].label(), what));
                }
                self.in_time(self.nodes[*node].admit(note, &self.fresh()?, &marks)).await?;
                tracing::info!(node = self.nodes[*node].label(), "admitted after its vigil");
                Ok(())
            }
        }
    }

    fn fresh(&self) -> Result<String, NodeReport> {
        let nonce = self.chance.nonce();
        nonce
            .map(|n| n.to_string())
            .map_err(|e| NodeReport::new("this process", NodeProblem::NotAsked(e.to_string())))
    }

    async fn in_time<T>(
        &self,
        asked: impl Future<Output = Result<T, NodeReport>>,
    ) -> Result<T, NodeReport> {
        let late = || NodeReport::new("a node", NodeProblem::NoAnswer(self.answer_timeout));
        tokio::time::timeout(self.answer_timeout, asked).await.unwrap_or_else(|_| Err(late()))
    }
}
