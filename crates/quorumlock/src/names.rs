//! What a lock is of: one name, or several.

use std::borrow::Cow;
use std::sync::Arc;

/// The names of a lock: a text is one name; a list is several, which are taken in one step. A name
/// that is given twice counts once.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not the name of a lock, and not a list of names",
    note = "a name is a text (`&str`, `String`, ...), several names are an array, a slice or a `Vec` of texts"
)]
pub trait Names: sealed::Sealed {}

impl<T: sealed::Sealed + ?Sized> Names for T {}

/// The names, each with the prefix. An empty name stays empty, so that it is refused.
pub(crate) fn full<'a>(
    names: &'a (impl Names + ?Sized),
    prefix: &'a str,
) -> impl Iterator<Item = Cow<'a, str>> {
    names.each().into_iter().map(move |name| match (prefix, name) {
        ("", _) | (_, "") => name.into(),
        _ => format!("{prefix}{name}").into(),
    })
}

mod sealed {
    #[expect(unnameable_types, reason = "the implementations are those of this module")]
    pub trait Sealed {
        fn each(&self) -> Vec<&str>;
    }
}

macro_rules! one {
    ($($text:ty),*) => {$(
        impl sealed::Sealed for $text {
            fn each(&self) -> Vec<&str> {
                vec![self.as_ref()]
            }
        }
    )*};
}

one!(str, String, Box<str>, Arc<str>, Cow<'_, str>);

impl<N: AsRef<str>> sealed::Sealed for [N] {
    fn each(&self) -> Vec<&str> {
        self.iter().map(AsRef::as_ref).collect()
    }
}

impl<N: AsRef<str>, const COUNT: usize> sealed::Sealed for [N; COUNT] {
    fn each(&self) -> Vec<&str> {
        self[..].each()
    }
}

impl<N: AsRef<str>> sealed::Sealed for Vec<N> {
    fn each(&self) -> Vec<&str> {
        self[..].each()
    }
}

impl<T: sealed::Sealed + ?Sized> sealed::Sealed for &T {
    fn each(&self) -> Vec<&str> {
        (**self).each()
    }
}
