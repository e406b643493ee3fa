//! The library's observer of a row, kept as a [`Machine`](crate::machine::Machine) is.

use lease_core::store::{DbTime, Inspection, LeaseRow, Observed};
use lease_core::{Holder, LeaseName, Look, Observer, Term, Timings};

use crate::units::{NOW, Units, ago, seconds, units_since};

/// What a waiter remembers of the row it waits for. Times of the database are relative to that clock's present.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Watch {
    /// The row still bears the holder that was seen.
    pub current: bool,
    /// In how long the expiry that was seen comes.
    pub expires: i8,
    /// For how long it has been so, by the local clock.
    since: u8,
    /// How long ago the last look at that clock was.
    shown: u8,
    /// How far that clock has gone since.
    clock: i8,
}

/// What a look found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Sight {
    /// Somebody holds the name.
    pub live: bool,
    /// By the holder that this waiter had seen before.
    pub same: bool,
    /// The row still bears the holder that was found.
    pub current: bool,
    /// In how long the expiry that was found comes.
    pub expires: i8,
    /// How far the database's clock has gone since.
    pub clock: i8,
}

/// What it leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The name is free.
    Free,
    /// Its holder is dead.
    Dead,
    /// Neither.
    Held,
}

/// Where the database's clock stands in what is handed to the library.
const CLOCK: i64 = 1_000_000;

impl Watch {
    /// Takes in a look that was sent so long ago and is answered now.
    ///
    /// # Panics
    ///
    /// When the library's observer remembers what a watch cannot say.
    pub fn look(
        watch: Option<Self>,
        sight: Sight,
        sent: u8,
        timings: &Timings,
        ttl: u8,
    ) -> (Option<Self>, Verdict) {
        let mut observer = watch.map_or_else(Observer::default, |watch| watch.observer(timings, ttl));
        let holder = if sight.same { SEEN } else { OTHER };
        let seen = inspection(holder, [-i64::from(sight.clock), sight.expires.into()], ttl);
        let fresh =
            Self { current: sight.current, expires: sight.expires, since: 0, shown: 0, clock: sight.clock };
        let patience = seconds(ttl).max(timings.ttl()) + timings.margin();
        match observer.look(&seen, [ago(sent), NOW], timings) {
            Look::Free => (None, Verdict::Free),
            Look::Changed(_) => (Some(fresh), Verdict::Held),
            Look::Unchanged(dead_at) => {
                let before = watch.expect("only what was seen before is unchanged");
                let since = units_since(dead_at - patience);
                // As the library does: not by a look that was sent as the last one was answered.
                let shown = sent < before.shown;
                let (shown, clock) = if shown { (0, sight.clock) } else { (before.shown, before.clock) };
                (Some(Self { since, shown, clock, ..before }), Verdict::Held)
            }
            Look::Dead(_) => {
                let before = watch.expect("only what was seen before is dead");
                let shown = sent < before.shown;
                let (shown, clock) = if shown { (0, sight.clock) } else { (before.shown, before.clock) };
                (Some(Self { shown, clock, ..before }), Verdict::Dead)
            }
        }
    }

    /// Forgets how long ago the clocks were compared, where only how far they went apart decides: it is looked at whether the
    /// database's went on, by whatever step back may still come.
    pub fn tidied(mut self, most_back: i8) -> Self {
        let ahead = self.clock - self.shown.cast_signed();
        if self.clock >= most_back {
            self.shown = self.shown.min((most_back - ahead).max(1).cast_unsigned());
            self.clock = self.shown.cast_signed() + ahead;
        }
        self
    }

    /// All that there is to it.
    pub fn bytes(self) -> [u8; 5] {
        let Self { current, expires, since, shown, clock } = self;
        [current.into(), expires.cast_unsigned(), since, shown, clock.cast_unsigned()]
    }

    /// Whether it has looked at this very moment.
    pub fn is_fresh(self) -> bool {
        self.shown == 0
    }

    /// Lets time pass: so much by the local clock, so much by the database's. What is older than any patience stays so, and
    /// the two clocks stand still together then, for it is their difference that counts.
    pub fn pass(&mut self, local: u8, database: i8, units: Units) {
        let most = units.patience() + 2;
        self.expires = aged(self.expires, database);
        self.since = (self.since + local).min(most);
        if local == 0 || self.shown + local <= most {
            self.shown += local;
            self.clock += database;
        }
    }

    /// The library's, made anew by the looks that it had.
    fn observer(self, timings: &Timings, ttl: u8) -> Observer {
        let mut observer = Observer::default();
        let clock = -i64::from(self.clock);
        let apart = self.since - self.shown;
        let mut look = |at: u8, clock: i64| {
            let seen = inspection(SEEN, [clock, self.expires.into()], ttl);
            observer.look(&seen, [ago(at); 2], timings)
        };
        look(self.since, clock - i64::from(apart));
        if apart > 0 {
            look(self.shown, clock);
        }
        observer
    }
}

/// An expiry, that much later. One that has passed for longer than any clock is stepped back stays where it is.
pub fn aged(expires: i8, units: i8) -> i8 {
    (expires - units).max(LONG_AGO)
}

/// As good as never.
pub const LONG_AGO: i8 = -20;

const SEEN: Holder = Holder::from_bytes([1; 16]);
const OTHER: Holder = Holder::from_bytes([2; 16]);

/// A row and a clock, both relative to the database's present.
fn inspection(holder: Holder, [clock, expires]: [i64; 2], ttl: u8) -> Inspection {
    let at = |units: i64| DbTime::from_millis((CLOCK + units) * 1_000);
    let row = LeaseRow {
        name: name(),
        holder,
        instance: String::new(),
        process: String::new(),
        address: String::new(),
        version: String::new(),
        term: Term::FIRST,
        claimed_at: DbTime::from_millis(1),
        renewed_at: DbTime::from_millis(1),
        expires_at: at(expires),
        ttl: seconds(ttl),
        resign_term: 0,
        slot: None,
        unfinished_slot: None,
        rerun_slot: None,
    };
    let row: Option<LeaseRow> = Some(row);
    debug_assert_eq!(
        row.as_ref().map(LeaseRow::observed),
        Some(Observed { holder, expires_at: at(expires) })
    );
    Inspection { now: at(clock), row }
}

fn name() -> LeaseName {
    use std::sync::LazyLock;
    static NAME: LazyLock<LeaseName> = LazyLock::new(|| "model".parse().expect("a plain word is a name"));
    NAME.clone()
}

#[cfg(test)]
mod tests {
    use super::*;

    const UNITS: Units = Units::SHORTEST;

    /// Looks, and is answered in the same moment.
    fn look(watch: Option<Watch>, expires: i8) -> (Option<Watch>, Verdict) {
        let sight = Sight { live: true, same: watch.is_some(), current: true, expires, clock: 0 };
        Watch::look(watch, sight, 0, &UNITS.timings(), UNITS.ttl)
    }

    fn passed(watch: Option<Watch>, times: u8, database: i8) -> Watch {
        let mut watch = watch.unwrap();
        for _ in 0..times {
            watch.pass(1, database, UNITS);
        }
        watch
    }

    #[test]
    fn a_holder_is_dead_once_its_row_has_stood_still_for_ttl_and_margin() {
        let (seen, verdict) = look(None, 12);
        assert_eq!(verdict, Verdict::Held);
        let before = passed(seen, UNITS.patience() - 1, 1);
        assert_eq!(look(Some(before), before.expires).1, Verdict::Held);
        let then = passed(Some(before), 1, 1);
        assert_eq!(look(Some(then), then.expires).1, Verdict::Dead);
    }

    #[test]
    fn a_row_that_was_written_meanwhile_is_waited_for_anew() {
        let then = passed(look(None, 12).0, UNITS.patience(), 1);
        let (watch, verdict) = look(Some(then), then.expires + 1);
        assert_eq!((watch.unwrap().since, verdict), (0, Verdict::Held));
    }

    #[test]
    fn nothing_stands_still_by_a_clock_that_does() {
        let then = passed(look(None, 12).0, UNITS.patience(), 0);
        let (watch, verdict) = look(Some(then), 12);
        assert_eq!((watch.unwrap().since, verdict), (0, Verdict::Held));
    }

    #[test]
    fn of_two_clocks_it_is_kept_how_far_they_went_apart() {
        let watch = |shown, clock| Watch { current: true, expires: 3, since: 9, shown, clock };
        let kept = |shown, clock, most_back| {
            let Watch { shown, clock, .. } = watch(shown, clock).tidied(most_back);
            (shown, clock)
        };
        assert_eq!(kept(8, 8, 0), (1, 1));
        assert_eq!(kept(8, 8, 3), (3, 3), "a step of 3 takes it back to where it was");
        assert_eq!(kept(8, 6, 0), (2, 0));
        assert_eq!(kept(8, -1, 0), (8, -1), "behind: that it comes to where it was is still to be seen");
    }
}
