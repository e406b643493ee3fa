//! What happens in a step, but for what statements do.

use super::actions::Action;
use super::world::{Answer, Flight, Life, Process, RELEASED, What, World};
use super::{LeaseModel, Planted};
use crate::events::Event;
use crate::machine::{Kept, Told};
use crate::observer::{Verdict, Watch, aged};

impl LeaseModel {
    pub(super) fn play(&self, world: &mut World, action: Action) {
        match action {
            Action::Time => self.time(world, |_| 1),
            Action::TimeSlow(odd) => {
                self.time(world, |index| u8::from(index != odd));
                world.left.odd -= 1;
                world.all[odd].odd = true;
            }
            Action::TimeFast(odd) => {
                self.time(world, |index| if index == odd { 2 } else { 1 });
                world.left.odd -= 1;
                world.all[odd].odd = true;
            }
            Action::Back(units) => {
                world.left.back -= 1;
                self.database_clock(world, -units);
                world.row.stepped = !self.bounds.back_exactly;
            }
            Action::Forward(units) => {
                world.left.forward -= 1;
                self.database_clock(world, units);
            }
            Action::Claim(index) => claim(world, index, What::Claim),
            Action::Look(index) => send(&mut world.all[index], What::Look, 0),
            Action::GiveUp(index) => {
                let process = &mut world.all[index];
                let token = process.token().expect("who gives up has asked");
                process.life = Life::Idle;
                if process.flights().any(|flight| flight.token == token && flight.answer != Some(Answer::No))
                {
                    process.duty = token;
                }
                let is_answered = |flight: &mut Flight| flight.token == token && flight.answer.is_some();
                drop_flights(process, is_answered);
            }
            Action::Renew(index) => self.renew(&mut world.all[index]),
            Action::GiveBack(index) => {
                let process = &mut world.all[index];
                let token = process.token().expect("who gives back has a lease");
                process.life = Life::Idle;
                process.duty = token;
                drop_flights(process, |flight| flight.token == token && flight.answer.is_some());
            }
            Action::Release(index) => {
                let token = world.all[index].duty;
                send(&mut world.all[index], What::Release, token);
            }
            Action::Execute(index, place) => self.execute(world, index, place),
            Action::Arrive(index, place) => self.arrive(world, index, place),
            Action::Lose(index, place) => self.lose(&mut world.all[index], place),
            Action::Crash(index) => {
                world.left.crashes -= 1;
                let process = &mut world.all[index];
                drop_flights(process, |flight| flight.answer.is_some() || flight.what == What::Look);
                let (owns, flights, odd) = (process.owns, process.flights, process.odd);
                *process = Process { owns, flights, odd, ..Process::started() };
            }
            Action::Suspend(index) => {
                world.left.suspends -= 1;
                world.all[index].suspended = true;
            }
            Action::Resume(index) => world.all[index].suspended = false,
            Action::Heal => heal(world),
        }
    }

    /// Time passes by one unit, and by so much on the clock of each process.
    fn time(&self, world: &mut World, on: impl Fn(usize) -> u8) {
        if let Some(since) = &mut world.healed {
            *since += 1;
        }
        for (index, process) in world.all.iter_mut().enumerate() {
            let units = if process.suspended { 0 } else { on(index) };
            self.pass(process, units);
        }
        self.row_clock(world, 1);
    }

    fn pass(&self, process: &mut Process, units: u8) {
        let Self { bounds, player, .. } = self;
        process.ending = process.ending.saturating_sub(units);
        if let Some(watch) = &mut process.watch {
            watch.pass(units, 1, bounds.units);
        }
        for flight in process.flights.iter_mut().flatten() {
            // How long ago a statement was sent matters as long as the lease that it renews can be held.
            let counts = matches!(flight.what, What::Renew | What::Look);
            flight.ago = if counts { (flight.ago + units).min(bounds.units.deadline) } else { 0 };
        }
        // A look is given up after an attempt.
        let attempt = bounds.units.attempt;
        drop_flights(process, |flight| flight.what == What::Look && flight.ago > attempt);
        match process.life {
            Life::Absent | Life::Idle => {}
            Life::Asking { token, ago } => {
                process.life = Life::Asking { token, ago: (ago + units).min(bounds.units.deadline) };
            }
            Life::Holding { token, machine } => {
                if let Some(Ok(machine)) = player.tell(machine, Told::After(units)) {
                    process.life = Life::Holding { token, machine };
                } else {
                    self.events.saw(Event::DeadlinePassed);
                    // Its deadline was at most a unit ago, or two on a clock that goes twice as far.
                    lost(process, bounds.units.work().saturating_sub(machine.good() + units));
                }
            }
        }
    }

    /// A step of the database's clock, which nobody else's makes.
    fn database_clock(&self, world: &mut World, units: i8) {
        self.row_clock(world, units);
        for watch in world.all.iter_mut().filter_map(|process| process.watch.as_mut()) {
            watch.pass(0, units, self.bounds.units);
        }
    }

    fn row_clock(&self, world: &mut World, units: i8) {
        let before = world.row.expires;
        if before != RELEASED {
            world.row.expires = aged(before, units);
            if before <= 0 && world.row.expires > 0 {
                self.events.saw(Event::Revived);
            }
        }
        for process in &mut world.all {
            for flight in process.flights.iter_mut().flatten() {
                if let What::Take { expires, .. } = &mut flight.what {
                    *expires = aged(*expires, units);
                }
                if let Some(Answer::Seen(sight)) = &mut flight.answer {
                    sight.expires = aged(sight.expires, units);
                    sight.clock += units;
                }
            }
        }
    }

    fn renew(&self, process: &mut Process) {
        let Life::Holding { token, machine } = process.life else { return };
        if let Some(Ok(machine)) = self.player.tell(machine, Told::Poll) {
            process.life = Life::Holding { token, machine };
            send(process, What::Renew, token);
        }
    }

    /// The client sees its connection end, or waits in vain: to it that is the same.
    fn lose(&self, process: &mut Process, place: usize) {
        let flight = process.flights[place].take();
        let (Life::Holding { token, machine }, Some(flight)) = (process.life, flight) else { return };
        if flight.what == What::Renew && flight.token == token {
            self.keep(process, self.player.tell(machine, Told::Failed(flight.ago)));
        }
    }

    fn arrive(&self, world: &mut World, index: usize, place: usize) {
        let process = &mut world.all[index];
        let Some(flight) = process.flights[place].take() else { return };
        let Some(answer) = flight.answer else { return };
        match (flight.what, answer) {
            (What::Look, Answer::Seen(sight)) => {
                let (timings, ttl) = &self.patience;
                let (watch, verdict) = Watch::look(process.watch, sight, flight.ago, timings, *ttl);
                process.watch = watch;
                match verdict {
                    Verdict::Held => {}
                    Verdict::Free => claim(world, index, What::Claim),
                    Verdict::Dead if self.has(Planted::NobodyObserves) => {}
                    Verdict::Dead => {
                        let Some(Watch { current, expires, .. }) = watch else { return };
                        claim(world, index, What::Take { current, expires });
                    }
                }
            }
            (What::Claim | What::Take { .. }, answer) => self.answered(process, flight.token, answer),
            (What::Renew, answer) => {
                let Life::Holding { token, machine } = process.life else { return };
                if token != flight.token {
                    return;
                }
                let told = if !answer.is_yes() {
                    Told::Refused
                } else if self.has(Planted::DeadlineFromAnswer) {
                    Told::RenewedByItsAnswer(flight.ago)
                } else {
                    if flight.ago >= self.bounds.units.attempt {
                        self.events.saw(Event::LateAnswer);
                    }
                    Told::Renewed(flight.ago)
                };
                self.keep(process, self.player.tell(machine, told));
            }
            (What::Release | What::Look, _) => {}
        }
        if world.healed.is_some() && world.is_held() {
            self.events.saw(Event::HeldAgain);
        }
    }

    fn answered(&self, process: &mut Process, token: u8, answer: Answer) {
        let late = match process.life {
            Life::Asking { token: asked, ago } if asked == token => Some(ago),
            _ => None,
        };
        let Some(ago) = late else {
            // A grant that has come to light. Only a planted fault makes anything of it.
            if answer.is_yes() && process.life == Life::Idle {
                process.duty = 0;
                self.grant(process, token, 0);
            }
            return;
        };
        process.life = Life::Idle;
        if answer.is_yes() {
            let counts_from = if self.has(Planted::DeadlineFromAnswer) { 0 } else { ago };
            self.grant(process, token, counts_from);
        }
    }

    fn grant(&self, process: &mut Process, token: u8, claim_started: u8) {
        process.watch = None;
        match self.player.claimed(claim_started) {
            Ok(machine) => process.life = Life::Holding { token, machine },
            Err(_) => self.events.saw(Event::GrantedTooLate),
        }
    }

    fn keep(&self, process: &mut Process, kept: Option<Kept>) {
        let Life::Holding { token, machine: before } = process.life else { return };
        match kept {
            None => {}
            Some(Ok(machine)) => process.life = Life::Holding { token, machine },
            Some(Err(_)) => {
                self.events.saw(Event::Refused);
                // The grace counts from now, and never beyond that of the deadline.
                let grace = self.bounds.units.grace.min(self.bounds.units.work() - before.good());
                lost(process, grace);
            }
        }
    }
}

fn lost(process: &mut Process, work_for: u8) {
    let token = process.token();
    process.life = Life::Idle;
    process.ending = process.ending.max(work_for);
    drop_flights(process, |flight| Some(flight.token) == token && flight.answer.is_some());
}

/// Sends a claim, of a token of its own, unless there have been enough.
fn claim(world: &mut World, index: usize, what: What) {
    let left = &mut world.left.claims;
    if world.healed.is_none() {
        match *left {
            0 => return,
            u8::MAX => {}
            _ => *left -= 1,
        }
    }
    let process = &mut world.all[index];
    let token = process.fresh_token();
    process.life = Life::Asking { token, ago: 0 };
    send(process, what, token);
}

fn send(process: &mut Process, what: What, token: u8) {
    let place = process.free_place().expect("there is room");
    process.flights[place] = Some(Flight { what, token, ago: 0, answer: None });
}

pub(super) fn drop_flights(process: &mut Process, mut which: impl FnMut(&mut Flight) -> bool) {
    for flight in &mut process.flights {
        if flight.as_mut().is_some_and(&mut which) {
            *flight = None;
        }
    }
}

fn heal(world: &mut World) {
    world.healed = Some(0);
    for process in &mut world.all {
        process.suspended = false;
    }
    world.left = super::Left { claims: 0, crashes: 0, odd: 0, back: 0, forward: 0, suspends: 0 };
}
