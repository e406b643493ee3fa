//! What every client of a cluster is there for: to lead, to lock, to run rounds.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use lease_core::clock::sleep_until;
use lease_core::{
    Claimed, Clock, Error, ErrorKind, FinishAnswer, Lease, Leases, ManualClaimed, RoundEnd, RunError, Slot,
    SlotClaimed, SlotLease, Tenure,
};
use tokio::sync::watch;

use super::link::Link;
use super::rounds::Said;
use super::time::nanos;
use super::work::{hold, work};
use super::world::{CRON, LEADER, LOCK};

/// A client that runs.
#[derive(Clone)]
pub(super) struct Duty {
    pub(super) leases: Leases,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) link: Link,
    /// Set when everything is to end.
    pub(super) closing: watch::Receiver<bool>,
}

impl Duty {
    fn draw(&self, bound: u64) -> u64 {
        self.link.world.with(|state| state.random.below(bound))
    }

    fn ttls(&self, hundredths: u64) -> Duration {
        Duration::from_nanos(self.draw(self.link.world.setting.ttls(hundredths)))
    }

    fn work(
        &self,
    ) -> impl Fn(Tenure) -> std::pin::Pin<Box<dyn Future<Output = Result<(), super::work::Unwell>> + Send>>
    + Send
    + Sync
    + 'static
    + use<> {
        let (link, clock) = (self.link.clone(), Arc::clone(&self.clock));
        move |tenure| Box::pin(work(link.clone(), Arc::clone(&clock), tenure))
    }

    /// Sleeps for a while; answers whether there is more to do.
    async fn rest(&self, for_at_most: Duration) -> bool {
        let mut closing = self.closing.clone();
        let until = self.clock.now() + Duration::from_nanos(self.draw(nanos(for_at_most)));
        tokio::select! {
            biased;
            _ = closing.wait_for(|closing| *closing) => false,
            () = sleep_until(&self.clock, until) => true,
        }
    }

    /// Leads, whenever it can.
    pub(super) async fn lead(self) {
        let renew = self.leases.timings().renew();
        loop {
            let election = self.leases.elect(LEADER, self.work());
            // Now and then the caller loses its interest.
            let patience = self.clock.now() + self.ttls(6_000);
            let outcome = tokio::select! {
                biased;
                outcome = election => outcome,
                () = sleep_until(&self.clock, patience) => Err(RunError::Work(super::work::Unwell::Failed)),
            };
            if outcome.is_ok() || !self.rest(renew).await {
                return;
            }
        }
    }

    /// Takes a lock in all the ways there are, and lets go of it in all the ways there are.
    pub(super) async fn lock(self) {
        let ttl = self.leases.timings().ttl();
        while self.rest(ttl * 2).await {
            let ended = match self.draw(10) {
                0..5 => self.acquire().await,
                5 | 6 => {
                    self.leases.try_run(LOCK, self.work()).await.map(drop).or_else(|error| match error {
                        RunError::Store(error) => Err(error),
                        _ => Ok(()),
                    })
                }
                7 => self.dropped().await,
                _ => self.by_hand().await,
            };
            if ended.is_err_and(|error| error.kind() == ErrorKind::Closed) {
                return;
            }
        }
    }

    async fn acquire(&self) -> Result<(), Error> {
        let within = self.ttls(300);
        let Claimed::Granted(lease) = self.leases.acquire(LOCK, within).await? else { return Ok(()) };
        match self.draw(3) {
            0 => drop(lease.run(self.work()).await),
            1 => {
                // The caller goes away in the middle.
                let patience = self.clock.now() + self.ttls(100);
                tokio::select! {
                    biased;
                    _ = lease.run(self.work()) => {}
                    () = sleep_until(&self.clock, patience) => {}
                }
            }
            _ => self.carry(lease).await,
        }
        Ok(())
    }

    /// Holds a lease without a supervisor, then gives it back.
    async fn carry(&self, lease: Lease) {
        let held = hold(&self.link, lease.tenure(), true);
        let until = self.clock.now() + self.ttls(150);
        if self.draw(3) == 0 {
            // Its owner lets go before its work has ended.
            drop(lease);
            let ends = self.clock.now() + self.ttls(30);
            sleep_until(&self.clock, ends).await;
            return;
        }
        let mut closing = self.closing.clone();
        tokio::select! {
            biased;
            _ = closing.wait_for(|closing| *closing) => {}
            _ = held.tenure.lost() => {}
            () = sleep_until(&self.clock, until) => {}
        }
        drop(held);
        if self.draw(2) == 0 {
            drop(lease.release().await);
        }
    }

    /// Claims, and goes away before the answer.
    async fn dropped(&self) -> Result<(), Error> {
        let patience = self.clock.now() + Duration::from_millis(self.draw(12));
        tokio::select! {
            biased;
            claimed = self.leases.claim(LOCK) => claimed.map(drop),
            () = sleep_until(&self.clock, patience) => Ok(()),
        }
    }

    async fn by_hand(&self) -> Result<(), Error> {
        let ManualClaimed::Granted(lease) = self.leases.claim_manual(LOCK).await? else { return Ok(()) };
        let held = hold(&self.link, lease.tenure(), false);
        for _ in 0..self.draw(8) {
            let again = self.clock.now() + self.leases.timings().renew();
            let mut closing = self.closing.clone();
            tokio::select! {
                biased;
                _ = closing.wait_for(|closing| *closing) => break,
                _ = held.tenure.lost() => break,
                () = sleep_until(&self.clock, again) => {}
            }
            if let Ok(false) = lease.renew().await {
                break;
            }
        }
        drop(held);
        drop(lease.release().await);
        Ok(())
    }

    /// Runs the rounds of a schedule.
    pub(super) async fn keep_schedule(self) {
        let renew = self.leases.timings().renew();
        while self.rest(renew * 3).await {
            match self.round().await {
                Err(error) if error.kind() == ErrorKind::Closed => return,
                _ => {}
            }
        }
    }

    async fn round(&self) -> Result<(), Error> {
        if let Some(unfinished) = self.leases.unfinished_slots([CRON]).await?.pop() {
            if let Some(round) = self.leases.claim_rerun(&unfinished).await? {
                self.run_round(round).await;
            }
            return Ok(());
        }
        let last = self.leases.last_slot(CRON).await?.map_or(0, Slot::as_millis);
        let now = self.leases.status(CRON).await?.inspection().now.as_millis();
        let period = self.link.world.setting.period_ms;
        let due = now / period * period;
        let target = if due > last { due } else { last + period };
        let wait = Duration::from_millis(u64::try_from(period).unwrap_or(0));
        // Those before it are late by now; whoever keeps a schedule decides what becomes of them.
        self.link.world.with(|state| state.pass_over(last, target));
        let claimed = self.leases.claim_slot(CRON, instant(target), wait).await?;
        if let SlotClaimed::Granted(round) = claimed {
            self.run_round(round).await;
        }
        Ok(())
    }

    async fn run_round(&self, round: SlotLease) {
        let (slot, rerun, holder) = (round.slot().as_millis(), round.is_rerun(), round.lease().holder());
        self.link.world.with(|state| state.round_begins(slot, rerun));
        let said = match self.draw(10) {
            0 => {
                drop(round.release().await);
                Some(Said::CutShort)
            }
            1 => {
                drop(round);
                None
            }
            2 | 3 => self.finish_by_hand(round).await,
            4 => {
                // The caller goes away in the middle.
                let patience = self.clock.now() + self.ttls(120);
                tokio::select! {
                    biased;
                    ended = self.run_to_its_end(round) => ended,
                    () = sleep_until(&self.clock, patience) => None,
                }
            }
            _ => self.run_to_its_end(round).await,
        };
        if let Some(said) = said {
            self.link.world.with(|state| state.round_said(slot, holder, said));
        }
    }

    async fn run_to_its_end(&self, round: SlotLease) -> Option<Said> {
        let passed = self.passed(round.slot(), round.is_rerun());
        match round.run(move || passed, self.work()).await.end {
            RoundEnd::Finished(FinishAnswer::Finished) => Some(Said::Finished),
            RoundEnd::CutShort => Some(Said::CutShort),
            RoundEnd::Finished(FinishAnswer::Lost { .. }) | RoundEnd::Unrecorded(_) => None,
        }
    }

    async fn finish_by_hand(&self, round: SlotLease) -> Option<Said> {
        let held = hold(&self.link, round.lease().tenure(), true);
        let passed = self.passed(round.slot(), round.is_rerun());
        let until = self.clock.now() + self.ttls(60);
        tokio::select! {
            biased;
            _ = held.tenure.lost() => {}
            () = sleep_until(&self.clock, until) => {}
        }
        drop(held);
        let mut said = None;
        for _ in 0..=self.draw(2) {
            if let Ok(FinishAnswer::Finished) = round.finish(passed).await {
                said = Some(Said::Finished);
            }
        }
        said
    }

    /// The instant after this one, now and then: it is skipped if it has come by then.
    fn passed(&self, slot: Slot, rerun: bool) -> Option<SystemTime> {
        let skips = !rerun && self.draw(3) == 0;
        skips.then(|| instant(slot.as_millis() + self.link.world.setting.period_ms))
    }

    /// What an operator asks for: a look, a step-down, a name cleared.
    pub(super) async fn ask_to_step_down(self) {
        let name = self.any_name();
        drop(self.leases.request_step_down(name).await);
    }

    pub(super) async fn clear(self) {
        let wait = self.ttls(200);
        let name = self.any_name();
        drop(self.leases.clear(name, wait).await);
    }

    fn any_name(&self) -> &'static str {
        [LEADER, LOCK, CRON][usize::try_from(self.draw(3)).unwrap_or(0)]
    }
}

fn instant(ms: i64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_millis(ms.unsigned_abs())
}
