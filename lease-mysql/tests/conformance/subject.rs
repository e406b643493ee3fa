//! A store on a database of this run's own.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use lease_core::{LeaseName, LeaseStore};
use lease_mysql::MysqlStore;
use lease_mysql::mysql_async::prelude::Queryable;
use lease_mysql::mysql_async::{Conn, Opts, OptsBuilder, Pool, params};
use lease_testkit::{Damage, Subject};
use tokio::sync::OnceCell;

/// How the stores of a module come to their connections.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Way {
    /// By a URL.
    Own,
    /// By a configuration of the driver that does not ask the server to count rows found.
    WithoutFoundRows,
    /// A pool of the user's.
    Pool,
}

/// A server, with a database of this run's own and one store that all cases of a module share.
pub(crate) struct Place {
    url: String,
    way: Way,
    store: OnceCell<Arc<MysqlStore>>,
}

static COUNT: AtomicU32 = AtomicU32::new(0);
