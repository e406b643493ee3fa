//! What simulations came to: figures, floors, and how to replay what failed.

use std::collections::BTreeMap;
use std::time::Duration;

use super::cluster::Outcome;

/// What must have happened per 1,000 simulated hours, so that a simulation that tries nothing cannot pass: about a third of
/// what does. The first bar, ten faults an hour, is that of faults.
const FLOORS: [(&str, u64); 33] = [
    ("batches", 4000),
    ("blocked runtimes", 600),
    ("clock steps back", 250),
    ("clock steps forward", 250),
    ("commits refused by the fence", 400),
    ("crashes", 700),
    ("databases away", 400),
    ("faults", 10000),
    ("ghosts", 4000),
    ("grace failures", 300),
    ("guard refusals", 50),
    ("guarded commits", 25000),
    ("half-open connections", 250),
    ("hangs", 1800),
    ("late lost answers", 2000),
    ("losses", 3000),
    ("lost answers", 4000),
    ("partitions", 500),
    ("pauses", 900),
    ("read-only databases", 400),
    ("requests to clear", 350),
    ("reruns", 1800),
    ("rounds", 4000),
    ("rounds cut short", 1500),
    ("rounds finished", 2700),
    ("sessions ended by their guard", 2500),
    ("shutdowns", 500),
    ("silent databases", 300),
    ("slow connections", 300),
    ("statements cut off", 8000),
    ("step-downs", 350),
    ("takeovers", 2000),
    ("told: given back", 13000),
];

/// All seeds together.
#[derive(Debug, Default)]
pub struct Report {
    /// How many seeds.
    pub seeds: u64,
    /// How many hours were simulated.
    pub hours: u64,
    /// How much happened.
    pub events: u64,
    /// How often what.
    pub counts: BTreeMap<&'static str, u64>,
    /// The seeds that broke an invariant.
    pub failed: Vec<u64>,
    /// The longest that a leader's name was free in a calm, in thousandths of what it may be.
    pub slowest_return: u64,
    /// Of all hashes, whatever the order in which the seeds were run.
    pub hash: u64,
}

impl Report {
    /// Takes in one seed.
    pub fn add(&mut self, outcome: &Outcome) {
        self.seeds += 1;
        self.hours += outcome.plan.span.as_secs() / 3_600;
        self.events += outcome.events;
        self.hash = self.hash.wrapping_add(outcome.hash);
        self.slowest_return = self.slowest_return.max(outcome.slowest_return);
        for (what, count) in &outcome.counts {
            *self.counts.entry(what).or_default() += count;
        }
        if !outcome.violations.is_empty() {
            self.failed.push(outcome.plan.seed);
        }
    }

    /// What happened less often than it must in so many hours, with how often it must.
    pub fn below_floors(&self) -> Vec<(&'static str, u64, u64)> {
        let count = |what| self.counts.get(what).copied().unwrap_or(0);
        let floors = FLOORS.iter().map(|(what, floor)| (*what, count(what), floor * self.hours / 1_000));
        floors.filter(|(_, count, floor)| count < floor).collect()
    }
}

/// Says what broke, what came before, and how to see it again.
pub fn explain(outcome: &Outcome) {
    let plan = &outcome.plan;
    eprintln!("\nseed {} broke an invariant; its last events:", plan.seed);
    for line in &outcome.last {
        eprintln!("{line}");
    }
    for violation in &outcome.violations {
        eprintln!("VIOLATION {violation}");
    }
    let holes = if plan.holes { " --holes" } else { "" };
    eprintln!("{}\nhash {:016x}", outcome.setting, outcome.hash);
    eprintln!(
        "replay: cargo run -p lab -- simulate --seed {} --seeds 1 --hours {}{holes}\n",
        plan.seed,
        plan.span.as_secs() / 3_600
    );
}

/// Writes the table.
pub fn print(report: &Report, took: Duration) {
    let mut table = comfy_table::Table::new();
    table.load_style(comfy_table::presets::NOTHING);
    table.set_header(["what", "count", "floor"]);
    for (what, count) in &report.counts {
        let floor = FLOORS.iter().find(|(floor, _)| floor == what);
        let floor = floor.map_or_else(String::new, |(_, floor)| (floor * report.hours / 1_000).to_string());
        table.add_row([(*what).to_owned(), count.to_string(), floor]);
    }
    println!("{table}");
    println!(
        "{} seeds, {} hours, {} events in {}; after a heal the name was held within {} thousandths of its bound",
        report.seeds,
        report.hours,
        report.events,
        humantime::format_duration(Duration::from_millis(u64::try_from(took.as_millis()).unwrap_or(0))),
        report.slowest_return
    );
    println!("hash {:016x}; seeds that broke an invariant: {:?}", report.hash, report.failed);
}

/// Says which floors were not reached, if any.
pub fn below_floors(report: &Report, holes: bool) -> bool {
    let below = report.below_floors();
    for (what, count, floor) in &below {
        eprintln!("too little happened: {count} {what}, at least {floor} are needed");
    }
    let tame = holes && !report.counts.contains_key("beyond the limits");
    if tame {
        eprintln!("too little happened: nothing went beyond the limits");
    }
    tame || !below.is_empty()
}

/// The figures, for other programs.
pub fn json(report: &Report, took: Duration) -> String {
    let value = serde_json::json!({
        "seeds": report.seeds,
        "hours": report.hours,
        "events": report.events,
        "hash": format!("{:016x}", report.hash),
        "failed": report.failed,
        "slowest_return_thousandths": report.slowest_return,
        "took_ms": u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
        "counts": report.counts,
    });
    format!("{value:#}\n")
}
