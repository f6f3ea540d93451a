use super::*;
use crate::svg::assert_well_formed;

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn span(from: u64, until: u64) -> Span {
    Span { from: ms(from), until: ms(until), style: Style::Held, label: None }
}

fn lane(name: &str, spans: &[Span]) -> Lane {
    Lane { name: name.to_owned(), spans: spans.to_vec(), marks: Vec::new() }
}

fn fault(from: u64, until: u64, words: &str) -> Fault {
    Fault { from: ms(from), until: ms(until), words: words.to_owned() }
}

fn of(lanes: Vec<Lane>) -> Lanes {
    Lanes { until: ms(1_000), lanes, ..Lanes::default() }
}

fn drawn(data: &Lanes) -> String {
    let figure = lanes("l".into(), "title".into(), "desc".into(), data);
    assert_well_formed(&figure);
    figure.inline().into_string()
}

#[test]
fn a_belief_lies_where_its_time_is() {
    let svg = drawn(&of(vec![lane("a", &[span(0, 500)]), lane("b", &[span(500, 1_000)])]));
    // The lanes are 854 wide, start at x = 86, and the second lane is 30 lower.
    assert!(svg.contains(r#"class="held" x="86" y="29" width="427""#), "{svg}");
    assert!(svg.contains(r#"class="held" x="513" y="59" width="427""#), "{svg}");
}

#[test]
fn what_lies_outside_is_not_drawn_and_what_reaches_in_is_cut() {
    let data = Lanes { from: ms(400), ..of(vec![lane("a", &[span(0, 100), span(300, 700)])]) };
    let svg = drawn(&data);
    assert_eq!(svg.matches(r#"class="held" x="86""#).count(), 1, "{svg}");
}

#[test]
fn violations_faults_and_signs_are_told_in_words_as_well() {
    let mut data = of(vec![lane("a", &[span(0, 600)]), lane("b", &[span(500, 900)])]);
    let svg = drawn(&data);
    assert!(!svg.contains("VIOLATION") && !svg.contains("fault"), "{svg}");
    data.clashes = vec![(ms(500), ms(600))];
    data.faults = vec![fault(200, 400, "node 0 killed"), fault(210, 210, "node 1 flushed")];
    data.lanes[0].marks = [MarkKind::Stale, MarkKind::Refused, MarkKind::Lost, MarkKind::Write]
        .map(|kind| Mark { at: ms(550), kind })
        .to_vec();
    let svg = drawn(&data);
    for words in [
        "VIOLATION: two believed",
        "200\u{a0}ms to 400\u{a0}ms: node 0 killed",
        "210\u{a0}ms: node 1 flushed",
        "STALE write accepted",
        "write refused",
        "told of loss",
    ] {
        assert!(svg.contains(words), "{words}: {svg}");
    }
    let sign = |class: &str| svg.find(&format!(r#"class="{class}" d="M"#)).unwrap();
    assert!(sign("write") < sign("lost") && sign("lost") < sign("stale"), "the worst on top");
}

#[test]
fn badges_of_faults_at_the_same_time_do_not_cover_each_other() {
    let mut data = of(vec![lane("a", &[])]);
    data.faults = (0..4).map(|_| fault(100, 100, "x")).collect();
    let svg = drawn(&data);
    let badges: Vec<f64> = svg
        .split("<circle class=\"badge\" cx=\"")
        .skip(1)
        .filter(|rest| rest.contains("cy=\"10\""))
        .map(|rest| rest.split_once('"').unwrap().0.parse().unwrap())
        .take(4)
        .collect();
    assert!(badges.windows(2).all(|two| two[1] - two[0] > 17.0), "{badges:?}");
}

#[test]
fn many_faults_are_capped_in_words() {
    let mut data = of(vec![lane("a", &[])]);
    data.faults = (0..100).map(|at| fault(at * 10, at * 10 + 5, "x")).collect();
    data.left_out = vec!["76 more clients".to_owned()];
    let svg = drawn(&data);
    assert!(svg.contains("and 76 more faults") && svg.contains("76 more clients"), "{svg}");
    assert_eq!(svg.matches("class=\"fault\"").count(), FAULTS + 1, "and one in the key");
}

#[test]
fn hostile_names_are_text() {
    let mut data = of(vec![lane("</svg><script>\0", &[span(0, 900)])]);
    data.lanes[0].spans[0].label = Some("\"><img onerror=x>".to_owned());
    data.faults = vec![fault(1, 2, "</title><script>")];
    let svg = drawn(&data);
    assert!(!svg.contains("<script") && !svg.contains("<img") && !svg.contains('\0'), "{svg}");
}

#[test]
fn no_lane_and_no_time_is_a_picture_as_well() {
    drawn(&Lanes::default());
}
