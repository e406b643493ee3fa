//! What keeps a server from carrying leases: its settings, the user's rights, and what is no such server at all.

use std::io;
use std::time::Duration;

use lease_core::store::{Claim, Page, RenewAnswer, SlotEnd, StoreError, UnfinishedSlot};
use lease_core::{ErrorKind, LeaseStore, Slot, Term};
use lease_mysql::MysqlStore;
use lease_mysql::mysql_async::prelude::Queryable;
use test_servers::Product;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::support::{
    LONG, Sandbox, TTL, granted, holding, is_harmless, new_claim, on_both, take, with_options,
};

on_both! {
    commits_that_would_not_survive_a_crash_are_found_by_the_check
    a_binary_log_of_statements_is_found_by_the_check
    three_rights_on_the_table_are_enough_for_all_but_making_it
    each_right_that_lacks_is_found_by_the_check
    a_refused_login_is_told_without_the_password
    a_lock_of_somebody_elses_is_waited_for_by_the_check
    a_password_works_with_and_without_tls
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

/// For longer than one wait for a lock lasts.
async fn a_lock_of_somebody_elses_is_waited_for_by_the_check(product: Product) {
    let sandbox = Sandbox::new(product).await;
    let store = sandbox.store();
    let mut other = sandbox.other().await;
    other.query_drop("SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ").await.unwrap();
    other.query_drop("START TRANSACTION").await.unwrap();
    // Every gap, in which no row can be made then.
    other.query_drop("SELECT name FROM leases FOR UPDATE").await.unwrap();
    let checking = tokio::spawn(async move { store.check().await });
    tokio::time::sleep(Duration::from_millis(3_500)).await;
    other.query_drop("ROLLBACK").await.unwrap();
    checking.await.unwrap().unwrap();
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

#[tokio::test]
async fn mysql_what_is_something_else_or_too_old_is_refused_by_name() {
    for (version, comment, takes_many, says) in [
        ("24.8.4.13", "ClickHouse 24.8.4.13", false, "ClickHouse"),
        ("8.0.11-TiDB-v7.5.0", "TiDB Server", true, "TiDB (8.0.11-TiDB-v7.5.0)"),
        ("5.7.44", "MySQL Community Server", true, "MySQL 5.7.44; use MySQL 8.4 or later"),
        ("10.5.29-MariaDB", "", false, "MariaDB 10.5.29-MariaDB; use MariaDB 10.6 or later"),
    ] {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let server = tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                tokio::spawn(serve(stream, version, comment, takes_many));
            }
        });
        let store = MysqlStore::open(&format!("mysql://root@127.0.0.1:{port}/test")).unwrap();
        for error in [
            is_harmless(store.check().await, ErrorKind::Unsupported),
            is_harmless(store.claim(&new_claim("a"), LONG).await, ErrorKind::Unsupported),
        ] {
            assert!(error.to_string().contains(says), "{error}");
        }
        server.abort();
    }
}

/// Logs anybody in, says its version when asked, and takes either all of a flight or, like `ClickHouse`, none.
async fn serve(mut stream: TcpStream, version: &str, comment: &str, takes_many: bool) -> io::Result<()> {
    let mut hello = vec![10];
    hello.extend(b"8.0.32\0");
    hello.extend(7_u32.to_le_bytes());
    hello.extend(b"12345678\0");
    // Protocol 4.1, secure connection, plugin names, multi statements and results; no TLS.
    let capabilities = 0x0000_0200_u32 | 0x8000 | 0x0008_0000 | 0x0003_0000 | 1;
    hello.extend(&capabilities.to_le_bytes()[..2]);
    hello.extend([45, 2, 0]);
    hello.extend(&capabilities.to_le_bytes()[2..]);
    hello.push(21);
    hello.extend([0; 10]);
    hello.extend(b"123456789012\0");
    hello.extend(b"mysql_native_password\0");
    send(&mut stream, 0, &hello).await?;
    receive(&mut stream).await?;
    send(&mut stream, 2, &OK).await?;
    loop {
        let command = receive(&mut stream).await?;
        let sql = String::from_utf8_lossy(&command[1..]).into_owned();
        match command[0] {
            1 => return Ok(()),
            3 if sql.contains("VERSION()") && (takes_many || !sql.contains(';')) => {
                let statements = sql.split(';').count();
                rows(&mut stream, &[version, comment], statements > 1).await?;
                // The rest of the flight.
                for n in 1..statements {
                    let more = n + 1 < statements;
                    let ok = [0, 0, 0, if more { 10 } else { 2 }, 0, 0, 0];
                    send(&mut stream, 6 + u8::try_from(n).unwrap(), &ok).await?;
                }
            }
            _ => {
                let mut error = vec![0xff, 0x28, 0x04];
                error.extend(b"#42000no\nsuch thing");
                send(&mut stream, 1, &error).await?;
            }
        }
    }
}

const OK: [u8; 7] = [0, 0, 0, 2, 0, 0, 0];

/// One row of two texts.
async fn rows(stream: &mut TcpStream, texts: &[&str; 2], more: bool) -> io::Result<()> {
    let word = |text: &str| [&[u8::try_from(text.len()).unwrap()], text.as_bytes()].concat();
    let end = [0xfe, 0, 0, if more { 10 } else { 2 }, 0];
    send(stream, 1, &[2]).await?;
    for n in 0..2 {
        let mut column = Vec::new();
        for text in ["def", "", "", "", "c", ""] {
            column.extend(word(text));
        }
        column.extend([12, 45, 0, 0, 1, 0, 0, 253, 0, 0, 0, 0, 0]);
        send(stream, 2 + n, &column).await?;
    }
    send(stream, 4, &[0xfe, 0, 0, 2, 0]).await?;
    send(stream, 5, &[word(texts[0]), word(texts[1])].concat()).await?;
    send(stream, 6, &end).await
}

async fn send(stream: &mut TcpStream, sequence: u8, payload: &[u8]) -> io::Result<()> {
    let length = u32::try_from(payload.len()).unwrap().to_le_bytes();
    let packet = [&length[..3], &[sequence], payload].concat();
    stream.write_all(&packet).await
}

async fn receive(stream: &mut TcpStream) -> io::Result<Vec<u8>> {
    let mut header = [0; 4];
    tokio::time::timeout(Duration::from_secs(60), stream.read_exact(&mut header)).await??;
    let length = usize::from(header[0]) | usize::from(header[1]) << 8 | usize::from(header[2]) << 16;
    let mut payload = vec![0; length];
    stream.read_exact(&mut payload).await?;
    Ok(payload)
}
