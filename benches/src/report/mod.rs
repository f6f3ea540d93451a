//! What was measured, for people and for programs.

pub mod document;
pub mod machine;
pub mod svg;
pub mod table;
