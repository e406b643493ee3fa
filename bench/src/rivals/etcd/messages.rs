//! The few messages of etcd's protocol that are spoken here, by the numbers of its `rpc.proto` and `v3lock.proto`. What a client
//! does not ask for is left out.

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Grant {
    /// In seconds.
    #[prost(int64, tag = "1")]
    pub(super) ttl: i64,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Granted {
    #[prost(int64, tag = "2")]
    pub(super) lease: i64,
    #[prost(int64, tag = "3")]
    pub(super) ttl: i64,
}

/// Asks for a lease to be kept or revoked.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct OfLease {
    #[prost(int64, tag = "1")]
    pub(super) lease: i64,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Kept {
    /// What is left of it in seconds; none of a lease that has expired.
    #[prost(int64, tag = "3")]
    pub(super) ttl: i64,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Lock {
    #[prost(bytes = "vec", tag = "1")]
    pub(super) name: Vec<u8>,
    #[prost(int64, tag = "2")]
    pub(super) lease: i64,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Locked {
    #[prost(bytes = "vec", tag = "2")]
    pub(super) key: Vec<u8>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Unlock {
    #[prost(bytes = "vec", tag = "1")]
    pub(super) key: Vec<u8>,
}

/// An answer that says no more than that it is done.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Done {}

#[cfg(test)]
mod tests {
    use prost::Message;

    use super::*;

    /// By hand from the protocol: the header of an answer is field 1, and read over.
    #[test]
    fn messages_are_as_on_the_wire() {
        assert_eq!(Grant { ttl: 5 }.encode_to_vec(), [0x08, 5]);
        let granted = Granted::decode(&[0x0a, 2, 0x08, 7, 0x10, 0x96, 1, 0x18, 5][..]).unwrap();
        assert_eq!(granted, Granted { lease: 150, ttl: 5 });
        assert_eq!(Lock { name: b"a".to_vec(), lease: 150 }.encode_to_vec(), [0x0a, 1, b'a', 0x10, 0x96, 1]);
        assert_eq!(Locked::decode(&[0x0a, 0, 0x12, 1, b'k'][..]).unwrap(), Locked { key: b"k".to_vec() });
        assert_eq!(Unlock { key: b"k".to_vec() }.encode_to_vec(), [0x0a, 1, b'k']);
        assert_eq!(Kept::decode(&[0x0a, 0, 0x10, 0x96, 1][..]).unwrap(), Kept { ttl: 0 });
        assert_eq!(Done::decode(&[0x0a, 2, 0x08, 7][..]).unwrap(), Done {});
    }
}
