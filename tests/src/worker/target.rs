use std::time::Duration;

use quorumlock::{Admission, Layout, Locker, Servers};

use crate::builder::patient_builder;

/// The lock that a worker takes, and its nodes.
#[derive(Clone, Debug)]
pub struct Target {
    /// The layout that the locker uses.
    pub layout: Layout,
    /// Whether nodes must prove their memory before they vote.
    pub strict: bool,
    /// Whether the one node is a master whose replicas may be promoted.
    pub replicated: bool,
    /// Whether the nodes are members of a Redis Cluster.
    pub cluster: bool,
    /// The lock's name.
    pub name: String,
    /// Its lease.
    pub lease: Duration,
    /// The nodes: one is single mode, several are a quorum.
    pub urls: Vec<String>,
}

impl Target {
    /// The target as command-line arguments.
    pub(super) fn arguments(&self) -> [String; 7] {
        let layout = match self.layout {
            Layout::Redisson => "redisson",
            _ => "redlock",
        };
        let lease = self.lease.as_millis().to_string();
        let flags = [self.strict, self.replicated, self.cluster];
        let [strict, replicated, cluster] = flags.map(|flag| flag.to_string());
        [
            layout.to_owned(),
            strict,
            replicated,
            cluster,
            self.name.clone(),
            lease,
            self.urls.join(","),
        ]
    }

    /// Reads the target from command-line arguments. Returns it and the remaining arguments.
    pub(super) fn parse(arguments: &[String]) -> (Self, &[String]) {
        let ([layout, strict, replicated, cluster, name, lease, urls], rest) =
            arguments.split_first_chunk::<7>().expect("all that `arguments` gives");
        let target = Self {
            layout: if layout == "redisson" { Layout::Redisson } else { Layout::Redlock },
            strict: strict == "true",
            replicated: replicated == "true",
            cluster: cluster == "true",
            name: name.clone(),
            lease: Duration::from_millis(lease.parse().expect("milliseconds")),
            urls: urls.split(',').map(str::to_owned).collect(),
        };
        (target, rest)
    }

    pub(super) fn locker(&self) -> Locker {
        let builder = patient_builder(self.layout);
        let builder = match (self.strict, self.urls.len()) {
            (true, _) => builder.admission(Admission::Strict),
            (false, 1) => builder,
            _ => builder.admission(Admission::Redlock),
        };
        let locker = match self.urls.as_slice() {
            urls if self.cluster => builder.on(Servers::cluster(urls)),
            urls if self.replicated => builder.on(Servers::replicated(urls)),
            [url] => builder.on(Servers::single(url)),
            urls => builder.on(Servers::quorum(urls)),
        };
        locker.expect("a good configuration")
    }
}
