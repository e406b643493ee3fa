//! A question's figures as a picture: a bar for each engine, with the goal as a mark.

use std::fmt::Write;

/// What is drawn: rows of bars on one scale.
pub(crate) struct Chart {
    pub(crate) title: String,
    pub(crate) unit: &'static str,
    pub(crate) rows: Vec<Row>,
    /// Where and when it was measured.
    pub(crate) footer: Vec<String>,
}

pub(crate) struct Row {
    pub(crate) label: String,
    pub(crate) bars: Vec<Bar>,
}

pub(crate) struct Bar {
    pub(crate) engine: &'static str,
    pub(crate) value: f64,
    /// As people read it.
    pub(crate) shown: String,
    /// Between which the value surely lies, where that is known.
    pub(crate) range: Option<(f64, f64)>,
    pub(crate) goal: Option<f64>,
}

const WIDTH: f64 = 1070.0;
const LABELS: f64 = 440.0;
/// Right of the bars, for their values.
const VALUES: f64 = 90.0;
const HEAD: f64 = 64.0;
const BAR: f64 = 14.0;
const GAP: f64 = 12.0;
const LINE: f64 = 16.0;

/// Beyond this the smallest could not be seen beside the largest.
const LINEAR_UP_TO: f64 = 30.0;

/// The colours of Okabe and Ito, which people who see few colours tell apart.
fn colour(engine: &str) -> &'static str {
    match engine {
        "sqlite" => "#0072b2",
        "postgres" => "#e69f00",
        "mariadb" => "#009e73",
        "mysql" => "#cc79a7",
        _ => "#555555",
    }
}

/// From a value to where it lies on the page.
enum Scale {
    Linear {
        most: f64,
    },
    /// From a power of ten to another.
    Logarithmic {
        low: f64,
        high: f64,
    },
}

impl Scale {
    fn of(values: &[f64]) -> Self {
        let positive = values.iter().copied().filter(|value| value.is_finite() && *value > 0.0);
        let (least, most) = positive
            .fold((f64::INFINITY, 0.0_f64), |(least, most), value| (least.min(value), most.max(value)));
        if most > least * LINEAR_UP_TO {
            Self::Logarithmic { low: least.log10().floor(), high: most.log10().ceil() }
        } else {
            Self::Linear { most: if most > 0.0 { most } else { 1.0 } }
        }
    }

    fn at(&self, value: f64) -> f64 {
        let share = match self {
            Self::Linear { most } => value / most,
            Self::Logarithmic { low, high } => (value.max(f64::MIN_POSITIVE).log10() - low) / (high - low),
        };
        let share = if share.is_finite() { share.clamp(0.0, 1.0) } else { 0.0 };
        LABELS + share * (WIDTH - LABELS - VALUES)
    }

    /// Where lines help the eye, and what they stand for.
    fn lines(&self) -> Vec<f64> {
        match self {
            Self::Linear { most } => {
                let step = step(*most);
                (0..=10).map(|n| f64::from(n) * step).take_while(|value| *value <= *most).collect()
            }
            Self::Logarithmic { low, high } => {
                let decades = (0..40).map(|n| low + f64::from(n)).take_while(|exponent| exponent <= high);
                decades.map(|exponent| 10_f64.powf(exponent)).collect()
            }
        }
    }
}

/// One, two or five of a power of ten, so that there are some five of them.
fn step(most: f64) -> f64 {
    let rough = most / 5.0;
    let power = 10_f64.powf(rough.log10().floor());
    [1.0, 2.0, 5.0].into_iter().map(|digit| digit * power).find(|step| *step >= rough).unwrap_or(10.0 * power)
}

impl Chart {
    /// As SVG.
    pub(crate) fn draw(&self) -> String {
        let bars = || self.rows.iter().flat_map(|row| &row.bars);
        let values: Vec<f64> = bars()
            .flat_map(|bar| [Some(bar.value), bar.goal, bar.range.map(|range| range.1)])
            .flatten()
            .collect();
        let scale = Scale::of(&values);
        let count = |row: &Row| f64::from(u16::try_from(row.bars.len()).unwrap_or(u16::MAX));
        let rows: f64 = self.rows.iter().map(|row| count(row) * BAR + GAP).sum();
        let lines = f64::from(u16::try_from(self.footer.len()).unwrap_or(u16::MAX));
        let (bottom, height) = (HEAD + rows, HEAD + rows + 34.0 + lines * LINE);
        let mut svg = Svg::new(height);
        svg.text(12.0, 24.0, "title", &format!("{} ({})", self.title, self.unit));
        svg.legend(bars());
        for value in scale.lines() {
            let x = scale.at(value);
            svg.line([x, HEAD - 6.0], [x, bottom], "grid");
            svg.text(x, bottom + 14.0, "axis", &number(value));
        }
        let mut y = HEAD;
        for row in &self.rows {
            svg.text(LABELS - 8.0, y + count(row) * BAR / 2.0 + 4.0, "label", &row.label);
            for bar in &row.bars {
                svg.bar(&scale, bar, y);
                y += BAR;
            }
            y += GAP;
        }
        for (n, line) in (0_u16..).zip(&self.footer) {
            svg.text(12.0, bottom + 34.0 + f64::from(n) * LINE, "foot", line);
        }
        svg.end()
    }
}

/// What is written of the picture.
struct Svg(String);

impl Svg {
    fn new(height: f64) -> Self {
        Self(format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" \
             viewBox=\"0 0 {WIDTH} {height}\" font-family=\"system-ui, sans-serif\" font-size=\"12\">\n\
             <style>.title{{font-size:16px;font-weight:600}}.label{{text-anchor:end}}.axis{{text-anchor:middle;fill:#666}}\
             .foot{{fill:#666;font-size:11px}}.grid{{stroke:#ddd}}.range{{stroke:#222}}.goal{{stroke:#d00000;stroke-width:2}}</style>\n\
             <rect width=\"{WIDTH}\" height=\"{height}\" fill=\"#fff\"/>\n"
        ))
    }

    fn add(&mut self, element: &str) {
        self.0.push_str(element);
        self.0.push('\n');
    }

    fn text(&mut self, x: f64, y: f64, class: &str, text: &str) {
        self.add(&format!("<text x=\"{x:.1}\" y=\"{y:.1}\" class=\"{class}\">{}</text>", escaped(text)));
    }

    fn line(&mut self, [x1, y1]: [f64; 2], [x2, y2]: [f64; 2], class: &str) {
        self.add(&format!(
            "<line x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\" class=\"{class}\"/>"
        ));
    }

    fn rectangle(&mut self, [x, y]: [f64; 2], [width, height]: [f64; 2], fill: &str) {
        self.add(&format!(
            "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" fill=\"{fill}\"/>"
        ));
    }

    fn legend<'b>(&mut self, bars: impl Iterator<Item = &'b Bar>) {
        let mut engines: Vec<&str> = Vec::new();
        let mut has_goal = false;
        for bar in bars {
            has_goal |= bar.goal.is_some();
            if !engines.contains(&bar.engine) {
                engines.push(bar.engine);
            }
        }
        let mut x = LABELS;
        for engine in engines {
            self.rectangle([x, 36.0], [10.0, 10.0], colour(engine));
            self.text(x + 14.0, 45.0, "key", engine);
            x += 90.0;
        }
        if has_goal {
            self.line([x + 4.0, 34.0], [x + 4.0, 48.0], "goal");
            self.text(x + 14.0, 45.0, "key", "goal");
        }
    }

    fn bar(&mut self, scale: &Scale, bar: &Bar, y: f64) {
        let (x, middle) = (scale.at(bar.value), y + BAR / 2.0);
        self.rectangle([LABELS, y + 1.0], [x - LABELS, BAR - 2.0], colour(bar.engine));
        if let Some((low, high)) = bar.range {
            self.line([scale.at(low), middle], [scale.at(high), middle], "range");
        }
        if let Some(goal) = bar.goal {
            let at = scale.at(goal);
            self.line([at, y], [at, y + BAR], "goal");
        }
        // In a column of their own: beside the mark a value would be read as the goal's.
        self.text(WIDTH - VALUES + 6.0, middle + 4.0, "value", &bar.shown);
    }

    fn end(mut self) -> String {
        self.0.push_str("</svg>\n");
        self.0
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// Without zeros that say nothing.
fn number(value: f64) -> String {
    let mut shown = String::new();
    let _ = write!(shown, "{value:.4}");
    shown.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(values: &[f64]) -> String {
        let bar = |value: &f64| Bar {
            engine: "sqlite",
            value: *value,
            shown: format!("{value} ms"),
            range: None,
            goal: Some(2.0),
        };
        let rows = vec![Row { label: "a < b & c".to_owned(), bars: values.iter().map(bar).collect() }];
        Chart { title: "hand-over".to_owned(), unit: "ms", rows, footer: vec!["here".to_owned()] }.draw()
    }

    #[test]
    fn a_chart_shows_each_value_its_goal_and_where_it_was_measured() {
        let svg = chart(&[1.0, 3.0]);
        for part in ["hand-over (ms)", "a &lt; b &amp; c", "1 ms", "3 ms", "class=\"goal\"", "here", "</svg>"]
        {
            assert!(svg.contains(part), "{part}");
        }
    }

    #[test]
    fn bars_are_as_long_as_their_values_and_far_ones_stand_on_decades() {
        let scale = Scale::of(&[1.0, 4.0]);
        assert!((scale.at(4.0) - scale.at(2.0) - (scale.at(2.0) - scale.at(0.0))).abs() < 1e-9);
        assert_eq!(scale.lines(), [0.0, 1.0, 2.0, 3.0, 4.0]);
        let scale = Scale::of(&[0.5, 200.0]);
        assert!((scale.at(100.0) - scale.at(10.0) - (scale.at(10.0) - scale.at(1.0))).abs() < 1e-9);
        assert_eq!(
            scale.lines().iter().map(|value| number(*value)).collect::<Vec<_>>(),
            ["0.1", "1", "10", "100", "1000"]
        );
    }

    #[test]
    fn what_could_not_be_measured_is_drawn_as_nothing() {
        assert!(!chart(&[f64::NAN, 1.0]).contains("=\"NaN\""));
        assert!(chart(&[]).contains("</svg>"));
    }
}
