//! Formats numbers for people.

pub fn bytes(bytes: u64) -> String {
    let mut unit = 0;
    let mut rest = bytes;
    while rest >= 1024 && rest.is_multiple_of(1024) && unit < 5 {
        rest /= 1024;
        unit += 1;
    }
    let names = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
    if rest < 10_000 {
        return format!("{rest} {}", names.get(unit).unwrap_or(&"B"));
    }
    let mut value = real(rest);
    while value >= 1024.0 && unit < 5 {
        value /= 1024.0;
        unit += 1;
    }
    format!("{value:.2} {}", names.get(unit).unwrap_or(&"B"))
}

/// Formats a time in nanoseconds with a suitable unit.
pub fn time(ns: u64) -> String {
    match ns {
        0..1_000 => format!("{ns} ns"),
        1_000..1_000_000 => format!("{:.1} µs", real(ns) / 1e3),
        1_000_000..1_000_000_000 => format!("{:.2} ms", real(ns) / 1e6),
        1_000_000_000..TEN_MINUTES_NS => format!("{:.3} s", real(ns) / 1e9),
        TEN_MINUTES_NS..HOUR_NS => {
            let seconds = ns / 1_000_000_000;
            format!("{} min {} s", seconds / 60, seconds % 60)
        }
        _ => format!("{:.2} h", real(ns) / real(HOUR_NS)),
    }
}

const TEN_MINUTES_NS: u64 = 600_000_000_000;
const HOUR_NS: u64 = 3_600_000_000_000;

/// A bandwidth in bytes per second, in decimal units as nccl-tests has them.
pub fn bandwidth(bytes_per_second: f64) -> String {
    match bytes_per_second {
        ..1e3 => format!("{bytes_per_second:.0} B/s"),
        ..1e6 => format!("{:.1} kB/s", bytes_per_second / 1e3),
        ..1e9 => format!("{:.1} MB/s", bytes_per_second / 1e6),
        ..1e12 => format!("{:.2} GB/s", bytes_per_second / 1e9),
        _ => format!("{:.2} TB/s", bytes_per_second / 1e12),
    }
}

pub fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() * 4 / 3);
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(' ');
        }
        text.push(digit);
    }
    text
}

pub fn plural(number: u64, one: &str, many: &str) -> String {
    format!("{} {}", count(number), if number == 1 { one } else { many })
}

pub fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
}

/// The nearest `f64`: durations of days are below 2⁵³ ns, and people read fewer digits.
#[expect(clippy::cast_precision_loss, reason = "see above")]
pub const fn real(number: u64) -> f64 {
    number as f64
}

/// The nearest integer; 0 for negative numbers.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "numbers are clamped to what fits")]
pub fn whole(number: f64) -> u64 {
    number.clamp(0.0, 9e18).round() as u64
}

/// A probability, to three digits.
pub fn probability(p_value: f64) -> String {
    if p_value < 0.001 { "< 0.001".to_owned() } else { format!("{p_value:.3}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_fit() {
        assert_eq!(bytes(0), "0 B");
        assert_eq!(bytes(4096), "4 KiB");
        assert_eq!(bytes(1 << 30), "1 GiB");
        assert_eq!(bytes(1_000_001), "976.56 KiB");
        assert_eq!(time(999), "999 ns");
        assert_eq!(time(12_340), "12.3 µs");
        assert_eq!(time(1_500_000_000), "1.500 s");
        assert_eq!(time(725_999_000_000), "12 min 5 s");
        assert_eq!(time(70_240_879_000_000), "19.51 h");
        assert_eq!(count(1_234_567), "1 234 567");
        assert_eq!(count(123), "123");
        assert_eq!(plural(1, "process", "processes"), "1 process");
        assert_eq!(bandwidth(1.5e9), "1.50 GB/s");
        assert_eq!(bandwidth(41.2e6), "41.2 MB/s");
        assert_eq!(bandwidth(6_100.0), "6.1 kB/s");
        assert_eq!(bandwidth(3_022.51e12), "3022.51 TB/s");
        assert_eq!(bandwidth(0.0), "0 B/s");
    }
}
