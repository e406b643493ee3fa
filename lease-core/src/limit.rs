//! The time for one call to a store, and what the store may try within it.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use crate::clock::{Moment, sleep_until, timeout_at};
use crate::store::{Effect, StoreError};
use crate::{Clock, ErrorKind};

/// The time for one call, counted from its start over all its statements and tries.
#[derive(Debug, Clone)]
pub struct Limit {
    clock: Arc<dyn Clock>,
    /// Nothing is begun and the server waits for nothing after this: a tenth before the caller
    /// leaves, so that it still hears why.
    until: Moment,
    give_up: Moment,
}

/// Whether a statement may be sent again after one whose outcome nobody knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Repeat {
    /// It can: twice is the same as once, and the answer to the second is as good.
    Always,
    /// Only after an error that says that nothing was changed, nor will be. So it is with a claim of
    /// any kind: were it sent again, its own first sending could have been granted meanwhile, and the
    /// answer to the second would be a refusal. Likewise with `clear`, which would find that the row has moved, and
    /// the second step of `finish_slot`.
    WithoutEffect,
}

/// Longer than anybody waits, and short enough to be added to any clock.
const FOREVER: Duration = Duration::from_secs(10 * 366 * 24 * 60 * 60);

const FIRST_PAUSE: Duration = Duration::from_millis(2);
const LONGEST_PAUSE: Duration = Duration::from_millis(100);

impl Limit {
    /// The time `within` which the caller waits, from now.
    pub fn new(clock: &Arc<dyn Clock>, within: Duration) -> Self {
        let (now, within) = (clock.now(), within.min(FOREVER));
        Self { until: now + within / 10 * 9, give_up: now + within, clock: Arc::clone(clock) }
    }

    /// How long a wait on the server may still take. Zero: nothing may be begun any more.
    pub fn left(&self) -> Duration {
        self.until.since(self.clock.now())
    }

    /// Gives up when the caller does, with [`Timeout`](ErrorKind::Timeout) and an unknown effect. `call` is dropped then, as when
    /// this future is.
    pub async fn bound<T>(&self, call: impl Future<Output = Result<T, StoreError>>) -> Result<T, StoreError> {
        let answer = timeout_at(&self.clock, self.give_up, call).await;
        answer.unwrap_or_else(|| Err(no_answer(None)))
    }

    /// Asks until there is an answer, an error that asking again does not mend, or no time
    /// [`left`](Self::left), and never longer than [`bound`](Self::bound).
    ///
    /// What asking again may mend: [`Busy`](ErrorKind::Busy), and
    /// [`Unavailable`](ErrorKind::Unavailable) and [`ReadOnly`](ErrorKind::ReadOnly), after which
    /// `ask` has to use another connection. Between two tries there is a pause of 2 ms, twice as long each time
    /// up to 100 ms, of which a part at random is left out.
    ///
    /// An error after a try whose outcome is unknown has an unknown effect, too. Dropping the future drops the try that is under way.
    pub async fn insist<T, F>(&self, repeat: Repeat, mut ask: impl FnMut() -> F) -> Result<T, StoreError>
    where
        F: Future<Output = Result<T, StoreError>>,
    {
        let mut effect = Effect::None;
        let mut last = None;
        let answer = timeout_at(&self.clock, self.give_up, async {
            let mut pause = FIRST_PAUSE;
            loop {
                let error = match ask().await {
                    Ok(answer) => return Ok(answer),
                    Err(error) => error,
                };
                if error.effect() == Effect::Unknown {
                    effect = Effect::Unknown;
                }
                let passes =
                    matches!(error.kind(), ErrorKind::Busy | ErrorKind::Unavailable | ErrorKind::ReadOnly);
                let may_repeat = repeat == Repeat::Always || effect == Effect::None;
                if !passes || !may_repeat || self.left() <= pause {
                    return Err(error);
                }
                last = Some(error);
                sleep_until(&self.clock, self.clock.now() + shortened(pause)).await;
                pause = (pause * 2).min(LONGEST_PAUSE);
            }
        })
        .await;
        match answer {
            Some(Err(error)) if effect == Effect::Unknown => Err(error.with_unknown_effect()),
            Some(answer) => answer,
            None => Err(no_answer(last)),
        }
    }
}

/// The error when the time is up, with what the last try said.
fn no_answer(last: Option<StoreError>) -> StoreError {
    let message = "the database did not answer in time";
    match last {
        None => StoreError::new(ErrorKind::Timeout, message),
        Some(error) => {
            StoreError::new(ErrorKind::Timeout, format!("{message}; before that: {error}")).with_source(error)
        }
    }
}

/// Between half of a pause and all of it, so that those who met do not meet again.
fn shortened(pause: Duration) -> Duration {
    // Without a random source the pause is whole: nothing is lost but some luck.
    let random = getrandom::u32().unwrap_or(u32::MAX);
    pause / 2 + (pause / 2).mul_f64(f64::from(random) / f64::from(u32::MAX))
}
