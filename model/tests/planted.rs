//! A model that finds nothing may be a model that cannot.

use model::planted::planted;

#[test]
fn every_planted_defect_breaks_its_property_and_nothing_does_without_it() {
    let mut wrong = Vec::new();
    for (defect, property) in planted() {
        if defect.trace(property).is_none() {
            wrong.push(format!("not found: {defect:?} by {property:?}"));
        }
        if let Some(steps) = defect.without(property) {
            wrong.push(format!("{property:?} does not hold without {defect:?}:\n{}", steps.join("\n")));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
