//! What a guard holds, as a type: nobody passes one kind where another is meant.

/// What a [`Guard`](super::Guard) holds. The kinds are those of this module.
pub trait Kind: sealed::Sealed + Send + Sync + 'static {}

/// A lock, of one name or of several: nobody else holds it.
#[derive(Clone, Copy, Debug)]
pub enum Lock {}

/// One of the permits of a name: nobody else holds its slot.
#[derive(Clone, Copy, Debug)]
pub enum Permit {}

/// A read-write lock, for reading: other readers may hold it, and no writer does.
#[derive(Clone, Copy, Debug)]
pub enum Read {}

/// A read-write lock, for writing: nobody else holds it.
#[derive(Clone, Copy, Debug)]
pub enum Write {}

impl Kind for Lock {}
impl Kind for Permit {}
impl Kind for Read {}
impl Kind for Write {}

/// A kind whose holder may be an [`Owner`](quorumlock_protocol::Owner), which enters again.
pub trait Owned: Kind {}

impl Owned for Lock {}
impl Owned for Read {}
impl Owned for Write {}

mod sealed {
    #[expect(unnameable_types, reason = "the kinds are those of this module")]
    pub trait Sealed {}
    impl Sealed for super::Lock {}
    impl Sealed for super::Permit {}
    impl Sealed for super::Read {}
    impl Sealed for super::Write {}
}
