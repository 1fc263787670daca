//! Times as people read them.

/// Nanoseconds in the largest unit that keeps them above one, with one decimal where that says something.
pub fn time(ns: u64) -> String {
    const MICRO: u64 = 1_000;
    const MILLI: u64 = 1_000_000;
    const SECOND: u64 = 1_000_000_000;
    match ns {
        0..MICRO => format!("{ns} ns"),
        MICRO..MILLI => decimal(ns, MICRO, "µs"),
        MILLI..SECOND => decimal(ns, MILLI, "ms"),
        _ if ns < 60 * SECOND => decimal(ns, SECOND, "s"),
        _ => {
            let seconds = ns / SECOND;
            let (hours, minutes) = (seconds / 3600, seconds / 60 % 60);
            if hours > 0 { format!("{hours} h {minutes} min") } else { format!("{minutes} min {} s", seconds % 60) }
        }
    }
}

/// As [`time`], of a difference.
pub fn signed_time(ns: i64) -> String {
    let sign = if ns < 0 { "−" } else { "" };
    format!("{sign}{}", time(ns.unsigned_abs()))
}

/// Cut, not rounded, so that a second never reads as 1000 ms.
fn decimal(ns: u64, unit: u64, name: &str) -> String {
    let tenths = ns / (unit / 10);
    match (tenths / 10, tenths % 10) {
        (whole, 0) => format!("{whole} {name}"),
        (whole, tenth) => format!("{whole}.{tenth} {name}"),
    }
}

/// `part` of `whole` in per cent, one decimal.
pub fn percent(part: u64, whole: u64) -> String {
    let permille = u128::from(part) * 1000 / u128::from(whole.max(1));
    format!("{}.{} %", permille / 10, permille % 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times() {
        let cases = [
            (0, "0 ns"),
            (999, "999 ns"),
            (1_000, "1 µs"),
            (4_150_000, "4.1 ms"),
            (999_999_999, "999.9 ms"),
            (2_000_000_000, "2 s"),
            (59_990_000_000, "59.9 s"),
            (185_000_000_000, "3 min 5 s"),
            (7_260_000_000_000, "2 h 1 min"),
        ];
        for (ns, text) in cases {
            assert_eq!(time(ns), text);
        }
        assert_eq!(signed_time(-1_500_000), "−1.5 ms");
    }

    #[test]
    fn percents() {
        assert_eq!(percent(1, 3), "33.3 %");
        assert_eq!(percent(5, 0), "500.0 %");
        assert_eq!(percent(u64::MAX, u64::MAX), "100.0 %");
    }
}
