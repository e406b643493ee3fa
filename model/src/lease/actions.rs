//! What may happen next.

use super::LeaseModel;
use super::world::{Answer, Life, Process, What, World};
use crate::machine::Told;

/// One thing that happens. Processes and statements go by their places.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Time passes, the same on all clocks.
    Time,
    /// It does, and the clock of this process stands still.
    TimeSlow(usize),
    /// It does, and the clock of this process goes twice as far.
    TimeFast(usize),
    /// The database's clock is stepped back.
    Back(i8),
    /// It is stepped forward.
    Forward(i8),
    /// A process claims the name.
    Claim(usize),
    /// A process looks at the row, waiting.
    Look(usize),
    /// A process gives up waiting for the answer to its claim.
    GiveUp(usize),
    /// A process renews.
    Renew(usize),
    /// A process gives its lease back.
    GiveBack(usize),
    /// A process tells the database again to release a token.
    Release(usize),
    /// The database executes a statement.
    Execute(usize, usize),
    /// An answer arrives.
    Arrive(usize, usize),
    /// A statement is lost on its way, or its answer.
    Lose(usize, usize),
    /// A process is killed, and another started in its place.
    Crash(usize),
    /// A machine is suspended, and its clock does not see it.
    Suspend(usize),
    /// It goes on.
    Resume(usize),
    /// All faults are over.
    Heal,
}

impl LeaseModel {
    pub(super) fn possible(&self, world: &World, actions: &mut Vec<Action>) {
        if world.healed.is_some() {
            self.urgent(world, actions);
            return;
        }
        let under_way: usize = world.all.iter().map(|process| process.flights().count()).sum();
        let room = under_way < self.bounds.flights[0];
        for (index, process) in world.all.iter().enumerate() {
            if process.life == Life::Absent {
                continue;
            }
            Self::of_statements(process, index, actions);
            if process.suspended {
                actions.push(Action::Resume(index));
                continue;
            }
            let can_send = room && process.flights().count() < self.bounds.flights[1];
            self.of_process(world, process, index, can_send, actions);
        }
        self.of_clocks(world, actions);
        if self.bounds.heal {
            actions.push(Action::Heal);
        }
    }

    fn of_statements(process: &Process, index: usize, actions: &mut Vec<Action>) {
        for (place, flight) in process.flights.iter().enumerate() {
            let Some(flight) = flight else { continue };
            match flight.answer {
                None => actions.push(Action::Execute(index, place)),
                Some(_) if process.suspended => {}
                Some(_) => actions.push(Action::Arrive(index, place)),
            }
            // One that nobody waits for may as well have been lost before that.
            let awaited = flight.what == What::Look || process.token() == Some(flight.token);
            if awaited && !process.suspended {
                actions.push(Action::Lose(index, place));
            }
        }
    }

    fn of_process(
        &self,
        world: &World,
        process: &Process,
        index: usize,
        can_send: bool,
        actions: &mut Vec<Action>,
    ) {
        let looks = process.has_flight(What::Look);
        match process.life {
            Life::Absent => {}
            Life::Idle => {
                if can_send && !looks && world.left.claims > 0 {
                    actions.push(Action::Claim(index));
                }
                if can_send && !looks && world.left.claims > 0 && self.may_wait(world, index) {
                    actions.push(Action::Look(index));
                }
            }
            Life::Asking { ago, .. } => {
                if ago >= self.bounds.units.attempt {
                    actions.push(Action::GiveUp(index));
                }
            }
            Life::Holding { machine, .. } => {
                if can_send && self.player.tell(machine, Told::Poll).is_some() {
                    actions.push(Action::Renew(index));
                }
                if self.bounds.release {
                    actions.push(Action::GiveBack(index));
                }
            }
        }
        if can_send && process.duty != 0 && !process.has_flight(What::Release) {
            actions.push(Action::Release(index));
        }
        if world.left.crashes > 0 && !(process.life == Life::Idle && process.duty == 0) {
            actions.push(Action::Crash(index));
        }
        if world.left.suspends > 0 {
            actions.push(Action::Suspend(index));
        }
    }

    fn of_clocks(&self, world: &World, actions: &mut Vec<Action>) {
        actions.push(Action::Time);
        if world.left.odd > 0 {
            for (index, process) in world.all.iter().enumerate() {
                // No other clock is ever asked. Where somebody waits, it is a slow holder and a fast waiter that could meet.
                let holds = matches!(process.life, Life::Holding { .. } | Life::Asking { .. });
                let waits = process.watch.is_some();
                if process.runs() && !process.odd && holds {
                    actions.push(Action::TimeSlow(index));
                }
                if process.runs() && !process.odd && (waits || holds && !self.bounds.observe) {
                    actions.push(Action::TimeFast(index));
                }
            }
        }
        if world.left.back > 0 && world.row.born {
            actions.extend(self.bounds.back.iter().copied().map(Action::Back));
        }
        if world.left.forward > 0 && world.row.expires > 0 {
            actions.push(Action::Forward(self.bounds.forward));
        }
    }

    /// After the last fault: everything that can happen does, in any order, before time goes on, and who waits looks
    /// at every unit of time. Nothing, once the name is held.
    fn urgent(&self, world: &World, actions: &mut Vec<Action>) {
        if world.is_held() || world.healed.is_some_and(|since| since > self.patience_of_all()) {
            return;
        }
        for (index, process) in world.all.iter().enumerate() {
            if process.life == Life::Absent {
                continue;
            }
            for (place, flight) in process.flights.iter().enumerate() {
                match flight {
                    Some(flight) if flight.answer.is_none() => actions.push(Action::Execute(index, place)),
                    Some(_) => actions.push(Action::Arrive(index, place)),
                    None => {}
                }
            }
            let Life::Idle = process.life else {
                if process.token().is_some_and(|token| !process.flights().any(|flight| flight.token == token))
                {
                    // Its claim was lost before.
                    actions.push(Action::GiveUp(index));
                }
                continue;
            };
            let waits = process.free_place().is_some() && !process.has_flight(What::Look);
            if waits
                && self.may_wait(world, index)
                && !process.watch.is_some_and(crate::observer::Watch::is_fresh)
            {
                actions.push(Action::Look(index));
            }
        }
        if actions.is_empty() {
            actions.push(Action::Time);
        }
    }
}

impl LeaseModel {
    /// Whether there is somebody to wait for, and not too many who do.
    fn may_wait(&self, world: &World, index: usize) -> bool {
        let waits = |process: &Process| process.watch.is_some() || process.has_flight(What::Look);
        let others =
            world.all.iter().enumerate().filter(|(other, process)| *other != index && waits(process));
        let somebody = world.row.expires > 0 || world.healed.is_some();
        self.bounds.observe && somebody && others.count() < self.bounds.waiters
    }
}

impl Answer {
    /// Whether a grant or a renewal.
    pub(super) fn is_yes(self) -> bool {
        self == Self::Yes
    }
}
