//! Encodes a lock in Redisson's layout for `RESTORE`: the only command that creates a hash together
//! with its expiry, and only if the key does not exist.

use crc::{CRC_64_REDIS, Crc, Table};

/// The payload that [`hash_of_one`] builds.
pub(super) struct Dump {
    bytes: [u8; MAX_FIELD],
    len: usize,
}

/// The size of the payload, at most: the longest field has 57 bytes, and the rest needs 15.
const MAX_FIELD: usize = 80;

const HASH: u8 = 4;
/// The format of Redis 2.6, which later servers read, too.
const VERSION: [u8; 2] = 6_u16.to_le_bytes();
static CHECKSUM: Crc<u64, Table<1>> = Crc::<u64, Table<1>>::new(&CRC_64_REDIS);

/// The hash `{field: "1"}` as `DUMP` writes it: the type, the number of fields, each text after its
/// length, the version of the format, and a checksum of all of these. `field` must have fewer than
/// 64 bytes, since each length is written as one byte.
pub(super) fn hash_of_one(field: &[u8]) -> Dump {
    debug_assert!(field.len() < 64);
    let mut dump = Dump { bytes: [0; MAX_FIELD], len: 0 };
    dump.put(&[HASH, 1, field.len() as u8]);
    dump.put(field);
    dump.put(&[1, b'1']);
    dump.put(&VERSION);
    dump.put(&CHECKSUM.checksum(dump.as_bytes()).to_le_bytes());
    dump
}

impl Dump {
    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    fn put(&mut self, part: &[u8]) {
        self.bytes[self.len..][..part.len()].copy_from_slice(part);
        self.len += part.len();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes that Redis 7.0 accepted.
    #[test]
    fn it_is_what_a_server_takes() {
        let dump = hash_of_one(b"f");
        let (body, checksum) = dump.as_bytes().split_at(dump.as_bytes().len() - 8);
        assert_eq!(body, b"\x04\x01\x01f\x011\x06\x00");
        assert_eq!(checksum, 0x08ff_957d_2a45_c862_u64.to_le_bytes());
    }

    #[test]
    fn the_longest_field_fits() {
        let field = [b'x'; 36 + 1 + 20];
        assert_eq!(hash_of_one(&field).as_bytes().len(), field.len() + 5 + 2 + 8);
    }
}
