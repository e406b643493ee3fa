//! A name as the database showed it at one moment, in words that an operator can act on.

use std::fmt::{self, Write as _};
use std::time::Duration;

use crate::store::{DbTime, Inspection, LeaseRow};
use crate::{LeaseName, Slot, Term};

/// What was seen of a name. It may have changed hands since.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sighting {
    pub(crate) name: LeaseName,
    pub(crate) database: String,
    pub(crate) seen: Inspection,
    pub(crate) raced: bool,
}

/// Whether a name is held, else why not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Standing {
    /// Nobody has ever claimed it.
    Never,
    /// Somebody holds it.
    Held,
    /// Its last holder did not renew it in time.
    Expired,
    /// Its last holder gave it back, or it was cleared.
    Released,
}

impl Sighting {
    /// Of what a store answered when it was asked for a name.
    pub fn new(name: LeaseName, database: String, seen: Inspection) -> Self {
        Self { name, database, seen, raced: false }
    }

    /// The name.
    pub fn name(&self) -> &LeaseName {
        &self.name
    }

    /// Where it was looked for, as [`LeaseStore::describe`](crate::LeaseStore::describe) says.
    pub fn database(&self) -> &str {
        &self.database
    }

    /// Whether it is held, else why not.
    pub fn standing(&self) -> Standing {
        self.seen.standing()
    }

    /// Its row, with the identity of the holder; `None` when it was never claimed.
    pub fn row(&self) -> Option<&LeaseRow> {
        self.seen.row.as_ref()
    }

    /// The row and the database's clock, to which all its times relate.
    pub fn inspection(&self) -> &Inspection {
        &self.seen
    }

    /// The term of the last claim.
    pub fn term(&self) -> Option<Term> {
        self.row().map(|row| row.term)
    }

    /// How long ago the last claim was granted, by the database's clock.
    pub fn claimed_ago(&self) -> Option<Duration> {
        self.row().map(|row| self.seen.now.since(row.claimed_at))
    }

    /// How long ago the holder last renewed.
    pub fn renewed_ago(&self) -> Option<Duration> {
        self.row().map(|row| self.seen.now.since(row.renewed_at))
    }

    /// How long the name stays taken unless it is renewed; `None` when it is free.
    pub fn expires_in(&self) -> Option<Duration> {
        let row = self.row().filter(|row| row.is_live(self.seen.now))?;
        Some(row.expires_at.since(self.seen.now))
    }

    /// The last instant claimed or skipped.
    pub fn slot(&self) -> Option<Slot> {
        self.row()?.slot
    }

    /// The holder got the name while our own claim was under way: it is not an old holder who is in the way.
    /// Only ever of a [`Refusal`](crate::Refusal).
    pub fn raced(&self) -> bool {
        self.raced
    }
}

impl Inspection {
    /// Whether the name is held, else why not.
    pub fn standing(&self) -> Standing {
        self.row.as_ref().map_or(Standing::Never, |row| row.standing(self.now))
    }
}

impl LeaseRow {
    /// Whether the name is held at `now`, by the database's clock, else why not.
    pub fn standing(&self, now: DbTime) -> Standing {
        if self.is_live(now) {
            Standing::Held
        } else if self.expires_at == DbTime::RELEASED {
            Standing::Released
        } else {
            Standing::Expired
        }
    }
}

/// Who holds the name, since when and until when, and what to do about it.
impl fmt::Display for Sighting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, database, seen: Inspection { now, row }, raced } = self;
        let Some(row) = row else {
            return write!(f, "{name:?} was never claimed ({database})");
        };
        match self.standing() {
            Standing::Held => {}
            Standing::Expired => {
                let ago = Span(now.since(row.expires_at));
                return write!(
                    f,
                    "{name:?} is free: its holder {} did not renew it and it expired {ago} ago ({database}, term {})",
                    Holder(row),
                    row.term
                );
            }
            Standing::Released | Standing::Never => {
                return write!(f, "{name:?} is free: it was given back ({database}, term {})", row.term);
            }
        }
        write!(
            f,
            "{name:?} is held by {}{}, last renewed {}, expires in {} unless renewed ({database}, term {})",
            Holder(row),
            Since(*now, row.claimed_at, [" for ", ""]),
            Since(*now, row.renewed_at, ["", " ago"]),
            Span(row.expires_at.since(*now)),
            row.term,
        )?;
        if *raced { f.write_str("; it was claimed while this claim was under way") } else { Ok(()) }
    }
}

/// The identity of a holder. What a row holds may be anybody's text: what a terminal would obey, or not show, stands as an
/// escape.
struct Holder<'a>(&'a LeaseRow);

impl fmt::Display for Holder<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let LeaseRow { instance, address, version, .. } = self.0;
        if instance.is_empty() {
            f.write_str("an unnamed holder")?;
        } else {
            write_visible(f, instance)?;
        }
        if !address.is_empty() {
            f.write_str(" at ")?;
            write_visible(f, address)?;
        }
        if !version.is_empty() {
            f.write_str(" (version ")?;
            write_visible(f, version)?;
            f.write_str(")")?;
        }
        Ok(())
    }
}

fn write_visible(f: &mut fmt::Formatter<'_>, text: &str) -> fmt::Result {
    text.chars().try_for_each(|character| match character {
        '"' | '\'' | '\\' => f.write_char(character),
        _ => write!(f, "{}", character.escape_debug()),
    })
}

/// How long ago a moment was, between two words; the clock may have been stepped back since.
struct Since(DbTime, DbTime, [&'static str; 2]);

impl fmt::Display for Since {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(now, then, [before, behind]) = self;
        if then > now {
            return f.write_str(if before.is_empty() {
                "at a time that the database's clock has not reached again"
            } else {
                " since a time that the database's clock has not reached again"
            });
        }
        write!(f, "{before}{}{behind}", Span(now.since(*then)))
    }
}

/// A duration as people say it: `0.3 s`, `13.8 s`, `4 min`, `26 h`, `12 d`.
struct Span(Duration);

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.as_secs() {
            0..120 => write!(f, "{:.1} s", self.0.as_secs_f64()),
            seconds @ 120..7_200 => write!(f, "{} min", seconds / 60),
            seconds @ 7_200..172_800 => write!(f, "{} h", seconds / 3_600),
            seconds => write!(f, "{} d", seconds / 86_400),
        }
    }
}
