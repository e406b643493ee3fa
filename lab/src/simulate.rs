//! Whole clusters, simulated.
