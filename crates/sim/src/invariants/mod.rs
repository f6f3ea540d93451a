//! The invariants, one per file. Each file names the source of its rule.
//!
//! | invariant | rule | rests on |
//! |---|---|---|
//! | `lemma` | WIN2 | A1, A2, A3 |
//! | `exclusion` | G1, G2 | A1, A2, A3 |
//! | `takeover` | WIN3 | A1, A2, A3 |
//! | `tokens` | G3, theorem F | A7 |
//! | `order` | G3, order of holds | A1, A2, A3, A7 |
//! | `register` | G4 | A7 |
//! | `told_in_time` | G5 | A2 |
//! | `for_a_reason` | G5 | A2 |
//! | `given_back` | H26 | - |
//! | `freed_by_us` | G6 (decision 0016) | A1, A2; A3 while a server lives |
//! | `re_entry` | G8 | - |
//! | `leak` | clean-up (H16, H17) | A3 |
//! | `liveness` | G6 | - |
//! | `wake` | waiting (W1 to W5) | - |

mod exclusion;
mod for_a_reason;
pub mod freed_by_us;
mod given_back;
pub mod leak;
pub mod lemma;
pub mod liveness;
mod re_entry;
mod register;
mod takeover;
mod tokens;
mod told_in_time;
pub mod wake;

pub use exclusion::check as check_exclusion;
pub use for_a_reason::check as check_reason;
pub use given_back::check as check_given_back;
pub use re_entry::check as check_re_entry;
pub use register::Register;
pub use takeover::check as check_takeover;
pub use tokens::Tokens;
pub use told_in_time::check as check_told;
