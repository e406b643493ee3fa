//! Data in another file than the leases.

use lease_core::ErrorKind;
use rusqlite::Connection;

use crate::scene::{ENDLESS, INSERT, Scene, count, has_failed, is_lost};
use crate::support::Journal;

fn another(scene: &Scene) -> Connection {
    let connection = Connection::open(scene.sandbox.folder().join("data.db")).unwrap();
    connection.execute_batch("CREATE TABLE IF NOT EXISTS other (x)").unwrap();
    connection
}

#[tokio::test]
async fn a_transaction_on_another_file_commits_and_keeps_nobody_from_the_leases() {
    let scene = Scene::new(Journal::Wal).await;
    let mut connection = another(&scene);
    let tx = scene.store.guard(&scene.tenure()).on_another_database().begin(&mut connection).unwrap();
    tx.execute(INSERT, []).unwrap();
    scene.sandbox.other().execute(INSERT, []).unwrap();
    assert_eq!(count(&another(&scene)), 0);
    tx.commit().unwrap();
    assert_eq!(count(&another(&scene)), 1);
}

#[tokio::test]
async fn a_lost_lease_lets_no_statement_run_on_another_file_and_none_be_committed() {
    let scene = Scene::new(Journal::Wal).await;
    let guard = scene.store.guard(&scene.tenure()).on_another_database();
    let mut connection = another(&scene);
    let tx = guard.clone().begin(&mut connection).unwrap();
    tx.execute(INSERT, []).unwrap();
    scene.take_away();
    is_lost(&tx.commit());
    is_lost(&guard.begin(&mut connection));
    assert_eq!(count(&connection), 0);
}

#[tokio::test]
async fn a_loss_ends_a_long_statement_on_another_file() {
    let scene = Scene::new(Journal::Wal).await;
    let mut connection = another(&scene);
    let tx = scene.store.guard(&scene.tenure()).on_another_database().begin(&mut connection).unwrap();
    let mut endless = tx.prepare(ENDLESS).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| scene.lose());
        endless.execute([]).unwrap_err();
    });
    drop(endless);
    tx.execute(INSERT, []).unwrap_err();
    another(&scene).execute(INSERT, []).unwrap();
    is_lost(&tx.commit());
    assert_eq!(count(&connection), 1);
}

#[tokio::test]
async fn the_file_of_the_leases_is_not_another_one() {
    let scene = Scene::new(Journal::Wal).await;
    let mut main = scene.connection();
    let mut attached = another(&scene);
    attached.execute("ATTACH ?1 AS x", [scene.sandbox.path().to_str().unwrap()]).unwrap();
    for connection in [&mut main, &mut attached] {
        let answer = scene.store.guard(&scene.tenure()).on_another_database().begin(connection);
        has_failed(answer, ErrorKind::Invalid);
        assert!(connection.is_autocommit());
    }
    scene.is_free(&main);
}

#[tokio::test]
async fn a_journal_that_cannot_undo_is_refused_and_one_in_memory_is_not() {
    let scene = Scene::new(Journal::Wal).await;
    let guard = scene.store.guard(&scene.tenure()).on_another_database();
    let mut connection = Connection::open_in_memory().unwrap();
    guard.clone().begin(&mut connection).unwrap().commit().unwrap();
    connection.execute_batch("PRAGMA journal_mode = OFF").unwrap();
    has_failed(guard.begin(&mut connection), ErrorKind::NotDurable);
}

/// Else a loss would leave what was written so far.
#[tokio::test]
async fn the_journal_that_undoes_the_transaction_cannot_be_turned_off_within() {
    let scene = Scene::new(Journal::Wal).await;
    let mut connection = another(&scene);
    let mode = |connection: &Connection| -> String {
        connection.query_row("PRAGMA journal_mode", [], |row| row.get(0)).unwrap()
    };
    let tx = scene.store.guard(&scene.tenure()).on_another_database().begin(&mut connection).unwrap();
    for sql in
        ["PRAGMA journal_mode = OFF", "PRAGMA main.Journal_Mode(off)", "PRAGMA locking_mode = EXCLUSIVE"]
    {
        let answer = tx.query_row(sql, [], |row| row.get::<_, String>(0));
        assert!(answer.is_err(), "{sql}: {answer:?}");
    }
    assert_eq!(mode(&tx), "delete");
    tx.commit().unwrap();
    connection.execute_batch("PRAGMA journal_mode = TRUNCATE").unwrap();
    assert_eq!(mode(&connection), "truncate");
}

/// A task is told to yield now and then, which a guard that blocks its thread cannot do.
#[tokio::test]
async fn it_may_be_begun_inside_a_task_that_has_used_up_its_turn() {
    let scene = Scene::new(Journal::Wal).await;
    let (sender, mut receiver) = tokio::sync::mpsc::unbounded_channel();
    for n in 0..10_000 {
        sender.send(n).unwrap();
    }
    // Ready until the turn is used up.
    while futures_util::FutureExt::now_or_never(receiver.recv()).is_some() {}
    assert!(!receiver.is_empty());
    let mut connection = another(&scene);
    scene
        .store
        .guard(&scene.tenure())
        .on_another_database()
        .begin(&mut connection)
        .unwrap()
        .commit()
        .unwrap();
}
