//! What the library does not promise: each hole is there when its fault is on, and not otherwise.

use crate::lease::world::Left;
use crate::lease::{Bounds, LeaseModel, ONE_BELIEVER, ONE_WORK};
use crate::parts::{NOTHING_LEFT, SMALL};
use crate::run::{holds, shortest};

/// A known limit.
#[derive(Debug, Clone, Copy)]
pub struct Hole {
    /// What goes wrong.
    pub what: &'static str,
    /// What it takes.
    pub fault: &'static str,
    /// The property that does not hold then.
    pub property: &'static str,
    /// The model with the fault.
    pub with: Bounds,
    /// The same without.
    pub without: Bounds,
}

/// All of them.
pub fn holes() -> [Hole; 4] {
    // Read by people, who tell processes apart.
    let bounds = Bounds { symmetric: false, ..SMALL };
    let left = Left { claims: 2, ..NOTHING_LEFT };
    let calm = Bounds { left, ..bounds };
    let back = Bounds { left: Left { back: 1, ..left }, back: &[1, 2, 3], observe: true, ..bounds };
    let forward = |by| Bounds { left: Left { forward: 1, ..left }, forward: by, ..bounds };
    [
        Hole {
            what: "two believers after a suspend that no clock saw",
            fault: "a machine is suspended, and its local clock does not see it",
            property: ONE_BELIEVER,
            with: Bounds { left: Left { suspends: 1, ..left }, ..bounds },
            without: calm,
        },
        Hole {
            what: "two believers after a step of the database's clock",
            fault: "it is stepped forward by more than grace and margin",
            property: ONE_BELIEVER,
            with: forward(3),
            without: forward(2),
        },
        Hole {
            what: "work in its grace beside a successor",
            fault: "the database's clock is stepped forward by more than the margin",
            property: ONE_WORK,
            with: forward(2),
            without: forward(1),
        },
        Hole {
            what: "work in its grace beside a successor that observed its row",
            fault: "the database's clock is stepped back by exactly the time between two writes",
            property: ONE_WORK,
            with: Bounds { back_exactly: true, ..back },
            without: back,
        },
    ]
}

impl Hole {
    /// The shortest way into it, a line a step.
    pub fn trace(&self) -> Option<Vec<String>> {
        shortest(|| LeaseModel::new(self.with, None), self.property)
    }

    /// Whether it is closed without its fault.
    pub fn is_closed_without(&self, threads: usize) -> bool {
        holds(LeaseModel::new(Bounds { symmetric: true, ..self.without }, None), self.property, threads)
    }
}
