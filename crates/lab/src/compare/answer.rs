use super::{Measured, Report, ServerKilled};

/// What a comparison says of a mode, in a line each.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// The mode, as the lab calls it.
    pub mode: &'static str,
    /// The mode in words.
    pub name: String,
    /// What happened when a server was killed and came back empty; `None`: none was killed.
    pub seen: Option<Seen>,
    /// What the mode promises.
    pub promise: String,
    /// What it costs, as measured.
    pub cost: String,
}

/// What happened when a server was killed and came back empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// No two holders believed in the same lock.
    pub held: bool,
    /// The same, in words.
    pub words: String,
}

/// The answers of all modes of a comparison.
#[must_use]
pub fn answers(report: &Report) -> Vec<Answer> {
    let nodes = report.environment.nodes;
    let spare = (nodes - 1) / 2;
    let survives = match spare {
        0 => "though its server forgets; it cannot do without any server".to_owned(),
        1 => format!("though 1 of {nodes} servers dies, and though one forgets"),
        _ => format!("though {spare} of {nodes} servers die, and though one forgets"),
    };
    let single = ("S", "one server".to_owned(), "while that server keeps its data".to_owned());
    let quorum = ("QQ", format!("quorum of {nodes}"), survives);
    let of = |(mode, name, survives), measured: &Measured| Answer {
        mode,
        name,
        seen: measured.server_killed.as_ref().map(seen),
        promise: format!("one holder at a time, {survives}"),
        cost: cost(measured),
    };
    vec![of(single, &report.single), of(quorum, &report.quorum)]
}

fn seen(killed: &ServerKilled) -> Seen {
    let (count, longest) = (killed.overlaps, killed.overlap_longest_ms);
    let words = match count {
        0 => "no two holders believed in one lock".to_owned(),
        1 => format!("once two holders believed in one lock, for {longest} ms"),
        _ => format!("{count} times two holders believed in one lock, for up to {longest} ms"),
    };
    Seen { held: count == 0, words }
}

fn cost(measured: &Measured) -> String {
    let mut parts = Vec::new();
    if let Some(us) = measured.alone.p50_us {
        parts.push(format!("{us} µs for a free lock and its release"));
    }
    parts.push(format!("{} of them a second in parallel", measured.parallel.pairs_per_second));
    if let Some(killed) = &measured.server_killed {
        let ms = killed.longest_without_grant_ms;
        parts.push(format!("up to {ms} ms without a holder after the kill"));
    }
    parts.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::sample;

    #[test]
    fn a_mode_is_said_to_hold_only_if_it_was_put_to_the_test() {
        let mut report = sample::report();
        let all = answers(&report);
        assert_eq!(all.iter().map(|one| one.mode).collect::<Vec<_>>(), ["S", "QQ"]);
        let seen = |answer: &Answer| answer.seen.clone().map(|seen| (seen.held, seen.words));
        assert_eq!(seen(&all[1]), Some((true, "no two holders believed in one lock".to_owned())));
        let (held, words) = seen(&all[0]).unwrap();
        assert!(!held && words == "3 times two holders believed in one lock, for up to 612 ms");
        assert!(all[1].promise.contains("2 of 5 servers die"), "{all:?}");
        assert!(all[0].cost.starts_with("41 µs for a free lock"), "{all:?}");
        report.single.server_killed = None;
        assert_eq!(answers(&report)[0].seen, None);
        report.environment.nodes = 1;
        assert!(answers(&report)[1].promise.contains("cannot do without"));
    }
}
