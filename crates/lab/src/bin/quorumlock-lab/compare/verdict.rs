use quorumlock_lab::compare::{Answer, Contended, Report, ServerKilled, answers};

/// A paragraph for each mode: whether it held, what it promises, and what it costs.
pub(super) fn in_short(report: &Report) -> String {
    let of = |answer: &Answer| {
        let Answer { mode, name, seen, promise, cost } = answer;
        let (word, seen) = match seen {
            Some(seen) if seen.held => ("HELD", seen.words.as_str()),
            Some(seen) => ("BROKE", seen.words.as_str()),
            None => ("UNTESTED", "no server was killed"),
        };
        let lines = [
            format!("{mode}, {name}: {word}: {seen}"),
            format!("  promises {promise}"),
            format!("  costs {cost}"),
        ];
        lines.map(|line| fill(&line, "    ")).join("\n")
    };
    answers(report).iter().map(of).collect::<Vec<_>>().join("\n")
}

/// What each mode promises and what was observed.
pub(super) fn of(report: &Report) -> String {
    let nodes = report.environment.nodes;
    let (single, quorum) = (&report.single, &report.quorum);
    let mut verdicts = vec![
        format!("Single: {}", of_single(single.server_killed.as_ref())),
        format!("Quorum: {}", of_quorum(nodes, quorum.server_killed.as_ref())),
    ];
    verdicts.extend(without_fault(&[&single.contended, &quorum.contended]));
    if let (Some(one), Some(other)) = (&single.server_killed, &quorum.server_killed) {
        verdicts.push(of_tokens(&[one, other]));
    }
    verdicts.push(
        "This is one run on one machine: what was not seen in it may still happen.".to_owned(),
    );
    verdicts.iter().map(|verdict| fill(verdict, "  ")).collect::<Vec<_>>().join("\n")
}

fn of_single(killed: Option<&ServerKilled>) -> String {
    let promise = "exclusion holds only while that one server keeps what it granted.";
    let Some(killed) = killed else { return format!("{promise} {UNTESTED}") };
    let overlaps = match killed.overlaps {
        0 => "no two holders believed at the same time that a lock was theirs, but nothing \
              prevents it"
            .to_owned(),
        _ => seen(killed),
    };
    format!("{promise} It was killed and came back empty: {overlaps}. {}", waited(killed))
}

fn of_quorum(nodes: usize, killed: Option<&ServerKilled>) -> String {
    let majority = nodes / 2 + 1;
    let spare = nodes - majority;
    let promise = match spare {
        0 => format!("with {nodes} it cannot do without any server."),
        _ => format!(
            "{majority} of {nodes} servers grant a lock, so it goes on even with {spare} of them \
             dead."
        ),
    };
    let forgetting = "A server that comes back empty has forgotten what it granted, and does not \
                      vote for the longest lease and twice the clock bound";
    let Some(killed) = killed else { return format!("{promise} {forgetting}. {UNTESTED}") };
    let overlaps = match killed.overlaps {
        0 => "no two holders believed at the same time that a lock was theirs".to_owned(),
        _ => format!("and yet (BROKEN, please report it with the seed) {}", seen(killed)),
    };
    format!(
        "{promise} One was killed and came back empty. {} {forgetting}: {overlaps}.",
        waited(killed)
    )
}

fn seen(killed: &ServerKilled) -> String {
    let (count, longest) = (killed.overlaps, killed.overlap_longest_ms);
    let times = if count == 1 { "once".to_owned() } else { format!("{count} times") };
    format!(
        "{times} two holders believed at the same time that a lock was theirs, for up to \
         {longest} ms"
    )
}

fn waited(killed: &ServerKilled) -> String {
    let (longest, failed) = (killed.longest_without_grant_ms, killed.failed_attempts);
    format!(
        "A lock that nobody held was waited for up to {longest} ms, and {failed} attempts failed."
    )
}

fn without_fault(modes: &[&Contended]) -> Option<String> {
    let overlaps = modes.iter().map(|mode| mode.overlaps).sum::<usize>();
    let sound = modes.iter().all(|mode| mode.tokens_unique && mode.tokens_increasing);
    (overlaps > 0 || !sound).then(|| {
        format!(
            "BROKEN: while no server failed, {overlaps} overlaps were seen and fencing tokens were \
             {}. Please report it with the seed.",
            if sound { "in order" } else { "not in order" }
        )
    })
}

fn of_tokens(modes: &[&ServerKilled]) -> String {
    if modes.iter().all(|mode| mode.tokens_unique && mode.tokens_increasing) {
        "Fencing tokens were unique and rose in both modes: a resource that checks them refuses \
         the earlier of two holders."
            .to_owned()
    } else {
        "Fencing tokens were repeated or fell after the server came back empty: a resource that \
         checks them could have been misled."
            .to_owned()
    }
}

const UNTESTED: &str = "These servers were not started here, so none was killed.";

/// Breaks lines at spaces. `indent` begins each line but the first, which keeps its own.
fn fill(text: &str, indent: &str) -> String {
    const WIDTH: usize = 96;

    let own = text.len() - text.trim_start().len();
    let mut out = text[..own].to_owned();
    let mut column = 0;
    for word in text.split_whitespace() {
        let length = word.chars().count();
        if column > 0 && column + 1 + length > WIDTH {
            out.push('\n');
            out.push_str(indent);
            column = indent.len();
        } else if column > 0 {
            out.push(' ');
            column += 1;
        }
        out.push_str(word);
        column += length;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn killed(overlaps: usize) -> ServerKilled {
        ServerKilled {
            grants: 90,
            down_ms: 330,
            longest_without_grant_ms: 450,
            failed_attempts: 12,
            first_failure: None,
            lost: 2,
            unconfirmed_releases: 1,
            overlaps,
            overlap_longest_ms: 612,
            tokens_unique: true,
            tokens_increasing: true,
        }
    }

    #[test]
    fn overlaps_are_told_only_if_seen_and_never_ruled_out() {
        let single = of_single(Some(&killed(3)));
        assert!(single.contains("3 times two holders believed"), "{single}");
        assert!(single.contains("612 ms"), "{single}");
        let single = of_single(Some(&killed(0)));
        assert!(single.contains("nothing prevents it"), "{single}");
        assert!(!single.contains("612"), "{single}");
        let quorum = of_quorum(5, Some(&killed(1)));
        assert!(quorum.contains("once two holders"), "{quorum}");
        assert!(quorum.contains("BROKEN"), "{quorum}");
        let quorum = of_quorum(5, Some(&killed(0)));
        assert!(quorum.contains("no two holders") && !quorum.contains("BROKEN"), "{quorum}");
        assert!(of_single(None).contains("none was killed"));
    }

    #[test]
    fn how_many_may_be_dead_follows_from_the_number() {
        for (nodes, words) in [
            (1, "with 1 it cannot do without"),
            (2, "with 2 it cannot do without"),
            (3, "2 of 3 servers grant a lock, so it goes on even with 1 of them dead"),
            (5, "3 of 5 servers grant a lock, so it goes on even with 2 of them dead"),
        ] {
            assert!(of_quorum(nodes, None).contains(words), "{}", of_quorum(nodes, None));
        }
    }

    #[test]
    fn tokens_out_of_order_are_not_hidden() {
        let bad = ServerKilled { tokens_increasing: false, ..killed(0) };
        assert!(of_tokens(&[&killed(0), &bad]).contains("misled"));
        assert!(of_tokens(&[&killed(0), &killed(1)]).contains("refuses"));
    }

    #[test]
    fn an_overlap_or_a_repeated_token_without_a_fault_is_told() {
        let sound =
            Contended { tokens_unique: true, tokens_increasing: true, ..Default::default() };
        let overlapped = Contended { overlaps: 1, ..sound.clone() };
        let repeated = Contended { tokens_unique: false, ..sound.clone() };
        assert_eq!(without_fault(&[&sound, &sound]), None);
        assert!(without_fault(&[&overlapped, &sound]).unwrap().contains("BROKEN"));
        assert!(without_fault(&[&sound, &repeated]).unwrap().contains("not in order"));
    }

    #[test]
    fn long_lines_are_broken_at_spaces() {
        let text = "word ".repeat(60);
        let filled = fill(&text, "  ");
        assert!(filled.lines().all(|line| line.len() <= 96), "{filled}");
        assert_eq!(filled.split_whitespace().count(), 60);
    }
}
