//! One cluster, simulated: clients of the real library around one database, in virtual time on one thread.

mod database;
mod duties;
mod faults;
mod journal;
mod judge;
mod link;
mod node;
mod plan;
mod random;
mod rounds;
mod statements;
mod time;
mod transaction;
mod work;
mod world;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use database::Service;
use faults::{Fault, Weather};
use node::{Node, Stall};
use plan::Setting;
pub use plan::{Broken, Plan};
use time::{Nanos, nanos};
use world::{Event, State, World};

/// What came of a simulation.
#[derive(Debug)]
pub struct Outcome {
    /// The plan.
    pub plan: Plan,
    /// Of all that happened, in order: two runs of one plan have the same, with `tokio_unstable`.
    pub hash: u64,
    /// How much happened.
    pub events: u64,
    /// How often what.
    pub counts: BTreeMap<&'static str, u64>,
    /// The invariants that were broken, the first ones of them.
    pub violations: Vec<String>,
    /// The longest that the leader's name was free in a calm, in thousandths of what it may be.
    pub slowest_return: u64,
    /// What happened last, for a report of violations.
    pub last: Vec<String>,
    /// What the seed made of the cluster.
    pub setting: String,
}

/// Runs one plan to its end, or to the first violation.
pub fn simulate(plan: &Plan) -> Outcome {
    let mut cluster = Cluster::new(*plan);
    cluster.play();
    cluster.finish()
}

struct Cluster {
    plan: Plan,
    world: Arc<World>,
    setting: Setting,
    nodes: Vec<Option<Node>>,
    stalls: Vec<Option<Stall>>,
    /// How many faults that last are at work.
    at_work: usize,
    /// For how many steps time has stood still.
    standing: u64,
}

/// More steps than anything takes that does not spin.
const SPIN: u64 = 200_000;

impl Cluster {
    fn new(plan: Plan) -> Self {
        let world = World::new(&plan);
        let setting = world.setting.clone();
        let nodes = (0..setting.clients).map(|_| None).collect();
        let stalls = vec![None; setting.clients];
        world.with(|state| {
            for node in 0..setting.clients {
                let after = state.random.below(state.setting.ttls(20));
                state.after(after, Event::Start(node));
            }
            if !plan.idle {
                state.after(state.setting.ttls(100), Event::Strike);
            }
        });
        Self { plan, world, setting, nodes, stalls, at_work: 0, standing: 0 }
    }

    fn play(&mut self) {
        let end = nanos(self.plan.span);
        while self.is_sound() && self.step(end) {}
    }

    fn is_sound(&self) -> bool {
        self.world.with(|state| state.judge.violations().is_empty())
    }

    /// Goes on to what comes next, if that comes before the end.
    fn step(&mut self, end: Nanos) -> bool {
        let alarm = (0..self.nodes.len()).filter_map(|node| Some((self.next_alarm(node)?, node))).min();
        let event = self.world.with(|state| state.next_at());
        let now = self.world.time.now();
        let at = event.into_iter().chain(alarm.map(|(at, _)| at)).min().unwrap_or(end).max(now);
        if at > end {
            self.world.go_to(end);
            return false;
        }
        self.standing = if at > now { 0 } else { self.standing + 1 };
        if self.standing > SPIN {
            self.world.with(|state| state.violate("nothing spins", "time stands still"));
            return false;
        }
        self.world.go_to(at);
        match alarm {
            Some((alarm, node)) if alarm <= at && event.is_none_or(|event| alarm <= event) => {
                self.ring(node);
                self.run(node);
            }
            _ => {
                if let Some(event) = self.world.with(State::take_next) {
                    self.meet(event);
                }
            }
        }
        self.spread_the_word();
        let disturbed = self.at_work > 0;
        self.world.with(|state| state.look_at_all(disturbed));
        true
    }

    fn next_alarm(&self, node: usize) -> Option<Nanos> {
        match self.stalls[node] {
            Some(Stall::Process | Stall::Machine) => None,
            Some(Stall::Runtime) | None => self.nodes[node].as_ref()?.clock.next_alarm(),
        }
    }

    fn meet(&mut self, event: Event) {
        match event {
            Event::Arrive(arrival) => self.world.with(arrival),
            Event::Answer(node, answer) => {
                answer();
                self.run(node);
            }
            Event::Strike => self.strike(),
            Event::End(fault) => self.end(fault),
            Event::Start(node) => {
                if self.nodes[node].is_none() {
                    self.nodes[node] = Some(Node::start(&self.world, node));
                    self.run(node);
                }
            }
            Event::EndSession(session) => self.world.with(|state| {
                if state.database.broken != Some(Broken::KeepsSessions) {
                    state.database.end(session, false);
                }
            }),
        }
    }

    /// Lets a client do what it has to do now.
    fn run(&mut self, id: usize) {
        if self.stalls[id].is_some() {
            return;
        }
        let Some(node) = &mut self.nodes[id] else { return };
        node.run();
        // A lease that is granted after its deadline sets an alarm that is due, which rings next.
        let all_rang = node.clock.next_alarm().is_none_or(|at| at > self.world.time.now());
        self.world.with(|state| state.look_over(id, all_rang));
        node.watch_close();
        if node.is_closed()
            && let Some(node) = self.nodes[id].take()
        {
            node.end();
            self.world.with(|state| {
                state.judge.standings[id].closing = false;
                if !state.ending {
                    let after = state.random.below(state.setting.ttls(150));
                    state.after(after, Event::Start(id));
                }
            });
        }
    }

    /// What was announced wakes those who wait, wherever they are.
    fn spread_the_word(&mut self) {
        while self.world.with(|state| std::mem::take(&mut state.announced)) {
            for node in 0..self.nodes.len() {
                self.run(node);
            }
        }
    }

    /// Something befalls the cluster.
    fn strike(&mut self) {
        let fault = self.world.with(|state| {
            let calm = if state.random.percent(8) { state.setting.ttls(500) } else { 0 };
            let pace = state.random.below(2 * state.setting.pace);
            state.after(pace + calm, Event::Strike);
            state.draw_fault(self.plan.holes)
        });
        let strikes = match fault {
            Fault::Pause(node) | Fault::Block(node) | Fault::Unseen(node) => {
                self.nodes[node].is_some() && self.stalls[node].is_none()
            }
            Fault::Weather(node, _) => self.world.with(|state| state.weather[node] == Weather::Fair),
            Fault::Outage(_) => self.world.with(|state| state.database.service == Service::Full),
            Fault::Step(_) => true,
            Fault::Crash(node) => self.nodes[node].is_some(),
            Fault::Shutdown(node) | Fault::StepDown(node) | Fault::Clear(node) => {
                self.stalls[node].is_none()
                    && self.nodes[node].as_ref().is_some_and(|node| !node.is_closing())
            }
        };
        if !strikes {
            return;
        }
        self.world.with(|state| {
            state.count("faults");
            state.count(fault.name());
            state.note(fault.node(), fault.name(), "-", if let Fault::Step(ms) = fault { ms } else { 0 });
        });
        self.inflict(fault);
    }

    fn inflict(&mut self, fault: Fault) {
        match fault {
            Fault::Weather(node, weather) => self.world.with(|state| state.weather[node] = weather),
            Fault::Outage(service) => self.world.with(|state| state.database.service = service),
            Fault::Pause(node) => self.stall(node, Stall::Process),
            Fault::Block(node) => self.stall(node, Stall::Runtime),
            Fault::Unseen(node) => {
                self.stall(node, Stall::Machine);
                if let Some(node) = &self.nodes[node] {
                    node.clock.stand_still();
                }
            }
            Fault::Step(ms) => self.world.with(|state| state.database.step(ms)),
            Fault::Crash(node) => {
                self.stalls[node] = None;
                if let Some(node) = self.nodes[node].take() {
                    node.vanish(false);
                }
            }
            Fault::Shutdown(id) => {
                if let Some(node) = &mut self.nodes[id] {
                    node.close();
                }
                self.run(id);
            }
            Fault::StepDown(id) => {
                if let Some(node) = &self.nodes[id] {
                    node.ask_to_step_down();
                }
                self.run(id);
            }
            Fault::Clear(id) => {
                if let Some(node) = &self.nodes[id] {
                    node.clear();
                }
                self.run(id);
            }
        }
        self.world.with(|state| {
            let span = match fault {
                Fault::Shutdown(_) | Fault::StepDown(_) | Fault::Clear(_) => return,
                // After it every expiry lies further off than a ttl, until its holder renews or is known to be dead.
                Fault::Step(_) => state.setting.ttls(1),
                _ => state.draw_span(),
            };
            // Others go on as if nothing had happened: within their bound the name is held again.
            self.at_work += usize::from(!matches!(fault, Fault::Crash(_)));
            state.after(span, Event::End(fault));
        });
    }

    fn stall(&mut self, node: usize, stall: Stall) {
        self.stalls[node] = Some(stall);
        self.world.with(|state| state.judge.standings[node].stalled = true);
    }

    /// What a fault has done ends.
    fn end(&mut self, fault: Fault) {
        self.at_work -= usize::from(!matches!(fault, Fault::Crash(_)));
        self.world.with(|state| state.note(fault.node(), "is over", "-", 0));
        match fault {
            Fault::Weather(node, _) => self.world.with(|state| state.weather[node] = Weather::Fair),
            Fault::Outage(_) => self.world.with(|state| state.database.service = Service::Full),
            Fault::Pause(id) | Fault::Block(id) | Fault::Unseen(id) => self.go_on(id),
            Fault::Crash(id) => self.meet(Event::Start(id)),
            Fault::Step(_) | Fault::Shutdown(_) | Fault::StepDown(_) | Fault::Clear(_) => {}
        }
    }

    fn go_on(&mut self, id: usize) {
        // It may have crashed meanwhile.
        if self.stalls[id].take().is_none() {
            return;
        }
        let Some(node) = &self.nodes[id] else { return };
        node.clock.go_on();
        let rings_first = self.world.with(|state| {
            let standing = &mut state.judge.standings[id];
            standing.stalled = false;
            (standing.well_since, standing.stalled_last) = (state.now, state.now);
            state.random.percent(50)
        });
        if !rings_first {
            // The tasks run on before anything has told them of the time that has passed.
            node.run();
        }
        self.ring(id);
        self.run(id);
    }

    fn ring(&mut self, id: usize) {
        let Some(node) = &self.nodes[id] else { return };
        if !node.clock.ring(SPIN) {
            self.world.with(|state| state.violate("nothing spins", &format!("client {id}: its alarms")));
        }
    }

    /// Heals everything, ends everybody in order, and looks at what is left.
    fn finish(mut self) -> Outcome {
        if self.is_sound() {
            self.heal();
            let bound = self.world.time.now() + self.setting.ttls(10_000);
            while self.is_sound() && self.nodes.iter().any(Option::is_some) && self.step(bound) {}
            // What is still on its way, and the bounds of the server.
            while self.is_sound() && self.world.with(|state| state.next_at().is_some()) && self.step(bound) {}
            if self.is_sound() {
                self.look_at_the_rest();
            }
        }
        for node in self.nodes.iter_mut().filter_map(Option::take) {
            node.vanish(false);
        }
        self.world.with(|state| Outcome {
            plan: self.plan,
            hash: state.journal.hash(),
            events: state.journal.entries(),
            counts: state.counts.clone(),
            violations: state.judge.violations().to_vec(),
            slowest_return: state.judge.slowest_return,
            last: state.journal.last(),
            setting: format!("{:?}", state.setting),
        })
    }

    fn heal(&mut self) {
        // Those that are at work end here, and by no event.
        self.at_work = 0;
        self.world.with(|state| {
            state.database.service = Service::Full;
            state.weather.fill(Weather::Fair);
            state.drop_strikes();
        });
        for id in 0..self.nodes.len() {
            self.go_on(id);
            self.world.with(|state| state.will_give_back(id));
            if let Some(node) = &mut self.nodes[id] {
                node.close();
            }
            self.run(id);
        }
    }

    fn look_at_the_rest(&mut self) {
        let left = self.nodes.iter().flatten().count();
        self.world.with(|state| {
            if left > 0 {
                state.violate("everybody comes to an end", &format!("{left} do not"));
            }
            if state.database.memory.notifier().is_heard() {
                state.violate("nobody listens for longer than anybody waits", "");
            }
            if state.database.sessions().next().is_some() {
                state.violate("a guard leaves no session open", "");
            }
            state.account_for_instants();
        });
    }
}

/// How much is simulated.
impl Plan {
    /// A plan without holes.
    pub fn new(seed: u64, span: Duration) -> Self {
        Self { seed, span, holes: false, idle: false, broken: None }
    }
}
