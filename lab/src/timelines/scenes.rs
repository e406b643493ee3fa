//! What each timeline points out.

use std::time::Duration;

use lease_testkit::Op;

use super::page::{Anchor, Page};
use super::play::{CRASH, HEALTHY, Mishap, PARTITION, Played, Sent, Side};
use super::timeline::{Callout, Timeline};

const REMARK: &str = "Default timings; 0.2 s to the database, 0.1 s back. \
    Drawn from what the library did in virtual time (cargo xtask timelines).";

/// A claims, renews, gives back; B takes over.
pub(super) fn healthy(played: &Played) -> Result<Page, String> {
    let title = "All is well: A claims, renews, and hands over to B";
    let lines = [
        "A renews every 2 s. Each renewal that succeeds lets A believe for 10 s from its start, and the row last for 15 s.",
        "When its work has ended A gives the name back, and B, who waits, has it a moment later.",
    ];
    let description = "Three lanes over time. A claims the name, renews it three times and gives it back when its work has ended. \
        The row is held by A from the claim to the release. B is refused at first, waits, and is granted the name right after the release.";
    let mut drawn = Timeline::new(played, Duration::ZERO, title, lines, description);
    let (begins, ends) = (known(played.a.begins, "A's claim")?, known(played.a.ends, "the end of A's work")?);
    let b_begins = known(played.b.begins, "B's claim")?;
    drawn.a_believes(begins, ends);
    drawn.bars(played, HEALTHY.b_waits);
    drawn.statements(&played.a, true);
    drawn.statements(&played.b, false);
    let renewal = renewals(&played.a).next().ok_or("A does not renew")?;
    drawn.above(&[
        at(Duration::ZERO, 1, Anchor::Start, "a claim is sent"),
        at(renewal.at, 0, Anchor::Start, "the first of three renewals"),
        at(ends, 0, Anchor::Start, "the work ends, A gives the name back"),
    ]);
    let refused = played.b.calls.first().ok_or("B does not claim")?;
    drawn.below_b(&[
        at(refused.at, 0, Anchor::Start, "B claims and is refused; it waits"),
        at(b_begins, 0, Anchor::Start, "B has been told, claimed, and holds it"),
    ]);
    let row = played.row.first().ok_or("there is no row")?;
    drawn.below_row(&[at(row.until, 1, Anchor::End, "the row is free")]);
    Ok(drawn.done(false, None, REMARK))
}

/// A is killed; its row expires.
pub(super) fn crash(played: &Played) -> Result<Page, String> {
    let title = "A is killed: its row expires, and B takes over";
    let lines = [
        "Nobody gives the name back, so the row keeps B out until 15 s after the database ran the last renewal.",
        "On the same host B can ask the system whether A is dead (HostProbe), and need not wait for that.",
    ];
    let description = "Three lanes over time. A claims, renews once and is killed a second later. The row stays held by A until its \
        time to live of fifteen seconds is over. B waits until then, claims, and is granted the name.";
    let mut drawn = Timeline::new(played, Duration::ZERO, title, lines, description);
    let Some(Mishap::Killed(killed)) = CRASH.mishap else { return Err("nobody is killed".to_owned()) };
    let begins = known(played.a.begins, "A's claim")?;
    let row = played.row.first().ok_or("there is no row")?;
    let (b_begins, last) =
        (known(played.b.begins, "B's claim")?, renewals(&played.a).last().ok_or("A does not renew")?);
    drawn.shade(killed, row.until);
    drawn.bars(played, CRASH.b_waits);
    drawn.a_believes(begins, killed);
    drawn.statements(&played.a, true);
    drawn.statements(&played.b, false);
    drawn.cross_on_a(killed);
    drawn.say(killed, row.until, "nobody works under the name, and nobody else gets it yet");
    drawn.row_span(row.renewed, row.until, "ttl: 15 s from when the database ran the last renewal");
    drawn.above(&[
        at(Duration::ZERO, 2, Anchor::Start, "a claim is sent"),
        at(last.at, 1, Anchor::Start, "A renews"),
        at(killed, 0, Anchor::Start, "A is killed"),
    ]);
    drawn.below_row(&[at(row.until, 0, Anchor::End, "the row expires; B claims")]);
    drawn.below_b(&[
        at(CRASH.b_waits, 0, Anchor::Start, "B claims and is refused; it waits"),
        at(b_begins, 0, Anchor::Start, "B holds it"),
    ]);
    Ok(drawn.done(false, Some("A dies"), REMARK))
}

/// A is cut off from the database.
pub(super) fn partition(played: &Played) -> Result<Page, String> {
    let title = "A is cut off from the database: it stops believing before B can begin";
    let lines = [
        "A counts 10 s from when it sent its last good renewal; the database counts 15 s from when it ran that.",
        "So A has given up, and its work has ended, before the row expires. Neither needs to hear of the other.",
    ];
    let description = "Three lanes over time, counted from the start of A's last good renewal. Two later attempts get no answer. At ten seconds \
        A loses the lease and its work is told; at 14.05 s the work is aborted; at 14.5 s the grace ends. Only at 15.2 s does the row expire, \
        and B is granted the name.";
    let renewal = good(&played.a).last().ok_or("A does not renew")?;
    let s = renewal.at;
    let mut drawn = Timeline::new(played, s, title, lines, description);
    let (begins, lost) = (known(played.a.begins, "A's claim")?, known(played.a.lost, "A's loss")?);
    let (aborted, grace_ends) = (known(played.a.ends, "the abort")?, lost + played.timings.grace());
    let row = played.row.first().ok_or("there is no row")?;
    let b_begins = known(played.b.begins, "B's claim")?;
    let Some(Mishap::CutOff(cut)) = PARTITION.mishap else { return Err("nobody is cut off".to_owned()) };
    drawn.shade(lost, row.until);
    drawn.bars(played, PARTITION.b_waits);
    drawn.a_believes(begins, lost);
    drawn.grace(lost, grace_ends);
    drawn.statements(&played.a, true);
    drawn.statements(&played.b, false);
    drawn.say(lost, aborted, "nobody believes");
    drawn.a_span(s, lost, "deadline: 10 s from its start");
    drawn.row_span(row.renewed, row.until, "ttl: 15 s from when the database ran it");
    drawn.above(&[
        at(s, 1, Anchor::End, "last good renewal"),
        at(cut, 0, Anchor::Start, "the network is cut, silently"),
        at(lost, 1, Anchor::End, "lost; its work is told"),
        at(aborted, 0, Anchor::End, "aborted"),
        at(grace_ends, 2, Anchor::End, "what cannot be aborted takes the process down"),
    ]);
    drawn.below_row(&[at(row.until, 0, Anchor::End, "the row expires; B claims")]);
    drawn.below_b(&[at(b_begins, 0, Anchor::Start, "B holds it")]);
    Ok(drawn.done(true, Some("fails"), REMARK))
}

fn at(at: Duration, line: u8, anchor: Anchor, text: &str) -> Callout<'_> {
    Callout { at, line, anchor, text }
}

fn known(moment: Option<Duration>, what: &str) -> Result<Duration, String> {
    moment.ok_or_else(|| format!("{what} did not come"))
}

/// The statements that the database ran and that let a holder believe.
fn good(side: &Side) -> impl Iterator<Item = &Sent> {
    let counts =
        |sent: &&Sent| matches!(sent.op, Op::Claim | Op::Renew | Op::RenewMany) && sent.ran.is_some();
    side.calls.iter().filter(counts)
}

fn renewals(side: &Side) -> impl Iterator<Item = &Sent> {
    good(side).filter(|sent| sent.op != Op::Claim)
}
