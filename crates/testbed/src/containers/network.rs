use std::hash::{BuildHasher as _, RandomState};
use std::net::Ipv4Addr;

use testcontainers::bollard::Docker;
use testcontainers::bollard::models::{
    EndpointIpamConfig, EndpointSettings, Ipam, IpamConfig, NetworkConnectRequest,
    NetworkCreateRequest, NetworkDisconnectRequest,
};

use super::error::{ContainerError, because};

/// Another process may get the same range between our two requests.
const ATTEMPTS: usize = 10;

/// The nodes' addresses start here. The engine uses the first addresses of a range.
const FIRST_NODE: u32 = 10;

/// A network on which each node has a fixed address.
///
/// The engine gives fixed addresses only in a range that its user chose. Otherwise it assigns
/// addresses in the order of connection, and two nodes that reconnect in another order would swap
/// addresses.
#[derive(Debug)]
pub(super) struct Network {
    docker: Docker,
    pub(super) name: String,
    base: Ipv4Addr,
}

impl Network {
    pub(super) async fn create(docker: &Docker) -> Result<Self, ContainerError> {
        let name = format!("quorumlock-{:016x}", RandomState::new().hash_one(0));
        let mut attempt = 1;
        loop {
            let range = unused_range(docker, &name).await?;
            let Some(base) = range.subnet.as_deref().and_then(base_of) else {
                return Err(because("network without a range")(format!("{range:?}")));
            };
            let request = NetworkCreateRequest {
                name: name.clone(),
                ipam: Some(Ipam { config: Some(vec![range]), ..Ipam::default() }),
                ..NetworkCreateRequest::default()
            };
            match docker.create_network(request).await {
                Ok(_) => return Ok(Self { docker: docker.clone(), name, base }),
                Err(_) if attempt < ATTEMPTS => attempt += 1,
                Err(error) => return Err(because("cannot create a network")(error)),
            }
        }
    }

    pub(super) fn address(&self, index: u32) -> Ipv4Addr {
        Ipv4Addr::from_bits(self.base.to_bits() + FIRST_NODE + index)
    }
}

pub(super) async fn connect(
    docker: &Docker,
    network: &str,
    container: &str,
    address: Ipv4Addr,
) -> Result<(), ContainerError> {
    let fixed = EndpointIpamConfig {
        ipv4_address: Some(address.to_string()),
        ..EndpointIpamConfig::default()
    };
    let request = NetworkConnectRequest {
        container: container.to_owned(),
        endpoint_config: Some(EndpointSettings {
            ipam_config: Some(fixed),
            ..EndpointSettings::default()
        }),
    };
    let connected = docker.connect_network(network, request).await;
    connected.map_err(because("cannot connect a container to its network"))
}

pub(super) async fn disconnect(
    docker: &Docker,
    network: &str,
    container: &str,
) -> Result<(), ContainerError> {
    let request = NetworkDisconnectRequest { container: container.to_owned(), force: Some(true) };
    let disconnected = docker.disconnect_network(network, request).await;
    disconnected.map_err(because("cannot disconnect a container from its network"))
}

impl Drop for Network {
    fn drop(&mut self) {
        // Blocks, as testcontainers does for containers, so that nothing is left when the test has
        // ended.
        tokio::task::block_in_place(|| {
            let removed = self.docker.remove_network(&self.name);
            let removed = tokio::runtime::Handle::current().block_on(removed);
            if let Err(error) = removed {
                eprintln!("the network {} stays: {error}", self.name);
            }
        });
    }
}

/// Lets the engine choose a range, because it knows the ranges that this machine uses.
async fn unused_range(docker: &Docker, name: &str) -> Result<IpamConfig, ContainerError> {
    let request = NetworkCreateRequest { name: name.to_owned(), ..NetworkCreateRequest::default() };
    docker.create_network(request).await.map_err(because("cannot create a network"))?;
    let inspected = docker.inspect_network(name, None).await;
    docker.remove_network(name).await.map_err(because("cannot remove a network"))?;
    let ipam = inspected.map_err(because("cannot inspect a network"))?.ipam;
    let range = ipam.and_then(|ipam| ipam.config?.into_iter().next());
    range.ok_or_else(|| because("network without addresses")(name))
}

/// `172.18.0.0/16` -> `172.18.0.0`.
fn base_of(subnet: &str) -> Option<Ipv4Addr> {
    subnet.split('/').next()?.parse().ok()
}
