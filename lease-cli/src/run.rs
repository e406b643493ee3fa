//! `lease run`: from the claim to the release, with the command between them.

use std::mem;
use std::time::{Duration, Instant};

use lease_core::clock::sleep_until;
use lease_core::{HostProbe, Instance, Leases, ProcessFacts, Refusal, Standing, Timings, Watched};
use tokio::time::sleep;

use crate::args::RunArguments;
use crate::claim::{Answer, claim};
use crate::command::Program;
use crate::database::Database;
use crate::exit::{Failure, SUCCESS, SYSTEM, code_of_signal, say, say_aside, say_unmasked};
use crate::guardian::Guardian;
use crate::holding::Holding;
use crate::instant;
use crate::signals::Signals;
use crate::status::{lease_name, refusal};
use crate::supervise::supervise;

pub(crate) async fn run(mut arguments: RunArguments) -> Result<u8, Failure> {
    let name = lease_name(&arguments.name)?;
    let timings = arguments.ttl.map_or(Ok(Timings::default()), Timings::from_ttl).map_err(Failure::usage)?;
    let database = Database::named(&arguments.database)?;
    let program = Program::find(mem::take(&mut arguments.command))?;
    let mut signals = Signals::listen()?;

    let begun = Instant::now();
    let mut guardian = Guardian::start(&program, timings.grace()).map_err(|error| {
        let message = format!("cannot start the guardian of the command: {error}; nothing was claimed");
        Failure::new(SYSTEM, message)
    })?;
    let opened = open(&database, timings, instance(&arguments, &guardian), !arguments.no_probe, || {
        left(arguments.wait, begun)
    });
    let leases = match signals.or_signal(guarded(&mut guardian, opened)).await {
        Ok(leases) => leases?,
        Err(signal) => return Ok(code_of_signal(signal)),
    };
    let wait = arguments.wait.map(|_| left(arguments.wait, begun));
    let mut said = None;
    // What is granted to a claim that is given up here is given back below.
    let claimed = guarded(&mut guardian, claim(&leases, &name, &arguments, wait, &mut signals)).await;
    let outcome = match claimed {
        Ok(Answer::Granted(holding)) => {
            // The round does not wait for whoever reads this.
            said = holding.superseded().filter(|_| !arguments.quiet).as_deref().map(say_aside);
            let ended = supervise(&holding, &leases, &program, guardian, &mut signals).await;
            let stands_aside = ended.stepped_down && !ended.is_lost;
            let outcome = holding.end(ended, &mut signals, arguments.quiet).await;
            if stands_aside {
                stand_aside(&leases, &holding, &mut signals).await;
            }
            outcome
        }
        Ok(Answer::Held(held)) => {
            if !arguments.quiet {
                say_by_whom(&held, &arguments).await;
            }
            Ok(arguments.held_exit)
        }
        Ok(Answer::NotYetCutShort(why)) => {
            if !arguments.quiet {
                say_unmasked(&why);
            }
            Ok(arguments.held_exit)
        }
        Ok(Answer::Nothing(why)) => {
            if !arguments.quiet {
                say_unmasked(&why);
            }
            Ok(SUCCESS)
        }
        Ok(Answer::Ended(signal)) => Ok(code_of_signal(signal)),
        Ok(Answer::NotBegun(holding, signal)) => {
            holding.end_not_begun(&mut signals, arguments.quiet).await;
            Ok(code_of_signal(signal))
        }
        Err(failure) => Err(failure),
    };
    close(&leases, &mut signals).await;
    if let Some(said) = said {
        // Before the process ends; a signal ends that wait too.
        let _ = signals.or_signal(said).await;
    }
    outcome
}

/// Who claims: this process, and the group that must have ended too before the name may be taken for that of the dead.
fn instance(arguments: &RunArguments, guardian: &Guardian) -> Instance {
    let group = Some(guardian.group().as_raw_pid());
    let facts = ProcessFacts::current().map(|facts| ProcessFacts { group, ..facts });
    let mut instance = Instance::current().process(facts.as_ref());
    if let Some(label) = &arguments.label {
        instance = instance.label(label);
    }
    if let Some(address) = &arguments.address {
        instance = instance.address(address);
    }
    if let Some(version) = &arguments.version {
        instance = instance.version(version);
    }
    instance
}

/// Leaves the name to another until one has taken it, for as long as that may need to come: what started this
/// program may start it again at once.
async fn stand_aside(leases: &Leases, holding: &Holding, signals: &mut Signals) {
    let (timings, term) = (leases.timings(), holding.lease().term());
    // Longer than the longest that another waits between two looks.
    let aside = timings.campaign_interval() * 6 / 5 + timings.tick();
    let over = sleep_until(leases.clock(), leases.clock().now() + aside);
    let Ok(mut watch) = leases.watch(holding.lease().name().clone()) else { return };
    let taken = async {
        while let Some(watched) = watch.next().await {
            match watched {
                Watched::Now(seen) if seen.term() != Some(term) => return,
                Watched::Now(_) | Watched::Away(_) => {}
            }
        }
    };
    let _ = signals
        .or_signal(async {
            tokio::select! {
                () = over => {}
                () = taken => {}
            }
        })
        .await;
}

/// Waits for what comes before the command, as long as there is the guardian that the claim names.
async fn guarded<T>(
    guardian: &mut Guardian,
    future: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    tokio::select! {
        biased;
        outcome = future => outcome,
        () = guardian.end() => {
            let message = "the guardian of the command was killed before there was a lease; nothing was run, try again";
            Err(Failure::new(SYSTEM, message))
        }
    }
}

/// What is left of `--wait`.
fn left(wait: Option<Duration>, begun: Instant) -> Duration {
    wait.unwrap_or_default().saturating_sub(begun.elapsed())
}

/// Opens a database that is made ready if it is not, and waits while it is busy or away. It claims nothing.
async fn open(
    database: &Database,
    timings: Timings,
    instance: Instance,
    probe: bool,
    left: impl Fn() -> Duration,
) -> Result<Leases, Failure> {
    loop {
        match try_to_open(database, timings, instance.clone(), probe).await {
            Err(failure) if failure.may_pass && !left().is_zero() => {
                sleep(timings.retry_interval().min(left())).await;
            }
            outcome => return outcome,
        }
    }
}

async fn try_to_open(
    database: &Database,
    timings: Timings,
    instance: Instance,
    probe: bool,
) -> Result<Leases, Failure> {
    let store = database.create().await?;
    let mut leases = Leases::builder_shared(store.0.clone()).timings(timings).instance(instance);
    if probe {
        leases = leases.probe(HostProbe);
    }
    let leases = leases.build()?;
    store.make_ready().await?;
    Ok(leases)
}

async fn say_by_whom(held: &Refusal, arguments: &RunArguments) {
    let again =
        if arguments.wait.is_some() { "try again, or wait longer" } else { "try again, or use --wait" };
    let what =
        arguments.slot.map(|slot| format!("not run for {}: ", instant::text(slot))).unwrap_or_default();
    match held.holder().await {
        // Whoever it is, shown whole.
        Ok(seen) => {
            let then = if seen.standing() == Standing::Held {
                format!("; {again}; `lease resign` asks it to step down")
            } else {
                String::new()
            };
            say_unmasked(&format!("{what}{}{then}", refusal(&seen, again)));
        }
        Err(error) => say(&format!(
            "{what}{:?} is held by somebody else; by whom, cannot be read: {error}",
            held.name()
        )),
    }
}

/// Lets names go out that are ours, or may be for all we know. A signal ends the wait; what was not
/// given back by then expires.
async fn close(leases: &Leases, signals: &mut Signals) {
    let _ = signals.or_signal(leases.close()).await;
}
