use std::fmt;
use std::path::{Path, PathBuf};

/// Certificates or a private key, as PEM. A text or bytes become [`Pem::Text`], a path becomes
/// [`Pem::File`].
#[derive(Clone, PartialEq, Eq)]
pub enum Pem {
    /// The text.
    Text(Vec<u8>),
    /// The file that has it, which is read anew at each dial.
    File(PathBuf),
}

impl From<&str> for Pem {
    fn from(text: &str) -> Self {
        Self::Text(text.into())
    }
}

impl From<String> for Pem {
    fn from(text: String) -> Self {
        Self::Text(text.into())
    }
}

impl From<&[u8]> for Pem {
    fn from(text: &[u8]) -> Self {
        Self::Text(text.into())
    }
}

impl From<Vec<u8>> for Pem {
    fn from(text: Vec<u8>) -> Self {
        Self::Text(text)
    }
}

impl From<&Path> for Pem {
    fn from(path: &Path) -> Self {
        Self::File(path.into())
    }
}

impl From<PathBuf> for Pem {
    fn from(path: PathBuf) -> Self {
        Self::File(path)
    }
}

/// Without the text, which may be a key.
impl fmt::Debug for Pem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(_) => f.write_str("PEM"),
            Self::File(path) => path.fmt(f),
        }
    }
}
