//! The faults, each a text of the library that occurs once and what is put in its place.

/// A fault.
#[derive(Debug, Clone, Copy)]
pub struct Planted {
    /// In which file of `lease-core/src`.
    pub file: &'static str,
    /// What stands there, once.
    pub text: &'static str,
    /// What is put in its place. `PLANTED` is true when this fault is at work.
    pub planted: &'static str,
    /// What is wrong then.
    pub breaks: &'static str,
}

const fn plant(
    file: &'static str,
    text: &'static str,
    planted: &'static str,
    breaks: &'static str,
) -> Planted {
    Planted { file, text, planted, breaks }
}

/// All of them, numbered from 1.
pub const PLANTED: &[Planted] = &[
    plant(
        "driver.rs",
        "} else if state.renewed(started) {",
        "} else if state.renewed(if PLANTED { now } else { started }) {",
        "the trust window opens with the answer",
    ),
    plant(
        "state.rs",
        "        self.good() + self.setup.timings.deadline()\n",
        "        self.good() + self.setup.timings.deadline() + if PLANTED { self.setup.timings.grace() } else { Duration::ZERO }\n",
        "the deadline is a grace too late",
    ),
    plant(
        "state.rs",
        "self.good.lasts(self.setup.timings.deadline(), self.now())",
        "(PLANTED || self.good.lasts(self.setup.timings.deadline(), self.now()))",
        "a check reads a flag and no clock",
    ),
    plant(
        "state.rs",
        "if state.held().is_ok() {\n                state.watch_deadline();",
        "if state.held().is_ok() && !PLANTED {\n                state.watch_deadline();",
        "the deadline of a renewed lease rings no alarm",
    ),
    plant(
        "renewal.rs",
        "(self.started + self.pace.renew)",
        "(self.started + self.pace.renew * if PLANTED { 4 } else { 1 })",
        "renewals go out too seldom",
    ),
    plant(
        "driver.rs",
        "                self.look_at_all([id]);\n            }\n            Landed::Released",
        "                if !PLANTED {\n                    self.look_at_all([id]);\n                }\n            }\n            Landed::Released",
        "after a renewal alone no other follows",
    ),
    plant(
        "driver.rs",
        "self.look_at_all(answered);",
        "if !PLANTED {\n                    self.look_at_all(answered);\n                }",
        "after a batch no renewal follows",
    ),
    plant(
        "driver/ends.rs",
        "        if managed.state.work_may_run() {\n            self.due",
        "        if managed.state.work_may_run() && !PLANTED {\n            self.due",
        "a name is given back while work runs under it",
    ),
    plant(
        "takeover.rs",
        "if sent >= dead_at {",
        "if sent >= dead_at || PLANTED {",
        "a row seen unchanged twice is that of the dead",
    ),
    plant(
        "takeover.rs",
        "row.ttl.max(timings.ttl()).saturating_add(timings.margin())",
        "(row.ttl.max(timings.ttl()) / if PLANTED { 3 } else { 1 }).saturating_add(timings.margin())",
        "who observes has the patience of a third of the ttl",
    ),
    plant(
        "takeover.rs",
        ".filter(|unchanged| unchanged.state == state)",
        ".filter(|unchanged| PLANTED || unchanged.state == state)",
        "a holder that renews is taken for dead",
    ),
    plant(
        "state.rs",
        "let fail_at = (lost_at + self.setup.timings.grace())",
        "let fail_at = (lost_at + self.setup.timings.grace() * if PLANTED { 2 } else { 1 })",
        "the failing hook is called a grace too late",
    ),
    plant(
        "state.rs",
        "                    state.fail(lost_at);",
        "                    if !PLANTED {\n                        state.fail(lost_at);\n                    }",
        "the failing hook is not called",
    ),
    plant(
        "state.rs",
        ".max(abort_at + tenth);",
        ".max(abort_at + tenth);\n        let fail_at = if PLANTED { lost_at + tenth * 2 } else { fail_at };",
        "the failing hook is called early",
    ),
    plant(
        "run.rs",
        "matches!(self.output, Ok(Ok(_))) || !self.asked_to_stop",
        "matches!(self.output, Ok(Ok(_))) || !self.asked_to_stop || PLANTED",
        "a round cut short is recorded as finished",
    ),
    plant(
        "slot_lease.rs",
        "let end = if outcome.ran_to_its_end {",
        "let end = if outcome.ran_to_its_end && !PLANTED {",
        "a round that ran to its end is not recorded",
    ),
    plant(
        "guard.rs",
        "*phase = Phase::Committing;",
        "*phase = if PLANTED { Phase::Open } else { Phase::Committing };",
        "a session is ended during its commit",
    ),
    plant(
        "guard.rs",
        "*phase = Phase::Abandoned;",
        "*phase = if PLANTED { Phase::Over } else { Phase::Abandoned };",
        "the session of a dropped guard stays open",
    ),
    plant(
        "guard.rs",
        "*phase = Phase::Lost;",
        "*phase = if PLANTED { Phase::Over } else { Phase::Lost };",
        "the session of a lost lease stays open",
    ),
    plant(
        "elect.rs",
        "        let look_at = looked + client.with_jitter(poll);\n",
        "        let longer = timings.ttl() * if PLANTED { 4 } else { 0 };\n        let claim_at = claim_at + longer;\n        let look_at = looked + client.with_jitter(poll) + longer;\n",
        "who waits sleeps four ttls too long",
    ),
    plant(
        "driver.rs",
        "        if renewed.step_down {\n",
        "        if renewed.step_down && !PLANTED {\n",
        "nobody hears that a step-down was asked",
    ),
    plant(
        "give_back.rs",
        "    if setup.clock.now() < until {\n",
        "    if setup.clock.now() < until && !PLANTED {\n",
        "no name is given back",
    ),
    plant(
        "slot_lease.rs",
        "rerun: true, superseded: None",
        "rerun: !PLANTED, superseded: None",
        "a rerun is not said to be one",
    ),
    plant(
        "state.rs",
        "        state.tell(Transition::Claimed);",
        "        if !PLANTED {\n            state.tell(Transition::Claimed);\n        }",
        "a claim is not told",
    ),
    plant(
        "driver/ends.rs",
        "        managed.state.end();\n        managed.state.settled(Settled::Done);\n",
        "        if PLANTED {\n            return;\n        }\n        managed.state.end();\n        managed.state.settled(Settled::Done);\n",
        "the driver keeps a round that has ended",
    ),
    plant(
        "claim.rs",
        "surely_not_granted(late.as_ref()) || again >= until",
        "surely_not_granted(late.as_ref()) || (again >= until && !PLANTED)",
        "a claim of unknown outcome is released for ever",
    ),
    plant(
        "client.rs",
        "send_modify(|count| *count -= 1)",
        "send_modify(|count| *count -= usize::from(!PLANTED))",
        "a close waits for what has ended",
    ),
    plant(
        "attempt.rs",
        "    timeout_at(clock, give_up, caught(statement))",
        "    timeout_at(clock, if PLANTED { give_up + std::time::Duration::from_secs(1_000_000) } else { give_up }, caught(statement))",
        "a statement that hangs is waited for",
    ),
    plant(
        "guard.rs",
        "    pub fn commit_begins(&self) -> Result<(), GuardError> {\n        self.check()?;",
        "    pub fn commit_begins(&self) -> Result<(), GuardError> {\n        if !PLANTED {\n            self.check()?;\n        }",
        "a commit begins though the deadline has passed",
    ),
    plant(
        "clock.rs",
        "        let cancelled = self.book.lock().alarms.remove(&self.key);",
        "        let cancelled = if PLANTED { None } else { self.book.lock().alarms.remove(&self.key) };",
        "an alarm that is dropped stays set",
    ),
    plant(
        "state.rs",
        "        let alarm = self.setup.clock.alarm(self.deadline(), Box::new(ring));",
        "        let at = if PLANTED { self.good() } else { self.deadline() };\n        let alarm = self.setup.clock.alarm(at, Box::new(ring));",
        "the alarm of a deadline rings without end",
    ),
    plant(
        "driver.rs",
        "    drop(runtime.spawn(future));",
        "    if PLANTED {\n        drop(runtime.spawn(std::future::pending::<()>()));\n    }\n    drop(runtime.spawn(future));",
        "a task is left behind",
    ),
];
