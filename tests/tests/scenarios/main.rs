//! What befalls real nodes, one file per scenario, each in plain Redlock and under strict
//! admission.
//!
//! Plain Redlock is the negative control: where it is unsafe, two guards of one name must be *seen*
//! to be valid at one instant, or the scenario proves nothing. Under strict admission the same
//! fault must not do that; what suffers instead is asserted, too. The ids (`L10`, ...) are used
//! wherever the project speaks of these scenarios.

mod ground;
mod l10_restart_empty;
mod l12_power_loss;
mod l14_majority_restarts;
mod l15_rolling_restart;
mod l20_promoted_replica;
mod l21_data_gone;
mod l28_partitions;
mod l30_gates;
mod l31_gray_node;
mod l33_eviction;
mod l34_out_of_memory;
