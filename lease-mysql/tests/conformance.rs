//! The contract of `LeaseStore`, on MySQL and on MariaDB, by every way to their connections and under
//! server defaults that a store must not rely on.

#[path = "conformance/subject.rs"]
mod subject;

macro_rules! on {
    ($product:ident, $hostile:expr, $serializable:expr) => {
        use test_servers::Product::$product;

        use crate::subject::{OnServer, Place, Way, private, shared};

        mod own_pool {
            use super::*;

            static PLACE: Place = Place::new(|| shared($product), Way::Own);

            async fn subject() -> OnServer {
                OnServer::on(&PLACE).await
            }

            lease_testkit::suite!(subject);
            lease_testkit::guard_suite!(subject);
        }

        /// The least rights, and no count of the rows found, on top of the defaults.
        mod hostile {
            use super::*;

            static PLACE: Place = Place::new(|| private($product, $hostile), Way::LeastRights);

            async fn subject() -> OnServer {
                OnServer::on(&PLACE).await
            }

            lease_testkit::suite!(subject);
            lease_testkit::guard_suite!(subject);
        }

        mod callers_pool {
            use super::*;

            static PLACE: Place = Place::new(|| private($product, $serializable), Way::Pool);

            async fn subject() -> OnServer {
                OnServer::on(&PLACE).await
            }

            lease_testkit::suite!(subject);
            lease_testkit::guard_suite!(subject);
        }
    };
}

mod mysql {
    on!(
        MySql,
        &[
            "--sql-mode=",
            "--default-time-zone=Europe/Berlin",
            "--transaction-isolation=REPEATABLE-READ",
            "--autocommit=0"
        ],
        &[
            "--sql-mode=ANSI,PAD_CHAR_TO_FULL_LENGTH",
            "--default-time-zone=+05:30",
            "--transaction-isolation=SERIALIZABLE",
            "--autocommit=0"
        ]
    );
}

mod mariadb {
    on!(
        MariaDb,
        &[
            "--sql-mode=",
            "--default-time-zone=Europe/Berlin",
            "--transaction-isolation=REPEATABLE-READ",
            "--autocommit=0",
            "--innodb-snapshot-isolation=ON"
        ],
        &[
            "--sql-mode=ORACLE,EMPTY_STRING_IS_NULL",
            "--default-time-zone=Asia/Kolkata",
            "--transaction-isolation=SERIALIZABLE",
            "--innodb-snapshot-isolation=ON"
        ]
    );
}
