//! Rounds: instants of the database's clock, one after the other.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use lease_core::{
    ClearError, Error, ErrorKind, FinishAnswer, LeaseName, RoundEnd, Slot, SlotClaimed, SlotLease,
    Superseded, Tenure,
};
use tokio::time::sleep;

use super::parent::While;
use super::{ROUNDS, Worker};
use crate::history::{End, Event, GivenUp, RoundId};

/// The instants of such a span have a name of their own. A span longer than a history would be entered again after the clock was set back
/// an hour; if it had been seen to its end, all its instants would be passed.
const SPAN_MS: i64 = 600_000;

/// The work of a round is cut short.
struct CutShort;

impl Worker {
    /// Claims what has just come, and runs again what was cut short.
    pub(super) async fn works_off(self: &Arc<Self>) {
        while !self.is_stopping() {
            if let Err(error) = self.one_round().await {
                if error.kind() == ErrorKind::Closed {
                    break;
                }
                self.failed("round", &error).await;
            }
            sleep(self.part(5..20)).await;
        }
    }

    async fn one_round(self: &Arc<Self>) -> Result<(), Error> {
        let (name, instant) = self.now_at_the_database().await?;
        let unfinished = self.leases.unfinished_slots([name.clone()]).await?;
        for round in unfinished {
            if let Some(granted) = self.leases.claim_rerun(&round).await? {
                self.round(granted).await;
            }
        }
        if self.is_stopping() {
            return Ok(());
        }
        let instant = SystemTime::from(instant);
        match self.leases.claim_slot(name.clone(), instant, Duration::ZERO).await? {
            SlotClaimed::Granted(granted) => self.round(granted).await,
            SlotClaimed::Held(_) if self.below(5) == 0 => self.clear(name).await?,
            SlotClaimed::Held(_) | SlotClaimed::Passed | SlotClaimed::NotYet(_) => {}
        }
        Ok(())
    }

    /// Frees a name as an operator would, whose holder has died in a clock that was an hour ahead.
    async fn clear(&self, name: LeaseName) -> Result<(), Error> {
        let seen = self.leases.status(name.clone()).await?;
        if seen.expires_in().is_none_or(|left| left < self.order.ttl() * 2) {
            return Ok(());
        }
        match self.leases.clear(name, self.order.ttl() * 2).await {
            Ok(_) | Err(ClearError::Live(_)) => Ok(()),
            Err(ClearError::Store(error)) => Err(error),
        }
    }

    /// Its clock, and a name of the ten minutes that it shows: when it is set back an hour, what was claimed ahead keeps nobody waiting.
    async fn now_at_the_database(&self) -> Result<(LeaseName, Slot), Error> {
        let any: LeaseName = ROUNDS.parse()?;
        let now = self.leases.status(any).await?.inspection().now.as_millis();
        let name = format!("{ROUNDS}-{}", now / SPAN_MS).parse()?;
        Ok((name, Slot::from_millis(now).expect("a clock after 1970")))
    }

    async fn round(self: &Arc<Self>, granted: SlotLease) {
        let lease = granted.lease();
        let round = RoundId {
            name: lease.name().clone(),
            slot: granted.slot().as_millis(),
            term: lease.term().get(),
        };
        let superseded =
            granted.superseded().map(|Superseded { slot, rerun }| GivenUp { slot: slot.as_millis(), rerun });
        let began = Event::RoundBegan { round: round.clone(), rerun: granted.is_rerun(), superseded };
        let takes = self.part(5..60);
        let work = {
            let (worker, round) = (Arc::clone(self), round.clone());
            async move |tenure: Tenure| {
                worker.writer.tell(began);
                let _running = While::round();
                worker.work(&tenure, takes).await;
                if !tenure.check() || tenure.is_stopping() {
                    return Err(CutShort);
                }
                worker.writer.tell(Event::RoundEnded(round));
                Ok(())
            }
        };
        let ran = granted.run(|| None, work).await;
        let end = match ran.end {
            RoundEnd::Finished(FinishAnswer::Finished) => End::Finished,
            RoundEnd::Finished(FinishAnswer::Lost { recorded: true }) => End::LostRecorded,
            RoundEnd::Finished(FinishAnswer::Lost { recorded: false }) => End::Lost,
            RoundEnd::Unrecorded(_) => End::Unrecorded,
            RoundEnd::CutShort => End::CutShort,
        };
        self.writer.tell(Event::RoundSettled { round, end });
    }
}
