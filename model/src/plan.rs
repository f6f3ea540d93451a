//! All searches, with what each must find.

use crate::admission::Quarantine;
use crate::lease::LeaseModel;
use crate::release::{ReleaseModel, Rule as Repeat};
use crate::search::{Outcome, Searched, search};
use crate::token::{Form, Loss, Rule, TokenModel, Windows};

/// One search.
pub struct Case {
    /// As in the table of model checks in docs/SAFETY.md.
    pub id: &'static str,
    /// What is searched.
    pub what: &'static str,
    /// What must come out.
    pub expected: Expected,
    /// The smallest plan that has it.
    pub size: Size,
    run: Box<Run>,
}

type Run = dyn Fn(usize, &mut dyn FnMut(usize)) -> Outcome;

/// What must come out of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected {
    /// Every rule holds in every state, and everything that should be seen was seen.
    Holds,
    /// The planted bug is found.
    Caught,
}

/// How long a plan takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Size {
    /// Seconds, in a test.
    Quick,
    /// Minutes.
    Full,
    /// Much longer, and gigabytes.
    Deep,
}

impl Case {
    /// Runs it. `progress` is told the number of states now and then.
    pub fn run(&self, threads: usize, progress: &mut dyn FnMut(usize)) -> Outcome {
        (self.run)(threads, progress)
    }

    /// Whether the outcome is the expected one.
    pub fn is_as_expected(&self, outcome: &Outcome) -> bool {
        match self.expected {
            Expected::Holds => outcome.broken.is_none() && outcome.unseen.is_empty(),
            Expected::Caught => outcome.broken.is_some(),
        }
    }
}

impl std::fmt::Debug for Case {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Case").field("id", &self.id).field("what", &self.what).finish()
    }
}

/// All searches up to a size.
pub fn plan(size: Size) -> Vec<Case> {
    let cases = [tokens(), orders(), planted_tokens(), repairs(), leases(), releases()];
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
            handing(Rule::Library)
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
        // SAFETY.md a1 (M2), a2 (M3), a3 (M4), a5 (M13).
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
            handing(Rule::HandsNextNumber)
        }),
    ]
}

fn repairs() -> Vec<Case> {
    use Expected::{Caught, Holds};
    use Size::{Deep, Full, Quick};
    let repaired = |form| move || library::<2>(Loss::Repaired(form)).up_to(3);
    let whole = move || repaired(Form::Naive)().up_to(1).in_full();
    let three = || library::<3>(Loss::Repaired(Form::Stamps)).up_to(3);
    vec![
        // SAFETY.md, Tokens: repair by copied marks, and what it is not.
        case("M8", "repair without a barrier", Caught, Quick, repaired(Form::Naive)),
        case("M8", "the same, leaving out nothing", Caught, Full, whole),
        case("M8d", "barrier: requests bound to stamps", Holds, Quick, move || {
            repaired(Form::Stamps)().up_to(2)
        }),
        case("M8d", "the same from uneven marks", Holds, Full, move || {
            repaired(Form::Stamps)().uneven(2)
        }),
        case("M12b", "the same, a mark moves for the refused", Holds, Full, move || {
            repaired(Form::Stamps)().nudged(1)
        }),
        case("M8d+", "the same, 3 acquisitions", Holds, Deep, three),
        case("M8e", "a raise bound when it is sent", Caught, Full, move || {
            repaired(Form::StampsWhenSent)().starting_at([1, 1, 0])
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

/// One node that hands the name over when it is released.
fn handing(rule: Rule) -> TokenModel<1, 4> {
    TokenModel::new(rule, Loss::Never).up_to(7).in_blocks(2).nudged(1).handing_over()
}

fn leases() -> Vec<Case> {
    use Expected::{Caught, Holds};
    use Quarantine::{GrantsOnly, None, SparesRecreation, Strict};
    use Size::{Deep, Full, Quick};
    let lease = |horizon, renewals, crashes, quarantine| {
        move || LeaseModel::<2>::frugal(horizon, renewals, crashes, quarantine)
    };
    let fixed = || LeaseModel::<2>::frugal(7, 2, 1, Strict).never_recreating();
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
        case("M11", "1 crash, re-creations count", Caught, Quick, lease(3, 2, 1, SparesRecreation)),
        case("M10", "1 crash, nothing counts, 1 renewal", Holds, Quick, lease(6, 1, 1, Strict)),
        case("M10", "no renewal, leaving out nothing", Holds, Full, whole),
        case("M10", "1 crash, nothing counts, 2 renewals", Holds, Full, lease(7, 2, 1, Strict)),
        case("M10", "the same, never re-creating", Holds, Full, fixed),
        case("M10", "1 crash, 3 clients, 1 renewal", Holds, Full, three),
        case("M10+", "1 crash, 3 clients, 2 renewals", Holds, Deep, deep),
        case("M10b", "2 crashes, 2 renewals", Holds, Full, lease(7, 2, 2, Strict)),
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
        planted("a restart is not looked for", Repeat::AnyLife),
        planted("one between the requests is", Repeat::SameLifeOnly),
        planted("the window is open when asked", Repeat::WindowWhenAsked),
        planted("the first is written in part", Repeat::PartlyWritten),
        planted("the repeat tells nobody", Repeat::SilentRepeat),
    ]
}

fn case<M: Searched>(
    id: &'static str,
    what: &'static str,
    expected: Expected,
    size: Size,
    model: impl Fn() -> M + 'static,
) -> Case {
    let run = move |threads, progress: &mut dyn FnMut(usize)| search(model(), threads, progress);
    Case { id, what, expected, size, run: Box::new(run) }
}
