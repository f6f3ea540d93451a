use std::collections::HashMap;

/// Which accepted writes came too late: a hold claims the resource with its first write, and a
/// write of it after another hold's claim is stale.
#[derive(Debug, Default)]
pub(super) struct Claims(HashMap<String, OfName>);

#[derive(Debug, Default)]
struct OfName {
    last: Option<(usize, u64)>,
    /// The latest hold of each client that has claimed, and its claim's place.
    claimed: HashMap<usize, u64>,
}

impl Claims {
    /// The resource accepted a write of this client's hold. Whether it was stale.
    pub(super) fn accepted(&mut self, name: &str, client: usize, hold: u64) -> bool {
        if !self.0.contains_key(name) {
            self.0.insert(name.to_owned(), OfName::default());
        }
        let Some(of_name) = self.0.get_mut(name) else { return false };
        if of_name.last == Some((client, hold)) {
            return false;
        }
        // Holds of one client are numbered in their order: one up to its latest has claimed.
        let again = of_name.claimed.get(&client).is_some_and(|latest| hold <= *latest);
        if !again {
            of_name.claimed.insert(client, hold);
            of_name.last = Some((client, hold));
        }
        again
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_after_anothers_claim_is_stale() {
        let mut claims = Claims::default();
        let writes = [(0, 1), (0, 1), (1, 1), (0, 1), (1, 1), (0, 1), (0, 2), (1, 1)];
        let stale = writes.map(|(client, hold)| claims.accepted("x", client, hold));
        assert_eq!(stale, [false, false, false, true, false, true, false, true]);
        assert!(!claims.accepted("y", 0, 1), "another resource");
    }
}
