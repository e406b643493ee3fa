use std::io::{self, Read, Write};
use std::net::TcpStream;

use super::unexpected;

/// Whether it greets.
pub(super) fn is_ready(mut stream: TcpStream) -> io::Result<bool> {
    // Protocol version 10; a greeting that is an error begins with 0xff.
    Ok(packet(&mut stream)?.1.first() == Some(&10))
}

pub(super) fn ask(mut stream: TcpStream, sql: &str) -> io::Result<Option<String>> {
    packet(&mut stream)?;
    send(&mut stream, 1, &login())?;
    loop {
        let (number, answer) = packet(&mut stream)?;
        match answer.first() {
            Some(0) => break,
            // Another method of authentication is proposed: an account without a password answers with nothing.
            Some(0xfe) => send(&mut stream, number + 1, &[])?,
            // caching_sha2 says that it needs no more.
            Some(1) => {}
            _ => return Err(error(&answer)),
        }
    }
    send(&mut stream, 0, &[&[3], sql.as_bytes()].concat())?;
    let (_, head) = packet(&mut stream)?;
    match head.first() {
        Some(0) => Ok(None),
        Some(0xff) | None => Err(error(&head)),
        Some(columns) => {
            // The columns' definitions and the end of them.
            for _ in 0..=*columns {
                packet(&mut stream)?;
            }
            let (_, row) = packet(&mut stream)?;
            match row.first() {
                Some(0xff) => Err(error(&row)),
                // The end of the rows, or NULL.
                Some(0xfe | 0xfb) | None => Ok(None),
                Some(length) => {
                    let value = row.get(1..1 + usize::from(*length));
                    let value = value.ok_or_else(|| unexpected("a value of more than 250 bytes"))?;
                    Ok(Some(String::from_utf8_lossy(value).into_owned()))
                }
            }
        }
    }
}

/// The answer to the greeting: root, who has no password, in the database test.
fn login() -> Vec<u8> {
    const LONG_PASSWORD: u32 = 1;
    const CONNECT_WITH_DB: u32 = 1 << 3;
    const PROTOCOL_41: u32 = 1 << 9;
    const SECURE_CONNECTION: u32 = 1 << 15;
    const PLUGIN_AUTH: u32 = 1 << 19;
    let can = LONG_PASSWORD | CONNECT_WITH_DB | PROTOCOL_41 | SECURE_CONNECTION | PLUGIN_AUTH;
    let mut login = can.to_le_bytes().to_vec();
    login.extend((1_u32 << 24).to_le_bytes());
    login.push(45); // utf8mb4
    login.extend([0; 23]);
    login.extend(b"root\0");
    login.push(0); // no password
    login.extend(b"test\0");
    login.extend(b"caching_sha2_password\0");
    login
}

fn packet(stream: &mut TcpStream) -> io::Result<(u8, Vec<u8>)> {
    let mut head = [0; 4];
    stream.read_exact(&mut head)?;
    let length = u32::from_le_bytes([head[0], head[1], head[2], 0]);
    let mut body = Vec::new();
    stream.take(length.into()).read_to_end(&mut body)?;
    Ok((head[3], body))
}

fn send(stream: &mut TcpStream, number: u8, body: &[u8]) -> io::Result<()> {
    let length = u32::try_from(body.len()).unwrap_or(u32::MAX).to_le_bytes();
    stream.write_all(&[&length[..3], &[number], body].concat())
}

/// Of an error packet: its mark, the number in two bytes, the state in six, the message.
fn error(packet: &[u8]) -> io::Error {
    let said = packet.get(9..).unwrap_or(packet);
    unexpected(String::from_utf8_lossy(said))
}
