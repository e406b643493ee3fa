//! What the work logs says under which lease.

mod common;

use std::io;
use std::sync::{Arc, Mutex};

use tracing::Instrument;

use crate::common::World;

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn what_work_logs_stands_in_a_span_with_its_lease_and_term_inside_that_of_the_caller() {
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt().with_writer(move || writer.clone()).with_ansi(false).finish();
    let _default = tracing::subscriber::set_default(subscriber);

    let world = World::new();
    drop(world.claim("nightly").await);
    let caller = tracing::info_span!("caller");
    let run = world.leases.try_run("nightly", |_| async {
        tracing::info!("at work");
        Ok::<_, io::Error>(())
    });
    run.instrument(caller).await.unwrap();

    let said = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    let line = said.lines().find(|line| line.contains("at work")).unwrap();
    assert!(line.contains("caller:lease{lease=nightly term=2}: span: at work"), "{said}");
}
