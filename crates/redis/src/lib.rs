//! A Redis or Valkey server as a [`Node`](quorumlock_protocol::Node): one voter.
//!
//! Users add the crate [quorumlock](https://docs.rs/quorumlock) instead, which re-exports what they
//! need. From the bottom up:
//! - `resp`, `scripts`, `rdb`: the wire protocol, the Lua scripts, the payload of `RESTORE`.
//! - `encode`: encodes a request as commands, in either layout.
//! - `connection`: one connection, redialled when it breaks: a machine that does no I/O, and the
//!   driver that moves its bytes.
//! - `handshake`, `master`, `sentinels`: find out which server answers, and whether it may vote.
//! - [`RedisNode`]: two connections for requests and one for subscriptions.
//! - [`RedisCluster`]: a node for each master of a Redis Cluster, and what goes to which.

#![cfg_attr(docsrs, feature(doc_cfg))]

mod admission_rpc;
mod ask_all;
mod command;
mod connection;
mod contended_names;
mod dial;
mod earlier_memory;
mod encode;
mod gather;
mod handshake;
mod happy_eyeballs;
mod list;
mod master;
mod network;
mod node;
mod node_addr;
mod node_factory;
mod node_facts;
mod node_info;
mod owner_label;
#[doc(hidden)]
pub mod permissions;
mod progress;
mod rdb;
mod redirect;
mod redis_cluster;
mod resp;
mod scripts;
mod sentinel_url;
mod sentinels;
mod server_info;
mod server_setup;
mod shown;
#[cfg(feature = "simulation")]
#[doc(hidden)]
pub mod simulation;
mod slot_router;
mod stream;
mod subscriptions;
mod taken_up;
mod talk;
mod targets;
mod tls;
mod unconfirmed_releases;

pub use node::RedisNode;
#[doc(hidden)]
pub use node_addr::{is_sentinel_url, split_urls};
pub use node_factory::{master_list, member_list, redis_master, redis_nodes, redis_sentinel};
pub use redis_cluster::{RedisCluster, redis_cluster};
#[doc(hidden)]
pub use sentinel_url::uses_tls;

/// The body of the fuzz target `replies`.
#[cfg(fuzzing)]
pub fn fuzz_replies(data: &[u8]) {
    connection::exercise(data);
}
