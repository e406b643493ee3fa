//! Faults, done to a world.

mod database;
mod file;
mod server;
#[cfg(test)]
mod tests;

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use lease_testkit::{Direction, Proxy};
use tokio::task::block_in_place;
use tokio::time::sleep;

use super::Failure;
use super::kind::{Kind, Setting};
use super::plan::{Injection, Moment};
use super::random::Random;
use super::worker::TAKEN;
use super::world::World;
use crate::history::{Event, Fault, FaultKind};

/// What was open when a fault began.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Done {
    pub(crate) kind: Kind,
    pub(crate) guard: bool,
    pub(crate) round: bool,
}

/// So often it is looked whether the moment has come.
const LOOK: Duration = Duration::from_millis(3);

impl World {
    /// Injects one fault, from its begin to its end. `None`: it could not be, and was not.
    pub(crate) async fn inject(&self, injection: &Injection) -> Result<Option<Done>, Failure> {
        sleep(injection.after).await;
        self.until(injection).await;
        let (guard, round) = self.crew.open(self.befallen(injection));
        let fault = self.fault(injection, guard, round);
        // Nobody says meanwhile that none is on.
        let begun = |faults: &mut u32| {
            *faults += 1;
            self.writer.tell(Event::FaultBegan(fault.clone()));
        };
        begun(&mut lock(&self.faults));
        let was_done = self.act(injection).await?;
        self.writer.tell(Event::FaultEnded(fault));
        *lock(&self.faults) -= 1;
        self.healed().await;
        Ok(was_done.then_some(Done { kind: injection.kind, guard, round }))
    }

    /// Says that no fault is on and the database answers, when that is so.
    pub(crate) async fn healed(&self) {
        let any = TAKEN.parse().expect("a name");
        if self.store.inspect(&any, self.ttl).await.is_ok() {
            let faults = lock(&self.faults);
            if *faults == 0 {
                self.writer.tell(Event::Healed);
            }
        }
    }

    /// The worker that is befallen; `None`: all.
    fn befallen(&self, injection: &Injection) -> Option<u32> {
        let one = match injection.kind.setting() {
            Setting::Workers | Setting::Network => injection.worker,
            Setting::Life | Setting::Clock | Setting::Database => None,
        };
        one.map(|worker| worker % self.crew.len())
    }

    /// Waits for the moment, two ttls at most: on a world that stands still it does not come.
    async fn until(&self, injection: &Injection) {
        let worker = self.befallen(injection);
        let since = Instant::now();
        while since.elapsed() < self.ttl * 2 {
            let (guard, round) = self.crew.open(worker);
            match injection.moment {
                Moment::Any => return,
                Moment::Guard if guard => return,
                Moment::Round if round => return,
                Moment::Guard | Moment::Round => sleep(LOOK).await,
            }
        }
    }

    async fn act(&self, injection: &Injection) -> Result<bool, Failure> {
        let worker = self.befallen(injection);
        let Injection { kind, lasts, size, .. } = *injection;
        match kind {
            Kind::ClientKill => return self.kill_client(worker.unwrap_or(0), lasts).await,
            Kind::ClientStop => return self.stop_client(worker.unwrap_or(0), lasts).await,
            Kind::LostRequests => self.hold(worker, &[Direction::ToServer], lasts).await,
            Kind::LostAnswers => self.hold(worker, &[Direction::ToClient], lasts).await,
            Kind::Partition => self.hold(worker, &[Direction::ToServer, Direction::ToClient], lasts).await,
            Kind::HalfOpen => self.proxies(worker).for_each(Proxy::strand),
            Kind::Latency => {
                self.proxies(worker).for_each(|proxy| proxy.delay(size));
                sleep(lasts).await;
                self.proxies(worker).for_each(|proxy| proxy.delay(Duration::ZERO));
            }
            Kind::Cut => return Ok(self.cut(injection).await),
            Kind::ServerKill => self.server_away(lasts, true).await,
            Kind::ServerRestart => self.server_away(lasts, false).await,
            Kind::ServerStop => self.server_stands_still(lasts).await,
            Kind::ClockBack => self.step_clock(size, -1)?,
            Kind::ClockForward => self.step_clock(size, 1)?,
            Kind::Blocker => self.block(injection).await?,
            Kind::IdleKill => return self.kill_idle(),
            Kind::ReadOnly => self.read_only(lasts).await?,
            Kind::Replace => return self.replace(lasts).await,
            Kind::FullDisk => return self.fill_disk(lasts).await,
        }
        Ok(true)
    }

    async fn kill_client(&self, worker: u32, lasts: Duration) -> Result<bool, Failure> {
        let killed = block_in_place(|| self.crew.kill(worker));
        sleep(lasts).await;
        block_in_place(|| self.crew.start_again(worker))?;
        Ok(killed.is_some())
    }

    async fn stop_client(&self, worker: u32, lasts: Duration) -> Result<bool, Failure> {
        let stopped = block_in_place(|| self.crew.stop(worker));
        sleep(lasts).await;
        self.crew.go_on(worker);
        Ok(stopped.is_some())
    }

    async fn hold(&self, worker: Option<u32>, directions: &[Direction], lasts: Duration) {
        for proxy in self.proxies(worker) {
            for direction in directions {
                proxy.hold(*direction);
            }
        }
        sleep(lasts).await;
        for proxy in self.proxies(worker) {
            for direction in directions {
                proxy.release(*direction);
            }
        }
    }

    /// `false`: so many messages have not come in the time.
    async fn cut(&self, injection: &Injection) -> bool {
        let worker = injection.worker.unwrap_or(0) % self.crew.len();
        let Some(proxy) = self.proxies.get(worker as usize) else { return false };
        let mut random = Random(self.seed ^ injection.nth);
        let direction = *random.one(&[Direction::ToServer, Direction::ToClient]);
        if random.below(2) == 0 {
            proxy.cut_before(injection.message, direction);
        } else {
            proxy.cut_after(injection.message, direction);
        }
        let since = Instant::now();
        while proxy.planned() > 0 && since.elapsed() < injection.lasts * 2 {
            sleep(LOOK).await;
        }
        proxy.forget_planned() == 0
    }

    fn proxies(&self, worker: Option<u32>) -> impl Iterator<Item = &Proxy> {
        let all = (0..).zip(&self.proxies);
        all.filter(move |(at, _)| worker.is_none_or(|worker| worker == *at)).map(|(_, proxy)| proxy)
    }

    fn fault(&self, injection: &Injection, guard: bool, round: bool) -> Fault {
        let ms = |time: Duration| i64::try_from(time.as_millis()).unwrap_or(i64::MAX);
        let (kind, ms) = match injection.kind {
            Kind::ClientKill => (FaultKind::ClientKilled, ms(injection.lasts)),
            Kind::ClientStop => (FaultKind::ClientStopped, ms(injection.lasts)),
            Kind::ServerKill => (FaultKind::ServerKilled, ms(injection.lasts)),
            Kind::ServerStop => (FaultKind::ServerStopped, ms(injection.lasts)),
            Kind::ServerRestart => (FaultKind::ServerRestarted, ms(injection.lasts)),
            Kind::LostRequests | Kind::LostAnswers | Kind::Partition => {
                (FaultKind::Partition, ms(injection.lasts))
            }
            Kind::HalfOpen => (FaultKind::HalfOpen, 0),
            Kind::Latency => (FaultKind::Latency, ms(injection.size)),
            Kind::Cut => (FaultKind::Cut, 0),
            Kind::ClockBack => (FaultKind::ClockStepped, -ms(injection.size)),
            Kind::ClockForward => (FaultKind::ClockStepped, ms(injection.size)),
            Kind::Blocker => (FaultKind::RowLocked, ms(injection.lasts)),
            Kind::IdleKill => (FaultKind::ConnectionKilled, 0),
            Kind::ReadOnly => (FaultKind::ReadOnly, ms(injection.lasts)),
            Kind::Replace => (FaultKind::FileCopied, ms(injection.lasts)),
            Kind::FullDisk => (FaultKind::DiskFull, ms(injection.lasts)),
        };
        let mut at = injection.kind.name().to_owned();
        if injection.kind == Kind::Cut {
            at = format!("{at}, message {}", injection.message);
        }
        for (is_open, what) in [(guard, ", a guard open"), (round, ", a round running")] {
            at.push_str(if is_open { what } else { "" });
        }
        let process = self.befallen(injection).map(|worker| self.crew.id(worker));
        Fault { number: self.writer.number(), kind, process, ms: Some(ms), bytes: None, at }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
