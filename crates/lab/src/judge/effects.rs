use std::collections::BTreeMap;

use super::account::Write;

/// What became of effects that should not have been.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Effects {
    /// Accepted after another hold had claimed the resource.
    pub stale: u64,
    /// Refused by the resource.
    pub refused: u64,
}

/// Judges effects in the order of the resource. A hold *claims* with its first accepted write; from
/// then on no write of a hold that had claimed before may be accepted. Nor may there be a write
/// between what a hold reads and what it writes. Judged by holds and never by tokens, which may be
/// given twice.
#[must_use]
pub fn effects(writes: &[Write]) -> Effects {
    let mut found = Effects::default();
    // Of each name: when each hold claimed, and how many have.
    let mut claims = BTreeMap::<&str, BTreeMap<&(String, u64), usize>>::new();
    for write in writes {
        if !write.accepted {
            found.refused += 1;
            continue;
        }
        let claims = claims.entry(&write.name).or_default();
        let next = claims.len();
        let claimed = *claims.entry(&write.hold).or_insert(next);
        found.stale += u64::from(claimed + 1 < claims.len() || write.between);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(name: &str, client: &str, hold: u64, accepted: bool) -> Write {
        Write { name: name.into(), hold: (client.to_owned(), hold), accepted, between: false }
    }

    #[test]
    fn a_write_after_the_next_claim_is_stale() {
        let in_order = [("a", 0), ("a", 0), ("b", 0), ("a", 1), ("a", 1)];
        let writes = in_order.map(|(client, hold)| write("x", client, hold, true));
        assert_eq!(effects(&writes), Effects::default());
        let late = [("a", 0), ("b", 0), ("a", 0), ("b", 0), ("a", 0)];
        let writes = late.map(|(client, hold)| write("x", client, hold, true));
        assert_eq!(effects(&writes).stale, 2, "b's were not");
    }

    #[test]
    fn what_is_made_of_an_old_value_is_stale() {
        let lost = Write { between: true, ..write("x", "b", 0, true) };
        assert_eq!(effects(&[write("x", "a", 0, true), lost]).stale, 1);
    }

    #[test]
    fn refused_writes_do_no_harm_and_names_are_apart() {
        let writes = [
            write("x", "a", 0, true),
            write("x", "b", 0, true),
            write("x", "a", 0, false),
            write("y", "a", 1, true),
            write("x", "b", 0, true),
        ];
        assert_eq!(effects(&writes), Effects { stale: 0, refused: 1 });
    }
}
