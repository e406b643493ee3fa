//! Tables: as wide as the terminal, and never wrapped where a program reads them.

use std::os::fd::AsFd;

use comfy_table::{ColumnConstraint, ContentArrangement, Table, presets};
use rustix::termios::tcgetwinsize;

use crate::text::visible;

/// What a column that may be broken is to have, unless it needs less.
const ROOM: usize = 12;

/// The table, in which no cell of the columns that are to stay `whole` is broken; on a terminal on which that leaves
/// too little to the others, a cell a line.
pub(crate) fn fitting<const N: usize>(
    head: [&str; N],
    rows: impl Iterator<Item = [String; N]>,
    width: Option<u16>,
    whole: &[usize],
) -> String {
    let rows: Vec<_> = rows.collect();
    if width.is_none_or(|width| least(head, &rows, whole) <= width.into()) {
        return render(head, rows.into_iter(), width, whole);
    }
    let blocks = rows.into_iter().map(|row| {
        let cells = head.into_iter().zip(row).filter(|(_, cell)| !cell.is_empty());
        cells.fold(String::new(), |block, (key, cell)| {
            block + &format!("{}: {}\n", key.to_lowercase(), visible(&cell))
        })
    });
    blocks.collect::<Vec<_>>().join("\n")
}

/// The width that the table needs.
fn least<const N: usize>(head: [&str; N], rows: &[[String; N]], whole: &[usize]) -> usize {
    let columns = (0..N).map(|column| {
        let cells = rows.iter().map(|row| visible(&row[column]).chars().count());
        let longest = cells.fold(head[column].len(), usize::max);
        // With the space around it.
        2 + if whole.contains(&column) { longest } else { longest.min(ROOM) }
    });
    columns.sum()
}

/// The table as text, each line ended. Without a width no line is wrapped; with one, no cell of the columns
/// that are to stay `whole`.
fn render<const N: usize>(
    head: [&str; N],
    rows: impl Iterator<Item = [String; N]>,
    width: Option<u16>,
    whole: &[usize],
) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).force_no_tty().set_header(head);
    if let Some(width) = width {
        table.set_content_arrangement(ContentArrangement::Dynamic).set_width(width);
    }
    if let Some(first) = table.column_mut(0) {
        first.set_padding((0, 1));
    }
    for column in whole {
        if let Some(column) = table.column_mut(*column) {
            column.set_constraint(ColumnConstraint::ContentWidth);
        }
    }
    for row in rows {
        table.add_row(row.map(|cell| visible(&cell)));
    }
    let mut text = table.trim_fmt();
    text.push('\n');
    text
}

/// The width of the terminal that this stream is; `None` when it is none or does not say.
pub(crate) fn terminal_width(stream: impl AsFd) -> Option<u16> {
    tcgetwinsize(stream).ok().map(|size| size.ws_col).filter(|width| *width > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows() -> impl Iterator<Item = [String; 2]> {
        [["a".repeat(40), "x\u{1b}[31m".to_owned()], ["b".to_owned(), "größe".to_owned()]].into_iter()
    }

    #[test]
    fn a_program_reads_one_line_a_row() {
        let text = render(["NAME", "HOLDER"], rows(), None, &[]);
        let lines: Vec<&str> = text.lines().collect();
        let name = "a".repeat(40);
        assert_eq!(lines.len(), 3, "{text}");
        assert!(lines[0].starts_with("NAME "), "{text}");
        assert_eq!(lines[1], format!(r"{name}  x\u{{1b}}[31m"));
        assert!(lines[2].starts_with("b ") && lines[2].ends_with("größe"), "{text}");
    }

    #[test]
    fn a_terminal_gets_lines_that_fit() {
        let text = render(["NAME", "HOLDER"], rows(), Some(30), &[]);
        assert!(text.lines().all(|line| line.chars().count() <= 30), "{text}");
        assert_eq!(text.matches('a').count(), 40, "{text}");
    }

    #[test]
    fn a_terminal_too_narrow_for_anything_gets_a_table_all_the_same() {
        assert!(render(["NAME", "HOLDER"], rows(), Some(1), &[]).contains('b'));
    }
}
