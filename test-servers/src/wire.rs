//! As much of the two protocols as it takes to see that a server answers, and to ask it one value.
//!
//! The drivers that the backends use are what is tested: the servers come up without them.

mod mysql;
mod postgres;

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;

use crate::Product;

/// A server that says nothing for so long is not there.
const SILENCE: Duration = Duration::from_secs(30);

/// Whether the server takes new sessions, in what it says before anybody has logged in.
pub(crate) fn is_ready(product: Product, port: u16) -> bool {
    let said = match product {
        Product::Postgres => connect(port).and_then(postgres::is_ready),
        Product::MariaDb | Product::MySql => connect(port).and_then(mysql::is_ready),
    };
    said.unwrap_or(false)
}

/// The first column of the first row that a statement answers as the superuser, as text.
pub(crate) fn ask(product: Product, port: u16, sql: &str) -> io::Result<Option<String>> {
    match product {
        Product::Postgres => postgres::ask(connect(port)?, sql),
        Product::MariaDb | Product::MySql => mysql::ask(connect(port)?, sql),
    }
}

fn connect(port: u16) -> io::Result<TcpStream> {
    let stream = TcpStream::connect_timeout(&SocketAddr::from((Ipv4Addr::LOCALHOST, port)), SILENCE)?;
    stream.set_read_timeout(Some(SILENCE))?;
    stream.set_write_timeout(Some(SILENCE))?;
    Ok(stream)
}

fn unexpected(what: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what.into())
}
