//! What may happen next.

use super::{Planted, Process, SlotModel, World};

/// One thing that happens. Processes and ghosts go by their places.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// The database's clock reaches the next instant.
    Time,
    /// It is stepped back by one.
    Back,
    /// The lease expires, or is released.
    Expire,
    /// A process reads the row, to claim this instant.
    Judge(usize, u8),
    /// It writes its claim, and is answered.
    Claim(usize),
    /// It writes its claim, and the answer never comes.
    ClaimUnanswered(usize),
    /// A process finds a round that was cut short.
    SeeUnfinished(usize),
    /// The work of a round ends; the last number is the instant that is said to have passed.
    WorkEnds(usize, u8),
    /// The same, with the lease known to be lost.
    WorkEndsLost(usize),
    /// The database executes the next step of an end.
    Record(usize),
    /// It does, and the answer never comes: it is told again.
    RecordUnanswered(usize),
    /// The end is told, and given up on its way: it may come any time.
    GiveEndUp(usize),
    /// Such an end comes.
    Ghost(usize),
    /// A process dies, or cuts its round short.
    Stop(usize),
}

impl SlotModel {
    pub(super) fn possible(&self, world: &World, actions: &mut Vec<Action>) {
        if world.now < self.bounds.instants {
            actions.push(Action::Time);
        }
        if world.back > 0 && world.now > 0 {
            actions.push(Action::Back);
        }
        if world.row.live {
            actions.push(Action::Expire);
        }
        for (index, process) in world.processes.iter().enumerate() {
            // Of those who are at the same thing, one is as good as another.
            if index > 0 && world.processes[index - 1] == *process {
                continue;
            }
            self.of_process(world, index, *process, actions);
        }
        for (index, ghost) in world.ghosts.iter().enumerate() {
            if ghost.is_some() {
                actions.push(Action::Ghost(index));
            }
        }
    }

    fn of_process(&self, world: &World, index: usize, process: Process, actions: &mut Vec<Action>) {
        let can_claim = world.row.term < self.bounds.terms;
        match process {
            Process::Idle if can_claim => {
                // Also one that has not come: a replica's clock may run ahead.
                for slot in 1..=self.bounds.instants {
                    if self.judged(world, slot).is_ok() || self.has(Planted::ClaimedEarly) {
                        actions.push(Action::Judge(index, slot));
                    }
                }
                if world.rerunnable().is_some() {
                    actions.push(Action::SeeUnfinished(index));
                }
            }
            Process::Absent | Process::Idle => {}
            Process::Judged { .. } | Process::Rerunning { .. } => {
                actions.push(Action::Claim(index));
                actions.push(Action::ClaimUnanswered(index));
            }
            Process::Running { slot, .. } => {
                actions.push(Action::WorkEnds(index, 0));
                for passed in slot + 1..=self.bounds.instants {
                    actions.push(Action::WorkEnds(index, passed));
                }
                actions.push(Action::WorkEndsLost(index));
                actions.push(Action::Stop(index));
            }
            Process::Ending { .. } => {
                actions.push(Action::Record(index));
                actions.push(Action::RecordUnanswered(index));
                let under_way = world.ghosts.iter().flatten().count();
                if under_way < self.bounds.ghosts {
                    actions.push(Action::GiveEndUp(index));
                }
                actions.push(Action::Stop(index));
            }
        }
    }
}
