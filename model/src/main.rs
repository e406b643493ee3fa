//! The model, run as `cargo xtask model`.
use model::lease::{Bounds, LeaseModel};
use model::lease::world::Left;
use model::units::Units;
use stateright::Checker;
fn show<M>(f: model::run::Figures, c: impl Checker<M>) where M: model::run::Told, M::State: Clone + std::hash::Hash + PartialEq+std::fmt::Debug, M::Action: Clone + PartialEq {
    println!("{f:?}");
    let m = c.model();
    for (n, p) in c.discoveries() {
        println!("{n}");
        let v = p.into_vec();
        for w in v.windows(2) { if let Some(a) = &w[0].1 { println!("{}", m.words(&w[0].0, a, &w[1].0)); } }
    }
}
fn main() {
    let a: Vec<u8> = std::env::args().skip(2).map(|x| x.parse().unwrap()).collect();
    match std::env::args().nth(1).unwrap().as_str() {
      "lease" => {
    let bounds = Bounds {
        processes: a[0].into(), units: Units::SHORTEST, flights: [a[1].into(), a[2].into()],
        left: Left { claims: a[3], crashes: a[4], odd: a[5], back: a[6], forward: 0, suspends: 0 },
        back: &[3], forward: 0, observe: a[7] == 1, release: a[8] == 1, heal: a[9] == 1, symmetric: true };
    let (f, c) = model::run::all_states(LeaseModel::new(bounds, None), 2, |n| eprintln!("{n}"));
    show(f, c); }
    "slots" => {
      let b = model::slots::Bounds { processes: a[0].into(), instants: a[1], terms: a[2], back: a[3], ghosts: a[4].into() };
      let (f, c) = model::run::all_states(model::slots::SlotModel::new(b, None), 2, |n| eprintln!("{n}"));
      show(f, c);
    }
    g => {
      let fence = match g { "pg" => model::guards::Fence::Postgres, "my" => model::guards::Fence::Mysql, _ => model::guards::Fence::Sqlite };
      let b = model::guards::Bounds { processes: a[0].into(), transactions: a[1].into(), terms: a[2], begun: a[3] };
      let (f, c) = model::run::all_states(model::guards::GuardModel::new(fence, b, None), 2, |n| eprintln!("{n}"));
      show(f, c);
    }
    }
}
