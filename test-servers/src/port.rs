use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::net::{Ipv4Addr, TcpListener};

use crate::Error;

/// Below the ports that systems give to outgoing connections, so that a server which is down for a
/// while finds its port free when it comes back.
const PORTS: std::ops::Range<u16> = 15_000..32_000;

/// A loopback port that nobody listens on.
pub fn free() -> Result<u16, Error> {
    let start = RandomState::new().hash_one(std::process::id());
    let count = u64::from(PORTS.end - PORTS.start);
    for step in 0..1000 {
        let offset = u16::try_from(start.wrapping_add(step) % count).unwrap_or_default();
        let port = PORTS.start + offset;
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return Ok(port);
        }
    }
    Err(Error::new(format!("no free port on 127.0.0.1 between {} and {}", PORTS.start, PORTS.end)))
}
