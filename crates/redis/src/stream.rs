use tokio::io::{AsyncRead, AsyncWrite};

/// Any byte stream to a server.
pub(super) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}
