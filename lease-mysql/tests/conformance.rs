//! The contract of `LeaseStore`, on MySQL and on MariaDB.

#[path = "conformance/subject.rs"]
mod subject;

use lease_mysql::MysqlStore;
use subject::{OnServer, Server};
