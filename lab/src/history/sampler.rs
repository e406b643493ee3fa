//! What a process believes, moment by moment, and when it stood still: said by a thread of its own.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use lease_core::Tenure;

use super::{Event, LeaseId, Sample, Writer, now};

/// So often it is looked whether leases are held: as seldom as is still soon, for dozens of processes do it on one machine.
const PERIOD: Duration = Duration::from_millis(5);

/// A look later than the period by so much is said to have stood still.
const STOOD: Duration = Duration::from_millis(50);

/// So long what was believed is kept back at most: a kill takes it along.
const TELL: Duration = Duration::from_millis(200);

/// From one sample of what the process uses to the next.
const SAMPLE: Duration = Duration::from_millis(250);

/// The thread. It ends when this and every [`Watched`] are gone.
#[derive(Debug)]
pub struct Sampler(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    writer: Writer,
    believers: Mutex<BTreeMap<u64, Believer>>,
}

#[derive(Debug)]
struct Believer {
    tenure: Tenure,
    lease: LeaseId,
    /// From the first moment to the last of what has been seen and not told.
    believed: Option<(u64, u64)>,
    /// It has been seen false.
    is_over: bool,
}

impl Sampler {
    /// Starts the thread.
    ///
    /// # Errors
    ///
    /// The system refuses a thread.
    pub fn start(writer: Writer) -> io::Result<Self> {
        let shared = Arc::new(Shared { writer, believers: Mutex::default() });
        let watched = Arc::downgrade(&shared);
        thread::Builder::new().name("lab-sampler".to_owned()).spawn(move || {
            let mut sampled = 0;
            loop {
                let before = now();
                thread::sleep(PERIOD);
                // Gone with the last handle.
                let Some(shared) = watched.upgrade() else { break };
                let after = now();
                let stood = (after - before).saturating_sub(nanos(PERIOD));
                if stood > nanos(STOOD) {
                    shared.writer.write(after, Event::Stood { ms: stood / 1_000_000 });
                }
                shared.look();
                if after - sampled > nanos(SAMPLE) {
                    sampled = after;
                    if let Ok(sample) = Sample::of_this_process() {
                        shared.writer.write(after, Event::Sample(sample));
                    }
                }
            }
        })?;
        Ok(Self(shared))
    }

    /// Says what a tenure believes until the answer is dropped. It keeps a clone of the tenure, so **drop it before the work
    /// ends**, or the name is not given back: keep it inside the work's future.
    #[must_use = "watched while it lives"]
    pub fn watch(&self, tenure: &Tenure) -> Watched {
        let number = self.0.writer.number();
        let mut believer =
            Believer { tenure: tenure.clone(), lease: tenure.into(), believed: None, is_over: false };
        believer.look(&self.0.writer);
        self.0.lock().insert(number, believer);
        Watched { shared: Arc::clone(&self.0), number }
    }
}

/// A tenure that is watched.
#[derive(Debug)]
pub struct Watched {
    shared: Arc<Shared>,
    number: u64,
}

impl Drop for Watched {
    fn drop(&mut self) {
        let believer = self.shared.lock().remove(&self.number);
        if let Some(mut believer) = believer {
            believer.look(&self.shared.writer);
            believer.tell(&self.shared.writer);
        }
    }
}

impl Shared {
    fn look(&self) {
        for believer in self.lock().values_mut() {
            believer.look(&self.writer);
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, Believer>> {
        self.believers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Believer {
    fn look(&mut self, writer: &Writer) {
        if self.is_over {
            return;
        }
        let before = now();
        let holds = self.tenure.check();
        let after = now();
        if holds {
            // A lost lease never comes back: what is true at two moments was true between them.
            let since = self.believed.map_or(after, |(since, _)| since);
            self.believed = Some((since, before));
            if before.saturating_sub(since) > nanos(TELL) {
                self.tell(writer);
            }
        } else {
            self.is_over = true;
            self.tell(writer);
            writer.write(after, Event::Disbelieved(self.lease.clone()));
        }
    }

    fn tell(&mut self, writer: &Writer) {
        let Some((since, until)) = self.believed else { return };
        // One look alone shows no moment for sure.
        if until >= since {
            writer.tell(Event::Believed { lease: self.lease.clone(), since, until });
            self.believed = Some((until, until));
        }
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
