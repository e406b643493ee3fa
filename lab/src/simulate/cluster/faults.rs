//! What befalls a cluster.

use super::database::Service;
use super::time::Nanos;
use super::world::State;

/// What lies between a client and the database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Weather {
    Fair,
    /// Answers are lost, late, or belong to statements that arrive late.
    Lossy,
    /// Nothing arrives.
    Cut,
    /// Everything arrives and nothing comes back.
    HalfOpen,
    Slow,
}

/// A fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    Weather(usize, Weather),
    Outage(Service),
    /// The database's clock is stepped, by so many ms.
    Step(i64),
    /// The process stands still, and its clock goes on.
    Pause(usize),
    /// Its runtime is blocked; alarms ring.
    Block(usize),
    /// The machine is suspended, and its clock does not see it.
    Unseen(usize),
    Crash(usize),
    Shutdown(usize),
    StepDown(usize),
    Clear(usize),
}

impl Fault {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Weather(_, Weather::Fair) => "fair weather",
            Self::Weather(_, Weather::Lossy) => "lossy connections",
            Self::Weather(_, Weather::Cut) => "partitions",
            Self::Weather(_, Weather::HalfOpen) => "half-open connections",
            Self::Weather(_, Weather::Slow) => "slow connections",
            Self::Outage(Service::ReadOnly) => "read-only databases",
            Self::Outage(Service::Silent) => "silent databases",
            Self::Outage(_) => "databases away",
            Self::Step(ms) if ms < 0 => "clock steps back",
            Self::Step(_) => "clock steps forward",
            Self::Pause(_) => "pauses",
            Self::Block(_) => "blocked runtimes",
            Self::Unseen(_) => "unseen suspensions",
            Self::Crash(_) => "crashes",
            Self::Shutdown(_) => "shutdowns",
            Self::StepDown(_) => "step-down requests",
            Self::Clear(_) => "requests to clear",
        }
    }

    pub(super) fn node(self) -> Option<usize> {
        match self {
            Self::Outage(_) | Self::Step(_) => None,
            Self::Weather(node, _)
            | Self::Pause(node)
            | Self::Block(node)
            | Self::Unseen(node)
            | Self::Crash(node)
            | Self::Shutdown(node)
            | Self::StepDown(node)
            | Self::Clear(node) => Some(node),
        }
    }
}

impl State {
    /// What happens next to the cluster.
    pub(super) fn draw_fault(&mut self, holes: bool) -> Fault {
        let clients = u64::try_from(self.setting.clients).unwrap_or(1);
        let node = usize::try_from(self.random.below(clients)).unwrap_or(0);
        let mut all = vec![
            (8, Fault::Weather(node, Weather::Lossy)),
            (4, Fault::Weather(node, Weather::Cut)),
            (3, Fault::Weather(node, Weather::HalfOpen)),
            (3, Fault::Weather(node, Weather::Slow)),
            (3, Fault::Outage(Service::Refusing)),
            (3, Fault::Outage(Service::Silent)),
            (3, Fault::Outage(Service::ReadOnly)),
            (4, Fault::Step(0)),
            (6, Fault::Pause(node)),
            (4, Fault::Block(node)),
            (5, Fault::Crash(node)),
            (4, Fault::Shutdown(node)),
            (3, Fault::StepDown(node)),
            (3, Fault::Clear(node)),
        ];
        if holes {
            all.push((8, Fault::Unseen(node)));
        }
        match self.random.weighted(&all) {
            Fault::Step(_) => Fault::Step(self.draw_step(holes)),
            fault => fault,
        }
    }

    fn draw_step(&mut self, holes: bool) -> i64 {
        let ms = |nanos: Nanos| i64::try_from(nanos / 1_000_000).unwrap_or(0);
        if holes && self.random.percent(50) {
            let most = self.setting.ttls(500);
            return ms(self.random.below(most));
        }
        let forward = super::time::nanos(self.setting.forward);
        let rested = self.now.saturating_sub(self.stepped_forward) > self.setting.ttls(150);
        if forward > 0 && rested && self.random.percent(60) {
            self.stepped_forward = self.now;
            return ms(self.random.below(forward)) + 1;
        }
        // Back it may go as far as it likes.
        let most = if self.random.percent(50) { self.setting.ttls(5) } else { self.setting.ttls(300) };
        -1 - ms(self.random.below(most))
    }

    /// How long a fault lasts.
    pub(super) fn draw_span(&mut self) -> Nanos {
        let most = self.random.weighted(&[(3, 40), (4, 150), (2, 400)]);
        let most = self.setting.ttls(most);
        most / 10 + self.random.below(most)
    }
}
