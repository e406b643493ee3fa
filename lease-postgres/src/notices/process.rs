//! The server's process that a login has spoken of.
//!
//! A pooler has a number of its own to say there, for requests to cancel come back to it; a plain relay of bytes has not.
//! So a session in another process than that is a pooler's, which may give it to others.

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_postgres::Client;
use tokio_postgres::tls::{ChannelBinding, TlsConnect, TlsStream};

/// What a request to cancel begins with, behind its length.
const CANCEL: [u8; 4] = 80_877_102_i32.to_be_bytes();

/// The driver keeps the number to itself, but writes it into its requests to cancel: one that is sent to nobody.
pub(super) async fn of_login(client: &Client) -> Option<i32> {
    let mut nobody = Nobody::default();
    client.cancel_token().cancel_query_raw(&mut nobody, Nothing).await.ok()?;
    let mut rest = nobody.written.as_slice();
    // A request for TLS may come first.
    while let Some((length, tail)) = rest.split_first_chunk::<4>() {
        if let Some(number) = tail.strip_prefix(&CANCEL) {
            return number.first_chunk().copied().map(i32::from_be_bytes);
        }
        rest = rest.get(usize::try_from(u32::from_be_bytes(*length)).ok()?.max(1)..)?;
    }
    None
}

/// Takes everything, and agrees to TLS, of which there is none.
#[derive(Default)]
struct Nobody {
    written: Vec<u8>,
}

struct Nothing;

impl<'a> TlsConnect<&'a mut Nobody> for Nothing {
    type Stream = &'a mut Nobody;
    type Error = Infallible;
    type Future = Ready<Result<&'a mut Nobody, Infallible>>;

    fn connect(self, stream: &'a mut Nobody) -> Self::Future {
        ready(Ok(stream))
    }
}

impl TlsStream for &mut Nobody {
    fn channel_binding(&self) -> ChannelBinding {
        ChannelBinding::none()
    }
}

impl AsyncRead for Nobody {
    fn poll_read(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        answer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        answer.put_slice(b"S");
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Nobody {
    fn poll_write(mut self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.written.extend_from_slice(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
