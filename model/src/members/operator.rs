use std::time::Duration;

use quorumlock_protocol::admission::members::{ChangeStep, change_step, confirmers, may_follow};

use super::Action;
use super::rule::Rule;
use super::scenario::{LONGEST, Scenario};
use super::state::{Operator, Record, State, Terms};

pub(super) fn actions<const N: usize>(
    scenario: &Scenario<N>,
    state: &State<N>,
    actions: &mut Vec<Action>,
) {
    let operator = &state.operator;
    let follows = |n: &usize| match state.nodes[*n].record.filter(|r| r.written.present) {
        Some(Record { terms, .. }) => follows(scenario, terms, operator.current),
        None => false,
    };
    actions.extend((0..N).filter(follows).map(Action::Write));
    if operator.confirmed.is_none() {
        if may_end(scenario, state, Rule::NoWait)
            && matches!(step(scenario, state, target(scenario, operator)), Step::Confirmed)
        {
            actions.push(Action::Confirm);
        }
        return;
    }
    if let Step::Begin(_) = step(scenario, state, target(scenario, operator)) {
        actions.push(Action::Begin);
    }
    if operator.backs < scenario.goes_back
        && operator.current.next.is_some()
        && let Step::Begin(_) = step(scenario, state, operator.current.list)
    {
        actions.push(Action::GoBack);
    }
}

pub(super) fn begin<const N: usize>(
    scenario: &Scenario<N>,
    state: &State<N>,
    operator: &mut Operator,
    onward: bool,
) {
    let to = if onward { target(scenario, operator) } else { operator.current.list };
    if let Step::Begin(terms) = step(scenario, state, to) {
        let arrived = onward && terms.next.is_none();
        let (at, backs) = (operator.at + u8::from(arrived), operator.backs + u8::from(!onward));
        *operator = Operator { current: terms, at, backs, confirmed: None };
    }
}

/// The list that the operator changes to.
fn target<const N: usize>(scenario: &Scenario<N>, operator: &Operator) -> u8 {
    let next = usize::from(operator.at) + 1;
    scenario.path.get(next).copied().unwrap_or(operator.current.list)
}

/// What the operator does next on the way to a list.
enum Step {
    Nothing,
    Confirmed,
    Begin(Terms),
}

fn step<const N: usize>(scenario: &Scenario<N>, state: &State<N>, to: u8) -> Step {
    let Operator { current, confirmed, .. } = state.operator;
    let wide = current.wide(scenario);
    let shows = |n: usize| {
        let record = state.nodes[n].record.filter(|record| record.written.present);
        record.is_some_and(|record| record.terms == current)
    };
    let target = scenario.list(to);
    let enough = scenario.rule == Rule::MajorityConfirms && {
        let stay: Vec<_> = confirmers(&wide, target).collect();
        let shown = stay.iter().filter(|label| shows(scenario.node(label))).count();
        shown > stay.len() / 2
    };
    let waited = match confirmed {
        Some(0) => LONGEST,
        Some(_) if scenario.rule == Rule::NoWait => LONGEST,
        _ => Duration::ZERO,
    };
    // The library refuses an exchange: it is asked about the third list, which has one server more.
    let planted = scenario.rule == Rule::Exchange && current.next.is_none() && current.list != to;
    let on_the_way = if planted { scenario.list(2) } else { target };
    let confirms = |label: &str| enough || shows(scenario.node(label));
    match change_step(&wide, on_the_way, confirms, waited, LONGEST) {
        Ok(ChangeStep::Begin(_)) if planted => {
            Step::Begin(Terms { phase: current.phase + 1, list: current.list, next: Some(to) })
        }
        Ok(ChangeStep::Begin(terms)) => Step::Begin(Terms::of(&terms, scenario)),
        Ok(ChangeStep::Wait(_)) => Step::Confirmed,
        Ok(ChangeStep::Done | ChangeStep::Unconfirmed(_)) | Err(_) => Step::Nothing,
    }
}

fn follows<const N: usize>(scenario: &Scenario<N>, found: Terms, new: Terms) -> bool {
    match scenario.rule {
        Rule::SeveralPhases => found.phase < new.phase,
        Rule::Exchange => found.phase + 1 == new.phase,
        _ => may_follow(&found.wide(scenario), &new.wide(scenario)),
    }
}

/// Whether a wait that begins now may end. Without renewals votes live as long as the search.
pub(super) fn may_end<const N: usize>(
    scenario: &Scenario<N>,
    state: &State<N>,
    planted: Rule,
) -> bool {
    scenario.rule == planted || scenario.renewals || state.alive() == 0
}
