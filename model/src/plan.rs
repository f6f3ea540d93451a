//! All searches, each with its expected result.

use crate::admission::Quarantine;
use crate::case::case;
use crate::claim::Claim;
use crate::handoff::{HandoffModel, Rule as Handoff};
use crate::handshake::{HandshakeModel, Rule as Handshake};
use crate::lease::{LeaseModel, Rule as Shares, TTL};
use crate::members::note::{NoteModel, Rule as Clocks};
use crate::members::{MembersModel, Rule as Members, Scenario};
use crate::memory::{MemoryModel, Rule as Memory};
use crate::promotion::{LEASE, PromotionModel, Rule as Promotion};
use crate::release::{ReleaseModel, Rule as Repeat};
use crate::rings::{Order, RingModel};
use crate::token::{Form, Loss, Rule, TokenModel, Windows};

pub use crate::case::{Case, Expected, Size};

/// All searches up to this size.
pub fn plan(size: Size) -> Vec<Case> {
    let cases = [
        tokens(),
        orders(),
        planted_tokens(),
        claims(),
        repairs(),
        leases(),
        shares(),
        delays(),
        rings(),
        releases(),
        members(),
        planted_members(),
        notes(),
        handshakes(),
        promotions(),
        handoffs_and_polls(),
        memories(),
    ];
    cases.into_iter().flatten().filter(|case| case.size <= size).collect()
}

fn tokens() -> Vec<Case> {
    use Expected::Holds;
    use Size::{Deep, Full, Quick};
    let two = || library::<2>(Loss::Never);
    let small = || library::<2>(Loss::Never).up_to(3);
    let three = || library::<3>(Loss::Never).up_to(3);
    let excluded3 = || library::<3>(Loss::Excluded).up_to(3);
    vec![
        case("M6", "library's round, 2 acquisitions", Holds, Quick, two),
        case("M6", "the same from uneven marks", Holds, Full, move || two().uneven(2)),
        case("M6", "the same, leaving out nothing", Holds, Full, move || two().up_to(2).in_full()),
        case("M6", "library's round, 3 acquisitions", Holds, Full, three),
        case("M6", "the same, larger tokens", Holds, Deep, move || three().up_to(5)),
        case("M12", "a mark moves for the refused, 2 acq.", Holds, Quick, move || {
            two().up_to(2).nudged(1)
        }),
        case("M12", "the same, twice, larger tokens", Holds, Full, move || two().nudged(2)),
        case("M12", "the same, 3 acquisitions", Holds, Deep, move || three().nudged(1)),
        case("M13", "a request is carried out twice, 2 acq.", Holds, Quick, move || {
            small().repeated(1)
        }),
        case("M13", "the same, larger tokens", Holds, Full, move || two().repeated(2)),
        case("M13", "the same, 3 acquisitions", Holds, Deep, move || three().repeated(1)),
        case("M7", "1 loss, that node never counts, 2 acq.", Holds, Quick, || {
            library::<2>(Loss::Excluded).up_to(3)
        }),
        case("M7", "1 loss, that node never counts, 3 acq.", Holds, Full, excluded3),
        case("M16", "1 loss of marks, all 3 must accept", Holds, Quick, || {
            library::<2>(Loss::Unguarded).up_to(3).tolerating(1)
        }),
        case("M16", "the same, 3 acquisitions", Holds, Full, || {
            library::<3>(Loss::Unguarded).up_to(3).tolerating(1)
        }),
        case("M17", "blocks of two tokens, 2 acq.", Holds, Quick, move || blocks(small)()),
        case("M17", "the same from uneven marks", Holds, Full, move || {
            blocks(small)().starting_at([2, 1, 0])
        }),
        case("M18", "1 node hands over, blocks of two, 4 acq.", Holds, Quick, || {
            handoffs(Rule::Library)
        }),
    ]
}

fn orders() -> Vec<Case> {
    use Expected::{Caught, Holds};
    use Size::{Full, Quick};
    use Windows::{HomeFirst, Right};
    let two = |rule| TokenModel::<3, 2>::new(rule, Loss::Never).up_to(3);
    let three = || library::<3>(Loss::Never).up_to(3);
    let first = move |rule| two(rule).starting_at([1, 1, 0]).with_windows(HomeFirst);
    vec![
        case("M15", "tokens follow each node's grants, 2 acq.", Holds, Quick, move || {
            two(Rule::Library).minding_grants()
        }),
        case("M15", "the same, 3 acquisitions", Holds, Full, move || three().minding_grants()),
        case("M15", "the same from uneven marks", Holds, Full, move || {
            two(Rule::Library).up_to(4).uneven(2).minding_grants()
        }),
        case("M3", "a raise without a look at the holder", Caught, Quick, move || {
            two(Rule::RaiseUnheld).minding_grants()
        }),
        case("M3b", "the same repeats no token, though", Holds, Full, move || {
            two(Rule::RaiseUnheld).up_to(4).uneven(2)
        }),
        case("M15b", "order of holds, windows right, 2 acq.", Holds, Quick, move || {
            two(Rule::Library).with_windows(Right)
        }),
        case("M15b", "the same from uneven marks", Holds, Full, move || {
            two(Rule::Library).up_to(4).uneven(2).with_windows(Right)
        }),
        case("M15b", "the same, 3 acquisitions", Holds, Full, move || three().with_windows(Right)),
        case("M2", "a node that refused us confirms", Caught, Quick, move || {
            two(Rule::DenierConfirms).with_windows(Right)
        }),
        case("M15c", "order of holds, one node asked first", Holds, Quick, move || {
            first(Rule::Library)
        }),
        case("M15c", "the same, 3 acquisitions", Holds, Full, move || {
            three().up_to(4).starting_at([1, 1, 0]).with_windows(HomeFirst)
        }),
        case("M15c", "a node counts beyond its window", Caught, Quick, move || {
            first(Rule::BeyondWindow)
        }),
    ]
}

fn planted_tokens() -> Vec<Case> {
    use Expected::Caught;
    use Size::{Full, Quick};
    let planted = |rule| move || TokenModel::<3, 2>::new(rule, Loss::Never);
    let unguarded = || library::<2>(Loss::Unguarded);
    vec![
        // PROTOCOL.md: T1 (M2), T2 (M3), T3 (M4), T4 (M2c), T5 (M13), T6 (M15c), T7 (M17), MARK2
        // (M16).
        case(
            "M2b",
            "a node that holds us no more confirms",
            Caught,
            Quick,
            planted(Rule::GoneConfirms),
        ),
        case(
            "M2c",
            "a grant without acceptance confirms",
            Caught,
            Quick,
            planted(Rule::GrantConfirms),
        ),
        case("M2d", "acceptance of an older token confirms", Caught, Quick, move || {
            planted(Rule::OlderConfirms)().up_to(3).starting_at([1, 2, 0])
        }),
        case(
            "M13",
            "what equals the mark is accepted",
            Caught,
            Quick,
            planted(Rule::EqualAccepted),
        ),
        case("M4", "1 mark lost, nobody notices", Caught, Quick, unguarded),
        case("M4", "the same, leaving out nothing", Caught, Full, move || {
            unguarded().up_to(2).in_full()
        }),
        case("M17", "proposals that are not rounded", Caught, Quick, || {
            blocks(|| TokenModel::<3, 2>::new(Rule::Unrounded, Loss::Never))()
        }),
        case("M18", "1 node hands over the next number", Caught, Quick, || {
            handoffs(Rule::HandsNextNumber)
        }),
    ]
}

/// Tokens of claims of several kinds.
fn claims() -> Vec<Case> {
    use Claim as C;
    use Size::{Full, Quick};
    let two = |what, claims| case("M23", what, Expected::Holds, Quick, pair(Rule::Library, claims));
    let three = |what, claims| {
        let model = move || library::<3>(Loss::Never).up_to(3).claiming(claims);
        case("M23", what, Expected::Holds, Full, model)
    };
    let planted =
        |what, rule, claims| case("M23", what, Expected::Caught, Quick, pair(rule, claims));
    let unguarded = || library::<2>(Loss::Unguarded).claiming([C::READ; 2]);
    vec![
        two("two readers", [C::READ; 2]),
        two("both names, one of them", [C::ALL, C::ONE]),
        two("two slots that share a mark", [C::ONE, C::SLOT]),
        three("a writer, two readers", [C::ONE, C::READ, C::READ]),
        three("two writers, a reader", [C::ONE, C::ONE, C::READ]),
        three("both names, each of them", [C::ALL, C::ONE, C::OTHER]),
        planted("accepted without the hold", Rule::RaiseUnheld, [C::ONE, C::READ]),
        planted("equal tokens accepted", Rule::EqualAccepted, [C::READ; 2]),
        case("M23", "1 mark lost, nobody notices", Expected::Caught, Quick, unguarded),
        planted("accepted by one of two marks", Rule::OneMarkConfirms, [C::ONE, C::ALL]),
        planted("raised while held in part", Rule::RaisePartlyHeld, [C::ALL, C::ONE]),
    ]
}

/// Two acquisitions of these claims. The order of grants at each node is checked.
fn pair(rule: Rule, claims: [Claim; 2]) -> impl Fn() -> TokenModel<3, 2> {
    move || {
        let model = TokenModel::<3, 2>::new(rule, Loss::Never).up_to(3);
        model.claiming(claims).minding_grants()
    }
}

fn repairs() -> Vec<Case> {
    use Expected::{Caught, Holds};
    use Size::{Deep, Full, Quick};
    let repaired = |form| move || library::<2>(Loss::Repaired(form)).up_to(3);
    let whole = move || repaired(Form::Naive)().up_to(1).in_full();
    let three = || library::<3>(Loss::Repaired(Form::Incarnations)).up_to(3);
    vec![
        // SAFETY.md, Tokens: repair by copied marks, and its planted bugs.
        case("M8", "repair without a barrier", Caught, Quick, repaired(Form::Naive)),
        case("M8", "the same, leaving out nothing", Caught, Full, whole),
        case("M8d", "barrier: requests bound to stamps", Holds, Quick, move || {
            repaired(Form::Incarnations)().up_to(2)
        }),
        case("M8d", "the same from uneven marks", Holds, Full, move || {
            repaired(Form::Incarnations)().uneven(2)
        }),
        case("M12b", "the same, a mark moves for the refused", Holds, Full, move || {
            repaired(Form::Incarnations)().nudged(1)
        }),
        case("M8d+", "the same, 3 acquisitions", Holds, Deep, three),
        case("M8e", "a raise bound when it is sent", Caught, Full, move || {
            repaired(Form::IncarnationsWhenSent)().starting_at([1, 1, 0])
        }),
        case("M8g", "marks copied from a minority", Caught, Quick, repaired(Form::Minority)),
    ]
}

/// The library's round on three nodes.
fn library<const K: usize>(loss: Loss) -> TokenModel<3, K> {
    TokenModel::new(Rule::Library, loss)
}

fn blocks(model: impl Fn() -> TokenModel<3, 2>) -> impl Fn() -> TokenModel<3, 2> {
    move || model().up_to(7).in_blocks(2)
}

/// One node whose releases hand the name to clients that wait.
fn handoffs(rule: Rule) -> TokenModel<1, 4> {
    TokenModel::new(rule, Loss::Never).up_to(7).in_blocks(2).nudged(1).with_handoff()
}

fn leases() -> Vec<Case> {
    use Expected::{Caught, Holds};
    use Quarantine::{GrantsOnly, None, SparesRegrant, Strict};
    use Size::{Deep, Full, Quick};
    let lease = |horizon, renewals, crashes, quarantine| {
        move || LeaseModel::<2>::frugal(horizon, renewals, crashes, quarantine)
    };
    let fixed = || LeaseModel::<2>::frugal(7, 2, 1, Strict).never_regranting();
    let whole = || LeaseModel::<2>::frugal(4, 0, 1, Strict).in_full();
    let deep = || LeaseModel::<3>::frugal(7, 2, 1, Strict);
    let three = || LeaseModel::<3>::frugal(7, 1, 1, Strict);
    vec![
        case("M0", "no crash, 1 renewal", Holds, Quick, lease(7, 1, 0, None)),
        case("M0", "no crash, 2 renewals", Holds, Full, lease(7, 2, 0, None)),
        case("L", "1 crash, plain Redlock", Caught, Quick, lease(7, 1, 1, None)),
        case(
            "M9",
            "1 crash, extensions count in quarantine",
            Caught,
            Quick,
            lease(3, 2, 1, GrantsOnly),
        ),
        case("M11", "1 crash, re-creations count", Caught, Quick, lease(3, 2, 1, SparesRegrant)),
        case("M10", "1 crash, nothing counts, 1 renewal", Holds, Quick, lease(6, 1, 1, Strict)),
        case("M10", "no renewal, leaving out nothing", Holds, Full, whole),
        case("M10", "1 crash, nothing counts, 2 renewals", Holds, Full, lease(7, 2, 1, Strict)),
        case("M10", "the same, never re-creating", Holds, Full, fixed),
        case("M10", "1 crash, 3 clients, 1 renewal", Holds, Full, three),
        case("M10+", "1 crash, 3 clients, 2 renewals", Holds, Deep, deep),
        case("M10b", "2 crashes, 2 renewals", Holds, Full, lease(7, 2, 2, Strict)),
    ]
}

/// Leases of claims of several kinds.
fn shares() -> Vec<Case> {
    use Expected::{Caught, Holds};
    use Quarantine::{None, Strict};
    use Size::{Full, Quick};
    let of = |claims: [Claim; 3], renewals, crashes, quarantine| {
        move || LeaseModel::<3>::frugal(6, renewals, crashes, quarantine).claiming(claims)
    };
    let readers = [Claim::ONE, Claim::READ, Claim::READ];
    let set = [Claim::ALL, Claim::ONE, Claim::OTHER];
    let slots = [Claim::ONE, Claim::ONE, Claim::SLOT];
    let uneven =
        move |rule| move || of(readers, 0, 0, None)().with_leases([TTL, TTL, TTL - 1]).by(rule);
    vec![
        case("M24", "a writer, two readers", Holds, Quick, of(readers, 0, 0, None)),
        case("M24", "the same, 1 renewal", Holds, Full, of(readers, 1, 0, None)),
        case("M24", "the same, 1 crash, nothing counts", Holds, Full, of(readers, 1, 1, Strict)),
        case("M24", "the same, leases that differ", Holds, Quick, uneven(Shares::Library)),
        case("M24", "both names, each of them", Holds, Quick, of(set, 0, 0, None)),
        case("M24", "the same, 1 crash, 1 renewal", Holds, Full, of(set, 1, 1, Strict)),
        case("M24", "three for two slots", Holds, Quick, of(slots, 0, 0, None)),
        case("M24", "a key has one end for all", Caught, Quick, uneven(Shares::ExpiryPerKey)),
        case("M24", "ended by the client's clock", Caught, Quick, uneven(Shares::PurgeByClient)),
        case("M24", "a node counts for any slot", Caught, Quick, move || {
            of(slots, 0, 0, None)().by(Shares::AnySlot)
        }),
    ]
}

/// Leases with a takeover delay.
fn delays() -> Vec<Case> {
    use Expected::{Caught, Holds};
    use Quarantine::{None, Strict};
    use Size::{Full, Quick};
    let of = |horizon, renewals, crashes, quarantine| {
        move || LeaseModel::<2>::frugal(horizon, renewals, crashes, quarantine).delaying(2)
    };
    let readers = || {
        let claims = [Claim::ONE, Claim::READ, Claim::READ];
        LeaseModel::<3>::frugal(6, 0, 1, Strict).claiming(claims).delaying(2)
    };
    let whole = || LeaseModel::<2>::frugal(4, 0, 1, Strict).in_full().delaying(1);
    let planted =
        |what, rule| case("M26", what, Caught, Quick, move || of(5, 0, 1, Strict)().by(rule));
    vec![
        case("M26", "takeover delay, 1 renewal", Holds, Quick, of(7, 1, 0, None)),
        case("M26", "the same, 1 crash, nothing counts", Holds, Full, of(8, 1, 1, Strict)),
        case("M26", "1 crash, no renewal", Holds, Quick, of(6, 0, 1, Strict)),
        case("M26", "the same, leaving out nothing", Holds, Full, whole),
        case("M26", "the same, a writer, two readers", Holds, Full, readers),
        planted("what is lost is released at once", Shares::ReleasesLost),
        planted("a quarantine without the delay", Shares::ShortQuarantine),
        planted("the holder counts on the delay", Shares::CountsDelay),
    ]
}

fn rings() -> Vec<Case> {
    let of = |what, expected, order| {
        case("M25", what, expected, Size::Quick, move || RingModel::new(order))
    };
    vec![
        of("sets in a ring, names in one order", Expected::Holds, Order::Sorted),
        of("names in the order given", Expected::Caught, Order::AsGiven),
    ]
}

fn releases() -> Vec<Case> {
    use Expected::{Caught, Holds};
    let planted =
        |what, rule| case("M14", what, Caught, Size::Quick, move || ReleaseModel::new(rule));
    vec![
        case("M14", "a release that is asked again", Holds, Size::Quick, || {
            ReleaseModel::new(Repeat::Library)
        }),
        planted("a restart is not looked for", Repeat::AnyRun),
        planted("one between the requests is", Repeat::SameRunOnly),
        planted("the window is open when asked", Repeat::WindowWhenAsked),
        planted("the first is written in part", Repeat::PartlyWritten),
        planted("the repeat tells nobody", Repeat::SilentRepeat),
    ]
}

/// Servers a to d; a is exchanged for d in two changes.
fn exchange(restarts: u8) -> Scenario<4> {
    Scenario::new(&["abc", "abcd", "bcd"]).along(&[0, 1, 2]).restarts(restarts)
}

/// Two lists that share two servers, and no operator.
fn two_lists(restarts: u8) -> Scenario<4> {
    Scenario::new(&["abc", "bcd"]).restarts(restarts)
}

/// Two lists that share one server.
fn one_shared(lists: &[&str], restarts: u8) -> impl Fn() -> MembersModel<5> + use<> {
    let scenario = Scenario::new(lists).restarts(restarts);
    move || MembersModel::new(scenario.clone())
}

fn of<const N: usize>(scenario: Scenario<N>) -> impl Fn() -> MembersModel<N> {
    move || MembersModel::new(scenario.clone())
}

fn members() -> Vec<Case> {
    use Expected::{Caught, Holds};
    use Size::{Deep, Full, Quick};
    let added = Scenario::<4>::new(&["abc", "abcd"]).along(&[0, 1]);
    let cloned = Scenario::<4>::new(&["abc"]).clones(1).restarts(2);
    vec![
        case("M19", "a server is added, 1 restart", Holds, Quick, of(added.restarts(1))),
        case("M19", "a server is exchanged, no restart", Holds, Quick, of(exchange(0))),
        case("M19", "the same, 3 restarts", Holds, Full, of(exchange(3))),
        case("M19", "the same, 5 restarts", Holds, Full, of(exchange(5))),
        case("M19", "the same, 2 restarts, once back", Holds, Full, of(exchange(2).and_back())),
        case("M19c", "votes are renewed, 1 restart", Holds, Full, of(exchange(1).renewing())),
        case("M19c", "the same, 2 restarts", Holds, Deep, of(exchange(2).renewing())),
        case("M19d", "a node is admitted late, 1 restart", Holds, Full, of(exchange(1).lately())),
        case("M19d", "the same, 2 restarts", Holds, Full, of(exchange(2).lately())),
        case("M19e", "2 restarts from old saves", Holds, Full, of(exchange(2).from_old_saves())),
        case("M19e", "a server is cloned, 2 restarts", Holds, Quick, of(cloned)),
        case("M20", "2 lists share 2 servers, 3 restarts", Holds, Quick, of(two_lists(3))),
        case("M20", "the same, renewed", Holds, Quick, of(two_lists(3).renewing())),
        case("M20", "the same, late", Holds, Full, of(two_lists(3).lately())),
        case("M20", "the same by 2 addresses, late", Holds, Full, {
            of(Scenario::<4>::new(&["abc", "BCd"]).restarts(3).lately())
        }),
        case("M20", "5 and 5 servers share 2, 1 restart", Holds, Full, || {
            MembersModel::new(Scenario::<8>::new(&["abcde", "abfgh"]).restarts(1))
        }),
        case("M20", "2 lists share 1 server", Holds, Quick, one_shared(&["abc", "ade"], 0)),
        case("M20", "the same, 2 addresses", Holds, Quick, one_shared(&["abc", "Ade"], 0)),
        case("M20b", "the only one restarts", Caught, Quick, one_shared(&["abc", "ade"], 1)),
    ]
}

fn planted_members() -> Vec<Case> {
    use Size::{Full, Quick};
    let planted = |what, size, scenario: Scenario<4>| {
        case("M19b", what, Expected::Caught, size, of(scenario))
    };
    let on = |restarts, rule| exchange(restarts).by(rule);
    let saved = |rule| on(2, rule).from_old_saves();
    let cloned = |rule| Scenario::new(&["abc"]).restarts(1).clones(1).by(rule);
    let late = |rule| on(2, rule).lately();
    let at_once = Scenario::new(&["abc", "bcd", "abcd"]).along(&[0, 1]).by(Members::Exchange);
    let alias = || Scenario::<5>::new(&["abc", "Ade"]).by(Members::AliasIsNone);
    vec![
        planted("notes are mature at once", Quick, on(1, Members::MatureAtOnce)),
        planted("a majority of notes founds", Quick, on(2, Members::MajorityFounds)),
        planted("records without lists", Quick, on(0, Members::NoLists)),
        planted("one server exchanged in one change", Quick, at_once),
        planted("the next phase at once", Quick, on(0, Members::NoWait)),
        planted("a majority confirms a phase", Quick, on(0, Members::MajorityConfirms)),
        planted("several phases at once", Full, on(2, Members::SeveralPhases)),
        planted("back in by any records", Full, on(3, Members::AnyRecords)),
        planted("founding with a list more", Full, on(4, Members::ChangeFounds)),
        planted("a record of another run", Quick, saved(Members::RecordOutlivesRun)),
        planted("a note of another run", Full, saved(Members::NoteOutlivesRun)),
        planted("a record without a label", Quick, cloned(Members::RecordWithoutLabel)),
        planted("a note without a label", Quick, cloned(Members::NoteWithoutLabel)),
        planted("admitted though the note is another", Full, late(Members::LateUnguarded)),
        planted("back in by another list's note", Full, late(Members::NotTakenOver)),
        planted("founding by any list's notes", Full, late(Members::AnyNoteFounds)),
        case("M20", "another address, as good as none", Expected::Caught, Quick, of(alias())),
    ]
}

fn notes() -> Vec<Case> {
    let of = |what, expected, rule| {
        case("M21", what, expected, Size::Quick, move || NoteModel::new(rule))
    };
    let planted = |what, rule| of(what, Expected::Caught, rule);
    vec![
        of("notes, and clocks that are set", Expected::Holds, Clocks::Library),
        planted("clocks not compared when it is written", Clocks::WrittenUnchecked),
        planted("clocks not compared when it is mature", Clocks::MaturedUnchecked),
        planted("mature after the longest lease", Clocks::LongestLeaseOnly),
        planted("mature one clock bound later", Clocks::BoundOnce),
    ]
}

fn handshakes() -> Vec<Case> {
    let of = |id, what, expected, model: fn() -> HandshakeModel| {
        case(id, what, expected, Size::Quick, model)
    };
    let planted = |what, model| of("M22", what, Expected::Caught, model);
    vec![
        of("M22", "handshakes at two servers", Expected::Holds, || {
            HandshakeModel::new(Handshake::Library)
        }),
        planted("nothing is revoked", || HandshakeModel::new(Handshake::Unrevoked)),
        planted("revoked one step before", || HandshakeModel::new(Handshake::RevokedBefore)),
        planted("a replica loads the scripts", || HandshakeModel::new(Handshake::LoadedOnReplica)),
        of("M22b", "a server follows its own replica", Expected::Caught, || {
            HandshakeModel::new(Handshake::Library).exchange()
        }),
        of("M22c", "each vote compares the run", Expected::Holds, || {
            HandshakeModel::new(Handshake::RunInVote).exchange()
        }),
    ]
}

fn promotions() -> Vec<Case> {
    use Expected::{Caught, Holds};
    let of = |what, expected, rule| {
        case("M27", what, expected, Size::Quick, move || PromotionModel::new(rule))
    };
    let none =
        Promotion { grants_await: false, renewals_await: false, watched: LEASE, lives_on: false };
    let all = Promotion { grants_await: true, renewals_await: true, lives_on: true, ..none };
    vec![
        of("the master dies, and its replica is watched", Holds, none),
        of("the old master lives on, all is acknowledged", Holds, all),
        of(
            "the only replica acknowledges all, and is not watched",
            Holds,
            Promotion { watched: 0, ..all },
        ),
        of("the promoted server votes at once", Caught, Promotion { watched: 0, ..none }),
        of("it is watched for too short", Caught, Promotion { watched: LEASE - 1, ..none }),
        of("the old master lives on", Caught, Promotion { lives_on: true, ..none }),
        of("its renewals await nothing", Caught, Promotion { renewals_await: false, ..all }),
    ]
}

/// A memory that goes back within one run.
fn memories() -> Vec<Case> {
    use Expected::{Caught, Holds};
    let of = |what, expected, rule| {
        case("M29", what, expected, Size::Quick, move || MemoryModel::new(rule))
    };
    vec![
        of("a memory goes back to what was superseded", Holds, Memory::Library),
        of("it is revoked without a comparison", Caught, Memory::RevokesUncompared),
        of("the last answer is the latest record", Caught, Memory::OrdersByAnswer),
        of("nothing is remembered", Caught, Memory::Forgets),
    ]
}

/// Handoffs to a waiter that polls.
fn handoffs_and_polls() -> Vec<Case> {
    use Expected::{Caught, Holds};
    use Size::{Full, Quick};
    let of = HandoffModel::new;
    let right = move || of(Handoff::Library);
    let planted = |what, rule| case("M28", what, Caught, Quick, move || of(rule));
    vec![
        case("M28", "handoffs to a waiter that polls", Holds, Quick, right),
        case("M28", "the same, one poll more", Holds, Full, move || right().longer()),
        case("M28", "the same, two breaks of each kind", Holds, Full, move || right().twice()),
        case("M28", "the same by a reader", Holds, Quick, move || right().reading()),
        planted("an earlier nonce is dropped", Handoff::DropsEarlier),
        planted("a poll without an answer is not named", Handoff::NamesAnsweredOnly),
        planted("the late message releases", Handoff::ReleasesTakenUp),
        planted("the lease counts from the poll", Handoff::CountsFromPoll),
        planted("a call that gives up releases one", Handoff::LeavesLastOnly),
        planted("the mark stays", Handoff::MarkStays),
        planted("what is released counts", Handoff::ReleasesUnanswered),
        planted("forgotten once subscribed again", Handoff::ForgetsOnceSubscribed),
        planted("forgotten before messages are read", Handoff::ForgetsUnread),
        case("M28", "a reader keeps another nonce", Caught, Quick, move || {
            of(Handoff::KeepsOthers).reading()
        }),
    ]
}
