//! A service of which as many instances run as you like, and one leads: `README.md` shows it at work.

mod database;
mod leadership;
mod service;

use std::error::Error;
use std::io::IsTerminal;
use std::net::SocketAddr;
use std::time::Duration;

use clap::Parser;
use lease_core::{Instance, Leases, Timings};
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};

use crate::leadership::Leadership;
use crate::service::{NAME, Service};

/// One instance of a replicated service.
#[derive(Parser)]
struct Arguments {
    /// Where HTTP is served; port 0 is any free one
    #[arg(long, default_value = "127.0.0.1:8080")]
    listen: SocketAddr,
    /// The database that the instances share: a SQLite file, postgres://... or mysql://...
    #[arg(long, env = "LEADER_SERVICE_DATABASE", default_value = "leader-service.db")]
    database: String,
    /// For so many seconds at most nobody leads after the leader has crashed
    #[arg(long, default_value_t = 15)]
    ttl: u64,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments = Arguments::parse();
    let is_terminal = std::io::stderr().is_terminal();
    tracing_subscriber::fmt().with_writer(std::io::stderr).with_ansi(is_terminal).with_target(false).init();
    let [mut terminate, mut interrupt] = [signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?];

    // Before anything is recorded, and before the leases, which say what their figures mean when they are built.
    let figures = PrometheusBuilder::new().install_recorder()?;
    tokio::spawn(upkeep(figures.clone()));
    let store = database::open(&arguments.database).await?;
    let listener = TcpListener::bind(arguments.listen).await?;
    // What the others say of us when we lead.
    let address = format!("http://{}", listener.local_addr()?);
    let instance = Instance::current().address(&address).version(env!("CARGO_PKG_VERSION"));
    let timings = Timings::from_ttl(Duration::from_secs(arguments.ttl))?;
    let leases = Leases::builder_shared(store).instance(instance).timings(timings).build()?;

    let leadership = Leadership::default();
    let router = service::router(Service::new(leases.clone(), leadership.clone(), figures));
    println!("listening on {address}");
    let stop = {
        let leases = leases.clone();
        async move {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
            // At once: who leads next need not wait for the last slow client of ours.
            leases.shutdown();
        }
    };
    let serving = axum::serve(listener, router).with_graceful_shutdown(stop);
    let election = leases.elect(NAME, move |tenure| leadership.clone().lead(tenure));
    // Both end after a signal. An election that fails before, on what waiting does not cure, ends the service.
    let ended = tokio::try_join!(async { serving.await.map_err(Box::<dyn Error>::from) }, async {
        election.await.map_err(Box::<dyn Error>::from)
    },);
    // Not before the name is given back.
    leases.close().await;
    ended?;
    Ok(())
}

/// The recorder keeps every single time it was told until somebody sees to it, and nobody may ever ask for the figures.
async fn upkeep(figures: PrometheusHandle) {
    loop {
        tokio::time::sleep(Duration::from_secs(5)).await;
        figures.run_upkeep();
    }
}
