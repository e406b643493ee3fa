use std::io::{self, Read, Write};
use std::net::TcpStream;

use super::unexpected;

/// Whether it answers with anything but "cannot connect now".
pub(super) fn is_ready(mut stream: TcpStream) -> io::Result<bool> {
    start(&mut stream)?;
    let (kind, body) = message(&mut stream)?;
    Ok(kind != b'E' || field(&body, b'C').as_deref() != Some("57P03"))
}

pub(super) fn ask(mut stream: TcpStream, sql: &str) -> io::Result<Option<String>> {
    start(&mut stream)?;
    until_ready(&mut stream)?;
    send(&mut stream, Some(b'Q'), &[sql.as_bytes(), b"\0"].concat())?;
    let value = until_ready(&mut stream)?;
    send(&mut stream, Some(b'X'), &[])?;
    Ok(value)
}

/// Protocol 3.0 as the superuser, whom a server of ours trusts.
fn start(stream: &mut TcpStream) -> io::Result<()> {
    let parameters = b"user\0postgres\0database\0postgres\0application_name\0test-servers\0\0";
    send(stream, None, &[&196_608_i32.to_be_bytes(), &parameters[..]].concat())
}

fn send(stream: &mut TcpStream, kind: Option<u8>, body: &[u8]) -> io::Result<()> {
    let length = i32::try_from(body.len() + 4).map_err(|_| unexpected("too long a statement"))?;
    let mut bytes: Vec<u8> = kind.into_iter().collect();
    bytes.extend(length.to_be_bytes());
    bytes.extend(body);
    stream.write_all(&bytes)
}

fn message(stream: &mut TcpStream) -> io::Result<(u8, Vec<u8>)> {
    let mut head = [0; 5];
    stream.read_exact(&mut head)?;
    let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]).saturating_sub(4);
    let mut body = Vec::new();
    stream.take(length.into()).read_to_end(&mut body)?;
    Ok((head[0], body))
}

/// Reads to the end of an answer: the first value of its first row, or its error.
fn until_ready(stream: &mut TcpStream) -> io::Result<Option<String>> {
    let mut answer = Ok(None);
    loop {
        let (kind, body) = message(stream)?;
        match kind {
            b'D' if matches!(answer, Ok(None)) => answer = Ok(first_value(&body)),
            b'E' => {
                let said = field(&body, b'M').unwrap_or_default();
                answer = Err(unexpected(said));
                // Before the first "ready" an error ends the connection.
                if stream.peek(&mut [0]).unwrap_or(0) == 0 {
                    return answer;
                }
            }
            b'Z' => return answer,
            _ => {}
        }
    }
}

/// Of a data row: the number of columns in two bytes, then for each its length in four, and its text.
fn first_value(row: &[u8]) -> Option<String> {
    let length = u32::from_be_bytes(row.get(2..6)?.try_into().ok()?);
    let value = row.get(6..6 + usize::try_from(length).ok()?)?;
    Some(String::from_utf8_lossy(value).into_owned())
}

/// A field of an error: each is a letter and a text that ends with a zero.
fn field(error: &[u8], letter: u8) -> Option<String> {
    let fields = error.split(|byte| *byte == 0).find_map(|field| field.strip_prefix(&[letter]));
    fields.map(|text| String::from_utf8_lossy(text).into_owned())
}
