//! `lease resign`: asks the holder of a name to step down.

use std::time::Duration;

use lease_core::{Leases, Sighting, Standing, Watched};
use tokio::time::timeout;

use crate::args::ResignArguments;
use crate::database::Database;
use crate::exit::{Failure, HELD, SUCCESS, answer, code_of_signal, say_unmasked};
use crate::progress;
use crate::signals::Signals;
use crate::status::{holder, lease_name, word};
use crate::text::{one_line, span};

pub(crate) async fn resign(arguments: &ResignArguments) -> Result<u8, Failure> {
    let name = lease_name(&arguments.name)?;
    let database = Database::named(&arguments.database)?;
    let mut signals = Signals::listen()?;
    let Some(store) = database.existing().await? else {
        say(&format!("{name:?} was never claimed: nobody is asked ({})", database.describe()))?;
        return Ok(SUCCESS);
    };
    let leases = Leases::builder_shared(store.0).build()?;
    let asked = match signals.or_signal(leases.request_step_down(name)).await {
        Ok(asked) => asked?,
        Err(signal) => return Ok(code_of_signal(signal)),
    };
    say(&told(&asked))?;
    let Some(wait) = arguments.wait.filter(|_| asked.standing() == Standing::Held) else {
        return Ok(SUCCESS);
    };
    let what = format!("waiting for the holder of {:?} to step down", asked.name());
    let stepped_down = progress::shown(&what, wait, timeout(wait, stepped_down(&leases, &asked)));
    match signals.or_signal(stepped_down).await {
        Ok(Ok(seen)) => {
            say(&seen?)?;
            Ok(SUCCESS)
        }
        Ok(Err(_)) => {
            say_unmasked(&not_stepped_down(&asked, wait));
            Ok(HELD)
        }
        Err(signal) => Ok(code_of_signal(signal)),
    }
}

fn say(line: &str) -> Result<(), Failure> {
    answer(&format!("{}\n", one_line(line)))
}

/// Waits until whoever was asked does not hold the name any more, and says what has become of it.
async fn stepped_down(leases: &Leases, asked: &Sighting) -> Result<String, Failure> {
    let mut watch = leases.watch(asked.name().clone())?;
    loop {
        let Some(watched) = watch.next().await else { return Ok(told(asked)) };
        match watched {
            Watched::Now(seen) if seen.standing() != Standing::Held || seen.term() != asked.term() => {
                return Ok(match seen.row().filter(|_| seen.standing() == Standing::Held) {
                    Some(row) => {
                        format!("{:?} is held by {} now (term {})", seen.name(), holder(row), row.term)
                    }
                    None => format!("{:?} is {} now", seen.name(), word(seen.standing())),
                });
            }
            // It may be back before the time is over.
            Watched::Now(_) | Watched::Away(_) => {}
        }
    }
}

fn told(asked: &Sighting) -> String {
    let (name, database) = (asked.name(), asked.database());
    match asked.row() {
        Some(row) if asked.standing() == Standing::Held => format!(
            "asked {} to step down from {name:?}; it learns of it with its next renewal ({database}, term {})",
            holder(row),
            row.term
        ),
        _ => format!("{name:?} is free ({}): nobody is asked ({database})", word(asked.standing())),
    }
}

fn not_stepped_down(asked: &Sighting, wait: Duration) -> String {
    let holder = asked.row().map(holder).unwrap_or_default();
    format!(
        "{holder} was asked to step down from {:?} and has not in {}; it may still: see `lease status`, wait longer, or end its process ({})",
        asked.name(),
        span(wait),
        asked.database()
    )
}
