//! Log lines on standard error: `lease: WARN renewal failed name=...`, chosen by `LEASE_LOG`.

use std::env;
use std::fmt;
use std::io;

use tracing::{Event, Level, Metadata, Subscriber};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

use crate::exit::Failure;
use crate::text::one_line;

const VARIABLE: &str = "LEASE_LOG";

pub(crate) fn start() -> Result<(), Failure> {
    let directives = env::var(VARIABLE).unwrap_or_default();
    let directives = if directives.is_empty() { "warn" } else { &directives };
    let filter = EnvFilter::try_new(directives).map_err(|error| {
        Failure::usage(format!("{VARIABLE}={directives:?} is no filter: {error}; write warn, info or debug"))
    })?;
    let writer = io::stderr;
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(writer)
        .with_ansi(false)
        .event_format(Line)
        .init();
    Ok(())
}

/// One event, one line.
struct Line;

impl<S, N> FormatEvent<S, N> for Line
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        if is_said_anyway(event.metadata()) {
            return Ok(());
        }
        let mut fields = String::new();
        context.format_fields(Writer::new(&mut fields), event)?;
        writeln!(writer, "lease: {} {}", event.metadata().level(), one_line(&fields))
    }
}

/// The loss of a lease: `lease run` says that itself, with what it does about it.
fn is_said_anyway(event: &Metadata<'_>) -> bool {
    *event.level() == Level::ERROR
        && event.target().starts_with("lease_core")
        && event.fields().field("reason").is_some()
}
