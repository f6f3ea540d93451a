//! Wrong calls and wrong settings are typed errors that say what to correct. They come at once,
//! even from a call that waits.

use std::time::Duration;

use quorumlock::admission::{MemberChange, Until};
use quorumlock::{
    Admission, Builder, ConfigError, Error, Layout, Locker, NodeProblem, NodeReport, Owner,
    Replicas, Servers,
};
use quorumlock_testbed::proxy::Proxy;
use quorumlock_testbed::servers::{self, ServerOptions};
use quorumlock_tests::{eventually, within};

/// No server listens at this address, so these tests never reach one.
const NOWHERE: &str = "redis://127.0.0.1:1";

fn refused(built: Result<Locker, Error>) -> ConfigError {
    match built {
        Err(Error::Config(error)) => error,
        other => panic!("{other:?}"),
    }
}

#[test]
fn bad_urls_are_refused_and_named() {
    let bad =
        ["", "nonsense", "http://localhost", "redis://", "redis://host:99999", "redis://h/db"];
    for url in bad {
        for built in [Locker::single(url), Locker::quorum([NOWHERE, url])] {
            let error = refused(built);
            let ConfigError::BadUrl { url: named, why } = &error else { panic!("{error:?}") };
            assert_eq!(named, url);
            assert!(!why.is_empty());
        }
    }
}

#[test]
fn no_error_ever_shows_a_password() {
    for url in ["redis://me:secret@host:99999", "redis://:secret@", "http://me:secret@host"] {
        let error = Locker::single(url).expect_err("a bad URL");
        assert!(!format!("{error} {error:?}").contains("secret"), "{error:?}");
    }
    let locker = Locker::single("redis://me:secret@127.0.0.1:1").expect("a good URL");
    assert!(!format!("{locker:?}").contains("secret"));
}

#[tokio::test]
async fn a_node_that_cannot_be_reached_is_reported_without_its_password() {
    let locker = Locker::single("redis://me:secret@127.0.0.1:1").expect("a good URL");
    let error = within("an answer", locker.try_lock("x")).await.expect_err("nobody there");
    let Error::Unreachable(unreachable) = &error else { panic!("{error:?}") };
    assert_eq!(unreachable.nodes[0].node, NOWHERE);
    assert!(!format!("{error} {error:?}").contains("secret"), "{error:?}");
}

#[test]
fn an_empty_list_of_nodes_is_refused() {
    let error = refused(Locker::quorum(Vec::<String>::new()));
    assert!(matches!(error, ConfigError::NoNodes), "{error:?}");
}

#[test]
fn the_same_address_twice_is_refused_and_both_are_named() {
    for again in [NOWHERE, "redis://user:password@127.0.0.1:1", "redis://127.0.0.1:1/0"] {
        let error = refused(Locker::quorum([NOWHERE, "redis://127.0.0.1:2", again]));
        let ConfigError::SameServer { a, b } = &error else { panic!("{error:?}") };
        assert_eq!((a.as_str(), b.as_str()), (NOWHERE, NOWHERE));
    }
    let error = refused(Locker::quorum(["redis://127.0.0.1", "redis://127.0.0.1:6379"]));
    assert!(matches!(error, ConfigError::SameServer { .. }), "the port is the default: {error:?}");
}

/// Two addresses of one server can be detected only by the server's own run id. SAFETY.md A6, H19.
#[tokio::test]
async fn one_server_at_two_addresses_has_one_vote() {
    let Some(servers) = servers::for_test(2, &ServerOptions::default()) else { return };
    let url = servers[0].url().to_owned();
    let again = url.replace("127.0.0.1", "localhost");
    // Not strict: nodes that are not admitted would give another error.
    let redlock = || Builder::without_servers().admission(Admission::Redlock);
    let urls = [url, again];
    let locker = redlock().on(Servers::quorum(&urls)).expect("good URLs");
    let error = within("an answer", locker.try_lock("x")).await.expect_err("one server, two votes");
    let Error::Refused(none) = &error else { panic!("{error:?}") };
    let [NodeReport { node, problem: NodeProblem::SameServer(other), .. }] = &none.nodes[..] else {
        panic!("{error:?}")
    };
    let mut named = [node.clone(), other.clone()];
    named.sort();
    assert_eq!(named, urls, "{error}");

    // With a second server there are two votes of three.
    let urls = [&urls[0], &urls[1], servers[1].url()];
    let locker = redlock().on(Servers::quorum(urls)).expect("good URLs");
    let guard = within("an answer", locker.lock("x")).await.expect("two of three");
    servers[1].kill().expect("ours");
    let asked = within("an answer", locker.try_lock("y")).await;
    asked.expect_err("one server, one vote");
    drop(guard);
}

/// Addresses lead to one server for a while, or are swapped: votes are missing, and come back.
#[tokio::test]
async fn two_addresses_of_one_server_heal_by_themselves() {
    let Some(servers) = servers::for_test(3, &ServerOptions::default()) else { return };
    let ways = [0, 1].map(|node| Proxy::to(servers[node].addr().expect("ours")));
    let urls = [ways[0].url(), ways[1].url(), servers[2].url().to_owned()];
    let builder = Builder::without_servers().admission(Admission::Redlock);
    let locker = builder.on(Servers::quorum(urls)).expect("good URLs");
    drop(within("free", locker.lock("x")).await.expect("free"));

    ways[1].lead_to(servers[0].addr().expect("ours"));
    for _ in 0..20 {
        // Two of three nodes grant at once, or after the connections are dialled anew. The error is
        // never a `Config` error.
        match within("an answer", locker.try_lock("x")).await {
            Ok(guard) => drop(guard),
            Err(Error::Refused(_) | Error::Unreachable(_)) => {}
            Err(error) => panic!("{error:?}"),
        }
    }
    servers[2].pause().expect("ours");
    eventually("one server has one vote", async || match locker.try_lock("y").await {
        Err(Error::Refused(none) | Error::Unreachable(none)) => {
            let is_same = |node: &NodeReport| matches!(node.problem, NodeProblem::SameServer(_));
            none.nodes.iter().any(is_same).then_some(())
        }
        other => panic!("{other:?}"),
    })
    .await;
    // The addresses are swapped.
    ways[0].lead_to(servers[1].addr().expect("ours"));
    ways[1].lead_to(servers[0].addr().expect("ours"));
    drop(eventually("both vote", async || locker.try_lock("z").await.ok().flatten()).await);
    servers[2].resume().expect("ours");
}

/// One setting of a builder.
type Setting = fn(Builder, Duration) -> Builder;

#[test]
fn absurd_durations_are_refused_and_named() {
    let settings: [(&str, Setting); 4] = [
        ("lease", Builder::lease),
        ("max_lease", Builder::max_lease),
        ("answer_timeout", Builder::answer_timeout),
        ("connect_timeout", Builder::connect_timeout),
    ];
    for (setting, set) in settings {
        for value in [Duration::ZERO, Duration::MAX] {
            let error =
                refused(set(Builder::without_servers(), value).on(Servers::single(NOWHERE)));
            let ConfigError::BadDuration { what, value: named, .. } = &error else {
                panic!("{error:?}")
            };
            assert_eq!((*what, *named), (setting, value));
            assert!(error.to_string().contains(setting), "{error}");
        }
    }
}

#[test]
fn a_lease_longer_than_the_longest_is_refused() {
    let minute = Duration::from_secs(60);
    let builder = || Builder::without_servers().max_lease(minute);
    let error = refused(builder().lease(minute * 2).on(Servers::single(NOWHERE)));
    assert!(matches!(error, ConfigError::BadDuration { what: "lease", .. }), "{error:?}");
    builder().lease(minute).on(Servers::single(NOWHERE)).expect("just right");
}

#[tokio::test]
async fn absurd_durations_of_one_call_are_refused() {
    let locker = Locker::single(NOWHERE).expect("a good URL");
    for absurd in [Duration::ZERO, Duration::MAX] {
        for (what, answer) in [
            ("lease", locker.lock("x").lease(absurd).await.map(Some)),
            ("lease", locker.try_lock("x").lease(absurd).await),
            ("hold_at_most", locker.lock("x").hold_at_most(absurd).await.map(Some)),
            ("hold_at_most", locker.try_lock("x").hold_at_most(absurd).await),
            ("hold_at_least", locker.try_lock("x").hold_at_least(absurd).await),
        ] {
            let Err(Error::Config(error)) = answer else { panic!("{what} {absurd:?}: {answer:?}") };
            let ConfigError::BadDuration { what: named, value, .. } = error else {
                panic!("{error:?}")
            };
            assert_eq!((named, value), (what, absurd));
        }
    }
    let (limit, longer) = (Duration::from_secs(1), Duration::from_secs(2));
    let kept = locker.lock("x").hold_at_most(limit).hold_at_least(longer).await;
    let Err(Error::Config(error)) = kept else { panic!("{kept:?}") };
    let text = error.to_string();
    assert!(text.contains("hold_at_least") && text.contains("hold_at_most"), "{text}");
}

#[tokio::test]
async fn a_bad_label_of_one_call_is_refused() {
    let locker = Locker::single(NOWHERE).expect("a good URL");
    for bad in ["two\nlines".to_owned(), "x".repeat(129)] {
        let refused = locker.lock("x").label(&bad).await;
        let Err(Error::Config(ConfigError::BadLabel { label, len, max: 128 })) = refused else {
            panic!("{refused:?}")
        };
        assert_eq!((&label, len), (&bad, bad.len()));
    }
}

/// A locker that waits for replicas that do not exist would never be granted anything.
#[test]
fn more_replicas_than_there_are_is_refused() {
    let builder = |replicas| Builder::without_servers().replicas(Replicas::AtLeast(replicas));
    let pair = [NOWHERE, "redis://127.0.0.1:2"];
    let refusals = [
        (builder(2).on(Servers::replicated(pair)), 2, 1),
        (builder(250).on(Servers::single(NOWHERE)), 250, 32),
    ];
    for (answer, wanted, bound) in refusals {
        let error = refused(answer);
        let ConfigError::TooManyReplicas { asked, max } = error else { panic!("{error:?}") };
        assert_eq!((asked, max), (wanted, bound));
        let named = [wanted, bound].iter().all(|n| error.to_string().contains(&n.to_string()));
        assert!(named, "{error}");
    }
    refuses("replicas", builder(1).on(Servers::quorum(pair)));
    builder(1).on(Servers::replicated(pair)).expect("just right");
    builder(1).on(Servers::single(NOWHERE)).expect("there may be more behind one address");
}

#[test]
fn replicas_have_no_longer_than_an_answer_may_take() {
    let second = Duration::from_secs(1);
    let builder = |t| {
        Builder::without_servers()
            .answer_timeout(second)
            .replicas(Replicas::AtLeast(1))
            .replica_timeout(t)
    };
    for timeout in [Duration::ZERO, second * 2] {
        let error = refused(builder(timeout).on(Servers::single(NOWHERE)));
        assert!(
            matches!(error, ConfigError::BadDuration { what: "replica_timeout", value, .. } if value == timeout),
            "{error:?}"
        );
    }
    builder(second).on(Servers::single(NOWHERE)).expect("just right");
}

#[test]
fn a_replicated_locker_needs_addresses_that_differ() {
    let none: [&str; 0] = [];
    assert!(matches!(refused(Locker::new(Servers::replicated(none))), ConfigError::NoNodes));
    let twice = refused(Locker::new(Servers::replicated([NOWHERE, NOWHERE])));
    assert!(matches!(twice, ConfigError::SameServer { .. }), "{twice:?}");
}

#[test]
fn an_allowance_for_drift_that_is_none_is_refused() {
    for max_clock_drift in [-0.1, 1.0, f64::NAN, f64::INFINITY] {
        let error = refused(
            Builder::without_servers()
                .max_clock_drift(max_clock_drift)
                .on(Servers::single(NOWHERE)),
        );
        assert!(matches!(error, ConfigError::BadClockDrift { .. }), "{error:?}");
    }
    Builder::without_servers()
        .max_clock_drift(0.0833)
        .on(Servers::single(NOWHERE))
        .expect("chrony's");
}

#[test]
fn a_client_name_that_redis_would_refuse_is_refused() {
    for name in ["two words", "a\nline"] {
        let error =
            refused(Builder::without_servers().client_name(name).on(Servers::single(NOWHERE)));
        assert!(matches!(error, ConfigError::BadClientName(_)), "{error:?}");
    }
}

#[test]
fn certificates_that_are_none_are_refused() {
    let secure = "rediss://127.0.0.1:1";
    let error =
        refused(Builder::without_servers().tls_ca("no certificate").on(Servers::single(secure)));
    assert!(matches!(error, ConfigError::BadCertificate(_)), "{error:?}");
}

/// Every call checks that its name is valid.
#[tokio::test]
async fn names_that_are_none_are_refused() {
    let locker = Locker::single(NOWHERE).expect("a good URL");
    let owner = Owner::new();
    for (name, empty) in [(String::new(), true), ("x".repeat(1025), false)] {
        let answers = [
            locker.lock(&name).await.map(drop),
            locker.try_lock(&name).await.map(drop),
            locker.run(&name, async |_| ()).await,
            locker.mutex(&name).holder().await.map(drop),
            locker.mutex(&name).is_locked().await.map(drop),
            locker.mutex(&name).is_held_by(&owner).await.map(drop),
            locker.mutex(&name).force_unlock().await.map(drop),
        ];
        for answer in answers {
            match answer {
                Err(Error::Config(ConfigError::EmptyName)) if empty => {}
                Err(Error::Config(ConfigError::NameTooLong { len: 1025, max: 1024 })) if !empty => {
                }
                other => panic!("{other:?}"),
            }
        }
    }
}

/// Every option of a builder in every mode, alone: it applies, or it is refused and named. "Does
/// not apply" is an error also for a value that equals the default.
#[test]
fn options_that_do_not_apply_are_refused_and_named() {
    const ALL: [bool; 3] = [true, true, true];
    const ONE_NODE: [bool; 3] = [true, true, false];
    const QUORUM: [bool; 3] = [false, false, true];
    type Set = fn(Builder) -> Builder;
    // Whether it applies to: a single server, a master with replicas, a quorum.
    let options: [(&str, Set, [bool; 3]); 22] = [
        ("prefix", |b| b.prefix("app:"), ALL),
        ("layout", |b| b.layout(Layout::Redlock), ALL),
        ("lease", |b| b.lease(SECOND), ALL),
        ("max_lease", |b| b.max_lease(SECOND * 60), ALL),
        ("max_clock_drift", |b| b.max_clock_drift(0.01), ALL),
        ("answer_timeout", |b| b.answer_timeout(SECOND), ALL),
        ("connect_timeout", |b| b.connect_timeout(SECOND), ALL),
        ("scripts_only", |b| b.scripts_only(true), ALL),
        ("fencing", |b| b.fencing(false), ALL),
        ("client_name", |b| b.client_name("me"), ALL),
        ("replicas", |b| b.replicas(Replicas::AtLeast(1)), ONE_NODE),
        (
            "replica_timeout",
            |b| b.replicas(Replicas::AtLeast(1)).replica_timeout(SECOND / 9),
            ONE_NODE,
        ),
        ("redisson_fenced", |b| b.redisson_fenced(true), [true, false, false]),
        ("strict_order", |b| b.strict_order(true), ONE_NODE),
        ("takeover_delay", |b| b.takeover_delay(SECOND), ALL),
        ("admission", |b| b.admission(Admission::Strict), ALL),
        ("admission", |b| b.admission(Admission::Redlock), QUORUM),
        ("clock_bound", |b| b.clock_bound(SECOND), QUORUM),
        ("tolerate_lost_marks", |b| b.tolerate_lost_marks(0), QUORUM),
        // Not with plain URLs: see below.
        ("tls_ca", |b| b.tls_ca("PEM"), [false; 3]),
        ("tls_cert", |b| b.tls_client("PEM", "PEM"), [false; 3]),
        ("tls_server_name", |b| b.tls_server_name("host"), [false; 3]),
    ];
    let three = [NOWHERE, "redis://127.0.0.1:2", "redis://127.0.0.1:3"];
    for (name, set, applies) in options {
        let builder = || set(Builder::without_servers());
        let built = [
            builder().on(Servers::single(NOWHERE)),
            builder().on(Servers::replicated(three)),
            builder().on(Servers::quorum(three)),
        ];
        for (mode, (built, applies)) in built.into_iter().zip(applies).enumerate() {
            if applies {
                built.unwrap_or_else(|error| panic!("{name} in mode {mode}: {error}"));
            } else {
                refuses(name, built);
            }
        }
    }
}

const SECOND: Duration = Duration::from_secs(1);

#[track_caller]
fn refuses(name: &str, built: Result<Locker, Error>) {
    let error = refused(built);
    let named = match error {
        // A time for replicas needs some.
        ConfigError::DoesNotApply { option: "replicas", .. } => name.starts_with("replica"),
        ConfigError::DoesNotApply { option, .. } => option == name,
        _ => false,
    };
    assert!(named, "{name}: {error:?}");
}

/// Options that exclude each other.
#[test]
fn options_that_do_not_apply_beside_others_are_refused_and_named() {
    let builder = Builder::without_servers;
    let pair = [NOWHERE, "redis://127.0.0.1:2"];
    let redlock = || builder().admission(Admission::Redlock);
    let fenced = || builder().redisson_fenced(true);
    refuses("clock_bound", redlock().clock_bound(SECOND).on(Servers::quorum(pair)));
    refuses("replica_timeout", builder().replica_timeout(SECOND / 9).on(Servers::single(NOWHERE)));
    refuses("replica_timeout", builder().replica_timeout(SECOND / 9).on(Servers::quorum(pair)));
    let strict = || builder().admission(Admission::Strict);
    assert!(strict().clock_bound(SECOND).on(Servers::single(NOWHERE)).is_ok());
    refuses("tolerate_lost_marks", strict().tolerate_lost_marks(0).on(Servers::single(NOWHERE)));
    refuses("redisson_fenced", strict().redisson_fenced(true).on(Servers::single(NOWHERE)));
    refuses("admission", strict().on(Servers::cluster(pair)));
    refuses("redisson_fenced", fenced().layout(Layout::Redlock).on(Servers::single(NOWHERE)));
    refuses("redisson_fenced", fenced().fencing(false).on(Servers::single(NOWHERE)));
    let tokenless = builder().fencing(false).tolerate_lost_marks(1);
    refuses("tolerate_lost_marks", tokenless.on(Servers::quorum(pair)));
    // With rediss:// the certificates are read, and these are none.
    for built in [
        builder().tls_ca("PEM").on(Servers::single("rediss://127.0.0.1:1")),
        builder().tls_ca("PEM").on(Servers::quorum([NOWHERE, "rediss://127.0.0.1:2"])),
        builder().tls_server_name("no name").on(Servers::single("rediss://127.0.0.1:1")),
    ] {
        assert!(matches!(refused(built), ConfigError::BadCertificate(_)));
    }
    refuses("tls_cert", builder().tls_client("PEM", "PEM").on(Servers::replicated(pair)));
}

#[test]
fn a_prefix_with_which_no_name_can_begin_is_refused_and_named() {
    let long = "x".repeat(1024);
    let bad = ["", "quorumlock:", "quorumlock:app:", "redisson_lock_token:", &long];
    for prefix in bad {
        let build = || Builder::without_servers().prefix(prefix);
        for built in [build().on(Servers::single(NOWHERE)), build().on(Servers::quorum([NOWHERE]))]
        {
            let error = refused(built);
            let ConfigError::BadPrefix { prefix: named, why } = &error else { panic!("{error:?}") };
            assert_eq!(named, prefix);
            assert!(!why.is_empty() && error.to_string().contains("prefix"), "{error}");
        }
    }
    Builder::without_servers()
        .prefix(&long[1..])
        .on(Servers::single(NOWHERE))
        .expect("room for one letter");
}

/// The rules of names hold for the whole name.
#[tokio::test]
async fn a_prefix_and_a_name_together_follow_the_rules_of_names() {
    let locker =
        Builder::without_servers().prefix("quorum").on(Servers::single(NOWHERE)).expect("a prefix");
    let refused = locker.lock("lock:x").await.expect_err("reserved");
    let Error::Config(ConfigError::ReservedName { name, .. }) = &refused else {
        panic!("{refused:?}")
    };
    assert_eq!(name, "quorumlock:x");
    let long = locker.mutex("x".repeat(1019)).lock().await.expect_err("too long");
    assert!(matches!(long, Error::Config(ConfigError::NameTooLong { len: 1025, .. })), "{long:?}");
}

/// An operator who gives an option that a change would ignore hears of it.
#[test]
fn a_change_of_members_takes_what_it_needs_and_refuses_the_rest() {
    let three = ["redis://127.0.0.1:1", "redis://127.0.0.1:2", "redis://127.0.0.1:3"];
    let change = |builder: Builder| MemberChange::new(builder, three, Until::BothVote);
    let quorum = || Locker::builder(Servers::quorum(three));
    change(quorum().max_lease(SECOND).clock_bound(SECOND).client_name("op")).expect("it counts");
    for (option, builder) in [
        ("lease", quorum().lease(SECOND)),
        ("label", quorum().label("op")),
        ("layout", quorum().layout(Layout::Redlock)),
        ("fencing", quorum().fencing(false)),
        ("takeover_delay", quorum().takeover_delay(SECOND)),
        ("tls_ca", quorum().tls_ca("PEM")),
    ] {
        let Err(Error::Config(ConfigError::DoesNotApply { option: found, .. })) = change(builder)
        else {
            panic!("{option} is taken");
        };
        assert_eq!(found, option);
    }
    for builder in [
        quorum().admission(Admission::Redlock),
        Locker::builder(Servers::single(three[0])),
        Locker::builder(Servers::cluster(three)),
    ] {
        let refused = change(builder).expect_err("no list of a strict quorum");
        assert!(matches!(refused, Error::Config(ConfigError::NoAdmission)), "{refused}");
    }
}

#[test]
fn a_builder_without_an_environment_builds_nothing() {
    let error = refused(Builder::without_servers().build());
    assert!(error.to_string().contains("QUORUMLOCK_NODES"), "{error}");
}

#[test]
fn a_long_longest_lease_needs_no_other_option() {
    let day = Duration::from_secs(86_400);
    for days in [1, 5, 365] {
        Builder::without_servers()
            .max_lease(day * days)
            .on(Servers::single(NOWHERE))
            .expect("it is all that was set");
    }
}

/// A quorum cannot tolerate the loss of more marks than it has nodes to restore them from.
#[test]
fn more_lost_marks_than_nodes_are_refused() {
    let pair = [NOWHERE, "redis://127.0.0.1:2"];
    let builder = |losses| Builder::without_servers().tolerate_lost_marks(losses);
    let error = refused(builder(2).on(Servers::quorum(pair)));
    let ConfigError::TooManyLosses { losses, max } = error else { panic!("{error:?}") };
    assert_eq!((losses, max), (2, 1));
    assert!(error.to_string().contains("marks"), "{error}");
    builder(1).on(Servers::quorum(pair)).expect("just right");
}

/// tokio offers no way to ask what a runtime supports, and panics.
#[test]
fn a_runtime_without_timers_or_io_is_an_error_and_no_panic() {
    type Enable = fn(&mut tokio::runtime::Builder) -> &mut tokio::runtime::Builder;
    let lacking: [(&str, Enable); 3] = [
        ("both", |builder| builder),
        ("timers", |builder| builder.enable_io()),
        ("I/O", |builder| builder.enable_time()),
    ];
    for (lack, enable) in lacking {
        let runtime = enable(&mut tokio::runtime::Builder::new_current_thread()).build();
        let runtime = runtime.expect("a runtime");
        for build in [Locker::single(NOWHERE), Locker::quorum([NOWHERE, "redis://127.0.0.1:2"])] {
            let locker = build.expect("a good configuration");
            let answers = runtime.block_on(async {
                [
                    locker.lock("x").await.map(drop),
                    locker.try_lock("x").await.map(drop),
                    locker.mutex("x").holder().await.map(drop),
                    locker.mutex("x").force_unlock().await.map(drop),
                ]
            });
            for answer in answers {
                let no_runtime = matches!(answer, Err(Error::Config(ConfigError::NoRuntime)));
                assert!(no_runtime, "without {lack}: {answer:?}");
            }
            runtime.block_on(locker.close());
        }
    }
}
