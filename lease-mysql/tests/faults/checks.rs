//! Servers that cannot carry leases.

use lease_core::{ErrorKind, LeaseStore};
use test_servers::Product;

use crate::support::{LONG, Sandbox, granted, is_harmless, new_claim, on_both, with_options};

on_both! {
    commits_that_would_not_survive_a_crash_are_found_by_the_check
    a_binary_log_of_statements_is_found_by_the_check
}

async fn commits_that_would_not_survive_a_crash_are_found_by_the_check(product: Product) {
    let server = with_options(product, &["--log-bin=log", "--server-id=1", "--sync-binlog=1"]).await;
    let sandbox = Sandbox::empty(&server.url()).await;
    let store = sandbox.store();
    store.migrate().await.unwrap();
    store.check().await.unwrap();
    for (variable, bad, good) in [("innodb_flush_log_at_trx_commit", 2, 1), ("sync_binlog", 0, 1)] {
        server.ask(&format!("SET GLOBAL {variable} = {bad}"));
        let error = is_harmless(store.check().await, ErrorKind::NotDurable);
        assert!(error.to_string().contains(&format!("{variable} is {bad}")), "{error}");
        server.ask(&format!("SET GLOBAL {variable} = {good}"));
        store.check().await.unwrap();
    }
}

async fn a_binary_log_of_statements_is_found_by_the_check(product: Product) {
    let options = ["--log-bin=log", "--server-id=1", "--sync-binlog=1", "--binlog-format=STATEMENT"];
    let server = with_options(product, &options).await;
    let sandbox = Sandbox::empty(&server.url()).await;
    let store = sandbox.store();
    store.migrate().await.unwrap();
    let error = is_harmless(store.check().await, ErrorKind::Unsupported);
    assert!(error.to_string().contains("binlog_format"), "{error}");
    is_harmless(store.claim(&new_claim("a"), LONG).await, ErrorKind::Unsupported);
    server.ask("SET GLOBAL binlog_format = 'ROW'");
    let later = sandbox.store();
    later.check().await.unwrap();
    granted(later.claim(&new_claim("a"), LONG).await);
}
