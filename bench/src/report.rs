//! What was measured, for people and for programs.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use comfy_table::{Table, presets};
use jiff::Timestamp;
use serde::Serialize;

use crate::Outcome;
use crate::chart::{Bar, Chart, Row};
use crate::engine::Engine;
use crate::figures::{Ratios, millis, percentile};
use crate::machine::Machine;

/// One run of the benchmark.
#[derive(Serialize)]
pub(crate) struct Report {
    /// Seconds since 1970 UTC.
    begun: u64,
    quick: bool,
    machine: Machine,
    /// Each engine that was asked, with its version.
    versions: BTreeMap<&'static str, String>,
    answers: Vec<Answer>,
}

/// The answer of one engine to one question.
#[derive(Serialize)]
pub(crate) struct Answer {
    engine: &'static str,
    question: String,
    figures: Vec<Figure>,
    /// Why there is none.
    failure: Option<String>,
}

/// One number, and what it should be.
#[derive(Serialize)]
pub(crate) struct Figure {
    what: String,
    value: f64,
    unit: &'static str,
    /// What else is to be known of it.
    note: String,
    goal: Option<Goal>,
    /// How far the value may be off by mere chance, where that was measured.
    chance: f64,
    /// Between which the value lies with 95 % or more, where that was measured.
    range: Option<(f64, f64)>,
    /// All that it was made of.
    samples: Vec<f64>,
}

/// Where a figure should lie.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Goal {
    Below(f64),
    AtMost(f64),
    AtLeast(f64),
}

impl Figure {
    pub(crate) fn new(what: impl Into<String>, value: f64, unit: &'static str) -> Self {
        Self {
            what: what.into(),
            value,
            unit,
            note: String::new(),
            goal: None,
            chance: 0.0,
            range: None,
            samples: Vec::new(),
        }
    }

    /// One that could not be measured, and why.
    pub(crate) fn missing(what: impl Into<String>, why: impl std::fmt::Display) -> Self {
        Self::new(what, f64::NAN, "").note(format!("not measured: {why}"))
    }

    /// A percentile of times, in milliseconds; 100 is the longest.
    pub(crate) fn of_times(what: &str, samples: &[Duration], hundredths: usize) -> Self {
        let value = percentile(samples, hundredths).map_or(f64::NAN, millis);
        let which = if hundredths == 100 { "max".to_owned() } else { format!("p{hundredths}") };
        let mut figure = Self::new(format!("{what} {which}"), value, "ms");
        figure.note = format!("n={}", samples.len());
        figure.samples = samples.iter().copied().map(millis).collect();
        figure
    }

    /// As [`of_times`](Self::of_times), in microseconds.
    pub(crate) fn of_micros(what: &str, samples: &[Duration], hundredths: usize) -> Self {
        let micros = |time: Duration| time.as_secs_f64() * 1e6;
        let value = percentile(samples, hundredths).map_or(f64::NAN, micros);
        Self::new(format!("{what} p{hundredths}"), value, "µs").note(format!("n={}", samples.len()))
    }

    /// The median of ratios, beside what between two equals is chance: a difference below that is called none.
    pub(crate) fn of_ratios(what: impl Into<String>, ratios: &Ratios, chance: f64) -> Self {
        let median = ratios.median();
        let (low, high) = ratios.of_the_median();
        let verdict = if (median - 1.0).abs() <= chance { ": no real difference" } else { "" };
        let mut figure = Self::new(what, median, "times");
        figure.note = format!("chance {chance:.2}{verdict}");
        figure.chance = chance;
        // One alone says nothing of where the next would lie.
        if ratios.all().len() > 1 {
            figure.note = format!("{low:.2} to {high:.2}, {}", figure.note);
            figure.range = Some((low, high));
        }
        figure.samples = ratios.all().to_vec();
        figure
    }

    pub(crate) fn goal(mut self, goal: Goal) -> Self {
        self.goal = Some(goal);
        self
    }

    pub(crate) fn note(mut self, note: String) -> Self {
        self.note = note;
        self
    }

    /// With this in its note too.
    pub(crate) fn also(mut self, what: &str) -> Self {
        if !what.is_empty() {
            self.note = if self.note.is_empty() { what.to_owned() } else { format!("{}; {what}", self.note) };
        }
        self
    }

    fn row(&self) -> [String; 4] {
        let (goal, met) = match self.goal {
            None => (String::new(), ""),
            Some(goal) => {
                let (low, high) = self.range.unwrap_or((self.value, self.value));
                let ends = [self.value - self.chance, self.value + self.chance, low, high];
                let all =
                    |is_met: bool| ends.iter().all(|end| end.is_finite() && goal.is_met(*end) == is_met);
                let verdict = match self.value.is_finite() && goal.is_met(self.value) {
                    true if all(true) => "met",
                    false if all(false) => "MISSED",
                    _ => "cannot be told",
                };
                (goal.shown(), verdict)
            }
        };
        let value = if self.value.is_nan() {
            "none".to_owned()
        } else {
            format!("{} {}", rounded(self.value), self.unit)
        };
        [self.what.clone(), value, self.note.clone(), { format!("{goal} {met}").trim().to_owned() }]
    }
}

impl Goal {
    fn is_met(self, value: f64) -> bool {
        match self {
            Self::Below(most) => value < most,
            Self::AtMost(most) => value <= most,
            Self::AtLeast(least) => value >= least,
        }
    }

    fn shown(self) -> String {
        match self {
            Self::Below(most) => format!("< {}", rounded(most)),
            Self::AtMost(most) => format!("<= {}", rounded(most)),
            Self::AtLeast(least) => format!(">= {}", rounded(least)),
        }
    }
}

impl Answer {
    pub(crate) fn new(engine: Engine, question: String, outcome: Outcome<Vec<Figure>>) -> Self {
        let (figures, failure) = match outcome {
            Ok(figures) => (figures, None),
            Err(error) => (Vec::new(), Some(error.to_string())),
        };
        Self { engine: engine.name(), question, figures, failure }
    }
}

impl Report {
    pub(crate) fn new(quick: bool) -> Self {
        let begun = UNIX_EPOCH.elapsed().unwrap_or_default().as_secs();
        Self { begun, quick, machine: Machine::read(), versions: BTreeMap::new(), answers: Vec::new() }
    }

    pub(crate) fn asked(&mut self, engine: Engine, version: String) {
        self.versions.insert(engine.name(), version);
    }

    pub(crate) fn add(&mut self, answer: Answer) {
        self.answers.push(answer);
    }

    /// Whether something was asked and is not answered, be it one figure.
    pub(crate) fn has_failed(&self) -> bool {
        let lacks = |answer: &Answer| answer.figures.iter().any(|figure| figure.value.is_nan());
        self.answers.iter().any(|answer| answer.failure.is_some() || lacks(answer))
    }

    pub(crate) fn table(&self) -> String {
        let mut table = Table::new();
        table.load_style(presets::NOTHING).force_no_tty();
        table.set_header(["ENGINE", "QUESTION", "FIGURE", "VALUE", "", "GOAL"]);
        for answer in &self.answers {
            let row = |[what, value, note, goal]: [String; 4]| {
                [answer.engine.to_owned(), answer.question.clone(), what, value, note, goal]
            };
            for figure in &answer.figures {
                table.add_row(row(figure.row()));
            }
            if let Some(failure) = &answer.failure {
                table.add_row(row(["FAILED".into(), String::new(), failure.clone(), String::new()]));
            }
        }
        table.trim_fmt()
    }

    /// Writes it as JSON to a file of its own in the folder.
    pub(crate) fn write(&self, folder: &Path) -> Outcome<PathBuf> {
        let file = folder.join(format!("{}.json", self.begun));
        fs::write(&file, serde_json::to_string_pretty(self)? + "\n")?;
        Ok(file)
    }
}

impl Goal {
    fn bound(self) -> f64 {
        match self {
            Self::Below(bound) | Self::AtMost(bound) | Self::AtLeast(bound) => bound,
        }
    }
}

impl Report {
    /// Writes a picture of each question to a file of its name in the folder.
    pub(crate) fn draw(&self, folder: &Path) -> Outcome<()> {
        fs::create_dir_all(folder)?;
        let mut questions: Vec<&str> = Vec::new();
        for answer in &self.answers {
            if !answer.figures.is_empty() && !questions.contains(&answer.question.as_str()) {
                questions.push(&answer.question);
            }
        }
        for question in questions {
            fs::write(folder.join(format!("{question}.svg")), self.chart(question)?.draw())?;
        }
        Ok(())
    }

    /// The figures that have the unit of the first: others would need a scale of their own.
    fn chart(&self, question: &str) -> Outcome<Chart> {
        let answers = || self.answers.iter().filter(|answer| answer.question == question);
        let first = answers().flat_map(|answer| &answer.figures).find(|figure| figure.value.is_finite());
        let unit = first.map_or("", |figure| figure.unit);
        let mut rows: Vec<Row> = Vec::new();
        for answer in answers() {
            for figure in
                answer.figures.iter().filter(|figure| figure.unit == unit && figure.value.is_finite())
            {
                let bar = Bar {
                    engine: answer.engine,
                    value: figure.value,
                    shown: rounded(figure.value),
                    range: figure.range,
                    goal: figure.goal.map(Goal::bound),
                };
                match rows.iter_mut().find(|row| row.label == figure.what) {
                    Some(row) => row.bars.push(bar),
                    None => rows.push(Row { label: figure.what.clone(), bars: vec![bar] }),
                }
            }
        }
        let day = Timestamp::from_second(i64::try_from(self.begun)?)?.strftime("%Y-%m-%d");
        let quick = if self.quick { ", in a hurry: not to be quoted" } else { "" };
        let versions: Vec<String> =
            self.versions.iter().map(|(engine, version)| format!("{engine} {version}")).collect();
        let footer = vec![format!("{day}{quick}; {}", self.machine), versions.join("; ")];
        Ok(Chart { title: question.to_owned(), unit, rows, footer })
    }
}

/// Three digits that count, and no more than people read.
fn rounded(value: f64) -> String {
    match value.abs() {
        least if least >= 100.0 => format!("{value:.0}"),
        least if least >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_goal_stands_beside_its_figure_and_a_missed_one_is_told() {
        let figure = Figure::new("hand-over p50", 9.5, "ms").goal(Goal::Below(10.0)).note("n=3".into());
        assert_eq!(figure.row(), ["hand-over p50", "9.50 ms", "n=3", "< 10.0 met"]);
        let figure = Figure::new("ratio", 0.5, "times").goal(Goal::AtLeast(0.7));
        assert_eq!(figure.row()[3], ">= 0.70 MISSED");
        // Chance may have moved it across the goal.
        let ratio = |value| {
            let figure = Figure::of_ratios("ratio", &Ratios::new(&[value], &[1.0]), 0.4);
            figure.goal(Goal::AtLeast(0.7))
        };
        assert_eq!(ratio(1.0).row()[3], ">= 0.70 cannot be told");
        assert_eq!(ratio(0.4).row()[3], ">= 0.70 cannot be told");
        assert_eq!(ratio(0.2).row()[3], ">= 0.70 MISSED");
        assert_eq!(ratio(1.2).row()[3], ">= 0.70 met");
        // Nor may the figure's own spread.
        let of = |ratios: &[f64]| {
            let ones = vec![1.0; ratios.len()];
            Figure::of_ratios("ratio", &Ratios::new(ratios, &ones), 0.01).goal(Goal::AtMost(1.05))
        };
        assert_eq!(of(&[1.0, 1.0, 1.2]).row()[3], "<= 1.05 cannot be told");
        assert_eq!(of(&[1.1, 1.1, 1.2]).row()[3], "<= 1.05 MISSED");
        assert_eq!(of(&[]).row()[3], "<= 1.05 cannot be told");
        assert_eq!(of(&[1.04, 1.04]).row()[2], "1.04 to 1.04, chance 0.01");
        assert_eq!(of(&[1.2]).row()[2], "chance 0.01");
        // What could not be measured has met nothing.
        assert!(!Goal::Below(10.0).is_met(f64::NAN) && !Goal::AtLeast(0.7).is_met(f64::NAN));
    }

    #[test]
    fn a_figure_that_is_missing_says_why_and_is_a_failure() {
        let figure = Figure::missing("etcd hand-over", "it is not installed");
        assert_eq!(figure.row(), ["etcd hand-over", "none", "not measured: it is not installed", ""]);
        let mut report = Report::new(true);
        report.add(Answer::new(Engine::Sqlite, "rivals".into(), Ok(vec![Figure::new("one", 1.0, "ms")])));
        assert!(!report.has_failed());
        report.add(Answer::new(Engine::Sqlite, "rivals".into(), Ok(vec![figure])));
        assert!(report.has_failed());
        assert_eq!(Figure::new("a", 1.0, "ms").also("").also("b").also("c").row()[2], "b; c");
    }

    #[test]
    fn a_question_that_failed_is_in_the_table_and_in_the_file() {
        let mut report = Report::new(true);
        let times = [Duration::from_millis(3), Duration::from_millis(250)];
        let figures = vec![Figure::of_times("hand-over", &times, 100)];
        report.add(Answer::new(Engine::Sqlite, "hand-over".into(), Ok(figures)));
        assert!(!report.has_failed());
        report.add(Answer::new(Engine::Mysql, "idle".into(), Err("it went away".into())));
        assert!(report.has_failed());
        let table = report.table();
        assert!(
            table.contains("hand-over max") && table.contains("250 ms") && table.contains("it went away")
        );
        let folder = tempfile::tempdir().unwrap();
        let file = fs::read_to_string(report.write(folder.path()).unwrap()).unwrap();
        let read: serde_json::Value = serde_json::from_str(&file).unwrap();
        assert_eq!(read["answers"][0]["figures"][0]["samples"][1], 250.0);
        assert_eq!(read["answers"][1]["failure"], "it went away");
    }

    #[test]
    fn the_picture_of_a_question_has_the_engines_side_by_side_and_one_unit() {
        let mut report = Report::new(true);
        for (engine, value) in [(Engine::Sqlite, 1.25), (Engine::Mysql, 1.5)] {
            let figures = vec![Figure::new("renew", value, "times"), Figure::new("renew p50", 77.0, "µs")];
            report.asked(engine, "9.9".to_owned());
            report.add(Answer::new(engine, "statements".into(), Ok(figures)));
        }
        report.add(Answer::new(Engine::Mysql, "idle".into(), Err("it went away".into())));
        let folder = tempfile::tempdir().unwrap();
        report.draw(folder.path()).unwrap();
        let svg = fs::read_to_string(folder.path().join("statements.svg")).unwrap();
        assert!(svg.contains("1.25") && svg.contains("1.50") && svg.contains("mysql 9.9; sqlite 9.9"));
        assert!(svg.contains("not to be quoted") && !svg.contains("77"));
        assert_eq!(svg.matches(">renew<").count(), 1);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
