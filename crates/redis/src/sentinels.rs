//! Asks sentinels where a master and its replicas are, and listens for its failovers.
//!
//! A sentinel tells addresses, and nothing else is believed of it: the role of a server is what the
//! server itself says (PROTOCOL.md REP5).

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::StreamExt;
use quorumlock_protocol::{BoxFuture, NodeProblem, NodeReport};
use redis::aio::PubSub;
use tokio::sync::watch;

use super::ask_all::ask_all;
use super::dial::Dialer;
use super::handshake::login;
use super::resp::Value;
use super::talk::Talk;

/// The sentinels that monitor one master.
pub(super) struct Sentinels {
    label: String,
    sentinels: Vec<Arc<Dialer>>,
    master_name: Arc<str>,
    /// The user, password, database and TLS of the servers.
    server: Dialer,
    /// The servers that the sentinels named last.
    last: Mutex<Vec<Address>>,
    /// Whether tasks listen for failovers.
    listens: AtomicBool,
    /// Ends those tasks when it is dropped.
    dropped: watch::Sender<()>,
}

/// The servers that the sentinels name.
pub(super) struct Discovered {
    /// The master that most sentinels name comes first. Not empty.
    pub(super) dialers: Vec<Arc<Dialer>>,
    /// Whether the sentinels name more than one master.
    pub(super) disputed: bool,
}

/// A host and a port.
type Address = (String, u16);

/// What one sentinel says.
#[derive(Clone, Debug, PartialEq, Eq)]
struct View {
    master: Address,
    replicas: Vec<Address>,
}

/// Looks for the master.
type OnSwitch = Arc<dyn Fn() -> BoxFuture<()> + Send + Sync>;

impl Sentinels {
    /// `server` has the user, password, database and TLS of the servers, and any address.
    pub(super) fn new(sentinels: Vec<Arc<Dialer>>, master_name: &str, server: Dialer) -> Self {
        let scheme = if server.target.wants_tls() { "rediss-sentinel" } else { "redis-sentinel" };
        let hosts = sentinels.iter().map(|sentinel| sentinel.target.label());
        let hosts: Vec<_> =
            hosts.map(|label| label.split_once("://").map_or(label, |(_, host)| host)).collect();
        Self {
            label: format!("{scheme}://{}/{master_name}", hosts.join(",")),
            sentinels,
            master_name: master_name.into(),
            server,
            last: Mutex::default(),
            listens: AtomicBool::new(false),
            dropped: watch::Sender::new(()),
        }
    }

    /// Its URL, without users and passwords.
    pub(super) fn label(&self) -> &str {
        &self.label
    }

    /// Asks all sentinels at once for the servers. If none names any, those that they named last count.
    pub(super) async fn discover(&self) -> Result<Discovered, NodeProblem> {
        let asked = self.sentinels.iter().map(|sentinel| async move {
            let report = |problem| NodeReport::new(sentinel.target.label(), problem);
            self.ask(sentinel).await.map_err(report)
        });
        let grace = self.server.options.connect_timeout / 10;
        let (views, problems) = ask_all(asked, grace).await;
        let mut last = self.last();
        if !views.is_empty() {
            *last = in_order(&views);
        }
        if last.is_empty() {
            return Err(no_view(problems));
        }
        let dialers = last.iter().map(|(host, port)| Arc::new(self.server.at(host, *port)));
        let disputed = views.iter().any(|view| view.master != views[0].master);
        Ok(Discovered { dialers: dialers.collect(), disputed })
    }

    /// Calls `on_switch` whenever a sentinel tells of a failover. Listens until this is dropped, on the
    /// standby thread: the callers' runtimes may end earlier.
    pub(super) fn listen(&self, on_switch: impl Fn() -> BoxFuture<()> + Send + Sync + 'static) {
        let Some(runtime) = self.server.options.network.standby() else { return };
        if self.listens.swap(true, Ordering::Relaxed) {
            return;
        }
        let on_switch: OnSwitch = Arc::new(on_switch);
        for sentinel in &self.sentinels {
            let mut dropped = self.dropped.subscribe();
            let listening = listen(sentinel.clone(), self.master_name.clone(), on_switch.clone());
            runtime.spawn(async move {
                tokio::select! {
                    () = listening => {}
                    _ = dropped.changed() => {}
                }
            });
        }
    }

    async fn ask(&self, sentinel: &Dialer) -> Result<View, NodeProblem> {
        let mut progress = sentinel.progress();
        let mut stream = sentinel.dial(&mut progress).await?;
        let mut talk = Talk::new(&mut stream, &mut progress, "");
        let name = &*self.master_name;
        let ask = |what: &str| redis::cmd("SENTINEL").arg(what).arg(name).to_owned();
        let login = sentinel.target.credentials().map(|credentials| login(&credentials));
        let questions = [ask("GET-MASTER-ADDR-BY-NAME"), ask("REPLICAS")];
        let commands: Vec<_> = login.iter().cloned().chain(questions).collect();
        talk.write(&commands).await?;
        if login.is_some()
            && let Value::Error(text) = talk.receive().await?
        {
            return Err(NodeProblem::Authentication(text));
        }
        self.read(&talk.receive().await?, &talk.receive().await?)
    }

    /// Decodes the replies of a sentinel.
    fn read(&self, master: &Value, replicas: &Value) -> Result<View, NodeProblem> {
        match master {
            Value::Nil => Err(NodeProblem::UnknownMaster(self.master_name.to_string())),
            Value::Error(text) if text.contains("unknown command") => {
                Err(NodeProblem::NotASentinel)
            }
            Value::Error(text) => Err(NodeProblem::from_reply(text)),
            Value::Array(parts) => {
                let malformed = || NodeProblem::Malformed(format!("{master:?}"));
                let [host, port] = &parts[..] else { return Err(malformed()) };
                let port = port.text().parse().map_err(|_| malformed())?;
                Ok(View { master: (host.text().into_owned(), port), replicas: followers(replicas) })
            }
            other => Err(NodeProblem::Malformed(format!("{other:?}"))),
        }
    }

    fn last(&self) -> MutexGuard<'_, Vec<Address>> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Sentinels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sentinels").field("label", &self.label).finish_non_exhaustive()
    }
}

/// Listens to one sentinel, and dials it again when the connection breaks.
async fn listen(sentinel: Arc<Dialer>, master_name: Arc<str>, on_switch: OnSwitch) {
    /// What a sentinel tells meanwhile, the others tell, too.
    const PAUSE: Duration = Duration::from_secs(1);

    loop {
        if let Err(why) = subscribe(&sentinel, &master_name, &on_switch).await {
            tracing::debug!(sentinel = sentinel.target.label(), %why, "subscription ended");
        }
        tokio::time::sleep(PAUSE.mul_f64(sentinel.options.network.pause_share())).await;
    }
}

async fn subscribe(
    sentinel: &Dialer,
    master_name: &str,
    on_switch: &OnSwitch,
) -> Result<(), String> {
    let stream =
        sentinel.dial(&mut sentinel.progress()).await.map_err(|problem| problem.to_string())?;
    let pubsub = PubSub::new(sentinel.target.redis(), stream).await.map_err(|e| e.to_string())?;
    let (mut sink, mut messages) = pubsub.split();
    sink.subscribe("+switch-master").await.map_err(|e| e.to_string())?;
    while let Some(message) = messages.next().await {
        // The name, the old address and the new one.
        let text = message.get_payload::<String>().unwrap_or_default();
        if text.split(' ').next() == Some(master_name) {
            on_switch().await;
        }
    }
    Err("the connection broke".into())
}

/// The addresses of all servers: the masters, the one that most sentinels name first, then replicas.
fn in_order(views: &[View]) -> Vec<Address> {
    let votes = |master: &Address| views.iter().filter(|view| view.master == *master).count();
    let mut masters: Vec<_> = views.iter().map(|view| &view.master).collect();
    masters.sort_by_key(|master| std::cmp::Reverse(votes(master)));
    let mut addresses: Vec<Address> = Vec::new();
    for address in masters.into_iter().chain(views.iter().flat_map(|view| &view.replicas)) {
        if !addresses.contains(address) {
            addresses.push(address.clone());
        }
    }
    addresses
}

/// The addresses of the replicas that a sentinel reaches.
fn followers(replicas: &Value) -> Vec<Address> {
    let Value::Array(replicas) = replicas else { return Vec::new() };
    let address = |replica: &Value| {
        let Value::Array(fields) = replica else { return None };
        let value = |name: &str| {
            let pair = fields.chunks_exact(2).find(|pair| pair[0].text() == name)?;
            Some(pair[1].text().into_owned())
        };
        let down = value("flags")?.split(',').any(|flag| flag == "s_down");
        (!down).then_some((value("ip")?, value("port")?.parse().ok()?))
    };
    replicas.iter().filter_map(address).collect()
}

/// Why no sentinel names a server: what one of them answers, or else that none does.
fn no_view(problems: Vec<NodeReport>) -> NodeProblem {
    let answered = problems.iter().find(|report| report.problem.answered());
    match answered.map(|report| report.problem.clone()) {
        Some(problem) => problem,
        None => NodeProblem::NoSentinel(problems),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(port: u16) -> Address {
        ("h".into(), port)
    }

    fn view(master: u16, replicas: &[u16]) -> View {
        View { master: address(master), replicas: replicas.iter().copied().map(address).collect() }
    }

    #[test]
    fn the_master_that_most_sentinels_name_comes_first_and_nobody_twice() {
        let views = [view(1, &[2, 3]), view(2, &[1, 3]), view(2, &[3, 4])];
        assert_eq!(in_order(&views), [2, 1, 3, 4].map(address));
        assert_eq!(in_order(&views[..1]), [1, 2, 3].map(address));
    }

    #[test]
    fn a_replica_that_the_sentinel_does_not_reach_is_not_asked() {
        let text = |text: &str| Value::Text(text.as_bytes().to_vec());
        let replica = |port: &str, flags: &str| {
            let fields = ["name", "x", "ip", "h", "port", port, "flags", flags];
            Value::Array(fields.map(text).to_vec())
        };
        let reply = Value::Array(vec![
            replica("1", "slave"),
            replica("2", "s_down,slave,disconnected"),
            replica("no port", "slave"),
        ]);
        assert_eq!(followers(&reply), [address(1)]);
        assert_eq!(followers(&Value::Error("ERR".into())), []);
    }
}
