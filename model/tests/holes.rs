//! Known limits are where they are said to be, and nowhere else.

use model::holes::holes;

#[test]
fn every_hole_is_found_with_its_fault_and_not_without() {
    for hole in holes() {
        let steps = hole.trace();
        assert!(steps.is_some_and(|steps| steps.len() > 3), "{} was not found", hole.what);
        assert!(hole.is_closed_without(), "{} without its fault", hole.what);
    }
}
