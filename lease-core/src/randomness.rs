//! Where the tokens of claims and the jitter of waits come from: the system, or what a simulation puts in its place.

use std::fmt;
use std::io;
use std::sync::Arc;

use crate::Holder;

/// A source of random bytes.
#[derive(Clone, Default)]
pub(crate) struct Randomness(Option<Arc<Fill>>);

type Fill = dyn Fn(&mut [u8]) + Send + Sync;

impl Randomness {
    pub(crate) fn supplied(fill: impl Fn(&mut [u8]) + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(fill)))
    }

    /// A token that nobody has had before.
    pub(crate) fn mint(&self) -> io::Result<Holder> {
        let Some(fill) = &self.0 else { return Holder::mint() };
        let mut bytes = [0; 16];
        fill(&mut bytes);
        Ok(Holder::from_bytes(bytes))
    }

    /// A number from 0 to 1; without a random source always 0.
    pub(crate) fn share(&self) -> f64 {
        let drawn = match &self.0 {
            Some(fill) => {
                let mut bytes = [0; 4];
                fill(&mut bytes);
                u32::from_le_bytes(bytes)
            }
            None => getrandom::u32().unwrap_or(0),
        };
        f64::from(drawn) / f64::from(u32::MAX)
    }
}

impl fmt::Debug for Randomness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "supplied" } else { "the system's" })
    }
}
