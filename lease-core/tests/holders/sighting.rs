//! What is said of a name to an operator.

use lease_core::store::Claim;
use lease_core::{Claimed, Instance, LeaseStore, Leases, Refusal, Sighting, Standing};

use super::abandoned::{AN_HOUR_BACK, abandoned, ended};
use crate::common::{MS, SECOND, World, granted, name};

/// Another process, with this identity.
fn named(world: &World, instance: Instance) -> Leases {
    Leases::builder(world.database.clone()).clock(world.clock.clone()).instance(instance).build().unwrap()
}

#[track_caller]
fn refused(claimed: Claimed) -> Refusal {
    match claimed {
        Claimed::Held(refusal) => refusal,
        Claimed::Granted(lease) => panic!("{lease:?}"),
    }
}

async fn said(world: &World, text: &str) -> String {
    world.leases.status(text).await.unwrap().to_string()
}

#[tokio::test]
async fn a_holder_is_named_with_since_when_and_until_when() {
    let world = World::new();
    let instance = Instance::named("db1.example:4711").address("10.0.0.7:8080").version("1.4.2");
    let lease = granted(named(&world, instance).claim("nightly").await.unwrap());
    world.play(MS * 300_700).await;
    let held = "\"nightly\" is held by db1.example:4711 at 10.0.0.7:8080 (version 1.4.2) for 5 min, \
                last renewed 0.7 s ago, expires in 14.3 s unless renewed (memory of this process, term 1)";
    let refusal = refused(world.leases.claim("nightly").await.unwrap());
    let sighting = refusal.holder().await.unwrap();
    assert_eq!(sighting.to_string(), held);
    assert_eq!(said(&world, "nightly").await, held);
    assert_eq!(sighting.claimed_ago(), Some(MS * 300_700));
    assert_eq!(sighting.renewed_ago(), Some(MS * 700));
    assert_eq!(sighting.expires_in(), Some(MS * 14_300));
    assert_eq!(sighting.standing(), Standing::Held);
    drop(lease);
}

#[tokio::test]
async fn a_free_name_is_said_to_be_free_and_why() {
    let world = World::new();
    let place = "(memory of this process";
    assert_eq!(said(&world, "never").await, format!("\"never\" was never claimed {place})"));
    world.claim("released").await.release().await.unwrap();
    let released = format!("\"released\" is free: it was given back {place}, term 1)");
    assert_eq!(said(&world, "released").await, released);
    abandoned(&world, "expired").await;
    world.play(SECOND * 7_215).await;
    let expired = format!(
        "\"expired\" is free: its holder gone.example:4711 did not renew it and it expired 2 h ago {place}, term 1)"
    );
    assert_eq!(said(&world, "expired").await, expired);
    let sighting = world.leases.status("expired").await.unwrap();
    assert_eq!((sighting.standing(), sighting.expires_in()), (Standing::Expired, None));
}

#[tokio::test]
async fn the_text_of_others_is_no_more_than_text() {
    let world = World::new();
    abandoned(&world, "night\u{202e}ly").await;
    world.database.edit_row(&name("night\u{202e}ly"), |row| {
        row.instance = "a\nb\u{1b}[31m\u{7f}\u{85}\u{202e}\u{200b}\0 'ä' \"\\".to_owned();
        row.address = "\r".to_owned();
        row.version = "\t".to_owned();
    });
    let held = said(&world, "night\u{202e}ly").await;
    let expected = r#""night\u{202e}ly" is held by a\nb\u{1b}[31m\u{7f}\u{85}\u{202e}\u{200b}\0 'ä' "\ at \r (version \t) for "#;
    assert!(held.starts_with(expected), "{held}");
    assert!(!held.contains(char::is_control));
}

#[tokio::test]
async fn a_holder_without_a_name_is_said_to_have_none() {
    let world = World::new();
    let claim = Claim {
        name: name("nightly"),
        holder: lease_core::Holder::mint().unwrap(),
        ttl: SECOND * 15,
        instance: Instance::named(""),
    };
    world.database.claim(&claim, SECOND).await.unwrap();
    let held = said(&world, "nightly").await;
    assert!(held.starts_with("\"nightly\" is held by an unnamed holder for 0.0 s,"), "{held}");
}

#[tokio::test]
async fn a_holder_raced_only_if_it_claimed_while_we_did() {
    let world = World::new();
    let holder = granted(world.other().claim("nightly").await.unwrap());
    // It was there before.
    world.play(MS * 2).await;
    let refusal = refused(world.leases.claim("nightly").await.unwrap());
    assert!(!refusal.holder().await.unwrap().raced());

    // It came while we waited.
    let leases = world.leases.clone();
    let waiting = tokio::spawn(async move { leases.acquire("nightly", SECOND * 10).await });
    world.play(SECOND).await;
    // Nobody tells those who wait.
    world.database.release(&name("nightly"), &holder.holder(), SECOND).await.unwrap();
    let quicker = granted(world.other().claim("nightly").await.unwrap());
    world.play(SECOND * 10).await;
    let raced: Sighting = refused(ended(waiting).await.unwrap()).holder().await.unwrap();
    assert!(raced.raced());
    assert!(raced.to_string().ends_with("; it was claimed while this claim was under way"), "{raced}");
    drop(quicker);
}

#[tokio::test]
async fn who_holds_a_name_since_before_the_clock_went_back_did_not_race() {
    let world = World::new();
    abandoned(&world, "nightly").await;
    world.database.step_clock(AN_HOUR_BACK);
    let sighting = refused(world.leases.claim("nightly").await.unwrap()).holder().await.unwrap();
    assert!(!sighting.raced());
    let held = "\"nightly\" is held by gone.example:4711 since a time that the database's clock has not reached again, \
                last renewed at a time that the database's clock has not reached again, expires in 60 min unless renewed \
                (memory of this process, term 1)";
    assert_eq!(sighting.to_string(), held);
}

#[tokio::test]
async fn who_has_given_the_name_back_by_now_did_not_race() {
    let world = World::new();
    let lease = world.claim("nightly").await;
    let refusal = refused(world.other().claim("nightly").await.unwrap());
    assert!(refusal.holder().await.unwrap().raced());
    lease.release().await.unwrap();
    assert!(!refusal.holder().await.unwrap().raced());
}
