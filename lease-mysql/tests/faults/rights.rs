//! Who may log in, and what the user may do.

use lease_core::store::{Claim, Page, RenewAnswer, SlotEnd, StoreError, UnfinishedSlot};
use lease_core::{ErrorKind, LeaseStore, Slot, Term};
use lease_mysql::MysqlStore;
use test_servers::Product;

use crate::support::{LONG, Sandbox, TTL, granted, holding, is_harmless, new_claim, on_both, take};

on_both! {
    three_rights_on_the_table_are_enough_for_all_but_making_it
    each_right_that_lacks_is_found_by_the_check
    a_refused_login_is_told_without_the_password
    a_password_works_with_and_without_tls
}

/// Makes a user with a password and these rights on the table: twice, for some servers have a nobody at localhost
/// who would be taken for it.
async fn user(sandbox: &Sandbox, suffix: &str, password: &str, rights: &str) -> String {
    let user = format!("u{}{suffix}", sandbox.database.replace("leasefaults", ""));
    for host in ["'%'", "localhost"] {
        sandbox.run(format!("CREATE USER {user}@{host} IDENTIFIED BY '{password}'")).await;
        if !rights.is_empty() {
            sandbox.run(format!("GRANT {rights} ON leases TO {user}@{host}")).await;
        }
    }
    user
}

async fn three_rights_on_the_table_are_enough_for_all_but_making_it(product: Product) {
    let sandbox = Sandbox::new(product).await;
    let user = user(&sandbox, "", "secret", "SELECT, INSERT, UPDATE").await;
    let store = MysqlStore::open(&sandbox.url_of(&format!("{user}:secret"), None)).unwrap();
    store.check().await.unwrap();
    store.migrate().await.unwrap();
    let held = take(&store, "a").await;
    assert!(matches!(store.renew(&held.name, &held.holder, TTL, LONG).await, Ok(RenewAnswer::Renewed(_))));
    assert!(store.renew_many(&[holding(&held)], TTL, LONG).await.unwrap()[0].is_some());
    store.verify(&held.name, &held.holder, LONG).await.unwrap();
    store.resign(&held.name, Term::FIRST, LONG).await.unwrap();
    let seen = store.inspect(&held.name, LONG).await.unwrap().row.unwrap().observed();
    let next = new_claim("a");
    store.claim_observed(&next, &seen, LONG).await.unwrap();
    store.clear(&held.name, &seen, LONG).await.unwrap();
    store.release(&next.name, &next.holder, LONG).await.unwrap();
    granted(store.claim(&new_claim("a"), LONG).await);
    rounds(&store, &new_claim("round")).await.unwrap();
    assert_eq!(store.list(&Page { limit: 10, ..Page::default() }, LONG).await.unwrap().rows.len(), 2);
    let elsewhere = MysqlStore::options().table("other").unwrap();
    let elsewhere = elsewhere.open(&sandbox.url_of(&format!("{user}:secret"), None)).unwrap();
    is_harmless(elsewhere.migrate().await, ErrorKind::Denied);
}

async fn rounds(store: &MysqlStore, round: &Claim) -> Result<(), StoreError> {
    let slot = Slot::from_millis(60_000).unwrap();
    let name = round.name.clone();
    store.claim_slot(round, slot, LONG).await?;
    store.release(&name, &round.holder, LONG).await?;
    let found = store.unfinished_slots(std::slice::from_ref(&name), LONG).await?;
    assert_eq!(found, [UnfinishedSlot { name: name.clone(), slot, term: Term::FIRST }]);
    let rerun = new_claim("round");
    store.claim_rerun(&rerun, &found[0], LONG).await?;
    let end = SlotEnd { name: name.clone(), holder: rerun.holder, slot, passed: None, lost: false };
    store.finish_slot(&end, LONG).await?;
    assert_eq!(store.last_slot(&name, LONG).await?, Some(slot));
    Ok(())
}

async fn each_right_that_lacks_is_found_by_the_check(product: Product) {
    let sandbox = Sandbox::new(product).await;
    for (n, rights) in
        ["INSERT, UPDATE", "SELECT, UPDATE", "SELECT, INSERT", "SELECT"].into_iter().enumerate()
    {
        let user = user(&sandbox, &n.to_string(), "secret", rights).await;
        let store = MysqlStore::open(&sandbox.url_of(&format!("{user}:secret"), None)).unwrap();
        is_harmless(store.check().await, ErrorKind::Denied);
        is_harmless(store.claim(&new_claim("a"), LONG).await, ErrorKind::Denied);
    }
}

async fn a_refused_login_is_told_without_the_password(product: Product) {
    let sandbox = Sandbox::new(product).await;
    let user = user(&sandbox, "", "hunter2", "").await;
    for (login, database, kind) in [
        (format!("{user}:hunter3"), sandbox.database.as_str(), ErrorKind::Denied),
        ("nobody:hunter2".to_owned(), sandbox.database.as_str(), ErrorKind::Denied),
        // Without a right on it, it might as well not be there.
        (format!("{user}:hunter2"), "nowhere", ErrorKind::Denied),
        ("root".to_owned(), "nowhere", ErrorKind::Schema),
    ] {
        let url = sandbox.url_of(&login, None).replace(&sandbox.database, database);
        let store = MysqlStore::open(&url).unwrap();
        for error in [
            is_harmless(store.check().await, kind),
            is_harmless(store.migrate().await, kind),
            is_harmless(store.claim(&new_claim("a"), LONG).await, kind),
        ] {
            let all = format!("{error} {error:?} {} {store:?}", store.describe());
            assert!(!all.contains("hunter"), "{all}");
        }
    }
}

async fn a_password_works_with_and_without_tls(product: Product) {
    let sandbox = Sandbox::new(product).await;
    let user = user(&sandbox, "", "it%s p@ss", "SELECT, INSERT, UPDATE").await;
    // MySQL checks a password in full once, and by a short way as long as it remembers.
    for (n, mode) in ["DISABLED", "PREFERRED", "DISABLED"].into_iter().enumerate() {
        let login = format!("{user}:it%25s%20p%40ss");
        let url = format!("{}?ssl-mode={mode}", sandbox.url_of(&login, None));
        take(&MysqlStore::open(&url).unwrap(), &n.to_string()).await;
    }
}
