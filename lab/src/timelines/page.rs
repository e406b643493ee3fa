//! A picture as SVG, and whether its texts are in each other's way.

use std::fmt::Write as _;

/// How wide every picture is.
pub(super) const WIDTH: f64 = 880.0;

/// How wide a letter is, in sizes of its font, in one of the wider fonts.
const LETTER: f64 = 0.58;
const BOLD_LETTER: f64 = 0.65;

/// A has blue and B has purple, which people who see few colours tell apart; what the database says is in the pale colour of whom
/// it is about. The ground is the page's own, for readers in the dark.
const STYLE: &str = "text{fill:#222;font-size:12px}.title{font-size:17px;font-weight:600}.sub{font-size:13px;fill:#444}\
    .lane{font-weight:600}.small{font-size:11px;fill:#555}.on{fill:#fff;font-weight:600}.bad{fill:#b00020}\
    .page{fill:#fff;stroke:#ccc}.a{fill:#0072b2}.b{fill:#8e3b74}.row-a{fill:#cfe4f4;stroke:#0072b2}.row-b{fill:#f0d9e8;stroke:#8e3b74}\
    .waits{fill:#f2f2f2;stroke:#999;stroke-dasharray:3 3}.grace{fill:#e69f00}.nobody{fill:#f6f6d8}.blank{fill:#fff}\
    .state{fill:#cfe4f4;stroke:#0072b2}.inner{fill:#fff;stroke:#0072b2}.late{fill:#f8dfae;stroke:#c98500}.end{fill:#222}\
    line,path{fill:none;stroke:#222}.axis{stroke:#888}.grid{stroke:#e8e8e8}.asks-a{stroke:#0072b2;stroke-width:1.5}\
    .asks-b{stroke:#8e3b74;stroke-width:1.5}.looks{stroke:#999}.answers-a{stroke:#0072b2;stroke-dasharray:3 2}\
    .answers-b{stroke:#8e3b74;stroke-dasharray:3 2}.answers-looks{stroke:#999;stroke-dasharray:3 2}.moment{stroke:#555;stroke-dasharray:2 3}\
    .silent{stroke:#b00020;stroke-dasharray:2 3}.cross{stroke:#b00020;stroke-width:2.5}.span{stroke:#555}.flow{stroke:#444;stroke-width:1.4}";

/// On which side of its place a text stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Anchor {
    /// It begins there.
    Start,
    /// Its middle is there.
    Middle,
    /// It ends there.
    End,
}

/// A picture that is being drawn.
#[derive(Debug)]
pub struct Page {
    height: f64,
    title: String,
    description: String,
    body: String,
    texts: Vec<Placed>,
    /// Lines that no text may stand on: from top to bottom.
    leaders: Vec<[f64; 3]>,
}

/// Where a text stands.
#[derive(Debug)]
struct Placed {
    text: String,
    left: f64,
    right: f64,
    top: f64,
    bottom: f64,
}

impl Page {
    pub(super) fn new(height: f64, title: &str, description: &str) -> Self {
        let mut page = Self {
            height,
            title: title.to_owned(),
            description: description.to_owned(),
            body: String::new(),
            texts: Vec::new(),
            leaders: Vec::new(),
        };
        page.sized_text([18.0, 30.0], Anchor::Start, ("title", 17.0), title);
        page
    }

    /// The whole file.
    pub fn svg(&self) -> String {
        let (height, title, description) = (self.height, escaped(&self.title), escaped(&self.description));
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" viewBox=\"0 0 {WIDTH} {height}\" \
             font-family=\"system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif\" role=\"img\" aria-labelledby=\"title desc\">\n\
             <title id=\"title\">{title}</title>\n<desc id=\"desc\">{description}</desc>\n<style>{STYLE}</style>\n\
             <rect x=\"0.5\" y=\"0.5\" width=\"{}\" height=\"{}\" rx=\"6\" class=\"page\"/>\n{}</svg>\n",
            WIDTH - 1.0,
            height - 1.0,
            self.body
        )
    }

    /// The texts that stand in the way of another, or beyond the edge.
    pub fn muddles(&self) -> Vec<String> {
        let mut muddles = Vec::new();
        for (n, text) in self.texts.iter().enumerate() {
            if text.left < 0.0 || text.right > WIDTH || text.top < 0.0 || text.bottom > self.height {
                muddles.push(format!("{:?} is beyond the edge", text.text));
            }
            for [x, top, bottom] in &self.leaders {
                if text.left < *x && *x < text.right && text.top < *bottom && *top < text.bottom {
                    muddles.push(format!("{:?} stands on a line", text.text));
                }
            }
            for other in &self.texts[n + 1..] {
                let beside = text.right <= other.left || other.right <= text.left;
                if !beside && text.top < other.bottom && other.top < text.bottom {
                    muddles.push(format!("{:?} is in the way of {:?}", text.text, other.text));
                }
            }
        }
        muddles
    }

    pub(super) fn text(&mut self, at: [f64; 2], anchor: Anchor, class: &str, text: &str) {
        let size = match class {
            "small" => 11.0,
            "sub" => 13.0,
            _ => 12.0,
        };
        self.sized_text(at, anchor, (class, size), text);
    }

    fn sized_text(&mut self, [x, y]: [f64; 2], anchor: Anchor, (class, size): (&str, f64), text: &str) {
        let (left, right) = reach(x, anchor, width(text, class, size));
        self.texts.push(Placed {
            text: text.to_owned(),
            left,
            right,
            top: y - size * 0.8,
            bottom: y + size * 0.2,
        });
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        let text = escaped(text);
        self.add(format_args!(
            "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\" class=\"{class}\">{text}</text>"
        ));
    }

    /// A text with the ground behind it, on whatever is drawn there.
    pub(super) fn text_on_blank(&mut self, [x, y]: [f64; 2], class: &str, text: &str) {
        let width = width(text, class, 12.0);
        self.rectangle([x - width / 2.0 - 2.0, y - 11.0], [width + 4.0, 14.0], "blank");
        self.text([x, y], Anchor::Middle, class, text);
    }

    /// A line that leads from a text down to what it is about.
    pub(super) fn leader(&mut self, x: f64, top: f64, bottom: f64) {
        self.leaders.push([x, top, bottom]);
        self.line([x, top], [x, bottom], "moment");
    }

    pub(super) fn rectangle(&mut self, [x, y]: [f64; 2], [width, height]: [f64; 2], class: &str) {
        self.add(format_args!(
            "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" rx=\"3\" class=\"{class}\"/>"
        ));
    }

    pub(super) fn dot(&mut self, [x, y]: [f64; 2], radius: f64, class: &str) {
        self.add(format_args!("<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{radius:.1}\" class=\"{class}\"/>"));
    }

    pub(super) fn line(&mut self, [x1, y1]: [f64; 2], [x2, y2]: [f64; 2], class: &str) {
        self.add(format_args!(
            "<line x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\" class=\"{class}\"/>"
        ));
    }

    /// A way with a head at its end.
    pub(super) fn arrow(&mut self, way: &[[f64; 2]], class: &str) {
        for pair in way.windows(2) {
            self.line(pair[0], pair[1], class);
        }
        let &[.., [fx, fy], [x, y]] = way else { return };
        let (dx, dy) = (x - fx, y - fy);
        let length = (dx * dx + dy * dy).sqrt().max(1.0);
        let (ux, uy) = (dx / length * 6.0, dy / length * 6.0);
        for side in [0.5, -0.5] {
            self.line([x - ux - uy * side, y - uy + ux * side], [x, y], head(class));
        }
    }

    /// Where something came to nothing.
    pub(super) fn cross(&mut self, [x, y]: [f64; 2]) {
        self.line([x - 5.0, y - 5.0], [x + 5.0, y + 5.0], "cross");
        self.line([x - 5.0, y + 5.0], [x + 5.0, y - 5.0], "cross");
    }

    fn add(&mut self, element: std::fmt::Arguments<'_>) {
        // Writing into a String cannot fail.
        let _ = writeln!(self.body, "{element}");
    }
}

/// A head is drawn through, also that of a broken line.
fn head(class: &str) -> &str {
    match class {
        "answers-a" => "asks-a",
        "answers-b" => "asks-b",
        "answers-looks" => "looks",
        other => other,
    }
}

/// How wide a text of a class is in a size.
pub(super) fn width(text: &str, class: &str, size: f64) -> f64 {
    let letter = if matches!(class, "title" | "lane" | "on") { BOLD_LETTER } else { LETTER };
    f64::from(u16::try_from(text.chars().count()).unwrap_or(u16::MAX)) * size * letter
}

fn reach(x: f64, anchor: Anchor, width: f64) -> (f64, f64) {
    match anchor {
        Anchor::Start => (x, x + width),
        Anchor::Middle => (x - width / 2.0, x + width / 2.0),
        Anchor::End => (x - width, x),
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_in_each_others_way_and_beyond_the_edge_are_told() {
        let mut page = Page::new(100.0, "a & b", "");
        page.text([100.0, 60.0], Anchor::Start, "", "one");
        page.text([100.0, 80.0], Anchor::Start, "", "below");
        assert_eq!(page.muddles(), Vec::<String>::new());
        page.text([110.0, 65.0], Anchor::Start, "", "two");
        page.text([WIDTH, 40.0], Anchor::Middle, "", "wide");
        page.leader(102.0, 70.0, 90.0);
        assert_eq!(
            page.muddles(),
            ["\"one\" is in the way of \"two\"", "\"below\" stands on a line", "\"wide\" is beyond the edge"]
        );
        assert!(page.svg().contains("a &amp; b"));
    }
}
