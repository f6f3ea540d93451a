use std::collections::HashMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use testcontainers::bollard::Docker;
use testcontainers::bollard::models::{HostConfig, PortBinding};
use testcontainers::core::{IntoContainerPort as _, WaitFor};
use testcontainers::runners::AsyncRunner as _;
use testcontainers::{ContainerAsync, GenericImage, ImageExt as _};
use tokio::time::{sleep, timeout};

use super::error::{ContainerError, because};
use super::image;
use super::network::{self, Network};
use super::role::Role;
use crate::port;
use crate::servers::is_up;

/// Beside those of servers without a container: none of these may take the port of a container that is
/// disconnected from its network.
const PORTS: Range<u16> = 30_000..32_000;
const REDIS_PORT: u16 = 6379;
const READY_WITHIN: Duration = Duration::from_secs(20);
const ASK_EVERY: Duration = Duration::from_millis(20);

/// How often another port is tried if another process has taken the port that was free.
const PORT_ATTEMPTS: usize = 5;

/// A server in a container. It keeps its two addresses; the same fault looks different from each.
#[derive(Debug)]
pub struct Container {
    docker: Docker,
    container: ContainerAsync<GenericImage>,
    network: String,
    is_connected: AtomicBool,
    ip: Ipv4Addr,
    port: u16,
}

impl Container {
    pub(super) async fn start(
        docker: &Docker,
        network: &Network,
        index: usize,
        role: Role,
    ) -> Result<Self, ContainerError> {
        let index = u32::try_from(index).map_err(because("too many nodes"))?;
        let (container, port) = create(&network.name, role).await?;
        let node = Self {
            docker: docker.clone(),
            container,
            network: network.name.clone(),
            is_connected: AtomicBool::new(true),
            ip: network.address(index),
            port,
        };
        // testcontainers cannot request an address. An address assigned here stays through kill and
        // start.
        node.disconnect().await?;
        node.reconnect().await?;
        node.await_ready().await?;
        Ok(node)
    }

    /// The engine's id of the container.
    #[must_use]
    pub fn id(&self) -> &str {
        self.container.id()
    }

    /// The URL by a port of this machine. A disconnected server looks crashed from here:
    /// connections break, and new ones are refused.
    #[must_use]
    pub fn url(&self) -> String {
        format!("redis://{}", self.addr())
    }

    /// The URL by the container's own address. A disconnected server looks partitioned from here:
    /// connections stay open and hang, and continue when it is reconnected.
    #[must_use]
    pub fn ip_url(&self) -> String {
        format!("redis://{}", self.ip_addr())
    }

    /// The address in [`url`](Self::url).
    #[must_use]
    pub fn addr(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port).into()
    }

    /// The address in [`ip_url`](Self::ip_url).
    #[must_use]
    pub fn ip_addr(&self) -> SocketAddr {
        (self.ip, REDIS_PORT).into()
    }

    /// Freezes the server: connections stay open, nothing is answered, time goes on.
    ///
    /// # Errors
    /// If the engine refuses, for instance because the server is not running.
    pub async fn pause(&self) -> Result<(), ContainerError> {
        self.container.pause().await.map_err(because("cannot pause"))
    }

    /// Resumes a paused server.
    ///
    /// # Errors
    /// If the engine refuses, for instance because the server is not paused.
    pub async fn unpause(&self) -> Result<(), ContainerError> {
        self.container.unpause().await.map_err(because("cannot unpause"))
    }

    /// Kills the server (`SIGKILL`), paused or not.
    ///
    /// # Errors
    /// If the engine refuses, for instance because the server is not running.
    pub async fn kill(&self) -> Result<(), ContainerError> {
        self.docker.kill_container(self.id(), None).await.map_err(because("cannot kill"))
    }

    /// Starts a killed server, without data, at the same addresses. Waits until it answers, unless
    /// it is disconnected.
    ///
    /// # Errors
    /// If the engine refuses, or the server does not answer within 20 seconds.
    pub async fn start_again(&self) -> Result<(), ContainerError> {
        self.container.start().await.map_err(because("cannot start again"))?;
        if self.is_connected.load(Ordering::Relaxed) { self.await_ready().await } else { Ok(()) }
    }

    /// Disconnects the server from its network.
    ///
    /// # Errors
    /// If the engine refuses, for instance because the server is disconnected already.
    pub async fn disconnect(&self) -> Result<(), ContainerError> {
        network::disconnect(&self.docker, &self.network, self.id()).await?;
        self.is_connected.store(false, Ordering::Relaxed);
        Ok(())
    }

    /// Reconnects a disconnected server at the same addresses. It may take a second or two until
    /// the first packet gets through.
    ///
    /// # Errors
    /// If the engine refuses, for instance because the server is connected.
    pub async fn reconnect(&self) -> Result<(), ContainerError> {
        network::connect(&self.docker, &self.network, self.id(), self.ip).await?;
        self.is_connected.store(true, Ordering::Relaxed);
        Ok(())
    }

    async fn await_ready(&self) -> Result<(), ContainerError> {
        let addresses = [self.addr(), self.ip_addr()];
        let ready = async {
            for address in addresses {
                while !tokio::task::spawn_blocking(move || is_up(address)).await.unwrap_or(false) {
                    sleep(ASK_EVERY).await;
                }
            }
        };
        let ready = timeout(READY_WITHIN, ready).await;
        ready.map_err(because(format!("no PONG from {addresses:?}")))
    }
}

/// Creates a running container, and the port of this machine that leads to it.
async fn create(
    network: &str,
    role: Role,
) -> Result<(ContainerAsync<GenericImage>, u16), ContainerError> {
    // A sentinel writes what it monitors into its file, which must exist.
    const FILE: &str = "/data/sentinel.conf";
    const SENTINEL: [&str; 8] =
        [FILE, "--sentinel", "--bind", "0.0.0.0", "--protected-mode", "no", "--port", "6379"];

    const MEMBER: [[&str; 2]; 6] = [
        ["--bind", "0.0.0.0"],
        ["--protected-mode", "no"],
        ["--save", ""],
        ["--cluster-enabled", "yes"],
        ["--cluster-node-timeout", "2000"],
        // A replica that was synchronised late may be promoted all the same.
        ["--cluster-replica-validity-factor", "0"],
    ];

    let mut attempt = 1;
    loop {
        let port = port::free_of(PORTS).map_err(because("no free port"))?;
        let image = image();
        let (name, tag) = image.rsplit_once(':').unwrap_or((&image, "latest"));
        let ready = match role {
            Role::Server | Role::Member => "Ready to accept connections",
            Role::Sentinel => "Sentinel ID is",
        };
        let request = GenericImage::new(name, tag)
            .with_exposed_port(REDIS_PORT.tcp())
            .with_wait_for(WaitFor::message_on_stdout(ready))
            .with_network(network)
            .with_host_config_modifier(move |config| publish(config, port));
        let request = match role {
            Role::Server => request,
            Role::Member => request.with_cmd(MEMBER.as_flattened().iter().copied()),
            Role::Sentinel => request.with_cmd(SENTINEL).with_copy_to(FILE, b"# Empty.\n".to_vec()),
        };
        match request.start().await {
            Ok(container) => return Ok((container, port)),
            Err(error) if attempt < PORT_ATTEMPTS && error.to_string().contains("already") => {
                attempt += 1;
            }
            Err(error) => return Err(because("cannot start a container")(error)),
        }
    }
}

/// Publishes a fixed port: one chosen by the engine would change with every restart and
/// reconnection.
fn publish(config: &mut HostConfig, port: u16) {
    let binding = PortBinding {
        host_ip: Some(Ipv4Addr::LOCALHOST.to_string()),
        host_port: Some(port.to_string()),
    };
    config.publish_all_ports = Some(false);
    config.port_bindings =
        Some(HashMap::from([(format!("{REDIS_PORT}/tcp"), Some(vec![binding]))]));
}
