//! The programs on the page compile, for they are those of this crate.

const PAGE: &str = include_str!("../../../docs/migrating.md");

/// Each block of code on the page, in its order, and the program that has it.
const PROGRAMS: &[&str] = &[
    include_str!("../src/bin/advisory_postgres.rs"),
    include_str!("../src/bin/advisory_mysql.rs"),
    include_str!("../src/bin/lock_table.rs"),
];

fn blocks() -> Vec<&'static str> {
    let behind_fences = PAGE.split("```rust").skip(1);
    behind_fences.filter_map(|rest| rest.split_once("\n```")).map(|(block, _)| block.trim_start()).collect()
}

#[test]
fn what_the_page_shows_stands_in_the_programs() {
    let blocks = blocks();
    assert_eq!(
        blocks.len(),
        PROGRAMS.len(),
        "a block of the page without a program, or a program without a block"
    );
    for (block, program) in blocks.iter().zip(PROGRAMS) {
        let gone = block.lines().find(|line| !program.lines().any(|other| other == *line));
        assert!(gone.is_none(), "the page has a line that its program has not: {}", gone.unwrap_or_default());
        assert!(program.contains(block), "the lines stand in another order, or apart, beside this: {block}");
    }
}
