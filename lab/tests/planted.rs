//! The faults that are planted in the library can be planted.

use lab::planted::{table::PLANTED, workspace};

#[test]
fn every_text_that_a_fault_replaces_stands_in_its_file_once() {
    for planted in PLANTED {
        let file = workspace().join("lease-core/src").join(planted.file);
        let source =
            std::fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        let times = source.matches(planted.text).count();
        assert_eq!(times, 1, "{}, where {}: {:?}", planted.file, planted.breaks, planted.text);
    }
}

#[test]
fn every_fault_changes_its_text_and_only_when_it_is_at_work() {
    for planted in PLANTED {
        assert_ne!(planted.text, planted.planted, "{}", planted.breaks);
        assert!(planted.planted.contains("PLANTED"), "{}", planted.breaks);
    }
}
