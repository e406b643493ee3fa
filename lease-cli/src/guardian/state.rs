//! What the guardian decides, without a clock, a process or a pipe.

use std::time::Duration;

use lease_core::Moment;

/// The guardian's knowledge: until when the lease is believed, and what is left of the command.
#[derive(Debug, Clone)]
pub(super) struct GuardianState {
    deadline: Moment,
    grace: Duration,
    lost_at: Option<Moment>,
    ended_at: Option<Moment>,
    group_is_empty: bool,
    terminated: bool,
}

/// What to do next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// Nothing, until this moment or until something happens.
    Wait(Moment),
    /// Ask the whole group to end.
    Terminate,
    /// End the whole group, the guardian with it: what was asked to end has had its time, or nothing
    /// is known to be left.
    Kill,
}

impl GuardianState {
    /// The lease is believed until `deadline`, and all is to be over before `grace` after that.
    pub(super) fn new(deadline: Moment, grace: Duration) -> Self {
        Self { deadline, grace, lost_at: None, ended_at: None, group_is_empty: false, terminated: false }
    }

    /// A renewal moved the deadline. A loss is final, so it comes too late after one.
    pub(super) fn believed_until(&mut self, deadline: Moment) {
        if self.lost_at.is_none() {
            self.deadline = deadline;
        }
    }

    /// The lease is lost, or nobody is left to renew it.
    pub(super) fn lose(&mut self, now: Moment) {
        self.lost_at.get_or_insert(now);
    }

    pub(super) fn is_lost(&self) -> bool {
        self.lost_at.is_some()
    }

    /// The command itself has ended; others of its group may be left.
    pub(super) fn command_ended(&mut self, now: Moment) {
        self.ended_at.get_or_insert(now);
    }

    /// Whether the guardian has no child left in its group. A member whose parent has left the group
    /// is not seen.
    pub(super) fn group_is_empty(&mut self, empty: bool) {
        self.group_is_empty = empty;
    }

    /// Decides. [`Step::Terminate`] is answered once; the others until they no longer apply.
    pub(super) fn step(&mut self, now: Moment) -> Step {
        if now >= self.deadline {
            self.lose(now);
        }
        if self.ended_at.is_some() && self.group_is_empty {
            return Step::Kill;
        }
        let Some(kill_at) = self.kill_at() else { return Step::Wait(self.deadline) };
        if now >= kill_at {
            return Step::Kill;
        }
        if !self.terminated {
            self.terminated = true;
            return Step::Terminate;
        }
        Step::Wait(if self.is_lost() { kill_at } else { kill_at.min(self.deadline) })
    }

    /// When those asked to end have had their time.
    fn kill_at(&self) -> Option<Moment> {
        let asked_at = self.lost_at.into_iter().chain(self.ended_at).min()?;
        // A tenth of the grace is left for the kill itself, which a busy machine can delay.
        Some(asked_at.min(self.deadline) + self.grace / 10 * 9)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GRACE: Duration = Duration::from_millis(1_000);

    fn at(ms: u64) -> Moment {
        Moment::new(Duration::from_millis(ms))
    }

    /// Believed until 10 s.
    fn guarding() -> GuardianState {
        GuardianState::new(at(10_000), GRACE)
    }

    #[test]
    fn a_healthy_lease_is_left_alone_until_its_deadline() {
        let mut state = guarding();
        assert_eq!(state.step(at(0)), Step::Wait(at(10_000)));
        assert_eq!(state.step(at(9_999)), Step::Wait(at(10_000)));
        assert!(!state.is_lost());
    }

    #[test]
    fn a_renewal_moves_the_deadline() {
        let mut state = guarding();
        state.believed_until(at(12_000));
        assert_eq!(state.step(at(11_000)), Step::Wait(at(12_000)));
    }

    #[test]
    fn at_the_deadline_the_group_is_asked_to_end_and_killed_before_the_grace_is_over() {
        let mut state = guarding();
        assert_eq!(state.step(at(10_000)), Step::Terminate);
        assert!(state.is_lost());
        assert_eq!(state.step(at(10_000)), Step::Wait(at(10_900)));
        assert_eq!(state.step(at(10_899)), Step::Wait(at(10_900)));
        assert_eq!(state.step(at(10_900)), Step::Kill);
        assert_eq!(state.step(at(10_901)), Step::Kill);
    }

    #[test]
    fn a_guardian_that_slept_past_the_grace_kills_without_asking() {
        let mut state = guarding();
        assert_eq!(state.step(at(60_000)), Step::Kill);
    }

    #[test]
    fn when_nobody_renews_any_more_the_grace_counts_from_then() {
        let mut state = guarding();
        state.lose(at(3_000));
        assert_eq!(state.step(at(3_000)), Step::Terminate);
        assert_eq!(state.step(at(3_500)), Step::Wait(at(3_900)));
        assert_eq!(state.step(at(3_900)), Step::Kill);
    }

    #[test]
    fn a_loss_noticed_after_the_deadline_does_not_push_the_kill_past_the_grace() {
        let mut state = guarding();
        state.lose(at(10_500));
        assert_eq!(state.step(at(10_500)), Step::Terminate);
        assert_eq!(state.step(at(10_501)), Step::Wait(at(10_900)));
        assert_eq!(state.step(at(10_900)), Step::Kill);
    }

    #[test]
    fn a_loss_is_final() {
        let mut state = guarding();
        assert_eq!(state.step(at(10_500)), Step::Terminate);
        state.believed_until(at(99_000));
        state.lose(at(10_800));
        assert_eq!(state.step(at(10_900)), Step::Kill);
    }

    #[test]
    fn after_a_command_that_seems_to_leave_nothing_behind_the_group_is_killed_at_once() {
        let mut state = guarding();
        state.group_is_empty(false);
        state.command_ended(at(5_000));
        state.group_is_empty(true);
        assert_eq!(state.step(at(5_000)), Step::Kill);
    }

    #[test]
    fn an_empty_group_alone_does_not_end_the_watch() {
        // The command has moved to a group of its own; it is still the command.
        let mut state = guarding();
        state.group_is_empty(true);
        assert_eq!(state.step(at(5_000)), Step::Wait(at(10_000)));
    }

    #[test]
    fn what_the_command_leaves_running_is_asked_to_end_and_then_killed() {
        let mut state = guarding();
        state.command_ended(at(5_000));
        assert_eq!(state.step(at(5_000)), Step::Terminate);
        assert_eq!(state.step(at(5_899)), Step::Wait(at(5_900)));
        assert_eq!(state.step(at(5_900)), Step::Kill);
    }

    #[test]
    fn leftovers_live_no_longer_than_the_lease_and_its_grace() {
        let mut state = guarding();
        state.command_ended(at(9_950));
        assert_eq!(state.step(at(9_950)), Step::Terminate);
        assert_eq!(state.step(at(9_951)), Step::Wait(at(10_000)), "the loss is noticed on time");
        assert_eq!(state.step(at(10_000)), Step::Wait(at(10_850)));
        assert_eq!(state.step(at(10_850)), Step::Kill);
    }

    #[test]
    fn the_group_is_asked_to_end_only_once() {
        let mut state = guarding();
        state.lose(at(3_000));
        assert_eq!(state.step(at(3_000)), Step::Terminate);
        state.command_ended(at(3_100));
        assert_eq!(state.step(at(3_100)), Step::Wait(at(3_900)));
    }
}
