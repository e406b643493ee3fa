//! What goes wrong at a message, and how it is made to.

use std::sync::{Arc, Mutex, PoisonError};

use crate::{Direction, Proxy};

/// What goes wrong at a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mishap {
    /// The connection is cut, and another can be had.
    Cut,
    /// The connection is cut, and no other can be had.
    Away,
    /// Nothing comes through any more on any connection, and nobody is told of an end: a connection half open.
    Silent,
    /// The same, and what was held back comes through when the caller has given up.
    Late,
    /// The process that asks is killed.
    Killed,
}

/// A message, and what goes wrong there.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    pub(super) mishap: Mishap,
    pub(super) is_after: bool,
    pub(super) direction: Direction,
    /// The message, counted from 1.
    pub(super) n: u64,
}

/// What is to go wrong, until who asked has given up or has been answered.
pub(super) struct Planned {
    mishap: Mishap,
    /// What comes later, when the store is closed, is not held.
    is_pending: Arc<Mutex<bool>>,
}

impl Place {
    /// Has it go wrong there. A process is killed by [`call`](Self::call).
    pub(super) fn plan(self, proxy: &Arc<Proxy>) -> Planned {
        let is_pending = Arc::new(Mutex::new(true));
        match self.mishap {
            Mishap::Cut | Mishap::Away if self.is_after => proxy.cut_after(self.n, self.direction),
            Mishap::Cut | Mishap::Away => proxy.cut_before(self.n, self.direction),
            _ => {
                let (held, pending) = (Arc::downgrade(proxy), Arc::clone(&is_pending));
                self.call(proxy, move || {
                    let is_pending = pending.lock().unwrap_or_else(PoisonError::into_inner);
                    if let Some(proxy) = held.upgrade().filter(|_| *is_pending) {
                        proxy.hold(Direction::ToServer);
                        proxy.hold(Direction::ToClient);
                    }
                });
            }
        }
        Planned { mishap: self.mishap, is_pending }
    }

    /// Calls this there.
    pub(super) fn call(self, proxy: &Proxy, act: impl FnOnce() + Send + 'static) {
        if self.is_after {
            proxy.call_after(self.n, self.direction, act);
        } else {
            proxy.call_before(self.n, self.direction, act);
        }
    }
}

impl Planned {
    /// Nothing is held any more from now on that is not held yet.
    pub(super) fn is_through(&self) {
        *self.is_pending.lock().unwrap_or_else(PoisonError::into_inner) = false;
    }

    /// What was held comes through now, if it is to come at all.
    pub(super) fn ends(&self, proxy: &Proxy) {
        if self.mishap != Mishap::Late {
            proxy.cut();
        }
        proxy.release(Direction::ToServer);
        proxy.release(Direction::ToClient);
    }
}
