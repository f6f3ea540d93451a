//! Formats numbers for people.

use std::time::Duration;

/// 12345 as 12 345, with no-break spaces: a space is not a decimal sign in any language.
pub(super) fn count(value: u64) -> String {
    let digits = value.to_string();
    let mut out = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push('\u{202f}');
        }
        out.push(digit);
    }
    out
}

/// "1 hold", "2 holds".
pub(super) fn counted(value: u64, noun: &str) -> String {
    let plural = if value == 1 { "" } else { "s" };
    format!("{}\u{a0}{noun}{plural}", count(value))
}

/// Three significant digits and a fitting unit: `0.41 ms`, `12.3 ms`, `1.5 s`.
pub(super) fn time(time: Duration) -> String {
    let seconds = time.as_secs_f64();
    let (value, unit) = match seconds {
        0.0 => (0.0, "ms"),
        s if s < 1e-6 => (s * 1e9, "ns"),
        s if s < 0.1e-3 => (s * 1e6, "µs"),
        s if s < 1.0 => (s * 1e3, "ms"),
        s => (s, "s"),
    };
    format!("{}\u{a0}{unit}", three(value))
}

/// A number of seconds in the same format.
pub(super) fn seconds(seconds: f64) -> String {
    time(Duration::from_nanos((seconds * 1e9).round() as u64))
}

/// A number of milliseconds in the same format; a dash if it was not measured.
pub(super) fn ms(ms: Option<f64>) -> String {
    let measured = ms.filter(|ms| ms.is_finite() && *ms >= 0.0);
    measured
        .map_or_else(none, |ms| Duration::try_from_secs_f64(ms / 1e3).map_or_else(|_| none(), time))
}

/// The text for values that were not measured.
pub(super) fn none() -> String {
    "–".to_owned()
}

/// Three significant digits, without trailing zeros after the point.
pub(super) fn three(value: f64) -> String {
    if !value.is_finite() {
        return none();
    }
    let places = match value.abs() {
        v if v >= 100.0 || v == 0.0 => 0,
        v if v >= 10.0 => 1,
        v if v >= 0.1 => 2,
        _ => 4,
    };
    let text = format!("{value:.places$}");
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

/// A probability in percent.
pub(super) fn percent(probability: f64) -> String {
    format!("{}\u{a0}%", three(probability * 100.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_grouped_and_agree_with_their_noun() {
        let grouped = [0, 999, 1_000, 1_234_567].map(|n| count(n).replace('\u{202f}', " "));
        assert_eq!(grouped, ["0", "999", "1 000", "1 234 567"]);
        assert_eq!(counted(1, "hold"), "1\u{a0}hold");
        assert_eq!(counted(0, "hold"), "0\u{a0}holds");
    }

    #[test]
    fn times_have_the_unit_that_fits() {
        let micros = [0, 41, 410, 12_345, 123_456, 999_400, 1_500_000, 75_000_000];
        assert_eq!(
            micros.map(|us| time(Duration::from_micros(us)).replace('\u{a0}', " ")),
            ["0 ms", "41 µs", "0.41 ms", "12.3 ms", "123 ms", "999 ms", "1.5 s", "75 s"]
        );
        assert_eq!(time(Duration::from_nanos(7)), "7\u{a0}ns");
    }

    #[test]
    fn decades_of_seconds_are_whole_numbers() {
        let labels = [1e-6, 1e-5, 1e-4, 1e-3, 1.0, 10.0].map(|s| seconds(s).replace('\u{a0}', " "));
        assert_eq!(labels, ["1 µs", "10 µs", "0.1 ms", "1 ms", "1 s", "10 s"]);
    }

    #[test]
    fn what_was_not_measured_is_no_number() {
        assert_eq!([None, Some(f64::NAN), Some(-1.0), Some(1e300)].map(ms), ["–"; 4]);
        assert_eq!(ms(Some(812.4)), "812\u{a0}ms");
        assert_eq!(three(f64::INFINITY), "–");
    }

    #[test]
    fn small_shares_are_not_rounded_to_nothing() {
        assert_eq!(percent(0.000_073), "0.0073\u{a0}%");
        assert_eq!(percent(1.0), "100\u{a0}%");
    }
}
