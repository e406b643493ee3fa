//! Servers that speak the protocol and are no PostgreSQL.

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;

use lease_core::{ErrorKind, LeaseStore};
use lease_postgres::PostgresStore;

use crate::support::{SHORT, is_harmless, new_claim};

/// A server that lets anybody in, answers `version()`, and refuses everything else.
fn start(server_version: &'static str, version: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("postgres://me:secret@{}/db?sslmode=disable", listener.local_addr().unwrap());
    thread::spawn(move || {
        for client in listener.incoming() {
            // A client that leaves ends its session.
            thread::spawn(move || client.and_then(|client| serve(client, server_version, version)));
        }
    });
    url
}

fn serve(mut client: TcpStream, server_version: &str, version: &str) -> io::Result<()> {
    read_body(&mut client)?;
    let ready = message(b'Z', b"I");
    let parameter = message(b'S', format!("server_version\0{server_version}\0").as_bytes());
    client.write_all(&[message(b'R', &[0; 4]), parameter, ready.clone()].concat())?;
    loop {
        let mut kind = [0];
        client.read_exact(&mut kind)?;
        let text = read_body(&mut client)?;
        let asks_version = text.windows(9).any(|part| part == b"version()");
        let answer = if asks_version {
            let column =
                [&b"\0\x01version\0"[..], &[0; 6], &25_i32.to_be_bytes(), &[0xff; 6], &[0; 2]].concat();
            let length = i32::try_from(version.len()).unwrap().to_be_bytes();
            let row = [&b"\0\x01"[..], &length, version.as_bytes()].concat();
            [message(b'T', &column), message(b'D', &row), message(b'C', b"SELECT 1\0")].concat()
        } else {
            message(b'E', b"SERROR\0VERROR\0C42883\0Mno such function\0\0")
        };
        client.write_all(&[answer, ready.clone()].concat())?;
    }
}

fn read_body(client: &mut TcpStream) -> io::Result<Vec<u8>> {
    let mut length = [0; 4];
    client.read_exact(&mut length)?;
    let mut body = vec![0; u32::from_be_bytes(length) as usize - 4];
    client.read_exact(&mut body)?;
    Ok(body)
}

fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(body.len() + 4).unwrap();
    [&[kind][..], &length.to_be_bytes(), body].concat()
}

#[tokio::test]
async fn each_is_refused_by_its_name() {
    for (server_version, version, says) in [
        ("24.8.2.3", "24.8.2.3", "ClickHouse 24.8.2.3"),
        ("13.0.0", "CockroachDB CCL v24.1.0", "CockroachDB CCL v24.1.0"),
        ("8.0.2", "PostgreSQL 8.0.2 on i686-pc-linux-gnu, Redshift 1.0.66954", "Redshift 1.0.66954"),
        ("13.23", "PostgreSQL 13.23 on x86_64-pc-linux-gnu", "PostgreSQL 13.23"),
    ] {
        let store = PostgresStore::open(&start(server_version, version)).unwrap();
        let error = is_harmless(store.check().await, ErrorKind::Unsupported);
        assert!(error.to_string().contains(says) && !error.to_string().contains("secret"), "{error}");
        is_harmless(store.claim(&new_claim("a"), SHORT).await, ErrorKind::Unsupported);
    }
}
