//! What a store hears of commits to its file, whoever makes them.

use std::fs;
use std::future::Future;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::sync::mpsc;
use std::time::Duration;

use lease_core::store::{Hint, Notices};
use lease_core::{Claimed, LeaseStore, Leases, Standing, TimingParts, Timings, Watched};
use lease_sqlite::SqliteStore;

use crate::crashes::{child_path, kill_after, start_child, wait_to_be_killed};
use crate::replaced::rename;
use crate::support::{JOURNALS, Journal, LONG, Sandbox, TTL, granted, name, new_claim, take};

/// Who waits by these looks by itself only after many minutes.
fn slow() -> Timings {
    Timings::new(TimingParts { renew: Duration::from_secs(2), ..Timings::from_ttl(TTL).unwrap().parts() })
        .unwrap()
}

async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    tokio::time::timeout(LONG, future).await.unwrap_or_else(|_| panic!("never happened: {what}"))
}

async fn hears(notices: &mut Notices, what: &str) {
    assert_eq!(soon(what, notices.about(&name("a"))).await, Hint::Perhaps, "{what}");
}

/// Sees to it that all that has happened so far has been heard, and that nothing is heard of nothing.
async fn hears_nothing_more(notices: &mut Notices) {
    let mut quiet = 0;
    for _ in 0..100 {
        let hint = tokio::time::timeout(Duration::from_millis(50), notices.about(&name("a"))).await;
        quiet = if hint.is_err() { quiet + 1 } else { 0 };
        if quiet == 2 {
            return;
        }
    }
    panic!("hints come though nobody writes");
}

/// Once [`hears_nothing_more`] has seen that all is quiet. Many looks are taken meanwhile.
async fn nothing_is_heard(notices: &mut Notices, of: &str) {
    let hint = tokio::time::timeout(Duration::from_millis(200), notices.about(&name("a"))).await;
    assert!(hint.is_err(), "{of}");
}

#[tokio::test]
async fn every_commit_to_the_file_is_heard_of_whoever_makes_it_and_nothing_else() {
    if let Some(path) = child_path() {
        take(&SqliteStore::open(path).await.unwrap(), "by another process").await;
        println!("\n> claimed");
        wait_to_be_killed();
    }
    let test = "notices::every_commit_to_the_file_is_heard_of_whoever_makes_it_and_nothing_else";
    for journal in JOURNALS {
        let sandbox = Sandbox::new(journal).await;
        let store = sandbox.store().await;
        let mut notices = store.notices().unwrap();
        hears(&mut notices, "nobody knows what has happened before the first look").await;

        hears_nothing_more(&mut notices).await;
        take(&store, "by this store").await;
        hears(&mut notices, "a commit of this store").await;

        hears_nothing_more(&mut notices).await;
        kill_after(start_child(test, &sandbox.path()), 1);
        hears(&mut notices, "a commit of another process").await;

        let other = sandbox.other();
        hears_nothing_more(&mut notices).await;
        store.claim(&new_claim("by this store"), LONG).await.unwrap();
        nothing_is_heard(&mut notices, "a claim that is refused").await;
        other.execute_batch("BEGIN EXCLUSIVE; INSERT INTO other VALUES (1); ROLLBACK").unwrap();
        nothing_is_heard(&mut notices, "what was rolled back").await;
        // A file that is locked is looked at again.
        other.execute_batch("BEGIN EXCLUSIVE; INSERT INTO other VALUES (1)").unwrap();
        nothing_is_heard(&mut notices, "what is not committed yet").await;
        other.execute_batch("COMMIT").unwrap();
        hears(&mut notices, "a commit to another table, after a lock").await;

        if journal == Journal::Wal {
            // No look keeps the log from being emptied.
            let busy: bool =
                other.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0)).unwrap();
            assert!(!busy);
        }
    }
}

#[tokio::test]
async fn a_name_that_is_given_back_is_taken_by_who_waits_long_before_its_next_look() {
    for journal in JOURNALS {
        let sandbox = Sandbox::new(journal).await;
        let [holder, waiter] = [sandbox.store().await, sandbox.store().await];
        let waiter = Leases::builder(waiter).timings(slow()).build().unwrap();
        let mut term = 0;
        // The first may be refused by a claim, and the others by the waiter's look.
        for _ in 0..3 {
            let held = take(&holder, "a").await;
            let mut waiting = Box::pin(waiter.acquire("a", TTL));
            let early = tokio::time::timeout(Duration::from_millis(20), &mut waiting).await;
            assert!(early.is_err(), "{early:?}");
            holder.release(&held.name, &held.holder, LONG).await.unwrap();
            let Claimed::Granted(lease) = soon("it is taken", waiting).await.unwrap() else {
                panic!("refused")
            };
            assert!(lease.term().get() > term);
            term = lease.term().get();
            lease.release().await.unwrap();
        }
    }
}

#[tokio::test]
async fn a_file_that_is_replaced_or_deleted_is_let_go_and_commits_to_the_next_one_are_heard_of() {
    for journal in JOURNALS {
        for deleted in [false, true] {
            let sandbox = Sandbox::new(journal).await;
            let store = sandbox.store().await;
            let mut notices = store.notices().unwrap();
            hears_nothing_more(&mut notices).await;
            let spare = sandbox.folder().join("spare.db");
            sandbox.make(&spare, journal).await;
            if deleted {
                rename(&sandbox.path(), &sandbox.folder().join("old.db"));
                hears(&mut notices, "the file is gone").await;
                hears_nothing_more(&mut notices).await;
                rename(&spare, &sandbox.path());
                hears(&mut notices, "a file is there again").await;
            } else {
                rename(&spare, &sandbox.path());
                hears(&mut notices, "another file is there").await;
            }
            hears_nothing_more(&mut notices).await;
            granted(sandbox.store().await.claim(&new_claim("a"), LONG).await);
            hears(&mut notices, "a commit to the new file").await;
        }
    }
}

/// How often the thread that reads has gone to sleep.
#[cfg(target_os = "linux")]
fn sleeps_of_the_reader() -> u64 {
    let threads = fs::read_dir("/proc/self/task").unwrap().flatten();
    let read = |thread: &fs::DirEntry, file| fs::read_to_string(thread.path().join(file)).unwrap();
    let mut readers = threads.filter(|thread| read(thread, "comm").trim() == "lease-sql-read");
    let status = read(&readers.next().expect("a reader"), "status");
    assert!(readers.next().is_none(), "one store at a time");
    let sleeps = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
    sleeps.unwrap().trim().parse().unwrap()
}

/// In a process of its own, where no other test has readers.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn the_file_is_looked_at_while_somebody_listens_and_not_a_moment_longer() {
    const QUIET: Duration = Duration::from_millis(500);
    if let Some(path) = child_path() {
        let store = SqliteStore::open(path).await.unwrap();
        for _ in 0..2 {
            let mut notices = store.notices().unwrap();
            hears_nothing_more(&mut notices).await;
            let before = sleeps_of_the_reader();
            crate::support::eventually("looks", || sleeps_of_the_reader() >= before + 5).await;
            drop(notices);
            // The look that was under way may end in the first of these.
            let is_quiet = |_| {
                let before = sleeps_of_the_reader();
                std::thread::sleep(QUIET);
                before == sleeps_of_the_reader()
            };
            assert!((0..4).any(is_quiet), "it looks on though nobody listens");
        }
        let mut notices = store.notices().unwrap();
        hears_nothing_more(&mut notices).await;
        drop(store);
        let threads = || fs::read_dir("/proc/self/task").unwrap().flatten();
        let name = |thread: fs::DirEntry| fs::read_to_string(thread.path().join("comm")).unwrap_or_default();
        let all_gone = || threads().map(name).all(|name| !name.starts_with("lease-sql"));
        crate::support::eventually("the threads end though somebody listens", all_gone).await;
        println!("\n> all seen");
        wait_to_be_killed();
    }
    let sandbox = Sandbox::new(Journal::Wal).await;
    let test = "notices::the_file_is_looked_at_while_somebody_listens_and_not_a_moment_longer";
    kill_after(start_child(test, &sandbox.path()), 1);
}

#[tokio::test]
async fn a_watcher_in_another_process_tells_no_term_out_of_order_none_invented_and_the_last() {
    const HAND_OVERS: i64 = 1000;
    if let Some(path) = child_path() {
        watch_and_tell(&path).await;
    }
    // In memory where there is such a folder: two thousand commits to a slow disk take a minute.
    let in_memory = Some(Path::new("/dev/shm")).filter(|folder| folder.is_dir());
    let sandbox = Sandbox::empty_in(in_memory.unwrap_or(&std::env::temp_dir()));
    sandbox.make(&sandbox.path(), Journal::Wal).await;
    let test = "notices::a_watcher_in_another_process_tells_no_term_out_of_order_none_invented_and_the_last";
    let mut watcher = start_child(test, &sandbox.path());
    let said = BufReader::new(watcher.stdout.take().unwrap()).lines().map_while(Result::ok);
    let mut said = said.filter_map(|line| line.strip_prefix("> ").map(str::to_owned));
    let (tells, hears) = mpsc::channel();
    // It ends with the watcher.
    std::thread::spawn(move || said.try_for_each(|line| tells.send(line)));
    let next = || hears.recv_timeout(LONG).expect("what happens is told");
    assert_eq!(next(), "0 Never");

    let stores = [sandbox.store().await, sandbox.store().await];
    let mut last = (0, "Never".to_owned());
    let mut tells_on = |term: i64| {
        let line = next();
        let (told, standing) = line.split_once(' ').unwrap();
        let told = (told.parse::<i64>().unwrap(), standing.to_owned());
        assert!(matches!(standing, "Held" | "Released"), "{told:?}");
        // Held comes before released, in words too.
        assert!(told > last && told.0 <= term, "{told:?} after {last:?}");
        last = told;
        last.clone()
    };
    for (term, store) in (1..HAND_OVERS).zip(stores.iter().cycle()) {
        let held = take(store, "a").await;
        store.release(&held.name, &held.holder, LONG).await.unwrap();
        // It tells at least one state of each fifty terms.
        while term % 50 == 0 && tells_on(term).0 <= term - 50 {}
    }
    take(&stores[0], "a").await;
    while tells_on(HAND_OVERS) != (HAND_OVERS, "Held".to_owned()) {}
    watcher.kill().unwrap();
    watcher.wait().unwrap();
}

/// What the watcher's process does until it is killed.
async fn watch_and_tell(path: &Path) -> ! {
    let store = SqliteStore::open(path).await.unwrap();
    // Hints without a name are taken in once per tick, a 20th of this.
    let parts = TimingParts { renew: Duration::from_millis(50), ..slow().parts() };
    let timings = Timings::new(parts).unwrap();
    let leases = Leases::builder(store).timings(timings).build().unwrap();
    let mut watch = leases.watch("a").unwrap();
    println!();
    loop {
        match watch.next().await.expect("nobody shuts it down") {
            Watched::Now(sighting) if sighting.standing() == Standing::Never => println!("> 0 Never"),
            Watched::Now(sighting) => println!("> {} {:?}", sighting.term().unwrap(), sighting.standing()),
            Watched::Away(error) => panic!("{error}"),
        }
    }
}
