//! The schedule that the workers of a trial work off, and how each of them is told.

use std::env;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use lease_core::{LeaseName, Slot};

/// A schedule: a few names, each with instants at equal distances.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// What all that is random in the trial is made from.
    pub seed: u64,
    /// How many names there are.
    pub names: u32,
    /// How many instants each name has.
    pub instants: u32,
    /// The first instant of the first name, in milliseconds since 1970 UTC.
    pub first_ms: i64,
    /// From one instant of a name to its next, in milliseconds. Those of the names lie evenly between.
    pub every_ms: i64,
    /// The ttl of the leases, whole milliseconds.
    pub ttl: Duration,
}

impl Plan {
    /// The names.
    pub fn names(&self) -> Vec<LeaseName> {
        (0..self.names).filter_map(|n| format!("rounds-{n}").parse().ok()).collect()
    }

    /// The instants of a name, in order; none for one that is not in the plan, or before 1970.
    pub fn slots(&self, name: &LeaseName) -> Vec<Slot> {
        let known = (0..).zip(self.names()).find(|(_, known)| known == name);
        let Some((position, _)) = known else { return Vec::new() };
        let between = self.every_ms * position / i64::from(self.names);
        let slots = (0..self.instants).map(|n| self.first_ms + between + self.every_ms * i64::from(n));
        slots.filter_map(Slot::from_millis).collect()
    }
}

/// What a worker is told, in its environment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Order {
    /// The schedule.
    pub plan: Plan,
    /// The number of the worker, in the log; no two of a trial have the same.
    pub worker: u32,
    /// How long it may take.
    pub within: Duration,
    /// The file that the work appends to.
    pub log: PathBuf,
}

impl Order {
    /// The environment variable that an order is handed over in.
    pub const VARIABLE: &str = "LEASE_ROUNDS_ORDER";

    /// The order of this process; `None` when it is no worker of a trial.
    ///
    /// # Panics
    ///
    /// If the variable holds something else.
    pub fn given() -> Option<Self> {
        let order = env::var(Self::VARIABLE).ok()?;
        Some(order.parse().unwrap_or_else(|problem| panic!("{}: {problem}", Self::VARIABLE)))
    }
}

impl fmt::Display for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { plan, worker, within, log } = self;
        let Plan { seed, names, instants, first_ms, every_ms, ttl } = plan;
        let (ttl, within) = (ttl.as_millis(), within.as_millis());
        let log = log.display();
        write!(f, "{seed} {names} {instants} {first_ms} {every_ms} {ttl} {worker} {within} {log}")
    }
}

impl FromStr for Order {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts: Vec<&str> = text.splitn(9, ' ').collect();
        let &[seed, names, instants, first_ms, every_ms, ttl, worker, within, log] = &parts[..] else {
            return Err(format!("{text:?} has not the nine parts of an order"));
        };
        let plan = Plan {
            seed: number(seed)?,
            names: number(names)?,
            instants: number(instants)?,
            first_ms: number(first_ms)?,
            every_ms: number(every_ms)?,
            ttl: Duration::from_millis(number(ttl)?),
        };
        let within = Duration::from_millis(number(within)?);
        Ok(Self { plan, worker: number(worker)?, within, log: log.into() })
    }
}

pub(crate) fn number<T: FromStr>(text: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("{text:?} is not a number as it is expected here"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_is_read_back_as_it_was_given() {
        let [ttl, within] = [2, 300].map(Duration::from_secs);
        let plan = Plan { seed: 7, names: 8, instants: 25, first_ms: -3, every_ms: 500, ttl };
        let order = Order { plan, worker: 4, within, log: "/a folder/the log".into() };
        assert_eq!(order.to_string().parse(), Ok(order));
        assert!("1 2 3".parse::<Order>().is_err());
        assert!("1 2 3 4 5 x 7 8 log".parse::<Order>().is_err());
    }

    #[test]
    fn the_instants_of_the_names_lie_evenly_between_each_other() {
        let ttl = Duration::from_secs(2);
        let plan = Plan { seed: 7, names: 2, instants: 3, first_ms: 1_000, every_ms: 500, ttl };
        let names = plan.names();
        let ms =
            |name: usize| plan.slots(&names[name]).iter().map(|slot| slot.as_millis()).collect::<Vec<_>>();
        assert_eq!([ms(0), ms(1)], [[1_000, 1_500, 2_000], [1_250, 1_750, 2_250]]);
    }
}
