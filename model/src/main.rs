//! The model, run as `cargo xtask model`.
use model::lease::{Bounds, LeaseModel};
use model::lease::world::Left;
use model::units::Units;
use stateright::Checker;
fn main() {
    let a: Vec<u8> = std::env::args().skip(1).map(|x| x.parse().unwrap()).collect();
    let bounds = Bounds {
        processes: a[0].into(), units: Units::SHORTEST, flights: [a[1].into(), a[2].into()],
        left: Left { claims: a[3], crashes: a[4], odd: a[5], back: a[6], forward: 0, suspends: 0 },
        back: &[3], forward: 0, observe: a[7] == 1, release: a[8] == 1, heal: a[9] == 1, symmetric: true };
    let (f, c) = model::run::all_states(LeaseModel::new(bounds, None), 2, |n| eprintln!("{n}"));
    println!("{f:?}");
    let m = c.model();
    for (n, p) in c.discoveries() {
        println!("{n}");
        let v = p.into_vec();
        for w in v.windows(2) { if let Some(a) = &w[0].1 { println!("{}", model::run::Told::words(m, &w[0].0, a, &w[1].0)); } }
    }
}
