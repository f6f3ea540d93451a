//! All searches, with what each must find.

use crate::admission::Quarantine;
use crate::lease::LeaseModel;
use crate::release::{ReleaseModel, Rule as Repeat};
use crate::search::{Outcome, Searched, search};
use crate::token::{Form, Loss, Rule, TokenModel};

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
    let cases = [tokens(), planted_tokens(), repairs(), leases(), releases()];
    cases.into_iter().flatten().filter(|case| case.size <= size).collect()
}

fn tokens() -> Vec<Case> {
    use Expected::Holds;
    use Size::{Deep, Full, Quick};
    let library = |loss| move || TokenModel::<2>::new(Rule::Library, loss);
    let library3 = |loss| move || TokenModel::<3>::new(Rule::Library, loss);
    let never = Loss::Never;
    let copy = || TokenModel::<3>::new(Rule::LargestHeld, Loss::Never);
    let small_copy = || TokenModel::<2>::new(Rule::LargestHeld, Loss::Never);
    vec![
        case("M6", "library's round, 2 acquisitions", Holds, Quick, library(never)),
        case("M6", "the same from uneven counters", Holds, Full, move || {
            library(never)().uneven(2)
        }),
        case("M6", "the same, leaving out nothing", Holds, Full, move || {
            library(never)().in_full()
        }),
        case("M6", "library's round, 3 acquisitions", Holds, Full, library3(never)),
        case("M1", "no equal-set rule, 2 acquisitions", Holds, Quick, small_copy),
        case("M1", "no equal-set rule, 3 acquisitions", Holds, Full, copy),
        case("M12", "a counter moves for the refused, 2 acq.", Holds, Quick, move || {
            library(never)().nudged(2)
        }),
        case("M12", "the same, leaving out nothing", Holds, Full, move || {
            library(never)().nudged(1).in_full()
        }),
        case("M12", "the same, 3 acquisitions", Holds, Deep, move || library3(never)().nudged(1)),
        case("M13", "a request is carried out twice, 2 acq.", Holds, Quick, move || {
            library(never)().repeated(2)
        }),
        case("M13", "the same, leaving out nothing", Holds, Full, move || {
            library(never)().repeated(1).in_full()
        }),
        case("M13", "the same, 3 acquisitions", Holds, Deep, move || library3(never)().repeated(1)),
        case("M7", "1 loss, that node never counts, 2 acq.", Holds, Quick, library(Loss::Excluded)),
        case("M7", "1 loss, that node never counts, 3 acq.", Holds, Full, library3(Loss::Excluded)),
    ]
}

fn planted_tokens() -> Vec<Case> {
    use Expected::Caught;
    use Size::{Full, Quick};
    let planted = |rule| move || TokenModel::<2>::new(rule, Loss::Never);
    let unguarded = || TokenModel::<2>::new(Rule::Library, Loss::Unguarded);
    let median = || TokenModel::<2>::new(Rule::MedianReply, Loss::Never).starting_at([1, 0, 0]);
    let median3 = || TokenModel::<3>::new(Rule::MedianReply, Loss::Never);
    vec![
        // Each of the page's short cuts: SAFETY.md a1 (M2), a2 (M2b, M3), a3 (M4), a4 (M5).
        case("M2", "a node that denied us confirms", Caught, Quick, planted(Rule::DenierConfirms)),
        case("M2b", "a refused raise confirms", Caught, Quick, planted(Rule::RefusalConfirms)),
        case("M3", "a raise though the key is gone", Caught, Quick, planted(Rule::RaiseUnheld)),
        case("M13", "a token is confirmed unraised", Caught, Quick, move || {
            planted(Rule::ConfirmUnraised)().repeated(1)
        }),
        case("M4", "1 counter lost, nobody notices", Caught, Quick, unguarded),
        case("M4", "the same, leaving out nothing", Caught, Full, move || unguarded().in_full()),
        case("M5", "token = q-th smallest reply", Caught, Quick, median),
        case("M5", "the same from zero, 3 acquisitions", Caught, Full, median3),
    ]
}

fn repairs() -> Vec<Case> {
    use Expected::{Caught, Holds};
    use Size::{Deep, Full, Quick};
    let repaired = |form| move || TokenModel::<2>::new(Rule::Library, Loss::Repaired(form));
    let whole = move || repaired(Form::Naive)().in_full();
    let three = || TokenModel::<3>::new(Rule::Library, Loss::Repaired(Form::Stamps));
    let ahead = |form| move || repaired(form)().starting_at([1, 0, 0]);
    vec![
        // SAFETY.md, Tokens: form b, and what it is not.
        case("M8", "repair without a barrier", Caught, Quick, repaired(Form::Naive)),
        case("M8", "the same, leaving out nothing", Caught, Full, whole),
        case("M8c", "barrier: answers tell of new lives", Holds, Full, repaired(Form::Lives)),
        case("M8d", "barrier: requests bound to stamps", Holds, Full, repaired(Form::Stamps)),
        case("M8d", "the same, one counter ahead", Holds, Full, ahead(Form::Stamps)),
        case("M12b", "the same, a counter moves for the refused", Holds, Full, move || {
            TokenModel::<2>::new(Rule::Library, Loss::Repaired(Form::Stamps))
                .starting_at([1, 0, 0])
                .nudged(1)
        }),
        case("M8d+", "the same, 3 acquisitions", Holds, Deep, three),
        case("M8e", "a raise bound when it is sent", Caught, Full, ahead(Form::StampsWhenSent)),
        case("M8f", "repair that knows no raises", Caught, Full, ahead(Form::StampsOfGrants)),
    ]
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
