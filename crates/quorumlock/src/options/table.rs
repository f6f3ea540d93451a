use quorumlock_protocol::bounds;

use super::locker_option::Group::{Agreed, Locks, Servers};
use super::locker_option::{Applies, LockerOption, Value};
use super::servers::{ADMITTED, LOCKS, ONE, PROVEN, QUORUM, REAL, REAL_LOCKS, SINGLE};
use crate::{Admission, Builder, Layout, Replicas};

/// All options that a variable or an argument can give.
pub const OPTIONS: &[LockerOption] = &[
    LockerOption {
        name: "nodes",
        value: Value::Servers(Builder::add_nodes),
        default: "none",
        group: Servers,
        applies: Applies::Always,
        about: "A server: redis://, rediss:// or unix://. One is a single server, several are a \
                quorum. With replicated: before the first one they are a master and its replicas, with \
                cluster: members of one Redis Cluster; both are best effort: after a failover two \
                clients may hold one lock. Or one URL of sentinels, redis-sentinel://HOST:26379,HOST:26379/NAME, which \
                find the master NAME and tell of its failovers; rediss-sentinel:// is TLS to both, \
                unless ?sentinel_tls=yes or no says otherwise of the sentinels. Put a password into the \
                environment: every user of the machine can see command lines.",
    },
    LockerOption {
        name: "password_file",
        value: Value::File(|builder, path| builder.password_file(path)),
        default: "none",
        group: Servers,
        applies: Applies::Only {
            given: |b| b.credentials_from.contains(&"password_file"),
            servers: REAL,
            unless: &[(OTHER_CREDENTIALS, |b, _| b.credentials_from.len() > 1)],
        },
        about: "The file of the password, which is read at each dial. The user is that of the URL.",
    },
    LockerOption {
        name: "credentials_command",
        value: Value::Text("COMMAND", "a command line", |builder, command| {
            Ok(builder.credentials_command(command))
        }),
        default: "none",
        group: Servers,
        applies: Applies::Only {
            given: |b| b.credentials_from.contains(&"credentials_command"),
            servers: REAL,
            unless: &[(OTHER_CREDENTIALS, |b, _| b.credentials_from.len() > 1)],
        },
        about: "A command line that is run at each dial (sh -c). It prints the password, or the user \
                in a first line and the password in a second one, and finds the URL of the server in \
                QUORUMLOCK_SERVER.",
    },
    LockerOption {
        name: "tls_ca",
        value: Value::File(|builder, path| builder.tls_ca(path)),
        default: "those that the system trusts",
        group: Servers,
        applies: Applies::Only {
            given: |b| b.settings.tls_ca.is_some(),
            servers: REAL,
            unless: &[(PLAIN_URLS, |_, on| !on.tls)],
        },
        about: "Trust the certificate authorities in this file (PEM) for rediss://. It is read at \
                each dial.",
    },
    LockerOption {
        name: "tls_cert",
        value: Value::File(|mut builder, path| {
            builder.settings.tls_cert = Some(path.into());
            builder
        }),
        default: "none",
        group: Servers,
        applies: Applies::Only {
            given: |b| b.settings.tls_cert.is_some(),
            servers: REAL,
            unless: &[
                ("a locker without tls_key", |b, _| b.settings.tls_key.is_none()),
                (PLAIN_URLS, |_, on| !on.tls),
            ],
        },
        about: "Present the certificate in this file (PEM) to servers that ask for one. It is read \
                at each dial.",
    },
    LockerOption {
        name: "tls_key",
        value: Value::File(|mut builder, path| {
            builder.settings.tls_key = Some(path.into());
            builder
        }),
        default: "none",
        group: Servers,
        applies: Applies::Only {
            given: |b| b.settings.tls_key.is_some(),
            servers: REAL,
            unless: &[
                ("a locker without tls_cert", |b, _| b.settings.tls_cert.is_none()),
                (PLAIN_URLS, |_, on| !on.tls),
            ],
        },
        about: "The file of the private key (PEM, not encrypted) of the certificate. It is read at \
                each dial.",
    },
    LockerOption {
        name: "tls_server_name",
        value: Value::Text("NAME", "a name or an address", |builder, name| {
            Ok(builder.tls_server_name(name))
        }),
        default: "the host of each server",
        group: Servers,
        applies: Applies::Only {
            given: |b| b.settings.tls_server_name.is_some(),
            servers: REAL,
            unless: &[(PLAIN_URLS, |_, on| !on.tls)],
        },
        about: "The name that the certificates of all servers must be for.",
    },
    LockerOption {
        name: "connect_timeout",
        value: Value::Time(bounds::CONNECT_TIMEOUT, Builder::connect_timeout),
        default: "1s",
        group: Servers,
        applies: Applies::Always,
        about: "How long each step of connecting to a server may take (name, TCP, TLS, the next bytes of \
                a reply); all together take five times as long at most.",
    },
    LockerOption {
        name: "answer_timeout",
        value: Value::Time(bounds::ANSWER_TIMEOUT, Builder::answer_timeout),
        default: "500ms",
        group: Servers,
        applies: Applies::Always,
        about: "How long a server may take to answer.",
    },
    LockerOption {
        name: "client_name",
        value: Value::Text("NAME", "no spaces", |builder, name| Ok(builder.client_name(name))),
        default: "quorumlock:1",
        group: Servers,
        applies: Applies::Always,
        about: "The name that CLIENT LIST shows for the connections.",
    },
    LockerOption {
        name: "admission",
        value: Value::Word(&[
            ("strict", |builder| builder.admission(Admission::Strict)),
            ("redlock", |builder| builder.admission(Admission::Redlock)),
        ]),
        default: "strict on a quorum, else none",
        group: Agreed,
        applies: Applies::Only { given: |b| b.admission.is_some(), servers: ADMITTED, unless: &[] },
        about: "Which servers may vote: strict, those that have proven their memory; redlock, all \
                that answer. All programs that share a lock must agree.",
    },
    LockerOption {
        name: "max_lease",
        value: Value::Time(bounds::MAX_LEASE, Builder::max_lease),
        default: "1m",
        group: Agreed,
        applies: Applies::Always,
        about: "The longest lease that any lock may have. All programs must agree.",
    },
    LockerOption {
        name: "clock_bound",
        value: Value::Time(bounds::CLOCK_BOUND, Builder::clock_bound),
        default: "5s",
        group: Agreed,
        applies: Applies::Only { given: |b| b.clock_bound.is_some(), servers: PROVEN, unless: &[] },
        about: "How far the clocks of a server and of a program may be apart. All programs must \
                agree.",
    },
    LockerOption {
        name: "max_clock_drift",
        value: Value::Text("FRACTION", "0 to 0.5", |builder, text| {
            Ok(builder.max_clock_drift(number(text)?))
        }),
        default: "0.01",
        group: Agreed,
        applies: Applies::Always,
        about: "How much faster the clock of a server may run than that of this machine.",
    },
    LockerOption {
        name: "tolerate_lost_marks",
        value: Value::Text("N", "0 to all servers but one", |builder, text| {
            Ok(builder.tolerate_lost_marks(number(text)?))
        }),
        default: "0",
        group: Agreed,
        applies: Applies::Only {
            given: |b| b.lost_marks.is_some(),
            servers: QUORUM,
            unless: &[("a locker without fencing", |b, _| !b.settings.fencing)],
        },
        about: "How many servers may have lost their fencing marks without a token being issued \
                twice. It costs availability. All programs must agree.",
    },
    LockerOption {
        name: "prefix",
        value: Value::Text("TEXT", "the beginning of a name", |builder, text| {
            Ok(builder.prefix(text))
        }),
        default: "none",
        group: Locks,
        applies: Applies::Only { given: |b| b.prefix.is_some(), servers: LOCKS, unless: &[] },
        about: "Begins every name of a lock.",
    },
    LockerOption {
        name: "lease",
        value: Value::Time(bounds::LEASE, Builder::lease),
        default: "30s, at most max_lease",
        group: Locks,
        applies: Applies::Only { given: |b| b.lease.is_some(), servers: LOCKS, unless: &[] },
        about: "How long the servers keep a lock without a renewal; it is renewed every third of \
                that.",
    },
    LockerOption {
        name: "hold_at_most",
        value: Value::Time(bounds::HOLD_AT_MOST, Builder::hold_at_most),
        default: "without limit",
        group: Locks,
        applies: Applies::Only {
            given: |b| b.settings.hold_at_most.is_some(),
            servers: LOCKS,
            unless: &[],
        },
        about: "End each hold after this time at the latest. run and lead stop their command then: SIGTERM \
                comes earlier by the grace time.",
    },
    LockerOption {
        name: "long_hold",
        value: Value::Time(bounds::LONG_HOLD, Builder::long_hold),
        default: "none is told",
        group: Locks,
        applies: Applies::Only {
            given: |b| b.settings.long_hold.is_some(),
            servers: LOCKS,
            unless: &[],
        },
        about: "Warn of a hold that lasts longer.",
    },
    LockerOption {
        name: "takeover_delay",
        value: Value::Time(bounds::TAKEOVER_DELAY, Builder::takeover_delay),
        default: "0",
        group: Locks,
        applies: Applies::Only {
            given: |b| !b.settings.takeover_delay.is_zero(),
            servers: REAL_LOCKS,
            unless: &[],
        },
        about: "How long nobody else gets a lock after its holder could last rely on it, unless the \
                holder unlocked it.",
    },
    LockerOption {
        name: "label",
        value: Value::Text("TEXT", "at most 128 bytes", |builder, text| Ok(builder.label(text))),
        default: "HOST:PID",
        group: Locks,
        applies: Applies::Only {
            given: |b| b.settings.label.is_some(),
            servers: LOCKS,
            unless: &[],
        },
        about: "Who this program is, for people who ask who holds a lock.",
    },
    LockerOption {
        name: "layout",
        value: Value::Word(&[
            ("redisson", |builder| builder.layout(Layout::Redisson)),
            ("redlock", |builder| builder.layout(Layout::Redlock)),
        ]),
        default: "redlock on a quorum, else redisson",
        group: Locks,
        applies: Applies::Only {
            given: |b| b.settings.layout.is_some(),
            servers: LOCKS,
            unless: &[],
        },
        about: "How locks are stored: redisson, a hash with a hold count, as Redisson's RLock; \
                redlock, a string, as redsync, node-redlock, rslock and redis-py. All programs that \
                share a lock must agree.",
    },
    LockerOption {
        name: "fencing",
        value: Value::Flag(Builder::fencing),
        default: "true",
        group: Locks,
        applies: Applies::Only { given: |b| !b.settings.fencing, servers: LOCKS, unless: &[] },
        about: "Grants carry fencing tokens. All programs that share a lock must agree.",
    },
    LockerOption {
        name: "redisson_fenced",
        value: Value::Flag(Builder::redisson_fenced),
        default: "false",
        group: Locks,
        applies: Applies::Only {
            given: |b| b.settings.redisson_fenced,
            servers: SINGLE,
            unless: &[
                ("Redlock's layout", |b, _| b.settings.layout == Some(Layout::Redlock)),
                ("a locker without fencing", |b, _| !b.settings.fencing),
            ],
        },
        about: "Count fencing tokens in the key of Redisson's RFencedLock, so that Java programs and \
                this one share one order of tokens. All programs that share a lock should agree.",
    },
    LockerOption {
        name: "strict_order",
        value: Value::Flag(Builder::strict_order),
        default: "false",
        group: Locks,
        applies: Applies::Only { given: |b| b.settings.strict_order, servers: ONE, unless: &[] },
        about: "A free lock with waiters goes to the first of them only. All programs that share a \
                lock must agree.",
    },
    LockerOption {
        name: "replicas",
        value: Value::Text("N", "0 to the number of replicas, or all", |builder, text| {
            Ok(match text {
                "all" => builder.replicas(Replicas::All),
                _ => builder.replicas(Replicas::AtLeast(number(text)?)),
            })
        }),
        default: "0",
        group: Locks,
        applies: Applies::Only {
            given: |b| b.settings.replicas > 0 || b.settings.all_replicas,
            servers: ONE,
            unless: &[],
        },
        about: "How many replicas of a master must have a grant or a renewal before it counts \
                (WAIT); all: those that the master has.",
    },
    LockerOption {
        name: "durable",
        value: Value::Flag(Builder::durable),
        default: "false",
        group: Locks,
        applies: Applies::Only { given: |b| b.settings.durable, servers: ONE, unless: &[] },
        about: "A grant or a renewal counts only once it is on the disk of the master (WAITAOF).",
    },
    LockerOption {
        name: "replica_timeout",
        value: Value::Time(bounds::REPLICA_TIMEOUT, Builder::replica_timeout),
        default: "a quarter of answer_timeout; with durable all of it",
        group: Locks,
        applies: Applies::Only {
            given: |b| b.settings.replica_timeout.is_some(),
            servers: ONE,
            unless: &[("a locker without replicas", |b, _| !b.settings.awaits_copies())],
        },
        about: "How long replicas and disks may take to have a grant.",
    },
    LockerOption {
        name: "scripts_only",
        value: Value::Flag(Builder::scripts_only),
        default: "false",
        group: Locks,
        applies: Applies::Only { given: |b| b.settings.scripts_only, servers: LOCKS, unless: &[] },
        about: "Take every lock by script, never by a transaction of plain commands.",
    },
    LockerOption {
        name: "names_in_spans",
        value: Value::Flag(Builder::names_in_spans),
        default: "true",
        group: Locks,
        applies: Applies::Only {
            given: |b| !b.settings.names_in_spans,
            servers: LOCKS,
            unless: &[],
        },
        about: "The spans of tracing have the names of locks.",
    },
];

const OTHER_CREDENTIALS: &str = "a locker with credentials from elsewhere";
const PLAIN_URLS: &str = "servers without rediss://";

fn number<T: std::str::FromStr<Err: ToString>>(text: &str) -> Result<T, String> {
    text.parse().map_err(|error: T::Err| format!("no number: {}", error.to_string()))
}
