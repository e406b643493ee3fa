//! Nothing grows: memory, descriptors, threads, tasks and connections at the end of an incarnation are what they were at its begin.
//!
//! After a warm-up the medians of the first and the last fifth are compared; a fault moves no median for long.

use std::collections::BTreeMap;

use super::facts::{Facts, Who};
use super::{Report, Rule};
use crate::history::{Entry, Event, Sample};

/// With fewer samples nothing is concluded.
const LEAST: usize = 40;

type Read = fn(&Sample) -> Option<u64>;

/// Of what is sampled: its word, how to read it, what it may have grown by at the end beside a quarter.
const METRICS: [(&str, Read, u64); 5] = [
    ("rss", |sample| sample.rss_bytes, 16 << 20),
    ("fds", |sample| sample.fds, 8),
    ("threads", |sample| sample.threads, 4),
    ("tasks", |sample| sample.tasks, 16),
    ("connections", |sample| sample.connections, 8),
];

pub(super) fn check(facts: &Facts<'_>, report: &mut Report) {
    let mut samples: BTreeMap<(Who, &str), Vec<(&Sample, &Entry)>> = BTreeMap::new();
    for line in facts.entries {
        if let Event::Sample(sample) = &line.event {
            // The orchestrator has other histories in hand as well.
            if line.process == 0 && sample.of.is_empty() {
                continue;
            }
            let who = (line.process, line.incarnation);
            samples.entry((who, sample.of.as_str())).or_default().push((sample, line));
        }
    }
    for (((process, incarnation), of), samples) in samples {
        for (metric, read, room) in METRICS {
            let values: Vec<(u64, &Entry)> =
                samples.iter().filter_map(|(sample, line)| Some((read(sample)?, *line))).collect();
            let warm = &values[values.len() / 5..];
            if warm.len() < LEAST {
                continue;
            }
            let fifth = warm.len() / 5;
            let (first, last) = (median(&warm[..fifth]), median(&warm[warm.len() - fifth..]));
            report.summary.growths_judged += 1;
            let (before, after) = (i128::from(first.0), i128::from(last.0));
            let percent = i64::try_from((after - before) * 100 / before.max(1)).unwrap_or(i64::MAX);
            let most = report.summary.growth_percent.entry(metric).or_insert(percent);
            *most = percent.max(*most);
            if last.0 > first.0 + first.0 / 4 + room {
                let of =
                    if of.is_empty() { format!("process {process}.{incarnation}") } else { of.to_owned() };
                let what = format!("{metric} of {of} grew from {} to {}", first.0, last.0);
                report.violation(Rule::Growth, what, [first.1, last.1]);
            }
        }
    }
}

fn median<'a>(values: &[(u64, &'a Entry)]) -> (u64, &'a Entry) {
    let mut sorted = values.to_vec();
    sorted.sort_by_key(|(value, _)| *value);
    sorted[sorted.len() / 2]
}
