//! Connections on which no transaction is begun.

use lease_core::ErrorKind;
use rusqlite::Connection;

use crate::scene::{INSERT, Scene, count, has_failed, is_lost};
use crate::support::{JOURNALS, Journal};

#[tokio::test]
async fn a_connection_to_another_file_is_told_where_to_go() {
    let scene = Scene::new(Journal::Wal).await;
    let path = scene.sandbox.folder().join("another.db");
    scene.sandbox.make(&path, Journal::Wal).await;
    for mut connection in [Connection::open(path).unwrap(), Connection::open_in_memory().unwrap()] {
        let error = has_failed(scene.store.guard(&scene.tenure()).begin(&mut connection), ErrorKind::Invalid);
        assert!(error.to_string().contains("on_another_database()"), "{error}");
        assert!(connection.is_autocommit());
    }
}

#[cfg(unix)]
#[tokio::test]
async fn a_connection_through_a_link_to_the_file_is_on_the_file() {
    let scene = Scene::new(Journal::Wal).await;
    let link = scene.sandbox.folder().join("link.db");
    std::os::unix::fs::symlink(scene.sandbox.path(), &link).unwrap();
    let mut connection = Connection::open(link).unwrap();
    let tx = scene.store.guard(&scene.tenure()).begin(&mut connection).unwrap();
    tx.execute(INSERT, []).unwrap();
    tx.commit().unwrap();
    assert_eq!(scene.rows(), 1);
}

#[tokio::test]
async fn an_open_transaction_is_refused_and_left_alone() {
    let scene = Scene::new(Journal::Wal).await;
    let mut connection = scene.connection();
    connection.execute_batch(&format!("BEGIN; {INSERT}")).unwrap();
    has_failed(scene.store.guard(&scene.tenure()).begin(&mut connection), ErrorKind::Invalid);
    connection.execute_batch("COMMIT").unwrap();
    assert_eq!(scene.rows(), 1);
    scene.is_free(&connection);
}

#[tokio::test]
async fn a_journal_that_cannot_undo_is_refused() {
    for (pragma, attached) in [
        ("PRAGMA journal_mode = OFF", false),
        ("PRAGMA journal_mode = MEMORY", false),
        ("ATTACH ':memory:' AS \"x\"\"y\"; PRAGMA \"x\"\"y\".journal_mode = OFF", true),
    ] {
        let scene = Scene::new(Journal::Delete).await;
        let mut connection = scene.connection();
        connection.execute_batch(pragma).unwrap();
        has_failed(scene.store.guard(&scene.tenure()).begin(&mut connection), ErrorKind::NotDurable);
        scene.is_free(&connection);
        if attached {
            connection.execute_batch("PRAGMA \"x\"\"y\".journal_mode = MEMORY").unwrap();
            scene.store.guard(&scene.tenure()).begin(&mut connection).unwrap().commit().unwrap();
        }
    }
}

#[tokio::test]
async fn a_connection_that_may_only_read_is_refused() {
    let scene = Scene::new(Journal::Wal).await;
    let mut connection = scene.connection();
    connection.execute_batch("PRAGMA query_only = ON").unwrap();
    has_failed(scene.store.guard(&scene.tenure()).begin(&mut connection), ErrorKind::ReadOnly);
    connection.execute_batch("PRAGMA query_only = OFF").unwrap();
    scene.is_free(&connection);
}

#[tokio::test]
async fn no_other_table_of_the_name_stands_in_for_that_of_the_leases() {
    for journal in JOURNALS {
        let scene = Scene::new(journal).await;
        let mut connection = scene.connection();
        connection
            .execute_batch(
                "CREATE TEMP TABLE leases AS SELECT * FROM main.leases;
                 ATTACH ':memory:' AS x; CREATE TABLE x.leases AS SELECT * FROM main.leases",
            )
            .unwrap();
        scene.store.guard(&scene.tenure()).begin(&mut connection).unwrap().commit().unwrap();
        scene.take_away();
        let answer = scene.store.guard(&scene.tenure()).begin(&mut connection);
        is_lost(&answer);
    }
}

#[tokio::test]
async fn no_trigger_of_the_file_fires_for_the_guards_own_statement() {
    let scene = Scene::new(Journal::Wal).await;
    let mut connection = scene.connection();
    connection
        .execute_batch(
            "CREATE TRIGGER t AFTER UPDATE ON leases BEGIN INSERT INTO other VALUES ('fired'); END;
             CREATE TABLE one (x); CREATE TRIGGER u AFTER INSERT ON one BEGIN INSERT INTO other VALUES (1); END",
        )
        .unwrap();
    let tx = scene.store.guard(&scene.tenure()).begin(&mut connection).unwrap();
    assert_eq!(count(&tx), 0);
    // The program's do.
    tx.execute_batch("INSERT INTO one VALUES (1)").unwrap();
    assert_eq!(count(&tx), 1);
    tx.commit().unwrap();
}

#[tokio::test]
async fn a_second_file_is_refused_wherever_the_data_is_and_whenever_it_is_attached() {
    let scene = Scene::new(Journal::Wal).await;
    let data = scene.sandbox.folder().join("data.db");
    Connection::open(&data).unwrap().execute_batch("CREATE TABLE other (x)").unwrap();
    let attached = scene.sandbox.folder().join("attached.db");
    let attach = |connection: &Connection| {
        connection.execute("ATTACH ?1 AS second", [attached.to_str().unwrap()]).unwrap();
    };
    for elsewhere in [false, true] {
        let guard = scene.store.guard(&scene.tenure());
        let (guard, mut connection) = if elsewhere {
            (guard.on_another_database(), Connection::open(&data).unwrap())
        } else {
            (guard, scene.connection())
        };
        attach(&connection);
        let error = has_failed(guard.clone().begin(&mut connection), ErrorKind::Invalid);
        assert!(error.to_string().contains("detach"), "{error}");
        assert!(connection.is_autocommit());
        connection.execute_batch("DETACH second").unwrap();

        let tx = guard.begin(&mut connection).unwrap();
        tx.execute(INSERT, []).unwrap();
        attach(&tx);
        has_failed(tx.commit(), ErrorKind::Invalid);
        assert_eq!(count(&connection), 0);
    }
}

#[tokio::test]
async fn a_temporary_trigger_on_the_lease_table_is_refused() {
    let scene = Scene::new(Journal::Wal).await;
    let mut connection = scene.connection();
    // It fires though triggers are off.
    connection
        .execute_batch(
            "CREATE TEMP TRIGGER t AFTER UPDATE ON main.Leases
             BEGIN UPDATE leases SET expires_at_ms = 5 WHERE name = new.name; END",
        )
        .unwrap();
    has_failed(scene.store.guard(&scene.tenure()).begin(&mut connection), ErrorKind::Invalid);
    connection.execute_batch("DROP TRIGGER t").unwrap();
    scene.is_free(&connection);
    scene.store.guard(&scene.tenure()).begin(&mut connection).unwrap().commit().unwrap();
}

#[tokio::test]
async fn a_connection_that_keeps_its_locks_is_refused() {
    let scene = Scene::new(Journal::Wal).await;
    let mut connection = scene.connection();
    connection.execute_batch("PRAGMA locking_mode = EXCLUSIVE").unwrap();
    for elsewhere in [false, true] {
        let guard = scene.store.guard(&scene.tenure());
        let mut another = Connection::open(scene.sandbox.folder().join("data.db")).unwrap();
        another.execute_batch("PRAGMA locking_mode = EXCLUSIVE").unwrap();
        let answer = if elsewhere {
            guard.on_another_database().begin(&mut another)
        } else {
            guard.begin(&mut connection)
        };
        has_failed(answer, ErrorKind::Invalid);
    }
    scene.sandbox.other().execute(INSERT, []).unwrap();
}
