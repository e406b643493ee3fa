//! One moment of the model of the lease: the row, the processes, what is on its way between them, and what may still go wrong.
//!
//! Nothing in it is absolute: times are relative to the present, tokens are numbered within their process, and terms
//! count from the row's. So runs of any length end in finitely many states.

use crate::machine::Machine;
use crate::observer::{Sight, Watch};

/// How many processes there is room for.
pub const PROCESSES: usize = 3;

/// A moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct World {
    /// The row of the one name.
    pub row: Row,
    /// The processes.
    pub all: [Process; PROCESSES],
    /// What may still happen.
    pub left: Left,
    /// How long ago all faults ended, if they have.
    pub healed: Option<u8>,
    /// A term was granted that had been granted before.
    pub term_repeated: bool,
}

/// The row, but for its holder, which is noted in the process that owns the token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Row {
    /// In how long it expires by the database's clock, or [`RELEASED`].
    pub expires: i8,
    /// It was claimed once.
    pub born: bool,
    /// How far its term is behind the highest that was ever granted.
    pub behind: u8,
    /// The database's clock was stepped back since its last write, and what will be written differs by a hair from what any waiter saw.
    pub stepped: bool,
}

/// Free whatever the clock says.
pub const RELEASED: i8 = i8::MIN;

/// What may still happen, by count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Left {
    /// Claims that may be sent.
    pub claims: u8,
    /// Processes that may be killed.
    pub crashes: u8,
    /// Units by which a local clock may be off.
    pub odd: u8,
    /// Steps of the database's clock back ...
    pub back: u8,
    /// ... and forward.
    pub forward: u8,
    /// Suspends that no local clock sees.
    pub suspends: u8,
}

/// A process.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Process {
    /// Which of its tokens the row bears; 0: none.
    pub owns: u8,
    /// What it is at.
    pub life: Life,
    /// For how long the work of a lease it has lost may still run.
    pub ending: u8,
    /// The token that it gives back, again and again; 0: none.
    pub duty: u8,
    /// What it remembers of the row, waiting.
    pub watch: Option<Watch>,
    /// Its statements under way.
    pub flights: [Option<Flight>; 2],
    /// It stands still, and its clock with it.
    pub suspended: bool,
    /// Its clock has been off.
    pub odd: bool,
}

/// What a process is at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Life {
    /// It is not part of this model.
    Absent,
    /// It has no lease, and no claim that it waits for.
    Idle,
    /// It waits for the answer to a claim sent so long ago.
    Asking {
        /// The claim's.
        token: u8,
        /// Since then.
        ago: u8,
    },
    /// It holds a lease, by its own clock.
    Holding {
        /// The lease's.
        token: u8,
        /// Its renewal.
        machine: Machine,
    },
}

/// A statement under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Flight {
    /// What it asks.
    pub what: What,
    /// By which token.
    pub token: u8,
    /// When the attempt started, by the local clock; 0 where that is of no interest.
    pub ago: u8,
    /// The answer on its way, once it has been executed.
    pub answer: Option<Answer>,
}

/// What a statement asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum What {
    /// `claim`.
    Claim,
    /// `claim_observed`, of a row that was seen so.
    Take {
        /// The row still bears the holder that was seen.
        current: bool,
        /// In how long the expiry that was seen comes.
        expires: i8,
    },
    /// `renew`.
    Renew,
    /// `release`.
    Release,
    /// `inspect`.
    Look,
}

/// An answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Answer {
    /// Granted, renewed.
    Yes,
    /// Held, moved, lost.
    No,
    /// What a look found.
    Seen(Sight),
}

impl Process {
    /// A process that has just been started.
    pub fn started() -> Self {
        Self {
            owns: 0,
            life: Life::Idle,
            ending: 0,
            duty: 0,
            watch: None,
            flights: [None; 2],
            suspended: false,
            odd: false,
        }
    }

    /// Whether it could act now.
    pub fn runs(&self) -> bool {
        !self.suspended && self.life != Life::Absent
    }

    /// Whether `check()` would be true, were it asked now.
    pub fn believes(&self) -> bool {
        self.runs() && matches!(self.life, Life::Holding { .. })
    }

    /// How many works may act now: that of the lease it holds, and that of one it has lost, in its grace.
    pub fn works(&self) -> usize {
        if self.suspended { 0 } else { usize::from(self.believes()) + usize::from(self.ending > 0) }
    }

    /// The token of the lease it holds or waits for.
    pub fn token(&self) -> Option<u8> {
        match self.life {
            Life::Absent | Life::Idle => None,
            Life::Asking { token, .. } | Life::Holding { token, .. } => Some(token),
        }
    }

    /// A token that it has no other use for.
    ///
    /// # Panics
    ///
    /// When all are in use, of which it has a few.
    pub fn fresh_token(&self) -> u8 {
        let used = |token: u8| {
            self.owns == token
                || self.token() == Some(token)
                || self.duty == token
                || self.flights().any(|flight| flight.token == token)
        };
        (1..=u8::MAX).find(|token| !used(*token)).expect("few tokens are in use")
    }

    /// Its statements under way.
    pub fn flights(&self) -> impl Iterator<Item = Flight> {
        self.flights.iter().flatten().copied()
    }

    /// Whether it has a statement of this kind under way.
    pub fn has_flight(&self, what: What) -> bool {
        self.flights().any(|flight| flight.what == what)
    }

    /// The row is not any more what it saw.
    pub fn forget_seen(&mut self) {
        if let Some(watch) = &mut self.watch {
            watch.current = false;
        }
        for flight in self.flights.iter_mut().flatten() {
            if let What::Take { current, .. } = &mut flight.what {
                *current = false;
            }
            if let Some(Answer::Seen(sight)) = &mut flight.answer {
                sight.current = false;
            }
        }
    }

    /// Room for one more.
    pub fn free_place(&self) -> Option<usize> {
        self.flights.iter().position(Option::is_none)
    }

    /// Puts what is the same into the same words: statements in order, tokens numbered as they come, none that nobody knows.
    ///
    /// # Panics
    ///
    /// When it knows more tokens than it can have a use for.
    pub fn tidy(&mut self) {
        self.flights.sort_by_key(|flight| (flight.is_none(), *flight));
        let mut known = [0_u8; 5];
        let mut count = 0_u8;
        let mut rename = |token: &mut u8| {
            let place = known.iter().take(count.into()).position(|old| *old == *token);
            let place = place.unwrap_or_else(|| {
                known[usize::from(count)] = *token;
                count += 1;
                usize::from(count - 1)
            });
            *token = u8::try_from(place + 1).expect("few tokens are in use");
        };
        let owned = std::mem::take(&mut self.owns);
        let mut knows_owned = false;
        let mut visit = |token: &mut u8| {
            let is_owned = owned == *token && owned != 0;
            rename(token);
            if is_owned && !knows_owned {
                knows_owned = true;
                self.owns = *token;
            }
        };
        match &mut self.life {
            Life::Absent | Life::Idle => {}
            Life::Asking { token, .. } | Life::Holding { token, .. } => visit(token),
        }
        if self.duty != 0 {
            visit(&mut self.duty);
        }
        for flight in self.flights.iter_mut().flatten().filter(|flight| flight.what != What::Look) {
            visit(&mut flight.token);
        }
        self.flights.sort_by_key(|flight| (flight.is_none(), *flight));
    }
}
