//! For the simulation of quorumlock only: nodes over simulated byte streams, and the texts of the
//! scripts. No stability promise.

use std::sync::Arc;

use quorumlock_protocol::admission::ClusterConfig;
use quorumlock_protocol::{Claim, ConfigError, Layout, Nonce, Settings};
use quorumlock_watchdog::Clock;

use crate::dial::RunIdRegistry;
use crate::network::Network;
use crate::node_factory::NodeFactory;
use crate::{RedisNode, scripts};

pub use crate::network::SimulatedNetwork;
pub use crate::scripts::{ScriptKind, admission_scripts};
pub use crate::stream::Stream;

/// One node of a simulated locker.
#[derive(Debug)]
pub struct Site {
    /// The URL of the node.
    pub url: String,
    /// The locker's lease clock. Its wall clock is the one that the node's clock is compared with.
    pub clock: Clock,
    /// Where the node's connections come from.
    pub network: Arc<dyn SimulatedNetwork>,
}

/// What the nodes of one simulated locker have in common.
#[derive(Debug)]
pub struct SimulatedClient<'a> {
    /// The format of the locks.
    pub layout: Layout,
    /// Set with strict admission.
    pub cluster: Option<&'a ClusterConfig>,
    /// The settings of the locker.
    pub settings: &'a Settings,
    /// The id in the queues of the nodes.
    pub waiter: Nonce,
    /// Whether a release may hand a name off: with one master only.
    pub hands_off: bool,
}

impl SimulatedClient<'_> {
    /// The nodes at `sites`. Does no I/O.
    ///
    /// # Errors
    /// As [`redis_nodes`](crate::redis_nodes).
    pub fn nodes(&self, sites: Vec<Site>) -> Result<Vec<RedisNode>, ConfigError> {
        let run_ids = RunIdRegistry::default();
        let name_channels = self.layout == Layout::Redisson && sites.len() == 1;
        let node = |site: Site| {
            let Site { url, clock, network } = site;
            NodeFactory {
                layout: self.layout,
                cluster: self.cluster.cloned().map(Arc::new),
                settings: self.settings,
                clock: &clock,
                run_ids: run_ids.clone(),
                waiter: self.waiter,
                name_channels,
                supports_handoff: self.hands_off,
                network: Network::Simulated(network),
                router: None,
            }
            .node_at(&url)
        };
        sites.into_iter().map(node).collect()
    }
}

/// The kind of a script that a client sends, by its text.
#[must_use]
pub fn kind_of(text: &str) -> Option<ScriptKind> {
    scripts::kind_of(text)
}

/// The text of the script that frees what is claimed.
#[must_use]
pub fn force_release(layout: Layout, claim: &Claim) -> String {
    let scripts = scripts::Scripts::unbound(layout, scripts::Tokens::Proposed, false);
    scripts.of_claim(Some(claim)).force_release.text.clone()
}

/// The texts of the scripts that need no admission.
#[must_use]
pub fn texts(layout: Layout) -> Vec<String> {
    let scripts = scripts::Scripts::unbound(layout, scripts::Tokens::Proposed, false);
    scripts.voting().into_iter().chain(scripts.others()).map(|script| script.text.clone()).collect()
}
