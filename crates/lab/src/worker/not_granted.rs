use quorumlock::Error;

use crate::history::Refusal;

/// Why an attempt was not granted.
#[derive(Debug)]
pub(crate) struct NotGranted {
    /// In words.
    pub(crate) why: String,
    /// What the nodes said, if it is one of the reasons that judges look for.
    pub(crate) refusal: Option<Refusal>,
}

impl From<Error> for NotGranted {
    fn from(error: Error) -> Self {
        Self { why: error.to_string(), refusal: Refusal::of(&error) }
    }
}

/// The error of a broken lock.
impl From<String> for NotGranted {
    fn from(why: String) -> Self {
        Self { why, refusal: None }
    }
}
