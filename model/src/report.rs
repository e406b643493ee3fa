//! What came of a run, for people and for programs.

use std::fmt::Write;

use serde_json::json;

use crate::parts::Outcome;

/// A line for each part; broken properties with the way there.
pub fn table(outcomes: &[Outcome]) -> String {
    let mut text = format!("{:<10} {:>10} {:>6} {:>8}  verdict\n", "part", "states", "depth", "seconds");
    for outcome in outcomes {
        let seconds = outcome.took.as_secs_f64();
        let Outcome { part, states, depth, .. } = outcome;
        line(
            &mut text,
            &format!("{:<10} {states:>10} {depth:>6} {seconds:>8.1}  {}", part.name, outcome.verdict()),
        );
        line(&mut text, &format!("           within: {}", part.bounds()));
        line(&mut text, &format!("           properties: {}", outcome.properties.join("; ")));
        for (property, steps) in &outcome.broken {
            line(&mut text, &format!("           BROKEN: {property}"));
            for (number, step) in steps.iter().enumerate() {
                line(&mut text, &format!("{:>14}. {step}", number + 1));
            }
        }
    }
    let states: usize = outcomes.iter().map(|outcome| outcome.states).sum();
    let seconds: f64 = outcomes.iter().map(|outcome| outcome.took.as_secs_f64()).sum();
    line(&mut text, &format!("{:<10} {states:>10} {:>6} {seconds:>8.1}", "together", ""));
    text
}

fn line(text: &mut String, line: &str) {
    writeln!(text, "{line}").expect("a string takes all");
}

/// The figures.
pub fn json(outcomes: &[Outcome]) -> String {
    let of = |outcome: &Outcome| {
        json!({
            "part": outcome.part.name,
            "bounds": outcome.part.bounds(),
            "states": outcome.states,
            "floor": outcome.part.floor,
            "depth": outcome.depth,
            "seconds": outcome.took.as_secs_f64(),
            "properties": outcome.properties,
            "broken": outcome.broken.iter().map(|(property, _)| *property).collect::<Vec<_>>(),
            "missing": outcome.missing,
            "good": outcome.is_good(),
        })
    };
    let figures = json!({ "parts": outcomes.iter().map(of).collect::<Vec<_>>() });
    format!("{figures:#}\n")
}
