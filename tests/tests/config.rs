//! Wrong calls and wrong settings are typed errors that say what to mend; none is waited for.

use std::time::Duration;

use quorumlock::{Admission, Builder, ConfigError, Error, Locker, Owner};
use quorumlock_lab::servers::{self, ServerOptions};
use quorumlock_tests::within;

/// No server is ever asked: nobody listens here.
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
    let error = within("an answer", locker.lock("x")).await.expect_err("nobody there");
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

/// Two addresses of one server show only when it is asked who it is.
/// SAFETY.md A6, H19.
#[tokio::test]
async fn one_server_at_two_addresses_is_refused_at_the_first_lock() {
    let Some(servers) = servers::for_test(2, &ServerOptions::default()) else { return };
    let url = servers[0].url().to_owned();
    let again = url.replace("127.0.0.1", "localhost");
    for urls in [vec![url.clone(), again.clone()], vec![url, again, servers[1].url().to_owned()]] {
        // Not strict, since new nodes would give another reason.
        let builder = Locker::builder().admission(Admission::Redlock);
        let locker = builder.quorum(&urls).expect("good URLs");
        let error = within("an answer", locker.lock("x")).await.expect_err("one server, two votes");
        let Error::Config(ConfigError::SameServer { a, b }) = &error else { panic!("{error:?}") };
        let mut named = [a.clone(), b.clone()];
        named.sort();
        assert_eq!(named, [urls[0].clone(), urls[1].clone()], "{error}");
    }
}

/// One setting of a builder.
type Setting = fn(Builder, Duration) -> Builder;

#[test]
fn absurd_durations_are_refused_and_named() {
    let settings: [(&str, Setting); 5] = [
        ("lease", Builder::lease),
        ("max_lease", Builder::max_lease),
        ("answer_timeout", Builder::answer_timeout),
        ("connect_timeout", Builder::connect_timeout),
        ("fence_ttl", Builder::fence_ttl),
    ];
    for (setting, set) in settings {
        for value in [Duration::ZERO, Duration::MAX] {
            let error = refused(set(Locker::builder(), value).single(NOWHERE));
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
    let builder = || Locker::builder().max_lease(minute);
    let error = refused(builder().lease(minute * 2).single(NOWHERE));
    assert!(matches!(error, ConfigError::BadDuration { what: "lease", .. }), "{error:?}");
    builder().lease(minute).single(NOWHERE).expect("just right");
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
        ] {
            let Err(Error::Config(error)) = answer else { panic!("{what} {absurd:?}: {answer:?}") };
            let ConfigError::BadDuration { what: named, value, .. } = error else {
                panic!("{error:?}")
            };
            assert_eq!((named, value), (what, absurd));
        }
    }
}

/// Who waits for replicas that do not exist would be granted nothing, ever.
#[test]
fn more_replicas_than_there_are_is_refused() {
    let builder = |replicas| Locker::builder().replicas(replicas);
    let pair = [NOWHERE, "redis://127.0.0.1:2"];
    let refusals = [
        (builder(1).quorum(pair), 1, 0),
        (builder(1).admission(Admission::Redlock).quorum(pair), 1, 0),
        (builder(2).replicated(pair), 2, 1),
        (builder(250).single(NOWHERE), 250, 32),
    ];
    for (answer, wanted, bound) in refusals {
        let error = refused(answer);
        let ConfigError::TooManyReplicas { asked, most } = error else { panic!("{error:?}") };
        assert_eq!((asked, most), (wanted, bound));
        let named = [wanted, bound].iter().all(|n| error.to_string().contains(&n.to_string()));
        assert!(named, "{error}");
    }
    builder(1).replicated(pair).expect("just right");
    builder(1).single(NOWHERE).expect("there may be more behind one address");
}

#[test]
fn replicas_have_no_longer_than_an_answer_may_take() {
    let second = Duration::from_secs(1);
    let builder = |t| Locker::builder().answer_timeout(second).replicas(1).replica_timeout(t);
    for timeout in [Duration::ZERO, second * 2] {
        let error = refused(builder(timeout).single(NOWHERE));
        assert!(
            matches!(error, ConfigError::BadDuration { what: "replica_timeout", value, .. } if value == timeout),
            "{error:?}"
        );
    }
    builder(second).single(NOWHERE).expect("just right");
}

#[test]
fn a_replicated_locker_needs_addresses_that_differ() {
    let none: [&str; 0] = [];
    assert!(matches!(refused(Locker::replicated(none)), ConfigError::NoNodes));
    let twice = refused(Locker::replicated([NOWHERE, NOWHERE]));
    assert!(matches!(twice, ConfigError::SameServer { .. }), "{twice:?}");
}

#[test]
fn an_allowance_for_drift_that_is_none_is_refused() {
    for rho in [-0.1, 1.0, f64::NAN, f64::INFINITY] {
        let error = refused(Locker::builder().rho(rho).single(NOWHERE));
        assert!(matches!(error, ConfigError::BadRho { .. }), "{error:?}");
    }
    Locker::builder().rho(0.0833).single(NOWHERE).expect("chrony's");
}

#[test]
fn a_client_name_that_redis_would_refuse_is_refused() {
    for name in ["two words", "a\nline"] {
        let error = refused(Locker::builder().client_name(name).single(NOWHERE));
        assert!(matches!(error, ConfigError::BadClientName(_)), "{error:?}");
    }
}

#[test]
fn certificates_that_are_none_are_refused() {
    let secure = "rediss://127.0.0.1:1";
    let error = refused(Locker::builder().tls_ca("no certificate").single(secure));
    assert!(matches!(error, ConfigError::BadCertificate(_)), "{error:?}");
}

/// Whatever is asked about a name, it must be one.
#[tokio::test]
async fn names_that_are_none_are_refused() {
    let locker = Locker::single(NOWHERE).expect("a good URL");
    let owner = Owner::new();
    for (name, empty) in [(String::new(), true), ("x".repeat(1025), false)] {
        let answers = [
            locker.lock(&name).await.map(drop),
            locker.try_lock(&name).await.map(drop),
            locker.run(&name, async |_| ()).await,
            locker.holder(&name).await.map(drop),
            locker.is_locked(&name).await.map(drop),
            locker.is_held_by(&name, &owner).await.map(drop),
            locker.force_unlock(&name).await.map(drop),
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
