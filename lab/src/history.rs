//! What processes believed and did.
