//! Scenarios: faults as data, and what theory predicts for each in each mode.
//!
//! A [`Scenario`] draws a [`Plan`] for a mode from a seed. All random choices are made then, so the
//! same seed gives the same plan. The [`runner`](crate::runner) carries plans out.

pub(crate) mod c1_locks;
pub(crate) mod c2_server_killed;
mod draw;
mod expects;
mod f1_order;
mod fault;
mod l01_no_fault;
mod l02_holder_killed;
mod l03_holder_stopped;
mod l04_pause_before_write;
mod l05_write_delayed;
mod l06_read_before_claim;
mod l07_suspend;
mod l08_frozen_client;
mod l09_clone;
mod l10_restart_empty;
mod l11_process_killed;
mod l12_power_loss;
mod l13_fsync_always;
mod l14_majority_restarts;
mod l15_rolling_restart;
mod l16_promotion;
mod l17_another_promoted;
mod l18_old_expiry;
mod l19_split_brain;
mod l20_promoted_replica;
mod l21_memory_gone;
mod l22_switched;
mod l23_clock_forward;
mod l24_clock_back;
mod l25_clock_slew;
mod l26_boot_clock;
mod l27_clock_frozen;
mod l28_partitions;
mod l29_two_homes;
mod l30_dead_at_home;
mod l31_gray_node;
mod l32_no_answer;
mod l33_eviction;
mod l34_out_of_memory;
mod l35_top_up;
mod l36_quarantine;
mod l37_marks_lost;
mod l38_told_otherwise;
mod l39_lost_wake_ups;
mod l40_busy;
mod l41_operator;
mod l43_no_way_to_one;
mod l44_another_list;
mod l45_another_database;
mod l46_exchange;
mod l47_short_processes;
mod l48_boots_ahead;
mod l49_tokens_fall;
mod l50_replica_meanwhile;
mod n1_sets;
mod own;
mod p1_permits;
mod p2_slots_through_restarts;
mod plan;
mod rw1_read_write;
mod rw2_reader_through_restart;
mod rw3_writers_turn;
mod rw4_pause_before_effect;
mod step;

pub use self::draw::Draw;
pub use self::expects::Expects;
pub use self::fault::{Fault, Until, WayState};
pub use self::own::{BadPlanFile, OwnPlan};
pub use self::plan::{
    BrokenLockKind, ClientPlan, FirstAccess, Locking, OnLoss, Overtaking, Plan, ReadWrite, Ring,
    ServerPlan, Span, Waiting, Work,
};
pub use self::step::{Step, When};

use crate::mode::Mode;
use crate::record::{Expected, Load};

/// A kind of failure, and what theory predicts for it.
#[derive(Debug, Clone, Copy)]
pub struct Scenario {
    /// The id in the catalogue: `L16`.
    pub id: &'static str,
    /// The title.
    pub title: &'static str,
    /// What happens and why it matters, in a few sentences for people.
    pub story: &'static str,
    /// What theory predicts, for each mode to which the scenario applies.
    pub expects: Expects,
    /// Draws the plan of a run.
    pub plan: fn(&mut Draw) -> Plan,
}

impl Scenario {
    /// A scenario of a plan from a file. It lives as long as the process.
    #[must_use]
    pub fn own(plan: OwnPlan) -> &'static Self {
        let own: &'static OwnPlan = Box::leak(Box::new(plan));
        Box::leak(Box::new(Self {
            id: own.id(),
            title: own.title(),
            story: own.story(),
            expects: Expects { own: Some(own), ..Expects::NONE },
            plan: Draw::plan,
        }))
    }

    /// The modes in which it runs unless others are named: one of each kind, or those of the plan.
    #[must_use]
    pub fn modes(&self) -> Vec<Mode> {
        self.expects.own.map_or_else(|| Mode::KINDS.to_vec(), |own| own.modes().collect())
    }

    /// What theory predicts; `None` if the scenario does not apply to this mode.
    #[must_use]
    pub fn expected(&self, mode: Mode) -> Option<Expected> {
        self.expects.of(mode)
    }

    /// The plan of one repetition under this seed.
    #[must_use]
    pub fn plan(&self, mode: Mode, seed: u64, repetition: u64, quick: bool) -> Plan {
        self.plan_with(None, mode, seed, repetition, quick)
    }

    /// As [`plan`](Self::plan), with the load of a comparison.
    #[must_use]
    pub fn plan_with(
        &self,
        load: Option<Load>,
        mode: Mode,
        seed: u64,
        repetition: u64,
        quick: bool,
    ) -> Plan {
        let draw = &mut Draw::new(load, mode, seed, repetition, quick);
        match self.expects.own {
            Some(own) => own.plan(draw),
            None => (self.plan)(draw),
        }
    }
}

/// All scenarios, in the order of their ids.
#[must_use]
pub fn all() -> &'static [Scenario] {
    ALL
}

const ALL: &[Scenario] = &[
    c1_locks::SCENARIO,
    c2_server_killed::SCENARIO,
    f1_order::SCENARIO,
    f1_order::STRICT,
    l01_no_fault::SCENARIO,
    l02_holder_killed::SCENARIO,
    l03_holder_stopped::SCENARIO,
    l04_pause_before_write::SCENARIO,
    l05_write_delayed::SCENARIO,
    l06_read_before_claim::SCENARIO,
    l06_read_before_claim::CLAIMS_FIRST,
    l07_suspend::SCENARIO,
    l08_frozen_client::SCENARIO,
    l09_clone::SCENARIO,
    l10_restart_empty::SCENARIO,
    l11_process_killed::SCENARIO,
    l12_power_loss::SCENARIO,
    l13_fsync_always::SCENARIO,
    l14_majority_restarts::SCENARIO,
    l15_rolling_restart::SCENARIO,
    l16_promotion::SCENARIO,
    l17_another_promoted::SCENARIO,
    l18_old_expiry::SCENARIO,
    l19_split_brain::SCENARIO,
    l20_promoted_replica::SCENARIO,
    l21_memory_gone::SCENARIO,
    l22_switched::SCENARIO,
    l23_clock_forward::SCENARIO,
    l24_clock_back::SCENARIO,
    l25_clock_slew::SCENARIO,
    l26_boot_clock::SCENARIO,
    l27_clock_frozen::SCENARIO,
    l28_partitions::SCENARIO,
    l29_two_homes::SCENARIO,
    l30_dead_at_home::SCENARIO,
    l31_gray_node::SCENARIO,
    l31_gray_node::BY_OWNER,
    l32_no_answer::SCENARIO,
    l32_no_answer::COUNTED,
    l33_eviction::SCENARIO,
    l34_out_of_memory::SCENARIO,
    l35_top_up::SCENARIO,
    l36_quarantine::SCENARIO,
    l37_marks_lost::SCENARIO,
    l38_told_otherwise::SCENARIO,
    l39_lost_wake_ups::SCENARIO,
    l40_busy::SCENARIO,
    l41_operator::SCENARIO,
    l41_operator::BY_FORCE,
    l04_pause_before_write::UNCHECKED,
    l43_no_way_to_one::SCENARIO,
    l44_another_list::SCENARIO,
    l45_another_database::SCENARIO,
    l46_exchange::SCENARIO,
    l46_exchange::IN_ONE_STEP,
    l47_short_processes::ALL_AT_ONCE,
    l47_short_processes::ONE_BY_ONE,
    l48_boots_ahead::SCENARIO,
    l49_tokens_fall::SCENARIO,
    l50_replica_meanwhile::SCENARIO,
    n1_sets::SCENARIO,
    n1_sets::ONE_BY_ONE,
    p1_permits::SCENARIO,
    p1_permits::COUNTED,
    p2_slots_through_restarts::SCENARIO,
    rw1_read_write::SCENARIO,
    rw2_reader_through_restart::SCENARIO,
    rw3_writers_turn::SCENARIO,
    rw3_writers_turn::READERS_FIRST,
    rw4_pause_before_effect::READER,
    rw4_pause_before_effect::WRITER,
];

/// The scenario with this id. Case is ignored.
#[must_use]
pub fn find(id: &str) -> Option<&'static Scenario> {
    all().iter().find(|scenario| scenario.id.eq_ignore_ascii_case(id))
}

#[cfg(test)]
mod tests;
