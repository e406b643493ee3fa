//! The time zones that MariaDB and MySQL know only from tables, which come empty.

use std::fmt::Write;

/// Statements, one a line, that make `Europe/Berlin` and `Asia/Kolkata` known.
///
/// Written here rather than read from the system's files: a bare machine has neither those nor the
/// program that turns them into statements.
pub(crate) fn statements() -> String {
    let mut sql = String::new();
    zone(&mut sql, "Europe/Berlin", &[(3600, 0, "CET"), (7200, 1, "CEST")], &summers(1996..=2100));
    zone(&mut sql, "Asia/Kolkata", &[(19_800, 0, "IST")], &[]);
    sql
}

fn zone(sql: &mut String, name: &str, types: &[(i32, u8, &str)], transitions: &[(i64, usize)]) {
    let rows = |rows: Vec<String>| rows.join(", ");
    let types = types.iter().enumerate();
    let types = rows(
        types.map(|(id, (offset, dst, short))| format!("(@id, {id}, {offset}, {dst}, '{short}')")).collect(),
    );
    let _ = write!(
        sql,
        "INSERT INTO mysql.time_zone (Use_leap_seconds) VALUES ('N');\n\
         SET @id = LAST_INSERT_ID();\n\
         INSERT INTO mysql.time_zone_name (Name, Time_zone_id) VALUES ('{name}', @id);\n\
         INSERT INTO mysql.time_zone_transition_type \
         (Time_zone_id, Transition_type_id, `Offset`, Is_DST, Abbreviation) VALUES {types};\n"
    );
    if !transitions.is_empty() {
        let transitions = rows(transitions.iter().map(|(at, id)| format!("(@id, {at}, {id})")).collect());
        let _ = writeln!(
            sql,
            "INSERT INTO mysql.time_zone_transition (Time_zone_id, Transition_time, Transition_type_id) \
             VALUES {transitions};"
        );
    }
}

/// The changes of a central European clock, in seconds since 1970: to summer (1) on the last Sunday of
/// March and back (0) on that of October, each at 1:00 UTC.
fn summers(years: impl Iterator<Item = i64>) -> Vec<(i64, usize)> {
    let change = |year, month| last_sunday(year, month) * 86_400 + 3600;
    years.flat_map(|year| [(change(year, 3), 1), (change(year, 10), 0)]).collect()
}

/// The last Sunday of a month of 31 days, in days since 1970.
fn last_sunday(year: i64, month: i64) -> i64 {
    let last = days(year, month, 31);
    // Day 0 was a Thursday, day 3 a Sunday.
    last - (last - 3).rem_euclid(7)
}

/// Days since 1970-01-01 of a date in March or later.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let day_of_year = (153 * (month - 3) + 2) / 5 + day - 1;
    // Counted from the first of March of year 0, 719468 days before 1970.
    year * 365 + year / 4 - year / 100 + year / 400 + day_of_year - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn summer_begins_and_ends_on_the_known_instants() {
        // 2026-03-29T01:00:00Z and 2026-10-25T01:00:00Z; 2000 is a leap year, 2100 is none.
        assert_eq!(summers(2026..=2026), [(1_774_746_000, 1), (1_792_890_000, 0)]);
        assert_eq!(summers(2000..=2000), [(954_032_400, 1), (972_781_200, 0)]);
        assert_eq!(summers(2100..=2100), [(4_109_878_800, 1), (4_128_627_600, 0)]);
    }
}
