use tokio::io::{AsyncRead, AsyncWrite};

/// Any byte stream to a server.
#[allow(unreachable_pub, reason = "public for simulations only")]
pub trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}
