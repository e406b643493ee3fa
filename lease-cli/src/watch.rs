//! `lease watch`: every change of who holds a name, a line each.

use std::io;
use std::time::Duration;

use jiff::Timestamp;
use lease_core::store::DbTime;
use lease_core::{Leases, Sighting, Standing, Watch, Watched};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tokio::task::spawn_blocking;
use tokio::time::sleep;

use crate::args::WatchArguments;
use crate::database::Database;
use crate::exit::{DATABASE, Failure, SUCCESS, SYSTEM, answer_on, code_of_signal};
use crate::json;
use crate::signals::Signals;
use crate::status::{holder, lease_name, word};
use crate::text::{for_users, one_line, second, without_passwords};

/// How often is looked whether anybody still reads: a watch may have nothing to write for days.
const LOOK: Duration = Duration::from_millis(500);

pub(crate) async fn watch(arguments: &WatchArguments) -> Result<u8, Failure> {
    let name = arguments.name.as_deref().map(lease_name).transpose()?;
    let database = Database::named(&arguments.database)?;
    let mut signals = Signals::listen()?;
    let Some(store) = database.existing().await? else {
        let message = format!("{} does not exist yet; `lease migrate` creates it", database.describe());
        return Err(Failure::new(DATABASE, message));
    };
    let leases = Leases::builder_shared(store.0).build()?;
    let watch = match name {
        Some(name) => leases.watch(name)?,
        None => leases.watch_all(&arguments.prefix),
    };
    let place = database.describe();
    let told = async {
        tokio::select! {
            told = tell(watch, &place, arguments.json) => told,
            () = nobody_reads() => Ok(()),
        }
    };
    match signals.or_signal(told).await {
        Ok(told) => told.map(|()| SUCCESS),
        Err(signal) => Ok(code_of_signal(signal)),
    }
}

/// Writes a line for each change, until nobody reads.
///
/// # Errors
///
/// What is there from the start and does not pass by waiting: a missing table, a refused login.
async fn tell(mut watch: Watch, database: &str, json: bool) -> Result<(), Failure> {
    let mut is_first = true;
    while let Some(watched) = watch.next().await {
        let line = match watched {
            Watched::Now(seen) if json => {
                let status = Box::new(json::Status::from(&*seen));
                json::to_line(&json::Watched::Now { name: seen.name().to_string(), status })
            }
            Watched::Now(seen) => format!("{}\n", one_line(&changed(&seen))),
            Watched::Away(error) if is_first && !error.retry_helps() => return Err(error.into()),
            Watched::Away(error) => {
                let error = without_passwords(&for_users(&error.to_string()));
                if json {
                    json::to_line(&json::Watched::Away { database: database.to_owned(), error })
                } else {
                    format!("{}\n", one_line(&format!("{} database away: {error}", now())))
                }
            }
        };
        // Who reads may stop reading for a while, and a signal is to end the watch all the same.
        let written = spawn_blocking(move || answer_on(&line)).await;
        let reads_on = written.unwrap_or_else(|error| Err(Failure::new(SYSTEM, error.to_string())))?;
        if !reads_on {
            return Ok(());
        }
        is_first = false;
    }
    Ok(())
}

/// Time, name, state, holder and term.
fn changed(seen: &Sighting) -> String {
    // Of a row that was deleted the database says no time.
    let time = Some(seen.inspection().now).filter(|now| *now != DbTime::RELEASED);
    let time = time.map_or_else(now, second);
    let (name, standing) = (seen.name(), seen.standing());
    let state = word(standing);
    match seen.row() {
        None => format!("{time} {name:?} {state}"),
        Some(row) => {
            let by = if standing == Standing::Held { "by" } else { "last held by" };
            format!("{time} {name:?} {state}, {by} {}, term {}", holder(row), row.term)
        }
    }
}

/// The local clock, to the second.
fn now() -> String {
    second(DbTime::from_millis(Timestamp::now().as_millisecond()))
}

/// Waits until the pipe that standard output is has no reader any more; for ever where it is none.
async fn nobody_reads() {
    loop {
        let stdout = io::stdout();
        let mut fds = [PollFd::new(&stdout, PollFlags::empty())];
        let polled = poll(&mut fds, Some(&Timespec::default()));
        if polled.is_ok() && fds[0].revents().contains(PollFlags::ERR) {
            return;
        }
        sleep(LOOK).await;
    }
}

#[cfg(test)]
mod tests {
    use lease_core::store::LeaseRow;

    use super::*;
    use crate::status::tests::{row, sighting};

    #[test]
    fn a_change_is_a_line_of_time_name_state_holder_and_term() {
        let said = |expires_at| changed(&sighting(Some(LeaseRow { expires_at, ..row("nightly") })));
        let time = "2026-01-01T00:00:13Z";
        assert_eq!(said(row("x").expires_at), format!("{time} \"nightly\" held, by host:123, term 4"));
        assert_eq!(
            said(DbTime::RELEASED),
            format!("{time} \"nightly\" released, last held by host:123, term 4")
        );
        assert_eq!(
            said(DbTime::from_millis(1)),
            format!("{time} \"nightly\" expired, last held by host:123, term 4")
        );
        assert_eq!(changed(&sighting(None)), format!("{time} \"nightly\" never claimed"));
    }
}
