//! The connection of a statement on slots cut before each of its messages, both ways: what is in the row then, what the
//! answer says of it, and what asking again as `lease-core` does leads to. The same for every server.

use std::time::Duration;

use lease_core::store::{Effect, StoreError};
use lease_testkit::Direction;

use crate::rounds::{Answer, Columns, Round, Statement};
use crate::world::World;

/// For what must go well, on however slow a machine.
const LONG: Duration = Duration::from_secs(120);

/// For what cannot: the server is away. Long enough on most machines; where it is not, it gets more.
const SHORT: Duration = Duration::from_millis(250);

pub(crate) async fn a_claim_of_a_new_name_is_granted_whole_or_not_at_all(world: &World) {
    cut_everywhere(world, Statement::ClaimNew).await;
}

pub(crate) async fn a_claim_of_a_free_name_is_granted_whole_or_not_at_all(world: &World) {
    cut_everywhere(world, Statement::ClaimFree).await;
}

pub(crate) async fn a_claim_that_gives_an_instant_up_is_granted_whole_or_not_at_all(world: &World) {
    cut_everywhere(world, Statement::ClaimSuperseding).await;
}

pub(crate) async fn the_end_of_a_round_is_recorded_whole_or_not_at_all(world: &World) {
    cut_everywhere(world, Statement::Finish).await;
}

pub(crate) async fn the_end_of_a_round_that_overran_is_recorded_whole_or_not_at_all(world: &World) {
    cut_everywhere(world, Statement::FinishPassed).await;
}

pub(crate) async fn the_end_of_a_round_that_was_lost_is_recorded_whole_or_not_at_all(world: &World) {
    cut_everywhere(world, Statement::FinishLost).await;
}

pub(crate) async fn the_end_of_a_round_known_lost_is_recorded_whole_or_not_at_all(world: &World) {
    cut_everywhere(world, Statement::FinishKnownLost).await;
}

pub(crate) async fn a_rerun_is_granted_whole_or_not_at_all(world: &World) {
    cut_everywhere(world, Statement::ClaimRerun).await;
}

pub(crate) async fn unfinished_slots_are_told_rightly_or_not_at_all(world: &World) {
    cut_everywhere(world, Statement::UnfinishedSlots).await;
}

pub(crate) async fn the_last_slot_is_told_rightly_or_not_at_all(world: &World) {
    cut_everywhere(world, Statement::LastSlot).await;
}

pub(crate) async fn a_round_is_given_back_whole_or_not_at_all(world: &World) {
    cut_everywhere(world, Statement::Release).await;
}

/// In what state the statement finds the connections, and the server after the cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Then {
    /// A connection has to be made; the server is there all the time.
    New,
    /// The statement has been run before; the server is there all the time.
    Warm,
    /// The same, and nobody can connect any more: what a store asks again, it asks in vain.
    Away,
}

impl Statement {
    /// Connections are made in one way, whatever is asked on them: it is looked at with a claim, which is never sent twice,
    /// and with an end, which is sent until it is answered.
    fn looked_at(self) -> &'static [Then] {
        if matches!(self, Self::ClaimNew | Self::Finish) {
            &[Then::New, Then::Warm, Then::Away]
        } else {
            &[Then::Warm, Then::Away]
        }
    }
}

/// One statement with one cut.
#[derive(Debug, Clone, Copy)]
struct Cell {
    statement: Statement,
    then: Then,
    direction: Direction,
    /// The message, counted from 1.
    n: u64,
}

/// How a statement with a cut ended.
struct Outcome {
    told: bool,
    took_place: bool,
}

async fn cut_everywhere(world: &World, statement: Statement) {
    let (mut cells, mut untold) = (0, [0; 2]);
    for then in statement.looked_at() {
        for direction in [Direction::ToServer, Direction::ToClient] {
            for n in 1.. {
                let cell = Cell { statement, then: *then, direction, n };
                let Some(outcome) = cell.run(world).await else {
                    assert!(n > 1, "{cell:?}: no message was there to be cut");
                    break;
                };
                cells += 1;
                if !outcome.told {
                    untold[usize::from(outcome.took_place)] += 1;
                }
            }
        }
    }
    println!("{statement:?}: {cells} cuts; untold: {} without the effect, {} with it", untold[0], untold[1]);
    // Else the cuts were not where it matters.
    assert!(untold[0] > 0, "{statement:?}: no cut kept it from taking place");
    assert!(untold[1] > 0 || !statement.writes(), "{statement:?}: no cut took the answer to what took place");
}

impl Cell {
    /// `None`: the statement has no such message.
    async fn run(self, world: &World) -> Option<Outcome> {
        let mut within = if self.then == Then::Away { SHORT } else { LONG };
        loop {
            let round = Round::before(world, self.statement).await;
            let (proxy, store) = world.wired();
            if self.then != Then::New {
                Round::before(world, self.statement).await.ask(&*store, LONG).await.unwrap();
            }
            if self.then == Then::Away {
                proxy.refuse();
            }
            proxy.cut_before(self.n, self.direction);
            let answer = round.ask(&*store, within).await;
            let is_cut = proxy.planned() == 0;
            // What was sent before a cut may be carried out after it, while the proxy is there, or the server would not
            // read all that was forwarded to it.
            drop(store);
            assert!(proxy.is_over(LONG).await, "{self:?}: connections do not end: {proxy:?}");
            match answer {
                // On a slow machine nothing was sent in the time there was.
                Err(_) if !is_cut && within < LONG => within *= 4,
                answer => {
                    let outcome = self.judge(&round, answer).await;
                    return is_cut.then_some(outcome);
                }
            }
        }
    }

    async fn judge(self, round: &Round, answer: Result<Answer, StoreError>) -> Outcome {
        let after = round.look().await;
        let took_place = after != round.row;
        if took_place {
            let after = after.as_ref().map(Columns::of);
            assert_eq!(after, Some(round.effect()), "{self:?}: half of it, and {answer:?}");
        }
        match &answer {
            Ok(answer) => {
                assert_eq!(*answer, round.answer(), "{self:?}");
                assert!(took_place || !self.statement.writes(), "{self:?}: {answer:?}, and nothing is there");
            }
            Err(error) => {
                let denied = took_place && error.effect() == Effect::None;
                assert!(!denied, "{self:?}: it took place, and {error:?}");
            }
        }
        round.ask_again(&format!("{self:?}"), answer.is_ok(), took_place).await;
        Outcome { told: answer.is_ok(), took_place }
    }
}
