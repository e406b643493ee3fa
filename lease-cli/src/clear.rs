//! `lease clear`: frees a name whose holder is proven dead.

use std::time::Duration;

use lease_core::{ClearError, HostProbe, LeaseName, Leases, Sighting, Standing};

use crate::args::ClearArguments;
use crate::database::Database;
use crate::exit::{Failure, HELD, SUCCESS, answer, code_of_signal, say_unmasked};
use crate::json;
use crate::progress;
use crate::signals::Signals;
use crate::status::{held, holder, lease_name};
use crate::text::{one_line, second, span};

pub(crate) async fn clear(arguments: &ClearArguments) -> Result<u8, Failure> {
    let name = lease_name(&arguments.name)?;
    let database = Database::named(&arguments.database)?;
    let mut signals = Signals::listen()?;
    let Some(store) = database.existing().await? else {
        let (cleared, status) = (false, json::Status::new(database.describe(), None));
        let never = format!("{name:?} was never claimed ({})", database.describe());
        tell(arguments, &json::Cleared { cleared, status }, &never)?;
        return Ok(SUCCESS);
    };
    let mut leases = Leases::builder_shared(store.0);
    if !arguments.no_probe {
        leases = leases.probe(HostProbe);
    }
    let leases = leases.build()?;
    let wait = arguments.wait.unwrap_or_default();
    let outcome = match signals.or_signal(free(&leases, &name, wait)).await {
        Ok(outcome) => outcome,
        Err(signal) => return Ok(code_of_signal(signal)),
    };
    // Whoever waits for the name is told before this process ends; a signal ends that wait too.
    let _ = signals.or_signal(leases.close()).await;
    let (seen, code) = match outcome {
        Ok(seen) => (seen, SUCCESS),
        // It has moved: freed, or given back.
        Err(ClearError::Live(seen)) if seen.standing() != Standing::Held => (*seen, SUCCESS),
        Err(ClearError::Live(seen)) => (*seen, HELD),
        Err(ClearError::Store(error)) => return Err(error.into()),
    };
    let cleared = code == SUCCESS && seen.standing() == Standing::Held;
    let status = json::Status::from(&seen);
    if code == SUCCESS {
        tell(arguments, &json::Cleared { cleared, status }, &freed(&seen))?;
    } else {
        if arguments.json {
            answer(&json::to_text(&json::Cleared { cleared, status }))?;
        }
        say_unmasked(&not_freed(&seen, wait, patience(&leases, &seen)));
    }
    Ok(code)
}

async fn free(leases: &Leases, name: &LeaseName, wait: Duration) -> Result<Sighting, ClearError> {
    let clearing = leases.clear(name.clone(), wait);
    if wait.is_zero() {
        return clearing.await;
    }
    let seen = leases.status(name.clone()).await?;
    progress::shown(&format!("watching {name:?} for a renewal"), patience(leases, &seen), clearing).await
}

/// How long a row is watched that is not renewed.
fn patience(leases: &Leases, seen: &Sighting) -> Duration {
    let ttl = seen.row().map_or(Duration::ZERO, |row| row.ttl);
    ttl.saturating_add(leases.timings().margin())
}

fn tell(arguments: &ClearArguments, cleared: &json::Cleared, line: &str) -> Result<(), Failure> {
    if arguments.json { answer(&json::to_text(cleared)) } else { answer(&format!("{}\n", one_line(line))) }
}

/// What was freed, or why there was nothing to free.
fn freed(seen: &Sighting) -> String {
    let (name, database, now) = (seen.name(), seen.database(), seen.inspection().now);
    let Some(row) = seen.row() else { return format!("{name:?} was never claimed ({database})") };
    let holder = holder(row);
    let what = match seen.standing() {
        Standing::Held => format!(
            "is freed: {holder} held it since {}, last renewed it {} ago, and is dead",
            second(row.claimed_at),
            span(now.since(row.renewed_at))
        ),
        Standing::Expired => {
            format!(
                "was free: {holder} did not renew it, and it expired {} ago",
                span(now.since(row.expires_at))
            )
        }
        Standing::Released | Standing::Never => "was free: it had been given back".to_owned(),
    };
    format!("{name:?} {what} ({database}, term {})", row.term)
}

/// Why a name was not freed after it was to be watched for `wait`, and what to do.
fn not_freed(seen: &Sighting, wait: Duration, patience: Duration) -> String {
    let held = seen.row().map(|row| held(seen, row)).unwrap_or_default();
    let why = if wait >= patience {
        "it was renewed while it was watched; end its process, or ask it to step down with `lease resign`"
            .to_owned()
    } else {
        format!(
            "nothing proves it dead; ask it to step down with `lease resign`, end its process, or have the lease watched with --wait, which takes {}",
            span(patience)
        )
    };
    format!("{held}; not cleared: {why}")
}

#[cfg(test)]
mod tests {
    use lease_core::store::{DbTime, LeaseRow};

    use super::*;
    use crate::status::tests::{NOW, row, sighting};

    #[test]
    fn it_says_what_was_freed_or_why_there_was_nothing_to_free() {
        let said = |expires_at| freed(&sighting(Some(LeaseRow { expires_at, ..row("nightly") })));
        assert_eq!(
            said(row("nightly").expires_at),
            "\"nightly\" is freed: host:123 held it since 2026-01-01T00:00:00Z, last renewed it 1.2 s ago, and is dead (SQLite file /x, term 4)"
        );
        assert_eq!(
            said(DbTime::from_millis(NOW.as_millis() - 3_000)),
            "\"nightly\" was free: host:123 did not renew it, and it expired 3.0 s ago (SQLite file /x, term 4)"
        );
        assert_eq!(
            said(DbTime::RELEASED),
            "\"nightly\" was free: it had been given back (SQLite file /x, term 4)"
        );
        assert_eq!(freed(&sighting(None)), "\"nightly\" was never claimed (SQLite file /x)");
    }

    #[test]
    fn a_refusal_says_how_long_watching_takes_unless_that_was_done() {
        let seen = sighting(Some(row("nightly")));
        let said = |wait| not_freed(&seen, Duration::from_millis(wait), Duration::from_millis(15_500));
        assert!(said(0).contains("is held by host:123 since 2026") && said(0).contains("takes 15.5 s"));
        assert!(said(15_499).contains("takes 15.5 s") && said(15_500).contains("it was renewed while"));
    }
}
