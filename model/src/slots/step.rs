//! What happens in a step.

use lease_core::store::{DbTime, SlotAnswer, SlotRow, SlotState};
use lease_core::{Slot, Superseded, Term};

use super::{Action, End, Planted, Process, Seen, SlotModel, World};
use crate::events::Event;

impl SlotModel {
    pub(super) fn play(&self, world: &mut World, action: Action) {
        match action {
            Action::Time => world.now += 1,
            Action::Back => {
                world.now -= 1;
                world.back -= 1;
            }
            Action::Expire => world.row.live = false,
            Action::Judge(index, slot) => {
                let gives_up = self.judged(world, slot).ok().flatten().map_or(0, number_of);
                let seen = world.seen();
                world.wrong.early |= slot > world.now;
                world.processes[index] = Process::Judged { slot, seen, gives_up };
            }
            Action::Claim(index) => {
                let granted = self.claim(world, world.processes[index]);
                world.processes[index] = granted.unwrap_or(Process::Idle);
            }
            Action::ClaimUnanswered(index) => {
                // A ghost: its token is released, which is like its expiry.
                if self.claim(world, world.processes[index]).is_some() {
                    self.events.saw(Event::GhostClaim);
                }
                world.processes[index] = Process::Idle;
            }
            Action::SeeUnfinished(index) => {
                let slot = world.rerunnable().expect("there is one");
                world.processes[index] = Process::Rerunning { slot, term: world.row.term };
            }
            Action::WorkEnds(index, passed) => end(world, index, passed, false),
            Action::WorkEndsLost(index) => end(world, index, 0, true),
            Action::Record(index) => {
                let Process::Ending { end, second } = world.processes[index] else { return };
                let done = self.record(world, end, second);
                world.processes[index] =
                    if done { Process::Idle } else { Process::Ending { end, second: true } };
            }
            Action::RecordUnanswered(index) => {
                let Process::Ending { end, second } = world.processes[index] else { return };
                // The second step comes behind the first without its client, or never.
                if !self.record(world, end, second) && !second {
                    self.record(world, end, true);
                }
                world.processes[index] = Process::Ending { end, second: false };
            }
            Action::GiveEndUp(index) => {
                let Process::Ending { end, .. } = world.processes[index] else { return };
                let place = world.ghosts.iter().position(Option::is_none).expect("there is room");
                world.ghosts[place] = Some(end);
                world.processes[index] = Process::Idle;
            }
            Action::Ghost(index) => {
                let Some(end) = world.ghosts[index].take() else { return };
                self.events.saw(Event::GhostEnd);
                if !self.record(world, end, false) {
                    self.record(world, end, true);
                }
            }
            Action::Stop(index) => world.processes[index] = Process::Idle,
        }
    }

    /// The library's judgement.
    pub(super) fn judged(&self, world: &World, slot: u8) -> Result<Option<Superseded>, SlotAnswer> {
        let row = world.row;
        let row = (row.term > 0).then(|| SlotRow {
            term: Term::new(row.term.into()).expect("a term above zero"),
            expires_at: DbTime::from_millis(if row.live { i64::from(world.now) + 1 } else { 0 }),
            last: Slot::from_millis(row.last.into()),
            unfinished: Slot::from_millis(row.unfinished.into()),
            rerun: Slot::from_millis(row.rerun.into()),
        });
        let now = if self.has(Planted::ClaimedEarly) { u8::MAX } else { world.now };
        let slot = Slot::from_millis(slot.into()).expect("an instant above zero");
        SlotState { now: DbTime::from_millis(now.into()), row }.judge(slot)
    }

    /// Writes a claim, if the row is as it was judged. `Some`: the round runs.
    fn claim(&self, world: &mut World, process: Process) -> Option<Process> {
        let row = &mut world.row;
        let (slot, again) = match process {
            Process::Judged { slot, seen, .. } => {
                let now = Seen { term: row.term, last: row.last, unfinished: row.unfinished };
                let same = now == seen
                    || self.has(Planted::ClaimWithoutComparing)
                    || self.has(Planted::ClaimComparesTheTermOnly) && now.term == seen.term;
                if row.live || !same {
                    self.events.saw(Event::Moved);
                    return None;
                }
                (slot, false)
            }
            Process::Rerunning { slot, term } => {
                let same = row.term == term;
                let may = row.unfinished == slot && row.last == slot && row.rerun < slot
                    || self.has(Planted::RerunComparesTheTermOnly);
                if row.live || !same || !may {
                    self.events.saw(Event::Moved);
                    return None;
                }
                (slot, true)
            }
            _ => return None,
        };
        row.term += 1;
        row.live = true;
        if again {
            self.events.saw(Event::Rerun);
            if !self.has(Planted::RerunNotRecorded) {
                row.rerun = slot;
            }
        } else {
            world.wrong.out_of_order |= slot <= row.last;
            row.last = slot;
            row.unfinished = slot;
        }
        let term = row.term;
        if let Process::Judged { gives_up, .. } = process
            && gives_up > 0
        {
            self.events.saw(Event::GaveUp);
            world.wrong.gave_up_ended |= world.instants[usize::from(gives_up) - 1].ended;
        }
        let instant = &mut world.instants[usize::from(slot) - 1];
        instant.granted += 1;
        world.wrong.after_its_end |= instant.ended;
        Some(Process::Running { slot, term })
    }

    /// One step of the end of a round; whether all is done.
    fn record(&self, world: &mut World, end: End, second: bool) -> bool {
        let row = &mut world.row;
        let holder = row.term == end.term || self.has(Planted::FinishOfAnybody);
        if !second && !end.lost {
            if !holder {
                return false;
            }
            world.wrong.freed_another |= row.live && row.term != end.term;
            row.live = false;
            if !self.has(Planted::FinishForgets) {
                row.unfinished = 0;
            }
            let come = end.passed <= world.now || self.has(Planted::PassedEarly);
            if end.passed > row.last && come {
                self.events.saw(Event::Passed);
                row.last = end.passed;
                world.wrong.early |= end.passed > world.now;
            }
            self.events.saw(Event::Finished);
            ended(world, end.slot);
            return true;
        }
        if row.unfinished != 0 && (row.unfinished == end.slot || self.has(Planted::LostEndClearsAny)) {
            row.unfinished = 0;
            self.events.saw(Event::LostEndRecorded);
            ended(world, end.slot);
        }
        true
    }
}

impl World {
    fn seen(&self) -> Seen {
        Seen { term: self.row.term, last: self.row.last, unfinished: self.row.unfinished }
    }

    /// The instant that may run a second time.
    pub(super) fn rerunnable(&self) -> Option<u8> {
        let row = self.row;
        let may = row.unfinished != 0 && row.unfinished == row.last && row.rerun < row.last && !row.live;
        may.then_some(row.last)
    }
}

fn ended(world: &mut World, slot: u8) {
    world.instants[usize::from(slot) - 1].ended = true;
}

fn end(world: &mut World, index: usize, passed: u8, lost: bool) {
    let Process::Running { slot, term } = world.processes[index] else { return };
    world.processes[index] = Process::Ending { end: End { slot, term, passed, lost }, second: false };
}

fn number_of(superseded: Superseded) -> u8 {
    u8::try_from(superseded.slot.as_millis()).expect("a small instant")
}
