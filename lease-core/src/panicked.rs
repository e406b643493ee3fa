//! Catching a panic with its message and backtrace.

use std::any::Any;
use std::backtrace::{Backtrace, BacktraceStatus};
use std::cell::{Cell, RefCell};
use std::future::Future;
use std::panic::{self, AssertUnwindSafe};
use std::pin::Pin;
use std::sync::Once;
use std::task::{Context, Poll};
use std::thread;

use tracing::Span;

/// A panic of the work.
#[derive(Debug)]
pub(crate) struct Panicked {
    pub(crate) message: String,
    pub(crate) backtrace: Option<Backtrace>,
}

thread_local! {
    static CATCHING: Cell<bool> = const { Cell::new(false) };
    static BACKTRACE: RefCell<Option<Backtrace>> = const { RefCell::new(None) };
}

/// A future whose panics are caught, polled in a span. It is dropped outside: who writes the log may panic when a span is
/// entered, and what the future holds, a tenure say, must not stay behind for that.
pub(crate) struct Catch<F> {
    future: Pin<Box<F>>,
    span: Span,
}

impl<F: Future> Catch<F> {
    pub(crate) fn new(future: F, span: Span) -> Self {
        note_backtraces();
        Self { future: Box::pin(future), span }
    }
}

impl<F: Future> Future for Catch<F> {
    type Output = Result<F::Output, Panicked>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let outer = CATCHING.replace(true);
        // One left by a panic that the work caught itself is not this poll's.
        BACKTRACE.set(None);
        let Self { future, span } = &mut *self;
        let polled = panic::catch_unwind(AssertUnwindSafe(|| {
            let _entered = span.enter();
            future.as_mut().poll(cx)
        }));
        CATCHING.set(outer);
        match polled {
            Ok(Poll::Pending) => Poll::Pending,
            Ok(Poll::Ready(output)) => Poll::Ready(Ok(output)),
            Err(payload) => Poll::Ready(Err(Panicked {
                message: message(payload.as_ref()),
                backtrace: BACKTRACE.take().filter(|trace| trace.status() == BacktraceStatus::Captured),
            })),
        }
    }
}

/// What a panic says.
pub(crate) fn message(payload: &(dyn Any + Send)) -> String {
    if let Some(text) = payload.downcast_ref::<&str>() {
        (*text).to_owned()
    } else if let Some(text) = payload.downcast_ref::<String>() {
        text.clone()
    } else {
        "a panic whose payload is no text".to_owned()
    }
}

/// A panic's backtrace exists only while the panic hook runs. Ours notes it for panics inside a
/// [`Catch`] (as `RUST_BACKTRACE` asks), and calls the hook that was there before in any case.
fn note_backtraces() {
    static ONCE: Once = Once::new();
    // The hook cannot be changed from a thread that is unwinding.
    if thread::panicking() {
        return;
    }
    ONCE.call_once(|| {
        let previous = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if CATCHING.get() {
                BACKTRACE.set(Some(Backtrace::capture()));
            }
            previous(info);
        }));
    });
}
