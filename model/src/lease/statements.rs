//! What statements do in the database, each at one moment.

use super::world::{Answer, Life, Process, RELEASED, What, World};
use super::{LeaseModel, Planted};
use crate::events::Event;
use crate::observer::Sight;

impl LeaseModel {
    pub(super) fn execute(&self, world: &mut World, index: usize, place: usize) {
        let Some(flight) = world.all[index].flights[place] else { return };
        let answer = match flight.what {
            What::Claim => {
                let free = world.row.expires <= 0 || self.has(Planted::ClaimOfTheLiving);
                self.granted_if(free, world, index, flight.token)
            }
            What::Take { current, expires } => {
                let same = expires == world.row.expires;
                self.events.saw(if current && same { Event::Taken } else { Event::Moved });
                let good = current && same;
                self.granted_if(good, world, index, flight.token)
            }
            What::Renew => {
                let held = world.all[index].owns == flight.token && world.row.expires > 0;
                if held {
                    world.row.expires = self.ttl();
                    if std::mem::take(&mut world.row.stepped) {
                        world.all.iter_mut().for_each(Process::forget_seen);
                    }
                }
                answer(held)
            }
            What::Release => {
                let ours = world.all[index].owns == flight.token;
                if ours || self.has(Planted::ReleaseOfAnybody) {
                    world.row.expires = RELEASED;
                }
                answer(ours)
            }
            What::Look => Answer::Seen(Sight {
                live: world.row.expires > 0,
                same: world.all[index].watch.is_some_and(|watch| watch.current),
                current: true,
                expires: world.row.expires.max(crate::observer::LONG_AGO),
                clock: 0,
            }),
        };
        self.note(world, index, flight.what, flight.token, answer);
        let process = &mut world.all[index];
        let awaited = match flight.what {
            What::Claim | What::Take { .. } => {
                matches!(process.life, Life::Asking { token, .. } if token == flight.token)
                    || self.has(Planted::LateGrantHandedOut)
            }
            What::Renew => matches!(process.life, Life::Holding { token, .. } if token == flight.token),
            What::Look => true,
            What::Release => false,
        };
        if awaited {
            process.flights[place] = Some(super::world::Flight { answer: Some(answer), ..flight });
            return;
        }
        process.flights[place] = None;
        // Told so or not, there is nothing more to do: a token that was released is in nobody's way.
        if flight.what == What::Release && answer == Answer::Yes && process.duty == flight.token {
            process.duty = 0;
        }
    }

    fn ttl(&self) -> i8 {
        i8::try_from(self.bounds.units.ttl).expect("a small ttl")
    }

    fn granted_if(&self, free: bool, world: &mut World, index: usize, token: u8) -> Answer {
        if !free {
            return Answer::No;
        }
        let row = &mut world.row;
        let raised = u8::from(!row.born || !self.has(Planted::TermNotRaised));
        world.term_repeated |= raised <= row.behind;
        row.behind = row.behind.max(raised) - raised;
        if row.born {
            self.events.saw(Event::HandedOver);
        }
        row.born = true;
        row.stepped = false;
        row.expires = self.ttl();
        for process in &mut world.all {
            process.owns = 0;
            // The row bears another holder now than the one that any of them saw.
            process.forget_seen();
        }
        world.all[index].owns = token;
        Answer::Yes
    }

    fn note(&self, world: &World, index: usize, what: What, token: u8, answer: Answer) {
        let process = &world.all[index];
        let is_waited_for = process.token() == Some(token);
        match what {
            What::Claim | What::Take { .. } if answer == Answer::Yes && !is_waited_for => {
                self.events.saw(Event::GhostClaim);
            }
            What::Renew if answer == Answer::Yes && !is_waited_for => self.events.saw(Event::GhostRenewal),
            What::Release if answer == Answer::Yes => self.events.saw(Event::GhostReleased),
            _ => {}
        }
    }
}

fn answer(yes: bool) -> Answer {
    if yes { Answer::Yes } else { Answer::No }
}
