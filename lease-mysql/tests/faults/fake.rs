//! Servers that speak the protocol and are something else.

use std::io;
use std::time::Duration;

use lease_core::{ErrorKind, LeaseStore};
use lease_mysql::MysqlStore;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::support::{LONG, is_harmless, new_claim};

#[tokio::test]
async fn mysql_what_is_something_else_or_too_old_is_refused_by_name() {
    for (version, comment, takes_many, says) in [
        ("24.8.4.13", "ClickHouse 24.8.4.13", false, "ClickHouse"),
        ("8.0.11-TiDB-v7.5.0", "TiDB Server", true, "TiDB (8.0.11-TiDB-v7.5.0)"),
        ("5.7.44", "MySQL Community Server", true, "MySQL 5.7.44, and leases need 8.4 or later"),
        ("10.5.29-MariaDB", "", false, "MariaDB 10.5.29-MariaDB, and leases need 10.6 or later"),
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
