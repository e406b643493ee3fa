//! The reference guard keeps the promise, in each shape that engines have.

#[expect(dead_code, reason = "what is wrong is for guard_mutants.rs")]
mod guarded;

use guarded::{Guarded, Shape};

mod looked_at_with_the_commit {
    use super::*;

    async fn guarded() -> Guarded {
        Guarded::new(Shape::AtCommit, None)
    }

    lease_testkit::guard_suite!(guarded);
}

mod kept_out_from_the_begin {
    use super::*;

    async fn guarded() -> Guarded {
        Guarded::new(Shape::FromBegin, None)
    }

    lease_testkit::guard_suite!(guarded);
}

mod one_writer {
    use super::*;

    async fn guarded() -> Guarded {
        Guarded::new(Shape::OneWriter, None)
    }

    lease_testkit::guard_suite!(guarded);
}
