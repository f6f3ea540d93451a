use std::time::Duration;

use crate::Layout;

/// The call or the configuration is wrong.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// Not a URL of a Redis server.
    #[error(
        "{url:?} is no Redis URL: {why} (expected redis://, rediss:// or unix://, such as \
         redis://user:password@host:6379/0)"
    )]
    BadUrl {
        /// The text given, without password.
        url: String,
        /// What is wrong with it.
        why: String,
    },
    /// A master name that no sentinel takes.
    #[error("the master name {name:?} is not valid: {why}")]
    BadMasterName {
        /// The text given, without password.
        name: String,
        /// What is wrong with it.
        why: String,
    },
    /// The TLS certificates cannot be used.
    #[error("the TLS certificates cannot be used: {0}")]
    BadCertificate(String),
    /// One of the URLs in a list is empty.
    #[error("node {at} of {of} is empty: a comma too many, or a URL that is missing")]
    EmptyUrl {
        /// Which one; the first is 1.
        at: usize,
        /// How many there are.
        of: usize,
    },
    /// An empty list of nodes.
    #[error("no node was given")]
    NoNodes,
    /// Two addresses lead to one server: its vote would count twice.
    #[error("{a} and {b} are one server: give each server once, a quorum needs independent nodes")]
    SameServer {
        /// One address.
        a: String,
        /// The other.
        b: String,
    },
    /// A lock of several names, without any.
    #[error("a lock of several names needs at least one name")]
    NoNames,
    /// A lock of too many names.
    #[error("a lock of several names has at most {max} names, this one has {names}")]
    TooManyNames {
        /// Names given, each counted once.
        names: usize,
        /// Names at most.
        max: usize,
    },
    /// A lock of several names that a Redis Cluster keeps on different masters.
    #[error(
        "a Redis Cluster keeps {names} in different slots: give the names of one lock the same hash tag, as \
         {{user}}:a and {{user}}:b, or take one lock for each"
    )]
    NamesInCluster {
        /// The names given.
        names: String,
    },
    /// A number of permits that is out of bounds.
    #[error("permits of {permits} is out of bounds: 1 to {max}")]
    BadPermits {
        /// The number given.
        permits: u32,
        /// The most.
        max: u16,
    },
    /// The number of a slot that no permit has.
    #[error("slot {slot} is out of bounds: 0 to {max}")]
    BadSlot {
        /// The number given.
        slot: u16,
        /// The most.
        max: u16,
    },
    /// An owner that holds a read-write lock for reading asks for it for writing. Two such owners would
    /// wait for each other.
    #[error("{name:?} is held for reading by this owner: release it before you ask to write")]
    Upgrade {
        /// Which lock.
        name: String,
    },
    /// An owner that holds a read-write lock for writing asks for it for reading.
    #[error("{name:?} is held for writing by this owner: downgrade that hold instead")]
    ReadWhileWriting {
        /// Which lock.
        name: String,
    },
    /// An owner that holds a lock of some names asks for a lock of others with a name in common: it would
    /// wait for itself. A request for the same names enters again.
    #[error(
        "this owner holds {held:?}, and asks for {name:?}, which has {} in common with it: release that \
         lock first, or take all names in one call",
        .common.join(", ")
    )]
    OwnerOverlap {
        /// The names asked for.
        name: String,
        /// The names held.
        held: String,
        /// The names that both have.
        common: Vec<String>,
    },
    /// A downgrade, or a move to another process, while other guards of the owner share the hold.
    #[error("{name:?} has {holds} holds: release the others before {act}")]
    SharedHold {
        /// Which lock.
        name: String,
        /// What needs the only hold.
        act: &'static str,
        /// How many guards share the hold.
        holds: u32,
    },
    /// A lock without a name.
    #[error("a lock's name must not be empty")]
    EmptyName,
    /// A name that is too long.
    #[error("a lock's name has at most {max} bytes, this one has {len}")]
    NameTooLong {
        /// Bytes of the name given.
        len: usize,
        /// Bytes at most.
        max: usize,
    },
    /// A name that could be a key of quorumlock or of Redisson.
    #[error(
        "a lock's name must not begin with {prefix:?}, as {name:?} does: quorumlock and Redisson keep their \
         own keys there; choose another name"
    )]
    ReservedName {
        /// The name given.
        name: String,
        /// The reserved prefix that it begins with.
        prefix: &'static str,
    },
    /// A name whose keys a Redis Cluster keeps in different slots.
    #[error(
        "a Redis Cluster keeps the keys of {name:?} in different slots: in a lock's name, give each brace \
         its partner with a text between them, as {{user}}:x, or leave the braces out"
    )]
    NameInCluster {
        /// The name given.
        name: String,
    },
    /// A prefix that no name of a lock can have.
    #[error("{prefix:?} cannot be the prefix of a lock's name: {why}")]
    BadPrefix {
        /// The prefix given.
        prefix: String,
        /// What is wrong with it.
        why: String,
    },
    /// An environment variable whose value the library cannot use.
    #[error(
        "{variable}{}: {why}",
        .value.as_ref().map_or_else(String::new, |value| format!("={value:?}"))
    )]
    BadVariable {
        /// Which variable, or which argument of the command.
        variable: String,
        /// Its value; `None` if it is not set, or may hold a password.
        value: Option<String>,
        /// What is wrong with it, and what it must be.
        why: String,
    },
    /// A text that is no duration.
    #[error(
        "{text:?} is no duration: {why}. Write seconds, as 30 or 0.5, or units, as 500ms or 1m30s"
    )]
    NoDuration {
        /// The text given, without password.
        text: String,
        /// What is wrong with it.
        why: String,
    },
    /// A duration out of bounds.
    #[error(
        "{what} of {value:?} is out of bounds: {min:?} to {max:?}{}",
        .max_option.map_or_else(String::new, |option| format!(" (the most is set by {option})"))
    )]
    BadDuration {
        /// Which setting.
        what: &'static str,
        /// The value given.
        value: Duration,
        /// The least.
        min: Duration,
        /// The most.
        max: Duration,
        /// The option that sets the most, if one does.
        max_option: Option<&'static str>,
    },
    /// A `max_clock_drift` that is out of bounds.
    #[error("max_clock_drift of {value} is out of bounds: 0 to 0.5")]
    BadClockDrift {
        /// The value given.
        value: f64,
    },
    /// More lost marks to tolerate than this number of nodes allows.
    #[error("tolerate_lost_marks of {losses} is out of bounds: 0 to {max} for these nodes")]
    TooManyLosses {
        /// The number given.
        losses: usize,
        /// The most.
        max: usize,
    },
    /// More required replicas than there are. A quorum has none: its nodes are masters without
    /// replicas.
    #[error("replicas of {asked} is out of bounds: 0 to {max} here (0 on a quorum)")]
    TooManyReplicas {
        /// The number given.
        asked: usize,
        /// The most.
        max: usize,
    },
    /// A text that is no ticket.
    #[error("a ticket cannot be read: {why}")]
    BadTicket {
        /// What is wrong with it.
        why: String,
    },
    /// A ticket of a lock in another layout than that of the locker.
    #[error(
        "the ticket is of a lock in the layout {ticket:?}, and this locker uses the layout {locker:?}: resume \
         it by a locker of the ticket's layout"
    )]
    OtherLayout {
        /// The layout of the ticket.
        ticket: Layout,
        /// That of the locker.
        locker: Layout,
    },
    /// A label that is too long, or has control characters.
    #[error(
        "the label {label:?} has {len} bytes: a label has at most {max} bytes, and no control characters"
    )]
    BadLabel {
        /// The label given.
        label: String,
        /// Its length in bytes.
        len: usize,
        /// Bytes at most.
        max: usize,
    },
    /// A client name that Redis does not take.
    #[error(
        "client name {0:?} has characters that Redis does not take (spaces, control characters)"
    )]
    BadClientName(String),
    /// The call is about admission, but this locker admits every node as it is.
    #[error("this locker admits every node as it is: there is nothing to admit or to ask for")]
    NoAdmission,
    /// The caller is outside an async runtime, or the runtime has no timers or I/O.
    #[error(
        "no tokio runtime with timers and I/O here: call from one (`enable_all`), or use \
         quorumlock::blocking"
    )]
    NoRuntime,
    /// The locker was made before a fork. Its threads and connections are those of the process that
    /// made it.
    #[error(
        "this locker was made by process {made_by}, and process {here} is a fork of it: make a locker \
         after the fork"
    )]
    Forked {
        /// The process that made the locker.
        made_by: u32,
        /// The process of the call.
        here: u32,
    },
    /// An owner re-enters a lock and asks for another lease or limit than that of its outer hold.
    #[error(
        "{what} of {asked:?} at re-entry: {name:?} is held with {}, which stays; ask for the same, \
         or for none",
        .held.map_or_else(|| format!("no {what}"), |held| format!("{held:?}"))
    )]
    ReEntryDiffers {
        /// Which lock.
        name: String,
        /// Which option: `lease` or `hold_at_most`.
        what: &'static str,
        /// The value given.
        asked: Duration,
        /// The value of the outer hold, if it has one.
        held: Option<Duration>,
    },
    /// An option that does not apply to these servers.
    #[error("{option} does not apply to {servers}: leave it out")]
    DoesNotApply {
        /// Which option.
        option: &'static str,
        /// What the locker was made for.
        servers: &'static str,
    },
    /// The operating system gave no thread, event queue or random numbers.
    #[error("the operating system refused {what}: {why}")]
    System {
        /// What was asked for.
        what: &'static str,
        /// The answer of the operating system.
        why: String,
    },
}
