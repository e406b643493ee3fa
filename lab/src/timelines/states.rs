//! The life of a holder's lease: its states, and what leads from one to another.

use std::sync::Arc;

use lease_core::store::StoreError;
use lease_core::{ErrorKind, LossReason};

use super::page::{Anchor, Page};

const HEIGHT: f64 = 470.0;
/// How wide and high a state is.
const STATE: [f64; 2] = [96.0, 40.0];

/// The reasons for a loss have their names from the library.
pub(super) fn draw() -> Page {
    let mut page = Page::new(HEIGHT, "The life of a holder's lease", DESCRIPTION);
    page.text(
        [18.0, 52.0],
        Anchor::Start,
        "sub",
        "Lost is final: the first reason stays, and no later answer revives a lease.",
    );
    held(&mut page);
    losses(&mut page);
    ends(&mut page);
    page
}

const DESCRIPTION: &str = "States and what leads from one to another. Claiming leads to Held when it is granted, else to the end. Within \
    Held a lease rests until a renewal is due, asks, and rests again, whatever came of it. Held leads to Lost when the deadline has passed, \
    when the database refuses, or when the lease is given up. Lost leads to Giving back when every tenure is gone, or to Grace while work \
    goes on. Grace leads to Giving back when the work has ended, or to Failing when the grace is over. Giving back leads to the end.";

fn held(page: &mut Page) {
    page.dot([34.0, 170.0], 7.0, "end");
    page.arrow(&[[41.0, 170.0], [64.0, 170.0]], "flow");
    state(page, [64.0, 150.0], "state", "Claiming");
    page.arrow(&[[160.0, 170.0], [250.0, 170.0]], "flow");
    page.text([205.0, 163.0], Anchor::Middle, "", "granted");
    page.arrow(&[[112.0, 190.0], [112.0, 266.0]], "flow");
    page.text([120.0, 232.0], Anchor::Start, "", "refused,");
    page.text([120.0, 248.0], Anchor::Start, "", "or an error");
    end(page, [112.0, 276.0]);
    page.rectangle([250.0, 90.0], [250.0, 160.0], "state");
    page.text([262.0, 112.0], Anchor::Start, "lane", "Held");
    for (x, name) in [(264.0, "Resting"), (406.0, "Asking")] {
        page.rectangle([x, 146.0], [80.0, 48.0], "inner");
        page.text([x + 40.0, 174.0], Anchor::Middle, "lane", name);
    }
    page.arrow(&[[344.0, 160.0], [406.0, 160.0]], "flow");
    page.text([375.0, 152.0], Anchor::Middle, "", "due");
    page.arrow(&[[406.0, 182.0], [344.0, 182.0]], "flow");
    page.text([375.0, 220.0], Anchor::Middle, "", "renewed, failed or timed out");
}

fn losses(page: &mut Page) {
    let replaced = LossReason::Replaced(Arc::new(StoreError::new(ErrorKind::Other, "")));
    let deadline = format!("{}: it has passed", name(&LossReason::Deadline { last_error: None }));
    let refused = format!("{}, {}: by the database", name(&LossReason::Refused), name(&replaced));
    let released = format!("{}: given up", name(&LossReason::Released));
    for (y, reason) in [(116.0, deadline), (170.0, refused), (224.0, released)] {
        page.arrow(&[[500.0, y], [762.0, y]], "flow");
        page.text([628.0, y - 7.0], Anchor::Middle, "", &reason);
    }
    page.rectangle([762.0, 90.0], [96.0, 160.0], "late");
    page.text([810.0, 174.0], Anchor::Middle, "lane", "Lost");
}

/// As the library calls it.
fn name(reason: &LossReason) -> String {
    format!("{reason:?}").chars().take_while(|letter| letter.is_alphabetic()).collect()
}

fn ends(page: &mut Page) {
    state(page, [762.0, 322.0], "late", "Grace");
    state(page, [762.0, 412.0], "late", "Failing");
    state(page, [420.0, 322.0], "state", "Giving back");
    page.arrow(&[[782.0, 250.0], [782.0, 286.0], [468.0, 286.0], [468.0, 322.0]], "flow");
    page.text([625.0, 279.0], Anchor::Middle, "", "every tenure is gone");
    page.arrow(&[[836.0, 250.0], [836.0, 322.0]], "flow");
    page.text([828.0, 309.0], Anchor::End, "", "work of run goes on");
    page.arrow(&[[762.0, 342.0], [516.0, 342.0]], "flow");
    page.text([639.0, 335.0], Anchor::Middle, "", "the work has ended, or was aborted");
    page.arrow(&[[810.0, 362.0], [810.0, 412.0]], "flow");
    page.text([802.0, 392.0], Anchor::End, "", "the grace is over");
    page.text([752.0, 436.0], Anchor::End, "small", "the failing hook: by default it aborts the process");
    page.arrow(&[[420.0, 342.0], [332.0, 342.0]], "flow");
    page.text([376.0, 335.0], Anchor::Middle, "", "released,");
    page.text([376.0, 359.0], Anchor::Middle, "", "expired,");
    page.text([376.0, 375.0], Anchor::Middle, "", "or not ours");
    end(page, [322.0, 342.0]);
}

fn state(page: &mut Page, at: [f64; 2], class: &str, name: &str) {
    page.rectangle(at, STATE, class);
    page.text([at[0] + STATE[0] / 2.0, at[1] + 24.0], Anchor::Middle, "lane", name);
}

fn end(page: &mut Page, at: [f64; 2]) {
    page.dot(at, 9.0, "inner");
    page.dot(at, 5.5, "end");
}
