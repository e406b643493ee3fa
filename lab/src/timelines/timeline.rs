//! Three lanes over one axis of time: the holder, the row in the database, and who waits.

use std::time::Duration;

use lease_testkit::Op;

use super::page::{Anchor, Page, WIDTH, width};
use super::play::{Held, Played, Sent, Side};

const LEFT: f64 = 126.0;
const RIGHT: f64 = WIDTH - 24.0;
const BAR: f64 = 26.0;
const A: f64 = 160.0;
const ROW: f64 = 232.0;
const B: f64 = 310.0;
const AXIS: f64 = 394.0;
const HEIGHT: f64 = 480.0;

/// A picture of what was played, with what is the same in all of them.
pub(super) struct Timeline {
    page: Page,
    /// What the axis calls zero, and where it ends, in seconds since the start.
    zero: f64,
    ends: f64,
}

/// A moment that is pointed out.
pub(super) struct Callout<'t> {
    /// When.
    pub(super) at: Duration,
    /// In which line of texts it stands, from 0, the next to the lanes.
    pub(super) line: u8,
    /// On which side of the moment.
    pub(super) anchor: Anchor,
    /// What is said of it, after the time.
    pub(super) text: &'t str,
}

impl Timeline {
    /// Draws the lanes and the axis.
    pub(super) fn new(
        played: &Played,
        zero: Duration,
        title: &str,
        lines: [&str; 2],
        description: &str,
    ) -> Self {
        let mut page = Page::new(HEIGHT, title, description);
        page.text([18.0, 52.0], Anchor::Start, "sub", lines[0]);
        page.text([18.0, 70.0], Anchor::Start, "sub", lines[1]);
        let mut drawn = Self { page, zero: zero.as_secs_f64(), ends: played.span.as_secs_f64() };
        drawn.axis();
        for (y, lines) in [
            (A, ["A", "first holder"]),
            (ROW, ["the database", "row of the name"]),
            (B, ["B", "another replica"]),
        ] {
            drawn.page.text([18.0, y + 11.0], Anchor::Start, "lane", lines[0]);
            drawn.page.text([18.0, y + 25.0], Anchor::Start, "small", lines[1]);
        }
        drawn
    }

    /// The bars of the row, and of B, who is alone afterwards; those of A are different each time.
    pub(super) fn bars(&mut self, played: &Played, waits: Duration) {
        for held in &played.row {
            self.held(held, played.span);
        }
        let begins = played.b.begins.unwrap_or(played.span);
        self.bar(B, [waits, begins], ("waits", ""), &["waits"]);
        let until = played.b.ends.unwrap_or(played.span);
        self.bar(B, [begins, until], ("b", "on"), &["B believes that it holds it", "B believes"]);
    }

    fn held(&mut self, held: &Held, span: Duration) {
        let class = if held.by == "A" { "row-a" } else { "row-b" };
        let text = format!("held by {}, term {}", held.by, held.term);
        self.bar(ROW, [held.since, held.until.min(span)], (class, ""), &[&text]);
    }

    pub(super) fn a_believes(&mut self, from: Duration, until: Duration) {
        self.bar(A, [from, until], ("a", "on"), &["A believes that it holds it", "A believes"]);
    }

    pub(super) fn grace(&mut self, from: Duration, until: Duration) {
        self.bar(A, [from, until], ("grace", ""), &["grace: work winds up", "grace"]);
    }

    /// Shades a time through all lanes. Draw it first.
    pub(super) fn shade(&mut self, from: Duration, until: Duration) {
        let (left, right) = (self.x(from), self.x(until));
        self.page.rectangle([left, A - 4.0], [right - left, B + BAR - A + 8.0], "nobody");
    }

    /// Says something of a time, between A and the row.
    pub(super) fn say(&mut self, from: Duration, until: Duration, text: &str) {
        let x = f64::midpoint(self.x(from), self.x(until));
        self.page.text([x, f64::midpoint(A + BAR, ROW) + 4.0], Anchor::Middle, "", text);
    }

    /// With the first of the texts that it has room for.
    fn bar(&mut self, y: f64, [from, until]: [Duration; 2], (class, ink): (&str, &str), texts: &[&str]) {
        let (left, right) = (self.x(from), self.x(until));
        self.page.rectangle([left, y], [right - left, BAR], class);
        if let Some(text) = texts.iter().find(|text| width(text, ink, 12.0) < right - left) {
            self.page.text([f64::midpoint(left, right), y + 17.5], Anchor::Middle, ink, text);
        }
    }

    /// All that a process sent: to the row, and back.
    pub(super) fn statements(&mut self, side: &Side, is_a: bool) {
        // What is on its way when the picture ends says nothing.
        let ends = self.ends;
        for sent in
            side.calls.iter().filter(|sent| sent.ended.is_some() || sent.at.as_secs_f64() + 1.0 < ends)
        {
            let kind = match sent.op {
                Op::Inspect | Op::Announce => "looks",
                _ if is_a => "a",
                _ => "b",
            };
            self.statement(sent, kind, is_a);
        }
    }

    fn statement(&mut self, sent: &Sent, kind: &str, is_a: bool) {
        let (lane, row) = if is_a { (A + BAR, ROW) } else { (B, ROW + BAR) };
        let asks = if kind == "looks" { "looks".to_owned() } else { format!("asks-{kind}") };
        let from = [self.x(sent.at), lane];
        if let Some(ran) = sent.ran {
            let there = [self.x(ran), row];
            self.page.arrow(&[from, there], &asks);
            if let Some(ended) = sent.ended {
                self.page.arrow(&[there, [self.x(ended), lane]], &format!("answers-{kind}"));
            }
        } else {
            let middle = f64::midpoint(lane, row);
            let stuck = [from[0] + 3.0, middle];
            self.page.line(from, stuck, &asks);
            if let Some(ended) = sent.ended {
                let gives_up = self.x(ended);
                self.page.line(stuck, [gives_up, middle], "silent");
                self.page.line([gives_up, middle - 5.0], [gives_up, middle + 5.0], "span");
                self.page.text([stuck[0] + 9.0, middle - 5.0], Anchor::Start, "bad", "no answer");
                let waited = format!("for {}", seconds(ended.saturating_sub(sent.at).as_secs_f64()));
                self.page.text([stuck[0] + 9.0, middle + 14.0], Anchor::Start, "bad", &waited);
            } else if sent.op == Op::Release {
                self.page.text([stuck[0] + 9.0, middle + 4.0], Anchor::Start, "bad", "release: no answer");
            }
            self.page.cross(stuck);
        }
    }

    /// A length of time, above A's bar.
    pub(super) fn a_span(&mut self, from: Duration, until: Duration, text: &str) {
        self.span(A - 10.0, from, until, text);
    }

    /// A length of time, below the row's bar.
    pub(super) fn row_span(&mut self, from: Duration, until: Duration, text: &str) {
        self.span(ROW + BAR + 16.0, from, until, text);
    }

    fn span(&mut self, y: f64, from: Duration, until: Duration, text: &str) {
        let (left, right) = (self.x(from), self.x(until));
        self.page.line([left, y], [right, y], "span");
        for x in [left, right] {
            self.page.line([x, y - 5.0], [x, y + 5.0], "span");
        }
        self.page.text_on_blank([f64::midpoint(left, right), y + 4.0], "", text);
    }

    /// Moments of A, above its bar.
    pub(super) fn above(&mut self, callouts: &[Callout<'_>]) {
        for callout in callouts {
            let y = A - 30.0 - 18.0 * f64::from(callout.line);
            self.callout(callout, [y - 10.0, A], y);
        }
    }

    /// Moments of the row, below all lanes.
    pub(super) fn below_row(&mut self, callouts: &[Callout<'_>]) {
        self.below(callouts, ROW + BAR);
    }

    /// Moments of B, below its bar.
    pub(super) fn below_b(&mut self, callouts: &[Callout<'_>]) {
        self.below(callouts, B + BAR);
    }

    fn below(&mut self, callouts: &[Callout<'_>], from: f64) {
        for callout in callouts {
            let y = B + BAR + 20.0 + 18.0 * f64::from(callout.line);
            self.callout(callout, [from, y + 3.0], y);
        }
    }

    fn callout(&mut self, callout: &Callout<'_>, [top, bottom]: [f64; 2], y: f64) {
        let x = self.x(callout.at);
        self.page.leader(x, top, bottom);
        let aside = match callout.anchor {
            Anchor::Start => 4.0,
            Anchor::Middle => 0.0,
            Anchor::End => -4.0,
        };
        let text = format!("{}: {}", self.moment(callout.at), callout.text);
        self.page.text([x + aside, y], callout.anchor, "", &text);
    }

    /// A death, on A's bar.
    pub(super) fn cross_on_a(&mut self, at: Duration) {
        let x = self.x(at);
        self.page.cross([x, A + BAR / 2.0]);
    }

    /// With the keys of what is in it: whether that is a grace, and what a cross means.
    pub(super) fn done(mut self, has_grace: bool, cross: Option<&str>, remark: &str) -> Page {
        self.legend(has_grace, cross);
        self.page.text([18.0, HEIGHT - 16.0], Anchor::Start, "small", remark);
        self.page
    }

    fn x(&self, at: Duration) -> f64 {
        // Room for what comes right before the first statement.
        LEFT + 8.0 + at.as_secs_f64() / self.ends * (RIGHT - LEFT - 8.0)
    }

    fn moment(&self, at: Duration) -> String {
        seconds(at.as_secs_f64() - self.zero)
    }

    fn axis(&mut self) {
        let first = -self.zero;
        for second in
            (-10..=60).map(f64::from).filter(|second| *second >= first && *second <= first + self.ends)
        {
            let x = self.x(Duration::from_secs_f64((second - first).max(0.0)));
            self.page.line([x, A - 4.0], [x, AXIS], "grid");
            self.page.line([x, AXIS], [x, AXIS + 4.0], "axis");
            self.page.text([x, AXIS + 17.0], Anchor::Middle, "small", &format!("{second}"));
        }
        self.page.line([LEFT, AXIS], [RIGHT, AXIS], "axis");
        self.page.text([18.0, AXIS + 17.0], Anchor::Start, "small", "seconds");
    }

    fn legend(&mut self, has_grace: bool, cross: Option<&str>) {
        let y = AXIS + 46.0;
        let mut x = LEFT + 8.0;
        for (classes, text, room) in [
            (&["a", "b"][..], "believes", 72.0),
            (&["row-a", "row-b"], "held, says the row", 130.0),
            (if has_grace { &["grace"][..] } else { &[] }, "grace", 52.0),
        ] {
            if classes.is_empty() {
                continue;
            }
            for class in classes {
                self.page.rectangle([x, y - 10.0], [14.0, 12.0], class);
                x += 16.0;
            }
            self.page.text([x + 4.0, y], Anchor::Start, "small", text);
            x += room;
        }
        self.page.arrow(&[[x, y - 11.0], [x + 6.0, y + 3.0]], "asks-a");
        self.page.arrow(&[[x + 6.0, y + 3.0], [x + 12.0, y - 11.0]], "answers-a");
        self.page.text([x + 20.0, y], Anchor::Start, "small", "claim, renewal, release; its answer");
        x += 240.0;
        self.page.arrow(&[[x, y + 3.0], [x + 6.0, y - 11.0]], "looks");
        self.page.text([x + 14.0, y], Anchor::Start, "small", "look, notice");
        x += 104.0;
        if let Some(cross) = cross {
            self.page.cross([x, y - 4.0]);
            self.page.text([x + 10.0, y], Anchor::Start, "small", cross);
        }
    }
}

/// With as many digits as it takes, and one at least.
fn seconds(seconds: f64) -> String {
    let shown = format!("{seconds:.2}");
    format!("{} s", shown.strip_suffix('0').unwrap_or(&shown))
}
