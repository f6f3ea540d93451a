//! What a guard holds, as a type: nobody passes one kind where another is meant.

/// What a [`Guard`](super::Guard) holds. The kinds are those of this module.
pub trait Kind: sealed::Sealed + Send + Sync + 'static {}

/// A lock, of one name or of several: nobody else holds it.
#[derive(Clone, Copy, Debug)]
pub enum Lock {}

/// One of the permits of a name: nobody else holds its slot.
#[derive(Clone, Copy, Debug)]
pub enum Permit {}

impl Kind for Lock {}
impl Kind for Permit {}

mod sealed {
    #[expect(unnameable_types, reason = "the kinds are those of this module")]
    pub trait Sealed {}
    impl Sealed for super::Lock {}
    impl Sealed for super::Permit {}
}
