//! How much of a sweep is run.

use lease_core::Holder;

use crate::random::Random;

/// `whole`: all of it. A number: the part that it chooses.
const EXTENT: &str = "LEASE_SWEEP";

/// All the points of a sweep, or all of the cheap and some of the dear.
#[derive(Debug, Clone, Copy)]
pub enum Extent {
    /// Every point.
    Whole,
    /// Of the points that cost most only those that a seed chooses.
    Part {
        /// Chooses them.
        seed: u64,
    },
}

impl Extent {
    /// What `LEASE_SWEEP` says: `whole`, or a seed. Without it the seed is another one each time.
    ///
    /// # Panics
    ///
    /// `LEASE_SWEEP` says something else.
    pub fn told() -> Self {
        match std::env::var(EXTENT) {
            Ok(extent) if extent == "whole" => Self::Whole,
            Ok(seed) => Self::Part {
                seed: seed.parse().unwrap_or_else(|_| panic!("{EXTENT}={seed}: neither `whole` nor a seed")),
            },
            Err(_) => {
                let random = Holder::mint().expect("a source of random numbers").to_string();
                Self::Part { seed: u64::from_str_radix(&random[..16], 16).expect("hex digits") }
            }
        }
    }

    /// Whether a point is run of which only one in so many need be, by its place among them.
    pub fn has(self, place: usize, one_in: usize) -> bool {
        match self {
            Self::Whole => true,
            Self::Part { seed } => {
                Random(seed ^ ((place as u64) << 32)).below(u32::try_from(one_in).unwrap_or(u32::MAX)) == 0
            }
        }
    }
}
