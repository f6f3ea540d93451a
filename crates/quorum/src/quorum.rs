use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use quorumlock_core::admission::{Charter, Examined, Voter};
use quorumlock_core::{
    Acquired, Answer, Approach, Asked, Chance, Clock, Collect, ConfigError, Error, Fence, Freed,
    Held, Holder, Instant, Lane, Lessor, Listening, Name, News, Node, NodeProblem, NodeReport,
    Offer, Proposal, Proposals, Renewal, ReplyTo, Spot, Term, Woke, answer_within, quorum_of,
};

use crate::answers::{decide, definite, held_by, is_freed, is_settled, majority};
use crate::ballot::{Ballot, Wish, connected_since};
use crate::census::Census;
use crate::gate::{Pace, gate_of, looks_everywhere};
use crate::roll::Roll;
use crate::round::Round;
use crate::tend::Tending;
use crate::top_up::top_up;

/// N independent nodes as one lessor: a majority grants, a dead or hung minority costs nothing
/// (SAFETY.md G2).
pub struct Quorum<N: Node> {
    nodes: Arc<[N]>,
    clock: Clock,
    answer_timeout: Duration,
    /// Of how many nodes the marks may be lost, and tokens stay unique.
    losses: usize,
    /// How many there were: some of them look for waiters at all nodes.
    releases: AtomicU64,
    pace: Pace,
    proposals: Arc<Proposals>,
    roll: Roll,
    /// With admission.
    office: Option<Office>,
}

impl<N: Node> Quorum<N> {
    /// Locks on a majority of `nodes`, which must fail independently of each other.
    ///
    /// # Errors
    /// [`ConfigError::NoNodes`].
    pub fn new(nodes: Vec<N>, clock: Clock, answer_timeout: Duration) -> Result<Self, ConfigError> {
        if nodes.is_empty() {
            return Err(ConfigError::NoNodes);
        }
        Ok(Self {
            nodes: nodes.into(),
            proposals: Arc::new(Proposals::new(clock.clone())),
            clock,
            answer_timeout,
            losses: 0,
            releases: AtomicU64::new(0),
            pace: Pace::default(),
            roll: Roll::default(),
            office: None,
        })
    }

    /// Waits until so many more nodes have accepted each fencing token that it stays unique, and in
    /// order, while the marks of `losses` nodes are lost and not repaired yet (SAFETY.md A7). Two of them cost
    /// the availability of one node. Default 0.
    ///
    /// # Errors
    /// [`ConfigError::TooManyLosses`] if there are not so many nodes.
    pub fn tolerate_lost_marks(mut self, losses: usize) -> Result<Self, ConfigError> {
        let most = self.nodes.len() - 1;
        if losses > most {
            return Err(ConfigError::TooManyLosses { losses, most });
        }
        self.losses = losses;
        Ok(self)
    }

    /// As [`Quorum::new`], but only nodes whose memory is proven count (SAFETY.md A3): `charter` is
    /// what all clients must agree on.
    ///
    /// # Errors
    /// [`ConfigError::NoNodes`].
    pub fn strict(
        nodes: Vec<N>,
        clock: Clock,
        chance: Chance,
        answer_timeout: Duration,
        rho: f64,
        charter: Charter,
    ) -> Result<Self, ConfigError>
    where
        N: Voter,
    {
        let mut quorum = Self::new(nodes, clock.clone(), answer_timeout)?;
        let tending = Arc::new(Tending {
            nodes: quorum.nodes.clone(),
            charter,
            clock,
            chance,
            rho,
            answer_timeout,
        });
        quorum.office = Some(Office::new(tending));
        Ok(quorum)
    }

    fn quorum(&self) -> usize {
        quorum_of(self.nodes.len())
    }

    /// Asks nodes that lack a lease to hold it too, so that the next failure does not end it.
    fn top_up(&self, terms: &[Term]) {
        let now = self.clock.now();
        for term in terms {
            if let Some((fence, lacking)) = self.roll.lacking(term.nonce, now) {
                top_up(&self.nodes, &self.roll, term, fence, Lane::Keep, lacking);
            }
        }
    }

    /// Asks all nodes the same, `last` after the others, waits until `enough` of the answers are in, and for
    /// that of the last one `for_last` besides, and makes one of them. What is asked again where a
    /// connection breaks has twice the time.
    fn ask_all<T: Send + 'static, U>(
        &self,
        name: Name,
        Order { last, for_last, again }: Order,
        post: impl Fn(usize, ReplyTo<Answer<T>>),
        enough: impl Fn(&[Option<Answer<T>>]) -> bool + Send + Sync + 'static,
        make: impl FnOnce(Vec<T>) -> U + Send + 'static,
    ) -> Asked<Result<U, Error>> {
        let census = Census::new(self.nodes.len(), enough, |_, _| {});
        let first = last.map_or(0, |last| last + 1);
        for i in (first..first + self.nodes.len()).map(|i| i % self.nodes.len()) {
            post(i, census.reply_to(i));
        }
        let (quorum, within) = (self.quorum(), self.answer_timeout * if again { 2 } else { 1 });
        let (nodes, clock) = (self.nodes.clone(), self.clock.clone());
        Box::pin(async move {
            let connected = || match again {
                true => Some(Instant::NEVER),
                false => connected_since(&nodes, Lane::Work, |node| census.lacks(node)),
            };
            // Late is as good as never: what is there then is what counts.
            let _ = answer_within(within, &clock, connected, census.decided()).await;
            if let (Some(last), false) = (last, for_last.is_zero()) {
                let _ = tokio::time::timeout(for_last, census.heard(last)).await;
            }
            let answers = census.take();
            let late =
                |node: usize| NodeReport::new(nodes[node].label(), NodeProblem::NoAnswer(within));
            decide(Some(name), quorum, answers, late).map(make)
        })
    }
}

impl<N: Node> Lessor for Quorum<N> {
    fn nodes(&self) -> usize {
        self.nodes.len()
    }

    fn acquire(&self, term: Term, approach: Approach) -> Asked<Result<Acquired, Error>> {
        let Approach { fencing, alone, everywhere, in_line, by_script, .. } = approach;
        self.proposals.compare_clocks(self.nodes.iter().filter_map(Node::wall_offset));
        let token = if fencing { self.proposals.first(&term.name) } else { Fence::NONE };
        let (nodes, losses) = (self.nodes.len(), self.losses);
        let gate = self.gate(&term.name);
        let round = match gate {
            Some(gate) if approach.gate_first && nodes > 1 => {
                Round::gated(nodes, losses, token, gate)
            }
            Some(gate) => Round::standing(nodes, losses, token, gate),
            None => Round::new(nodes, losses, token),
        };
        let wish = Wish { proposal: Proposal { token, alone, by_script }, in_line };
        let within = self.answer_timeout;
        let ballot = Ballot::open(
            &self.nodes,
            term,
            round,
            (wish, gate.filter(|_| !everywhere)),
            &self.pace,
            (&self.clock, &self.proposals),
            &self.roll,
        );
        Box::pin(ballot.decision(within))
    }

    fn renew(&self, terms: Vec<Term>, lane: Lane) -> Asked<Vec<Renewal>> {
        let quorum = self.quorum();
        let before: Vec<_> =
            terms.iter().map(|term| (term.clone(), self.roll.until(term.nonce))).collect();
        let (roll, noted, nodes) = (self.roll.clone(), terms.clone(), self.nodes.clone());
        let looked_up = self.roll.clone();
        // One lost lease must not make the others of its batch wait for a hung node; and a window that
        // a definite no has shortened is told at once.
        let enough = move |answers: &[Option<Vec<Answer<Instant>>>]| {
            before.iter().enumerate().all(|(i, (term, before))| {
                is_settled(answers, i, quorum) || fell(&looked_up, term, *before)
            })
        };
        let census =
            Census::new(self.nodes.len(), enough, move |node, answers: &Vec<Answer<Instant>>| {
                // Before what was renewed after that.
                roll.set_forward(node, nodes[node].set_forward());
                for (term, answer) in noted.iter().zip(answers) {
                    roll.note(term.nonce, node, answer);
                }
            });
        for (i, node) in self.nodes.iter().enumerate() {
            node.renew(&terms, lane, census.reply_to(i));
        }
        if lane == Lane::Keep && self.office.is_some() {
            self.top_up(&terms);
        }
        let (roll, within) = (self.roll.clone(), self.answer_timeout);
        Box::pin(async move {
            // Nobody waits for a node that is being connected: what the others said is told in
            // time.
            let _ = tokio::time::timeout(within, census.decided()).await;
            let renewed = |term: &Term| match roll.until(term.nonce) {
                // No majority is left: lost now, not only when the old window shuts.
                Some(Instant::NEVER) => Renewal::Gone,
                Some(until) => Renewal::Until(until),
                None => Renewal::Unknown,
            };
            terms.iter().map(renewed).collect()
        })
    }

    fn release(
        &self,
        term: Term,
        held: Held,
        lane: Lane,
        contended: bool,
    ) -> Asked<Result<Freed, Error>> {
        let (gate, window) = (self.gate(&term.name), self.roll.strike(term.nonce, lane));
        // Whoever waits stands at the gate alone if that answers (SAFETY.md d1), as it has answered us.
        let answers = |gate: &usize| window.as_ref().is_some_and(|window| window.is_held_by(*gate));
        let wide = looks_everywhere(self.releases.fetch_add(1, Ordering::Relaxed));
        let waiters_at = gate.filter(|_| !wide).filter(answers);
        let quorum = self.quorum();
        let (all, most_foreign) = (self.nodes.len(), self.nodes.len() - quorum);
        // Whoever is woken there asks all nodes: by then these have been told.
        let for_last = if contended { GRACE } else { Duration::ZERO };
        self.ask_all(
            term.name.clone(),
            Order { last: gate, for_last, again: true },
            |node, to| {
                let elsewhere = waiters_at.is_some_and(|gate| gate != node);
                let spot = elsewhere.then_some(Spot::Elsewhere);
                let until = window.as_ref().map_or(Instant::NEVER, |held| held.held_until(node));
                self.nodes[node].release(&term, Held { until, ..held }, lane, spot, to);
            },
            move |answers| is_freed(answers, quorum),
            move |said| {
                let woke = said.iter().filter_map(|freed| freed.woke).max();
                Freed {
                    held: said.iter().filter(|freed| !freed.held).count() <= most_foreign,
                    // Those that were not waited for may have woken somebody.
                    woke: woke.filter(|woke| *woke == Woke::Waiter || said.len() == all),
                }
            },
        )
    }

    fn inspect(&self, name: Name) -> Asked<Result<Option<Holder>, Error>> {
        let (quorum, all) = (self.quorum(), self.nodes.len());
        self.ask_all(
            name.clone(),
            Order::default(),
            |node, to| self.nodes[node].inspect(&name, to),
            move |answers| {
                let open = all - answers.iter().flatten().count();
                let most = majority(answers.iter().flatten().filter_map(held_by), 1);
                let most = most.map_or(0, |holders| holders.len());
                definite(answers) >= quorum && (most >= quorum || most + open < quorum)
            },
            move |said| {
                majority(said.iter().flatten(), quorum).map(|mut same| {
                    // As valid as the q-th largest, as any lease; one without expiry never ends.
                    same.sort_by_key(|h| std::cmp::Reverse(h.remaining.unwrap_or(Duration::MAX)));
                    same[quorum - 1].clone()
                })
            },
        )
    }

    fn force_release(&self, name: Name) -> Asked<Result<bool, Error>> {
        // All nodes, within the answer timeout: whoever asks for this wants nothing left behind.
        self.ask_all(
            name.clone(),
            Order { last: self.gate(&name), ..Order::default() },
            |node, to| self.nodes[node].force_release(&name, to),
            |_| false,
            |said| said.contains(&true),
        )
    }

    fn gate(&self, name: &Name) -> Option<usize> {
        gate_of(&self.nodes, name)
    }

    fn settle(&self, lane: Lane) -> Asked<()> {
        // Requests of a lane are answered in order: an empty renewal is answered last.
        let census = Census::new(self.nodes.len(), |_| false, |_, _: &Vec<Answer<Instant>>| {});
        for (i, node) in self.nodes.iter().enumerate() {
            node.renew(&[], lane, census.reply_to(i));
        }
        let within = self.answer_timeout;
        Box::pin(async move { drop(tokio::time::timeout(within, census.decided()).await) })
    }

    fn provision(&self) -> Asked<Result<(), Error>> {
        match &self.office {
            Some(office) => (office.provision)(),
            None => Box::pin(std::future::ready(Err(ConfigError::NoAdmission.into()))),
        }
    }

    fn examine(&self) -> Asked<Result<Vec<Examined>, Error>> {
        match &self.office {
            Some(office) => (office.examine)(),
            None => Box::pin(std::future::ready(Err(ConfigError::NoAdmission.into()))),
        }
    }

    fn tend(&self) -> Asked<()> {
        match &self.office {
            Some(office) => (office.tend)(),
            None => Box::pin(std::future::pending()),
        }
    }

    fn leave(&self, name: &Name, offered: Option<&(Term, Offer)>) {
        self.nodes.iter().for_each(|node| node.leave(name, offered));
    }

    fn listen(&self, name: &Name, to: Arc<dyn Collect<News>>) -> Listening {
        let nodes = self.nodes.iter().enumerate();
        Box::new(nodes.map(|(i, node)| node.listen(name, to.clone(), i)).collect::<Vec<_>>())
    }
}

impl<N: Node> std::fmt::Debug for Quorum<N> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let nodes: Vec<_> = self.nodes.iter().map(Node::label).collect();
        f.debug_struct("Quorum").field("nodes", &nodes).finish_non_exhaustive()
    }
}

/// How all nodes are asked.
#[derive(Default)]
struct Order {
    last: Option<usize>,
    for_last: Duration,
    again: bool,
}

/// For how long whoever gives back what others wait for waits for the gate besides.
const GRACE: Duration = Duration::from_millis(1);

/// Whether a lease stands for less than before.
fn fell(roll: &Roll, term: &Term, before: Option<Instant>) -> bool {
    before.is_none_or(|before| roll.until(term.nonce).is_none_or(|now| now < before))
}

/// What only a quorum of [`Voter`]s can do, for one that need not know of them.
struct Office {
    tend: Box<dyn Fn() -> Asked<()> + Send + Sync>,
    provision: Box<dyn Fn() -> Asked<Result<(), Error>> + Send + Sync>,
    examine: Box<dyn Fn() -> Asked<Result<Vec<Examined>, Error>> + Send + Sync>,
}

impl Office {
    fn new<N: Voter>(tending: Arc<Tending<N>>) -> Self {
        let (twin, third) = (tending.clone(), tending.clone());
        Self {
            tend: Box::new(move || Box::pin(tending.clone().tend())),
            provision: Box::new(move || Box::pin(twin.clone().provision())),
            examine: Box::new(move || Box::pin(third.clone().examine())),
        }
    }
}
