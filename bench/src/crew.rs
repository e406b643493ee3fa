//! Parties of one kind side by side, each on a thread of its own.

use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use crate::Outcome;
use crate::engine::Place;
use crate::party::{Job, Who};

/// They live until this is dropped, and wait for orders.
pub(crate) struct Crew(Vec<Member>);

struct Member {
    orders: mpsc::Sender<Order>,
    done: mpsc::Receiver<Outcome<Vec<Duration>>>,
}

enum Order {
    Prepare(Job),
    Work(Job, Duration),
}

/// What all of them did in one window.
pub(crate) struct Work {
    /// How long each job took.
    pub(crate) times: Vec<Duration>,
    pub(crate) per_second: f64,
}

impl Crew {
    pub(crate) fn gather(who: Who, place: &Place, size: usize) -> Self {
        let member = |_| {
            let (orders, to_do) = mpsc::channel();
            let (tell, done) = mpsc::channel();
            let place = place.clone();
            thread::spawn(move || live(who, &place, &to_do, &tell));
            Member { orders, done }
        };
        Self((0..size).map(member).collect())
    }

    pub(crate) fn prepare(&self, job: Job) -> Outcome<()> {
        self.all(|| Order::Prepare(job)).map(drop)
    }

    /// All of them do it again and again for so long.
    pub(crate) fn work(&self, job: Job, window: Duration) -> Outcome<Work> {
        let begun = Instant::now();
        let times = self.all(|| Order::Work(job, window))?;
        let count = u32::try_from(times.len())?;
        Ok(Work { times, per_second: f64::from(count) / begun.elapsed().as_secs_f64() })
    }

    fn all(&self, order: impl Fn() -> Order) -> Outcome<Vec<Duration>> {
        for member in &self.0 {
            // One that has gone has said why.
            let _ = member.orders.send(order());
        }
        let mut all = Vec::new();
        for member in &self.0 {
            all.extend(member.done.recv().map_err(|_| "a party has left")??);
        }
        Ok(all)
    }
}

/// The life of one of them.
fn live(
    who: Who,
    place: &Place,
    orders: &mpsc::Receiver<Order>,
    tell: &mpsc::Sender<Outcome<Vec<Duration>>>,
) {
    let serve = || -> Outcome<()> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let mut party = runtime.block_on(who.join(place))?;
        for order in orders {
            let done = runtime.block_on(async {
                match order {
                    Order::Prepare(job) => party.prepare(job).await.map(|()| Vec::new()),
                    Order::Work(job, window) => {
                        let (mut times, begun) = (Vec::new(), Instant::now());
                        while begun.elapsed() < window {
                            let started = Instant::now();
                            party.perform(job).await?;
                            times.push(started.elapsed());
                        }
                        Ok(times)
                    }
                }
            });
            if tell.send(done).is_err() {
                return Ok(());
            }
        }
        Ok(())
    };
    if let Err(error) = serve() {
        let _ = tell.send(Err(error));
    }
}
